"""What makes rows of what comes in: Python rows, delimited text, JSON lines, groups of a regular
expression.

A record writer only names and splits values; that they fit the table's types is found out by the
connection, which tells which record does not.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Final, Protocol, runtime_checkable

import pyarrow as pa

from hiveacid.errors import ConversionError, InvalidInputError
from hiveacid.model.tables import Column
from hiveacid.model.types import (
    STRING,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    StructType,
    UnionType,
)
from hiveacid.writing import arrow_table, as_dict, is_row

_NESTED = (ListType, MapType, StructType, UnionType)


@runtime_checkable
class RecordWriter(Protocol):
    """Makes rows of records."""

    def check(self, columns: Sequence[Column]) -> None:
        """Whether records can give these columns.

        Raises:
            InvalidInputError: they cannot.
        """

    def records(self, data: object) -> list[object]:
        """The records in what was handed in.

        Raises:
            InvalidInputError: it is nothing of that kind.
        """

    def rows(
        self,
        records: Sequence[object],
        columns: Sequence[Column],
        absent: Mapping[str, object],
    ) -> pa.Table:
        """The records as rows whose columns have names of the table's, of any Arrow type; one row
        for each record. ``columns`` are those that a record may give, in the table's order; one
        that a record lacks has its value of ``absent``, and is an error where that has none.

        Raises:
            ConversionError: a record cannot be split, or has too many or too few values.
        """


@dataclass(frozen=True, slots=True)
class PythonRows:
    """Rows of Python: mappings by column name, or sequences in the order of the columns."""

    def check(self, columns: Sequence[Column]) -> None:
        """Python's values can be of any type."""

    def records(self, data: object) -> list[object]:
        """One row, or a list of rows; what is done to them later does not matter.

        Raises:
            InvalidInputError: it is neither.
        """
        if is_row(data) or isinstance(data, tuple):
            return [copy(data)]
        if isinstance(data, list) and all(
            is_row(row) or isinstance(row, list | tuple) for row in data
        ):
            return [copy(row) for row in data]
        raise InvalidInputError(
            f"A row is a dict, a tuple, or a list of those, not {type(data).__name__}",
            note="Text needs a record writer: acid.stream(table, record_writer=JsonWriter()).",
        )

    def rows(
        self,
        records: Sequence[object],
        columns: Sequence[Column],
        absent: Mapping[str, object],
    ) -> pa.Table:
        """See ``RecordWriter``."""
        names = [column.name for column in columns]
        named = [
            as_dict(row) if is_row(row) else dict(zip(names, _values(row, columns), strict=True))
            for row in records
        ]
        return _from_dicts(named, columns, absent)


class _Texts(ABC):
    """Lines with a text for each column, in the table's order."""

    __slots__ = ()
    _kind: ClassVar[str]

    def check(self, columns: Sequence[Column]) -> None:
        """See ``RecordWriter``."""
        for column in columns:
            if isinstance(column.type, _NESTED):
                raise InvalidInputError(
                    f"column {column.name} has type {column.type}, which {self._kind} cannot hold",
                    column=column.name,
                    note="Use JsonWriter(), Arrow data or Python rows.",
                )

    def records(self, data: object) -> list[object]:
        """See ``RecordWriter``."""
        return _lines(data)

    def rows(
        self,
        records: Sequence[object],
        columns: Sequence[Column],
        absent: Mapping[str, object],
    ) -> pa.Table:
        """See ``RecordWriter``."""
        del absent
        rows = [_values(self._split(_text(line)), columns) for line in records]
        try:
            return pa.table(
                {
                    column.name: pa.array([row[at] for row in rows], pa.string())
                    for at, column in enumerate(columns)
                }
            )
        except UnicodeEncodeError as error:  # a str may hold what no text is made of
            raise ConversionError(f"text is not UTF-8: {error}") from error

    @abstractmethod
    def _split(self, line: str) -> Sequence[str | None]:
        """The texts of a line."""


@dataclass(frozen=True, slots=True)
class DelimitedWriter(_Texts):
    """Lines of delimited text: one value for each column, in the table's order."""

    delimiter: str = ","
    escape: str | None = None
    null: str = "\\N"
    _kind: ClassVar[str] = "delimited text"

    def __post_init__(self) -> None:
        for name, value in (("delimiter", self.delimiter), ("escape", self.escape)):
            if value is not None and len(value) != 1:
                raise InvalidInputError(f"{name} is one character, not {value!r}", argument=name)

    def _split(self, line: str) -> Sequence[str | None]:
        """What is NULL is seen before escapes are resolved, as in Hive."""
        if self.escape is None:
            return [None if text == self.null else text for text in line.split(self.delimiter)]
        split, escape = re.escape(self.delimiter), re.escape(self.escape)
        field = rf"(?:^|{split})((?:{escape}.?|[^{split}{escape}])*)"
        return [
            None if text == self.null else re.sub(rf"{escape}(.)", r"\1", text, flags=re.DOTALL)
            for text in re.findall(field, line, flags=re.DOTALL)
        ]


@dataclass(frozen=True, slots=True)
class RegexWriter(_Texts):
    """Lines that match a regular expression as a whole: its groups are the columns, in the table's
    order.
    """

    pattern: str
    _kind: ClassVar[str] = "groups of a regular expression"

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InvalidInputError(
                f"{self.pattern!r} is no regular expression: {error}", argument="pattern"
            ) from error

    def check(self, columns: Sequence[Column]) -> None:
        """See ``RecordWriter``."""
        _Texts.check(self, columns)
        groups = re.compile(self.pattern).groups
        if groups != len(columns):
            raise InvalidInputError(
                f"{self.pattern!r} has {groups} groups for {len(columns)} columns"
            )

    def _split(self, line: str) -> Sequence[str | None]:
        found = re.compile(self.pattern).fullmatch(line)
        if found is None:
            raise ConversionError(f"a line does not match {self.pattern!r}")
        return found.groups()


