"""Failures of Spark tasks reach the user as errors of ours."""

from __future__ import annotations

import pytest

from hiveacid.errors import UnsupportedError


def test_a_value_that_a_task_cannot_write_is_the_same_error_as_in_the_driver(acid, rows):
    acid.sql("create table t (ts timestamp) stored as orc tblproperties ('transactional'='true')")
    early = "timestamp'1969-12-31 23:59:59.5'"
    for insert in (f"insert into t values ({early})", f"insert into t select {early}"):
        with pytest.raises(UnsupportedError, match="before 1970"):
            acid.sql(insert)
    assert rows("select * from t") == []
