"""Views of ours in a session that is enabled, where no table of ours is left below them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import NotFoundError


def test_views_that_read_no_table_of_ours_are_ours(spark: SparkSession, tmp_path: Path) -> None:
    acid = hiveacid.enable(spark, f"sqlite:///{tmp_path}/m.db", warehouse=str(tmp_path / "wh"))
    spark.range(1, 4).write.mode("overwrite").saveAsTable("plain")
    try:
        spark.sql("create table gone (id int) using hiveacid")
        acid.sql("create view inner_view as select id from gone")
        acid.sql("create view outer_view as select id from inner_view")
        acid.sql("create view of_sparks as select id from plain")
        acid.sql("drop table gone")
        assert spark.sql("select sum(id) from of_sparks").collect() == [(6,)]
        for text in ("select * from inner_view", "create view v as select * from outer_view"):
            with pytest.raises(NotFoundError, match="`gone`"):
                spark.sql(text)
    finally:
        spark.sql("drop table plain")
        hiveacid.disable(spark)