@dataclass(frozen=True, slots=True)
class JsonWriter:
    """Lines of JSON: one object each, by column name in any case."""

    def check(self, columns: Sequence[Column]) -> None:
        """JSON has values for all types."""

    def records(self, data: object) -> list[object]:
        """See ``RecordWriter``."""
        return _lines(data)

    def rows(
        self,
        records: Sequence[object],
        columns: Sequence[Column],
        absent: Mapping[str, object],
    ) -> pa.Table:
        """See ``RecordWriter``."""
        kinds = {column.name: column.type for column in columns}
        exact = any("decimal" in str(kind) for kind in kinds.values())
        rounds = any("double" in str(kind) or "float" in str(kind) for kind in kinds.values())
        try:
            found = [
                json.loads(_text(line), parse_float=Decimal if exact else None) for line in records
            ]
        except ValueError as error:
            raise ConversionError(f"JSON: {error}") from error
        if not all(isinstance(one, dict) for one in found):
            raise ConversionError("JSON: a line is not an object")
        if exact or rounds:
            found = [
                {name: _exact(value, kinds.get(name.lower())) for name, value in one.items()}
                for one in found
            ]
        texts = {column.name for column in columns if column.type == STRING}
        if texts:
            found = [
                {
                    name: json.dumps(value)  # a word of JSON's stays as it is
                    if isinstance(value, bool) and name.lower() in texts
                    else value
                    for name, value in one.items()
                }
                for one in found
            ]
        return _from_dicts(found, columns, absent)


def _lines(data: object) -> list[object]:
    """Lines without their ends (``\\n``, ``\\r\\n``); an end of the last one is no empty line. One
    that is not UTF-8 stays bytes.
    """
    if isinstance(data, bytes | bytearray):
        parts = bytes(data).removesuffix(b"\n").split(b"\n") if data else []
        return [_decoded(line.removesuffix(b"\r")) for line in parts]
    if isinstance(data, str):
        lines = data.removesuffix("\n").split("\n") if data else []
        return [line.removesuffix("\r") for line in lines]
    if isinstance(data, Iterable) and not isinstance(data, Mapping):
        return [line for part in data for line in _lines_of_part(part)]
    raise InvalidInputError(f"Text is a str, bytes, or a list of those, not {type(data).__name__}")


def _lines_of_part(part: object) -> list[object]:
    if not isinstance(part, str | bytes | bytearray):
        raise InvalidInputError(f"A line is a str or bytes, not {type(part).__name__}")
    return _lines(part) or [""]


def _decoded(line: bytes) -> str | bytes:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line


def _text(record: object) -> str:
    if isinstance(record, bytes):
        raise ConversionError(f"text is not UTF-8: {record!r}")
    return str(record)


def shown(record: object) -> str:
    """A record as text that any string column takes."""
    try:
        text = record if isinstance(record, str) else _ENCODER.encode(record)
    except (TypeError, ValueError):  # keys that are no texts, a list within itself
        text = repr(record)
    return text.encode(errors="backslashreplace").decode()


_ENCODER: Final = json.JSONEncoder(default=str, ensure_ascii=False)


def not_given(column: str) -> ConversionError:
    """What a record must have is not there."""
    return ConversionError(
        f"column {column} is not given",
        column=column,
        note="Partition columns can be given with stream(..., partition={...}).",
    )


def _from_dicts(
    rows: Sequence[Mapping[str, object]], columns: Sequence[Column], absent: Mapping[str, object]
) -> pa.Table:
    """All columns of each row: what it is does not depend on the rows beside it."""
    known = {column.name for column in columns}
    needed = known.difference(absent)
    whole = [{**absent, **(row if known.issuperset(row) else _lower(row))} for row in rows]
    for name in needed:
        if not all(name in row for row in whole):
            raise not_given(name)
    return arrow_table(whole, argument="rows", columns=lambda: columns)


def _lower(row: Mapping[str, object]) -> dict[str, object]:
    lower = {str(name).lower(): value for name, value in row.items()}
    if len(lower) < len(row):
        raise ConversionError(f"a name is given twice: {', '.join(map(str, row))}")
    return lower


def _exact(value: object, kind: HiveType | None) -> object:
    """A number with a point, which was read as a Decimal: a float where the type is no decimal; one
    without a point: a float where the type is one.
    """
    if isinstance(value, int) and str(kind) in ("double", "float") and not isinstance(value, bool):
        return float(str(value))  # infinite where it is too large, as with a point
    if isinstance(value, Decimal):
        return value if isinstance(kind, DecimalType) else float(value)
    if isinstance(value, list):
        element = kind.element if isinstance(kind, ListType) else None
        return [_exact(one, element) for one in value]
    if isinstance(value, dict):
        fields = kind.fields if isinstance(kind, StructType) else ()
        kinds = {name.lower(): one for name, one in fields}
        if isinstance(kind, MapType):
            kinds = {name.lower(): kind.value for name in value}
        return {name: _exact(one, kinds.get(name.lower())) for name, one in value.items()}
    return value


def _values(row: object, columns: Sequence[Column]) -> Sequence[object]:
    assert isinstance(row, list | tuple)
    if len(row) != len(columns):
        raise ConversionError(f"a row has {len(row)} values for {len(columns)} columns")
    return row
