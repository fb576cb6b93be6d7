"""The consumer of a stream of rows stands in the stream's own table only."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.connectors.batch_read import table_schema
from hiveacid.connectors.options import SOURCE, Options
from hiveacid.connectors.stream_read import StreamReader
from hiveacid.errors import InvalidInputError

pytestmark = pytest.mark.slow

DEFINITION = "create table t (i int) stored as orc tblproperties ('transactional'='true')"


def test_a_table_made_anew_gets_no_consumer_of_the_one_before(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metastore.db"
    options = Options.of({"table": "t", "metastore": url, "consumer": "c"}, SOURCE)
    with hiveacid.connect(url, warehouse=str(tmp_path / "warehouse")) as acid:
        acid.sql(DEFINITION)
        acid.table("t").write_arrow(pa.table({"i": [1]}))
        stream = StreamReader(options, table_schema(options))
        start, end = stream.initialOffset(), stream.latestOffset()
        stream.partitions(start, end)
        acid.sql("drop table t")
        acid.sql(DEFINITION)
        acid.table("t").write_arrow(pa.table({"i": [2]}))
        with pytest.raises(InvalidInputError, match="made anew"):
            stream.commit(end)
        anew = StreamReader(options, table_schema(options)).initialOffset()
    assert anew["writeId"] == start["writeId"]
