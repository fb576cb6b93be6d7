"""Rows of Arrow and pandas that a table cannot take: the error names the column and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import ConversionError, UnsupportedError
from hiveacid.session import Session

GIVEN = {
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.decimal256(50, 2): pa.decimal128(38, 2),
    pa.duration("s"): pa.int64(),
    pa.time64("us"): pa.int64(),
    pa.month_day_nano_interval(): pa.string(),
}


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as session:
        yield session


@pytest.mark.parametrize("kind", GIVEN, ids=str)
def test_a_type_that_hive_has_not_says_what_to_cast_its_column_to(
    acid: Session, kind: pa.DataType
) -> None:
    with pytest.raises(UnsupportedError, match="column c: Hive has no type for Arrow's") as raised:
        acid.create_table("t", pa.table({"c": pa.array([None], kind)}))
    (note,) = raised.value.__notes__
    advised = note.removeprefix("Cast it first, as to ").removesuffix(".")
    assert eval(advised, {"pyarrow": pa}) == GIVEN[kind]
    acid.create_table("t", pa.table({"c": pa.array([None], GIVEN[kind])}))


def test_nanoseconds_that_would_be_lost_say_how_to_round_them(acid: Session) -> None:
    acid.sql("create table t (ts timestamp) stored as orc")
    frame = pd.DataFrame({"ts": [pd.Timestamp("2020-01-01 00:00:00.123456789")]})
    with pytest.raises(ConversionError, match="column ts: ") as raised:
        acid.table("t").insert(frame)
    (note,) = raised.value.__notes__
    exec(note[note.index("frame[") :].removesuffix("."), {"frame": frame})
    acid.table("t").insert(frame)
    (found,) = hiveacid.read_arrow(acid.table("t")).read_all()["ts"].to_pylist()
    assert found == pd.Timestamp("2020-01-01 00:00:00.123456")
