"""Numbers beside integer and decimal columns in a condition are compared exactly, however long."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hiveacid
from hiveacid import read_arrow
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"

ROWS = {
    "id": [1, 2, 3, 4],
    "d": [Decimal(text) for text in ("1.123456789012345678", "-5", "99999999999999999999.5", "0")],
    "g": [float("nan"), -1e300, 1.5, -0.0],
    "e": [Decimal(10) ** 20, -(Decimal(10) ** 21), Decimal("9e37"), Decimal(0)],
    "l": [2**63 - 1, -(2**63), 2**53 + 1, 0],
    "b": [127, -128, 0, 1],
}
OPERATORS: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBERS = (
    "10000000000000000000",
    "-10000000000000000000",
    "100000000000000000000",
    "-1000000000000000000000.0",
    "100000000000000000000000000000000000000000",
    "-100000000000000000000000000000000000000000",
    "1.1234567890123456779",
    "1.1234567890123456780",
    "99999999999999999999.5",
    "-0.000000000000000000000000000000000000001",
    "0.00",
    "1.5",
    "-128.5",
    "127.0",
    "-1000000000000000000000000000000000000000",
    "99999999999999999999.9999999999999999995",
    "9223372036854775807",
    "9223372036854775807.5",
    "9007199254740993.0",
)


@pytest.fixture(scope="module")
def acid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    root = tmp_path_factory.mktemp("numbers")
    with hiveacid.connect(None, f"sqlite:///{root}/m.db", warehouse=str(root / "wh")) as session:
        session.sql(
            "create table t (id int, d decimal(38,18), g double, e decimal(38,0), l bigint,"
            " b tinyint) stored as orc tblproperties ('transactional'='true')"
        )
        session.table("t").write_arrow([dict(zip(ROWS, r, strict=True)) for r in _rows()])
        session.table("t").write_arrow([{"id": 5}])
        yield session


def _rows() -> list[tuple[object, ...]]:
    return list(zip(*ROWS.values(), strict=True))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("op", OPERATORS)
def test_rows_are_those_that_python_finds(acid: Session, op: str, number: str) -> None:
    for column in ("d", "e", "l", "b"):
        met = [OPERATORS[op](Decimal(v), Decimal(number)) for v in ROWS[column]]
        wanted = [i for i, meets in zip(ROWS["id"], met, strict=True) if meets]
        assert _ids(acid, f"{column} {op} {number}") == wanted, column


def test_a_list_of_long_numbers_finds_them(acid: Session) -> None:
    assert _ids(acid, "e in (100000000000000000000, 0, 1.5)") == [1, 4]
    assert _ids(acid, "e not in (100000000000000000000, 0.5)") == [2, 3, 4]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("g > 1.5", [1]),
        ("g >= 1.5", [1, 3]),
        ("g < 1e308", [2, 3, 4]),
        ("g <> 1.5", [1, 2, 4]),
        ("not g <= 1.5", [1]),
        ("g = 0", [4]),
        ("g = 'NaN'", [1]),
        ("g < 'NaN'", [2, 3, 4]),
        ("g <= 'NaN'", [1, 2, 3, 4]),
        ("g > 'NaN'", []),
        ("g in (1.5, 'NaN')", [1, 3]),
        ("g not in (1.5, 'NaN')", [2, 4]),
    ],
)
def test_nan_is_greater_than_every_number(acid: Session, condition: str, ids: list[int]) -> None:
    assert _ids(acid, condition) == ids


@pytest.mark.parametrize("text", ["'NaN'", "'Infinity'", "'1_0'", "'\uff11'"])
def test_a_text_that_is_no_number_of_a_decimal_is_an_error(acid: Session, text: str) -> None:
    with pytest.raises(hiveacid.errors.InvalidInputError, match="does not compare"):
        _ids(acid, f"d > {text}")


def _ids(acid: Session, condition: str) -> list[int]:
    rows = hiveacid.read_arrow(acid.table("t"), filter=condition, columns=["id"]).read_all()
    return sorted(rows.column(0).to_pylist())


def test_digits_of_negative_numbers_are_kept(acid: Session) -> None:
    number = "-12345678901234567890.123456789012345678"
    acid.sql(
        "create table negative (d decimal(38,18)) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    acid.sql(f"insert into negative values ({number})")
    found = hiveacid.read_arrow(acid.table("negative"), filter=f"d = {number}").read_all()
    assert [str(value) for value in found.column("d").to_pylist()] == [number]


def test_a_double_beside_a_decimal_equals_the_decimal_of_its_text(acid: Session) -> None:
    """Arrow's own cast of the decimal 0.35 is 0.35000000000000003."""
    acid.sql(
        "create table nearest (id int, d decimal(10,2)) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    table = acid.table("nearest")
    table.write_arrow([{"id": i, "d": Decimal(i).scaleb(-2)} for i in range(100)])
    for condition, ids in {
        "d = 0.35e0": [35],
        "d in (0.35e0, 0.41D)": [35, 41],
        "d < 0.35e0": list(range(35)),
        "d >= 0.35e0": list(range(35, 100)),
    }.items():
        found = hiveacid.read_arrow(table, filter=condition, columns=["id"]).read_all()
        assert sorted(found.column(0).to_pylist()) == ids, condition


def test_zeros_of_partitions_are_those_of_rows(tmp_path: Path) -> None:
    """In a list of values Arrow tells -0.0 from 0.0; it left out the partition that has it."""
    zeros = pa.array([-0.0, 0.0, 1.5], pa.float64())
    with hiveacid.connect(f"sqlite:///{tmp_path}/m.db", warehouse=tmp_path / "wh") as acid:
        acid.sql(f"create table z (id int) partitioned by (p double) {ACID}")
        table = acid.table("z")
        table.write_arrow(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "p": zeros}))
        whole = read_arrow(table).read_all()
        for value in (-0.0, 0.0):
            listed = pc.field("p").isin(pa.array([value]))
            for condition in (listed, ~listed, pc.field("p") == value):
                found = read_arrow(table, filter=condition).read_all()
                assert sorted(found["id"].to_pylist()) == sorted(
                    whole.filter(condition)["id"].to_pylist()
                )
