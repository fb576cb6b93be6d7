"""Values that a column cannot hold are refused, wherever Arrow would change them silently."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hiveacid import read_arrow
from hiveacid.errors import ConversionError, InvalidInputError
from hiveacid.session import Session

pytestmark = pytest.mark.slow

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.mark.parametrize(
    ("kind", "given", "first"),
    [
        ("decimal(5,2)", [1.24, None, 1.239], "1.239"),
        ("float", [1.5, 1e300], "1e[+]300"),
        ("float", ["1.5", "1e300"], "1e300"),
        ("double", ["1e999"], "1e999"),
        ("varchar(3)", ["abc", "toolong"], "toolong"),
        ("varchar(3)", ["abc "], "abc "),
        ("varchar(3)", [12345], "12345"),
        ("varchar(3)", pa.array(["abcd"]).dictionary_encode(), "abcd"),
        ("char(3)", ["abc  ", "toolong"], "toolong"),
        ("boolean", [0, 1, 2], "2"),
        ("boolean", [0.5], "0.5"),
        ("date", [datetime(2020, 1, 1, 10)], "2020-01-01 10:00:00"),
        ("date", pa.array([None, 5], pa.int32()), "5"),
        ("timestamp", [None, 1_577_836_800], "1577836800"),
        ("timestamp with local time zone", [5], "5"),
        ("array<timestamp>", [[5]], "5"),
        ("bigint", pa.array([None, 5], pa.timestamp("us")), "1970-01-01 00:00:00.000005"),
        ("int", pa.array([date(1970, 1, 6)]), "1970-01-06"),
        ("bigint", pa.array([5], pa.duration("s")), "0:00:05"),
        ("array<decimal(5,2)>", [[1.5], None, [1.239]], "1.239"),
        ("map<string,varchar(2)>", pa.array([[("k", "abc")]], pa.map_(pa.string(), pa.string())),
         "abc"),
        ("struct<a:int,b:boolean>", [{"a": 1, "b": 1}, None, {"a": 1, "b": 7}], "7"),
    ],
)  # fmt: skip
def test_a_value_is_never_changed_silently(
    acid: Session, kind: str, given: Any, first: str
) -> None:
    acid.sql(f"create table lost (v {kind}) {ACID}")
    table, data = acid.table("lost"), pa.table({"v": given})
    with pytest.raises(ConversionError, match=f"column v: {first} does not fit"):
        table.write_arrow(data)
    with pytest.raises(ConversionError, match="column v:"):
        table.merge_arrow(data, on=["v"])
    with pytest.raises(ConversionError, match="column v:"):
        table.delete_arrow(data)
    assert read_arrow(table).read_all().num_rows == 0


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("double", pa.decimal128(10, 2)),
        ("float", pa.decimal128(10, 2)),
        ("decimal(10,2)", pa.float64()),
        ("decimal(38,20)", pa.float64()),
        ("decimal(10,2)", pa.float32()),
        ("array<double>", pa.list_(pa.decimal128(10, 2))),
    ],
)
def test_decimals_and_floating_numbers_mean_the_same(
    acid: Session, kind: str, given: pa.DataType
) -> None:
    """0.35 is 0.35: Arrow's own casts are off in the last place of one number in eight."""
    acid.sql(f"create table numbers (v {kind}) {ACID}")
    table, texts = acid.table("numbers"), pa.array([f"{i / 100:.2f}" for i in range(-99, 500)])
    nested = pa.types.is_list(given)
    plain = texts.cast(given.value_type if nested else given)
    data = pa.ListArray.from_arrays(list(range(len(texts) + 1)), plain) if nested else plain
    table.write_arrow(pa.table({"v": data}))
    found = read_arrow(table).read_all()["v"].combine_chunks()
    assert (found.flatten() if nested else found).equals(
        texts.cast(found.type.value_type if nested else found.type)
    )


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("struct<a:int,b:int>", [{"b": 1, "a": 2}, None, {"b": None, "a": 3}]),
        ("array<struct<a:int,b:int>>", [[{"b": 1, "a": 2}], None, [], [{"b": 3, "a": 4}, None]]),
        ("struct<x:struct<a:int,b:int>>", [{"x": {"b": 1, "a": 2}}, {"x": None}, None]),
    ],
)
def test_fields_of_structs_are_found_by_name(acid: Session, kind: str, given: list[Any]) -> None:
    """Also in a slice, whose offsets do not begin at 0."""
    acid.sql(f"create table structs (v {kind}) {ACID}")
    acid.table("structs").write_arrow([{"v": v} for v in given])
    acid.table("structs").write_arrow(pa.table({"v": pa.array(given)[1:]}))
    assert read_arrow(acid.table("structs")).read_all()["v"].to_pylist() == given + given[1:]


def test_fields_of_structs_in_maps_are_found_by_name(acid: Session) -> None:
    acid.sql(f"create table maps (v map<string,struct<a:int,b:int>>) {ACID}")
    kind = pa.map_(pa.string(), pa.struct([("b", pa.int32()), ("a", pa.int32())]))
    given = [[("k", {"b": 1, "a": 2})], None, [("l", {"b": 3, "a": 4}), ("m", None)]]
    acid.table("maps").write_arrow(pa.table({"v": pa.array(given, kind)[1:]}))
    assert read_arrow(acid.table("maps")).read_all()["v"].to_pylist() == given[1:]


