"""Null structs whose fields are declared not null, as Spark hands them over, inside maps."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hiveacid.model.types import parse_type
from hiveacid.statements.arrow_rows import by_field_name, check_kept
from hiveacid.storage.arrow_types import conform
from hiveacid.storage.merge.column_hashing import hash_column

KIND = parse_type("map<string,struct<z:double>>")
VALUES = [[("k", {"z": 1.5}), ("n", None)], None, [], [("m", None)]]


@pytest.fixture(params=[0, 1])
def maps(request: pytest.FixtureRequest) -> pa.MapArray:
    """The values, from one on, where the field of a null struct is null itself."""
    field = pa.field("z", pa.float64(), nullable=False)
    null = pa.array([False, True, True])
    structs = pa.StructArray.from_arrays([pa.array([1.5, None, None])], fields=[field], mask=null)
    offsets = pa.array([0, None, 2, 2, 3], pa.int32())
    found = pa.MapArray.from_arrays(offsets, pa.array(["k", "n", "m"]), structs)
    return found.slice(request.param)


def test_they_are_written_read_by_name_checked_and_hashed(maps: pa.MapArray) -> None:
    expected = VALUES[-len(maps) :]
    written = conform(maps, KIND)
    written.validate(full=True)
    assert written.to_pylist() == expected
    assert by_field_name(maps, KIND).to_pylist() == expected
    check_kept(maps, written, KIND)
    plain = pa.array(expected, pa.map_(pa.string(), pa.struct([("z", pa.float64())])))
    assert (hash_column(maps, KIND, version=2) == hash_column(plain, KIND, version=2)).all()
