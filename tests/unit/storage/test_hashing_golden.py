"""The bucketing hash against tables that real Hive bucketed: every row is in its file."""

from __future__ import annotations

import csv
import json
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.recorded import golden_names, golden_path

from hiveacid.model.ids import bucket_id_of
from hiveacid.model.types import DecimalType, HiveType, parse_type
from hiveacid.storage.arrow_types import NANOSECONDS, arrow_type
from hiveacid.storage.merge.column_hashing import bucket_ids

NAMES = golden_names("c_", "v3_13_")


def value_of(kind: HiveType, text: str) -> object:
    if text == "NULL":
        return None
    if isinstance(kind, DecimalType):
        return Decimal(text)
    name = str(kind)
    if name in ("tinyint", "smallint", "int", "bigint"):
        return int(text)
    if name in ("float", "double"):
        return float(text)
    if name == "date":
        return date.fromisoformat(text)
    if name == "timestamp":
        whole, _, fraction = text.partition(".")
        seconds = (datetime.fromisoformat(whole) - datetime(1970, 1, 1)) // timedelta(seconds=1)
        return seconds * 10**9 + int(fraction.ljust(9, "0"))
    return text


@pytest.mark.parametrize("name", NAMES)
def test_hive_put_every_row_where_the_hash_says(name: str) -> None:
    meta = json.loads((golden_path(name) / "meta.json").read_text())
    types = {column: parse_type(text) for column, text in meta["columns"]}
    keys = meta["bucket_columns"]
    # Hive 3.1.3 shuffles rows of ACID tables by version 1, whatever the table's property says.
    version = 1 if name.startswith("v3_") else int(meta["parameters"]["bucketing_version"])
    with (golden_path(name) / "query.tsv").open(newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows
    arrays = [
        pa.array(
            [value_of(types[key], row[f"t.{key}"]) for row in rows],
            arrow_type(types[key], unit=NANOSECONDS),
        )
        for key in keys
    ]
    found = bucket_ids(arrays, [types[key] for key in keys], meta["num_buckets"], version=version)
    assert found.to_pylist() == [bucket_id_of(int(row["bucketid"])) for row in rows]