def test_a_struct_with_other_fields_is_refused(acid: Session) -> None:
    acid.sql(f"create table structs (v struct<a:int,b:int>) {ACID}")
    with pytest.raises(ConversionError, match="column v: a struct of the fields a, z does not fit"):
        acid.table("structs").write_arrow([{"v": {"a": 1, "z": 2}}])


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("decimal(5,2)", pa.array([1.24, None], pa.float32()), [Decimal("1.24"), None]),
        ("float", [float("inf"), 1.5, None], [float("inf"), 1.5, None]),
        ("float", ["-Infinity"], [float("-inf")]),
        ("varchar(3)", ["é€😀", None], ["é€😀", None]),
        ("varchar(3)", pa.nulls(1), [None]),
        ("char(3)", ["abc  ", "a"], ["abc", "a  "]),
        ("boolean", [1, 0, None], [True, False, None]),
        ("date", [datetime(2020, 1, 1), None], [date(2020, 1, 1), None]),
        ("array<decimal(5,2)>", [[1.5, None], None, []], [[Decimal("1.5"), None], None, []]),
        ("array<decimal(5,2)>", pa.nulls(1), [None]),
        ("struct<a:int,b:boolean>", [{"a": 1, "b": 1}, None], [{"a": 1, "b": True}, None]),
    ],
)
def test_what_fits_is_written(acid: Session, kind: str, given: Any, expected: list[Any]) -> None:
    acid.sql(f"create table kept (v {kind}) {ACID}")
    acid.table("kept").write_arrow(pa.table({"v": given}))
    assert read_arrow(acid.table("kept")).read_all()["v"].to_pylist() == expected


def test_nan_stays_nan(acid: Session) -> None:
    acid.sql(f"create table nan (v float) {ACID}")
    acid.table("nan").write_arrow(pa.table({"v": [float("nan")]}))
    (found,) = read_arrow(acid.table("nan")).read_all()["v"].to_pylist()
    assert found != found


def test_bytes_are_the_text_of_a_partition(acid: Session) -> None:
    acid.sql(f"create table raw (id int) partitioned by (p binary) {ACID}")
    acid.table("raw").write_arrow([{"id": 1, "p": "é/".encode()}, {"id": 2, "p": None}])
    found = read_arrow(acid.table("raw"), filter="id = 1").read_all()
    assert found["p"].to_pylist() == ["é/".encode()]
    with pytest.raises(ConversionError, match="partition column p: a value has no text"):
        acid.table("raw").write_arrow([{"id": 1, "p": b"\xff"}])


def test_a_year_that_no_directory_has_is_an_error(acid: Session) -> None:
    acid.sql(f"create table days (id int) partitioned by (p date) {ACID}")
    far = pa.array([10**7], pa.int32()).cast(pa.date32())
    with pytest.raises(ConversionError, match="partition column p: a value has no text"):
        acid.table("days").write_arrow(pa.table({"id": [1], "p": far}))


@pytest.mark.parametrize("value", ["\ud800", 1j])
def test_what_arrow_has_no_value_for_is_an_error(acid: Session, value: object) -> None:
    acid.sql(f"create table odd (v string) {ACID}")
    with pytest.raises(InvalidInputError, match="column v: ") as error:
        acid.table("odd").write_arrow([{"v": value}])
    assert error.value.context["column"] == "v"


TEXTS = {
    "TRUE": True,
    "1.0": 1.0,
    "1.0E20": 1e20,
    "0.1": pa.scalar(0.1, pa.float32()),
    "NaN": float("nan"),
    "-Infinity": float("-inf"),
    "1.50": Decimal("1.50"),
    "2020-01-01": date(2020, 1, 1),
    "2020-01-01 00:00:00": datetime(2020, 1, 1),
    "2020-01-01 00:00:10": pa.scalar(datetime(2020, 1, 1, 0, 0, 10), pa.timestamp("s")),
    "2020-01-01 00:00:00.05": datetime(2020, 1, 1, 0, 0, 0, 50_000),
    "7": 7,
}


@pytest.mark.parametrize("kind", ["string", "varchar(22)", "array<string>"])
def test_what_is_no_text_becomes_the_text_that_sql_makes_of_it(acid: Session, kind: str) -> None:
    acid.sql(f"create table texts (v {kind}) {ACID}")
    table, nested = acid.table("texts"), kind.startswith("array")
    for value in TEXTS.values():
        is_typed = isinstance(value, pa.Scalar)
        plain = pa.array([value.as_py()], value.type) if is_typed else pa.array([value])
        data = pa.ListArray.from_arrays([0, 1], plain) if nested else plain
        table.write_arrow(pa.table({"v": data}))
    found = read_arrow(table).read_all()["v"].to_pylist()
    assert [one[0] for one in found] == list(TEXTS) if nested else found == list(TEXTS)
    if not nested:
        values = [one.as_py() if isinstance(one, pa.Scalar) else one for one in TEXTS.values()]
        table.overwrite([{"v": one} for one in ["a text", *values]])
        again = read_arrow(table).read_all()["v"].to_pylist()
        assert again[:4] == ["a text", "TRUE", "1.0", "1.0E20"]
        assert again[5:] == list(TEXTS)[4:]
