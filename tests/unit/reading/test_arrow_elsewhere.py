"""Arrow arrays whose values stand elsewhere: views, runs, dictionaries, extension types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hiveacid
from hiveacid.session import Session

pytestmark = pytest.mark.slow

ACID = "stored as orc tblproperties ('transactional'='true')"


class Named(pa.ExtensionType):  # type: ignore[misc]
    """Any type under a name."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "hiveacid.named")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, data: bytes) -> Named:
        return cls(storage)


def named(array: pa.Array) -> pa.Array:
    """The array under the name of an extension type."""
    return pa.ExtensionArray.from_storage(Named(array.type), array)


def forms(array: pa.Array) -> list[Any]:
    """The array by an extension type, runs and a dictionary, whole, as a slice, without chunks."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(array) + 1), pa.int32()), array)
    places = pa.array(range(len(array)), pa.int8())
    numbered = pa.DictionaryArray.from_arrays(places, array)
    whole = [array, named(array), runs, numbered]
    return whole + [pa.chunked_array([one.slice(0, 1), one.slice(1)]) for one in whole]


def written(acid: Session, kind: str, values: Any) -> list[Any]:
    """What a column of that type holds after rows were written, matched and inserted again."""
    acid.sql("drop table if exists t")
    acid.sql(f"create table t (id int, v {kind}) {ACID}")
    table = acid.table("t")
    rows = pa.table({"id": named(pa.array(range(len(values)), pa.int32())), "v": values})
    table.write_arrow(rows.slice(0, 1))
    result = table.merge_arrow(rows, on="id")
    assert (result.updated, result.inserted) == (1, len(values) - 1)
    return list(hiveacid.read_arrow(table).read_all().sort_by("id")["v"].to_pylist())


LISTS = [["a", None], None, [], ["b"]]


@pytest.mark.parametrize("made", ["list_view", "large_list_view"])
@pytest.mark.parametrize("item", ["string", "string_view"])
def test_lists_that_are_views_are_written_as_they_are(acid: Session, made: str, item: str) -> None:
    views = pa.array(LISTS, getattr(pa, made)(getattr(pa, item)()))
    for form in forms(views):
        assert written(acid, "array<string>", form) == LISTS


def test_views_in_any_order_within_other_types_are_written_as_they_are(acid: Session) -> None:
    texts = pa.array(["a", "b", "c", "d"])
    views = pa.ListViewArray.from_arrays(pa.array([2, 0, 1]), pa.array([2, 1, 0]), texts)
    wanted = [["c", "d"], ["a"], []]
    kind = "struct<a:int,l:array<string>>"
    structs = pa.StructArray.from_arrays([views, pa.array([1, 2, 3])], names=["L", "a"])
    assert written(acid, kind, structs) == [
        {"a": n, "l": one} for n, one in enumerate(wanted, start=1)
    ]
    maps = pa.MapArray.from_arrays([0, 1, 2, 3], ["x", "y", "z"], views)
    found = written(acid, "map<string,array<string>>", maps)
    assert found == [[(key, one)] for key, one in zip("xyz", wanted, strict=True)]


def test_fields_of_a_struct_under_another_name_go_by_their_names(acid: Session) -> None:
    structs = pa.array([{"b": "of b", "a": "of a"}, None])
    for form in forms(structs):
        found = written(acid, "struct<a:string,b:string>", form)
        assert found == [{"a": "of a", "b": "of b"}, None]
    within = pa.ListArray.from_arrays([0, 1, 2], named(structs))
    found = written(acid, "array<struct<a:string,b:string>>", within)
    assert found == [[{"a": "of a", "b": "of b"}], [None]]


def test_rows_are_deleted_by_keys_that_stand_elsewhere(acid: Session) -> None:
    acid.sql(f"create table t (v string) {ACID}")
    table = acid.table("t")
    for form in forms(pa.array(["a", "b", None])):
        table.write_arrow(pa.table({"v": form}))
        assert table.delete_arrow(pa.table({"v": form})).rows == 2
    assert hiveacid.read_arrow(table, filter="v is not null").read_all().num_rows == 0


def test_a_table_is_made_for_columns_that_stand_elsewhere(acid: Session) -> None:
    rows = {"v": pc.run_end_encode(pa.array([1, 1, None])), "n": named(pa.array([["x"], None, []]))}
    acid.create_table("t", pa.table(rows))
    kinds = [str(column.type) for column in acid.table("t").definition.columns]
    assert kinds == ["bigint", "array<string>"]
    found = hiveacid.read_arrow(acid.table("t")).read_all().to_pydict()
    assert found == {"v": [1, 1, None], "n": [["x"], None, []]}
