"""What record writers make of text and Python's values: each type, escapes, what a record lacks."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import ConversionError, InvalidInputError, TransactionError
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.session import Session
from hiveacid.statements.arrow_rows import typed_column
from hiveacid.streaming import DelimitedWriter, JsonWriter, RegexWriter, StreamState
from hiveacid.streaming.record_writers import PythonRows
from hiveacid.writing import arrow_table

pytestmark = pytest.mark.slow

ACID = "stored as orc tblproperties ('transactional'='true')"
OFF = {"hiveacid.compactor.auto": "off"}
ESCAPED = DelimitedWriter(escape="\\")


@pytest.fixture
def acid(tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path}/m.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh"), settings=OFF) as session:
        yield session


def streamed(acid: Session, kind: str, writer: Any, data: Any, **options: Any) -> list[Any]:
    """The values of ``v`` that a stream of rows (id, v) leaves, in the order of ``id``."""
    acid.sql(f"create table t (id int, v {kind}) {ACID}")
    with acid.stream("t", record_writer=writer, **options) as stream, stream.transaction():
        stream.write(data)
    rows = read_arrow(acid.table("t")).read_all().to_pylist()
    return [row["v"] for row in sorted(rows, key=lambda row: row["id"] or 0)]


MOMENT = datetime.datetime(2026, 11, 22, 10, 0, 0, 123456)
TYPES: list[tuple[str, str | None, str, Any, Any]] = [
    # type, delimited text, JSON, Python, what is read
    ("tinyint", "7", "7", 7, 7),
    ("bigint", "9223372036854775807", "9223372036854775807", 2**63 - 1, 2**63 - 1),
    ("float", "1.5", "1.5", 1.5, 1.5),
    ("double", "1e300", "1e300", 1e300, 1e300),
    ("decimal(30,9)", *["12345678901234567890.123456789"] * 2, *[Decimal(2) / 8] * 2),
    ("boolean", "TRUE", "true", True, True),
    ("char(4)", "ab", '"ab"', "ab", "ab  "),
    ("varchar(3)", "äbc", '"äbc"', "äbc", "äbc"),
    ("date", "0001-01-01", '"0001-01-01"', *[datetime.date(1, 1, 1)] * 2),
    ("timestamp", str(MOMENT), f'"{MOMENT}"', MOMENT, MOMENT),
    ("binary", "abc", '"abc"', b"abc", b"abc"),
    ("array<int>", None, "[1, null]", [1, None], [1, None]),
    ("array<decimal(30,9)>", None, "[0.25]", [Decimal("0.25")], [Decimal("0.25")]),
    ("map<string,int>", None, '{"a": 1}', {"a": 1}, [("a", 1)]),
    ("map<string,int>", None, "{}", {}, []),
    ("struct<x:int,y:string>", None, '{"Y": "q"}', {"y": "q"}, {"x": None, "y": "q"}),
    ("struct<x:double,d:decimal(9,1)>", None, '{"x": 1e300, "d": 0.1}', None, None),
]


@pytest.mark.parametrize(("kind", "text", "json", "value", "expected"), TYPES)
def test_each_type_by_each_writer(
    acid: Session, kind: str, text: str | None, json: str, value: Any, expected: Any
) -> None:
    given = [(None, {"id": 1, "v": value}, expected)]
    exact = {
        "decimal(30,9)": Decimal("12345678901234567890.123456789"),
        "struct<x:double,d:decimal(9,1)>": {"x": 1e300, "d": Decimal("0.1")},
    }.get(kind, expected)
    given.append((JsonWriter(), f'{{"id": 1, "v": {json}}}', exact))
    if text is not None:
        given += [(writer, f"1,{text}", exact) for writer in (DelimitedWriter(), ESCAPED)]
        given.append((RegexWriter("([^,]*),(.*)"), f"1,{text}\r\n", exact))
    for writer, data, wanted in given:
        (found,) = streamed(acid, kind, writer, data)
        acid.sql("drop table t")
        assert found == wanted, writer


@pytest.mark.parametrize(
    ("writer", "text", "expected"),
    [
        (ESCAPED, "1,\\N\n2,a\\,b\n3,a\\\\b\n4,\\\\N\n5,", [None, "a,b", "a\\b", "\\N", ""]),
        (DelimitedWriter(), "1,a\r\n2,\\N\r\n3,a\rb\n", ["a", None, "a\rb"]),
        (DelimitedWriter(delimiter="^", escape="^"), "", []),
        (DelimitedWriter(delimiter="|", null="-"), '1|-\n2|"a"', [None, '"a"']),
        (RegexWriter(r"(\d+),(.*)"), b"1,a\r\n2,b\r\n", ["a", "b"]),
        (JsonWriter(), '{"id":1,"v":"a"}\r\n{}\n', [None, "a"]),
        (JsonWriter(), '{"v":true}\n{"v":1e20}\n{"V":false}', ["true", "1.0E20", "false"]),
        (None, {}, [None]),
        (None, [{"id": 1}, {"id": 2, "V": "b"}, (3, "c")], [None, "b", "c"]),
        (None, [], []),
    ],
)
def test_escapes_ends_of_lines_and_nothing(
    acid: Session, writer: Any, text: Any, expected: list[Any]
) -> None:
    assert streamed(acid, "string", writer, text) == expected


@pytest.mark.parametrize("writer", [DelimitedWriter(), JsonWriter(), RegexWriter("(.*),(.*)")])
def test_a_line_that_is_no_text_is_one_record_that_does_not_fit(acid: Session, writer: Any) -> None:
    good = b'{"id": 1}' if isinstance(writer, JsonWriter) else b"1,a"
    lines = good + b"\n1,\xff\n" + good
    with pytest.raises(ConversionError, match="UTF-8") as error:
        streamed(acid, "string", writer, lines)
    assert error.value.context["record"] == 1
    acid.sql("drop table t")
    assert len(streamed(acid, "string", writer, lines, strict=False)) == 2


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("decimal(38,0)", Decimal(10**20 + 1)),
        ("double", 1e20),
        ("string", "100000000000000000001"),
        ("array<decimal(30,0)>", [Decimal(10**20 + 1)]),
    ],
)
def test_whole_numbers_beyond_64_bits(acid: Session, kind: str, expected: Any) -> None:
    value = [10**20 + 1] if kind.startswith("array") else 10**20 + 1
    text = json.dumps({"id": 1, "v": value})
    assert streamed(acid, kind, JsonWriter(), text) == [expected]
    acid.table("t").write_arrow([{"id": 2, "v": value}], overwrite=True)
    assert read_arrow(acid.table("t")).read_all()["v"].to_pylist() == [expected]


def test_a_whole_number_of_json_is_the_nearest_double(acid: Session) -> None:
    text = '{"id": 1, "v": 9007199254740993}'
    assert streamed(acid, "double", JsonWriter(), text) == [9007199254740992.0]


@pytest.mark.parametrize("writer", [DelimitedWriter(), RegexWriter("(.),(.)")])
def test_half_a_character_is_a_record_that_does_not_fit(acid: Session, writer: Any) -> None:
    lines = "1,a\n2,\udcff\n3,c"  # as Python reads bytes with surrogateescape
    with pytest.raises(ConversionError, match="UTF-8") as error:
        streamed(acid, "string", writer, lines)
    assert error.value.context["record"] == 1
    acid.sql("drop table t")
    assert len(streamed(acid, "string", writer, lines, strict=False)) == 2


def test_what_a_record_lacks_does_not_depend_on_those_beside_it(acid: Session) -> None:
    acid.sql(
        "create table d (id int, n int default 7, s struct<x:int,y:int>)"
        f" partitioned by (k int) {ACID}"
    )
    whole = {"id": 1, "n": None, "s": {"x": 1, "y": 2}, "k": 1}
    bare: dict[str, Any] = {"id": 2, "s": {"x": 1}, "k": 1}
    with acid.stream("d") as stream:
        for rows in ([whole, bare], [bare]):
            with stream.transaction():
                stream.write(rows)
        with pytest.raises(ConversionError, match="column k") as error, stream.transaction():
            stream.write([whole, {"id": 3}])
        assert (error.value.context["record"], error.value.context["column"]) == (1, "k")
    found = read_arrow(acid.table("d")).read_all().to_pylist()
    assert [(row["n"], row["s"]) for row in sorted(found, key=lambda row: row["id"])] == [
        (None, {"x": 1, "y": 2}),
        *[(7, {"x": 1, "y": None})] * 2,
    ]


_UTC = datetime.timezone.utc
_ONE = datetime.timezone(datetime.timedelta(hours=1))
_VALUES: tuple[object, ...] = (
    1, 1.5, True, Decimal("1.5"), Decimal("1.25"), np.float32(1.1), float("nan"), "1", b"a", None,
    datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2), datetime.datetime(2026, 1, 2, 5),
    datetime.datetime(2026, 1, 2, 5, tzinfo=_UTC), datetime.datetime(2026, 1, 2, 5, tzinfo=_ONE),
    [datetime.date(2026, 1, 2)], [datetime.datetime(2026, 1, 2, 5)],
    [datetime.datetime(2026, 1, 2, 5, tzinfo=_ONE)],
    [datetime.datetime(2026, 1, 2, 5, tzinfo=_UTC)], [1],
)  # fmt: skip


_KINDS = [
    "int", "double", "string", "varchar(40)", "date", "timestamp", "timestamp with local time zone",
    "array<string>", "array<timestamp>", "array<date>",
]  # fmt: skip


@pytest.mark.parametrize("kind", _KINDS)
def test_what_a_value_is_does_not_depend_on_those_beside_it(kind: str) -> None:
    column = Column("v", parse_type(kind))

    def stored(values: list[object]) -> list[str] | None:
        try:
            rows = arrow_table([{"v": value} for value in values], columns=lambda: [column])
            return [repr(one) for one in typed_column(rows, column).to_pylist()]
        except InvalidInputError:
            return None

    alone = [stored([value]) for value in _VALUES]
    for one, other in permutations(range(len(_VALUES)), 2):
        expected = [*(alone[one] or ()), *(alone[other] or ())]
        together = stored([_VALUES[one], _VALUES[other]])
        if alone[one] is None or alone[other] is None:
            expected = None
        assert together in (None, expected), (_VALUES[one], _VALUES[other])


def test_a_date_beside_a_datetime_and_zones_that_differ(acid: Session) -> None:
    given = (datetime.date(2026, 1, 2), MOMENT, *(MOMENT.replace(tzinfo=z) for z in (_UTC, _ONE)))
    rows = [{"id": number, "v": value} for number, value in enumerate(given)]
    assert streamed(acid, "timestamp", None, rows) == [
        datetime.datetime(2026, 1, 2), *[MOMENT] * 3
    ]  # fmt: skip


@pytest.mark.parametrize("value", [2**70, "\ud800", object()])
def test_a_value_that_arrow_has_not_is_told_with_its_column(acid: Session, value: object) -> None:
    acid.sql(f"create table d (id bigint, n string) {ACID}")
    name = "n" if isinstance(value, str) else "id"
    whole: dict[str, object] = {"id": 1, "n": "x"}
    with (
        acid.stream("d") as stream,
        pytest.raises(ConversionError, match=f"record 1 .* column {name}") as error,
        stream.transaction(),
    ):
        stream.write([whole, {**whole, name: value}])
    assert error.value.context["column"] == name


def test_a_default_of_spark_is_no_silent_null(acid: Session) -> None:
    acid.sql(f"create table d (id int, n string default concat('a', 'b')) {ACID}")
    with acid.stream("d") as stream:
        for rows in ([{"id": 1, "n": "x"}, {"id": 2}], pa.table({"id": [1]})):
            with pytest.raises(ConversionError, match="column n"), stream.transaction():
                stream.write(rows)


@pytest.mark.parametrize("wrong", [None, 5, "text", [1, "x"], [None], {1, 2}, Path("/")])
def test_what_is_no_row(acid: Session, wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="dict"):
        streamed(acid, "string", None, wrong)
    assert not read_arrow(acid.table("t")).read_all().num_rows


def test_a_second_thread_gets_an_error(acid: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the first one begins."""
    acid.sql(f"create table t (id int) {ACID}")
    seen: list[BaseException] = []

    def interfere() -> None:
        try:
            stream.write({"id": 2})
        except TransactionError as error:
            seen.append(error)

    def check(columns: object) -> None:
        thread = threading.Thread(target=interfere)
        thread.start()
        thread.join()

    with acid.stream("t") as stream:
        monkeypatch.setattr(PythonRows, "check", lambda _, columns: check(columns))
        with stream.transaction():
            stream.write({"id": 1})
        assert stream.state is StreamState.COMMITTED
    assert "Another thread" in str(seen[0])
    assert read_arrow(acid.table("t")).read_all()["id"].to_pylist() == [1]


def test_rows_are_those_that_were_written_whatever_becomes_of_them(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string) {ACID}")
    row: dict[str, object] = {}
    many = [[3, "x"]]
    with acid.stream("t") as stream, stream.transaction():
        for row["id"] in (1, 2):
            row["v"] = str(row["id"])
            stream.write(row)
        stream.write(many)
        many[0][0] = 9
    assert ids(acid) == [1, 2, 3]


def test_a_transaction_that_lacks_a_row_is_not_committed(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string) {ACID}")
    with acid.stream("t") as stream:
        for unfit in ([(None, "x", "more")] * 1000, pa.table({"id": ["x"], "v": ["x"]})):
            stream.begin()
            stream.write((1, "x"))
            with pytest.raises(ConversionError):
                stream.write(unfit)
            with pytest.raises(TransactionError, match="A write of this transaction"):
                stream.commit()
            assert stream.state is StreamState.ABORTED
        with stream.transaction():
            stream.write((2, "x"))
    assert ids(acid) == [2]


def ids(acid: Session) -> list[int]:
    return sorted(read_arrow(acid.table("t")).read_all()["id"].to_pylist())
