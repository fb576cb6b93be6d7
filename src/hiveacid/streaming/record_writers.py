"""What makes rows of what comes in: Python rows, delimited text, JSON lines, groups of a regular
expression.

A record writer only names and splits values; that they fit the table's types is found out by the
connection, which tells which record does not.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa
from pyarrow import csv

from hiveacid.errors import ConversionError, InvalidInputError
from hiveacid.model.tables import Column
from hiveacid.model.types import ListType, MapType, StructType, UnionType
from hiveacid.tabular import arrow_table

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

    def rows(self, records: Sequence[object], columns: Sequence[Column]) -> pa.Table:
        """The records as rows whose columns have names of the table's, of any Arrow type; one row
        for each record. ``columns`` are those that a record may give, in the table's order.

        Raises:
            ConversionError: a record cannot be split, or has too many or too few values.
        """


@dataclass(frozen=True, slots=True)
class PythonRows:
    """Rows of Python: mappings by column name, or sequences in the order of the columns."""

    def check(self, columns: Sequence[Column]) -> None:
        """Python's values can be of any type."""

    def records(self, data: object) -> list[object]:
        """One row, or a list of rows.

        Raises:
            InvalidInputError: it is neither.
        """
        if _is_named(data) or isinstance(data, tuple):
            return [data]
        if isinstance(data, list) and all(_is_named(row) or _is_values(row) for row in data):
            return data
        raise InvalidInputError(
            f"A row is a dict, a tuple, or a list of those, not {type(data).__name__}",
            note="Text needs a record writer: acid.stream(table, record_writer=JsonWriter()).",
        )

    def rows(self, records: Sequence[object], columns: Sequence[Column]) -> pa.Table:
        """See ``RecordWriter``."""
        names = [column.name for column in columns]
        return arrow_table(
            [row if _is_named(row) else _by_name(names, row) for row in records], argument="rows"
        )


@dataclass(frozen=True, slots=True)
class DelimitedWriter:
    """Lines of delimited text: one value for each column, in the table's order."""

    delimiter: str = ","
    escape: str | None = None
    null: str = "\\N"

    def __post_init__(self) -> None:
        for name, value in (("delimiter", self.delimiter), ("escape", self.escape)):
            if value is not None and len(value) != 1:
                raise InvalidInputError(f"{name} is one character, not {value!r}", argument=name)

    def check(self, columns: Sequence[Column]) -> None:
        """See ``RecordWriter``."""
        _refuse_nested(columns, "delimited text")

    def records(self, data: object) -> list[object]:
        """See ``RecordWriter``."""
        return _lines(data)

    def rows(self, records: Sequence[object], columns: Sequence[Column]) -> pa.Table:
        """See ``RecordWriter``."""
        names = [column.name for column in columns]
        try:
            return csv.read_csv(
                io.BytesIO("\n".join(map(str, records)).encode() + b"\n"),
                read_options=csv.ReadOptions(column_names=names, use_threads=False),
                parse_options=csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char=False,
                    escape_char=self.escape or False,
                    ignore_empty_lines=False,
                ),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[self.null],
                    strings_can_be_null=True,
                ),
            )
        except pa.ArrowInvalid as error:
            raise ConversionError(f"delimited text: {error}") from error


@dataclass(frozen=True, slots=True)
class JsonWriter:
    """Lines of JSON: one object each, by column name in any case."""

    def check(self, columns: Sequence[Column]) -> None:
        """JSON has values for all types."""

    def records(self, data: object) -> list[object]:
        """See ``RecordWriter``."""
        return _lines(data)

    def rows(self, records: Sequence[object], columns: Sequence[Column]) -> pa.Table:
        """See ``RecordWriter``."""
        del columns
        try:
            found = [json.loads(str(line)) for line in records]
        except ValueError as error:
            raise ConversionError(f"JSON: {error}") from error
        if not all(isinstance(one, dict) for one in found):
            raise ConversionError("JSON: a line is not an object")
        return arrow_table(found, argument="rows")


@dataclass(frozen=True, slots=True)
class RegexWriter:
    """Lines that match a regular expression as a whole: its groups are the columns, in the table's
    order.
    """

    pattern: str

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InvalidInputError(
                f"{self.pattern!r} is no regular expression: {error}", argument="pattern"
            ) from error

    def check(self, columns: Sequence[Column]) -> None:
        """See ``RecordWriter``."""
        _refuse_nested(columns, "groups of a regular expression")
        groups = re.compile(self.pattern).groups
        if groups != len(columns):
            raise InvalidInputError(
                f"{self.pattern!r} has {groups} groups for {len(columns)} columns"
            )

    def records(self, data: object) -> list[object]:
        """See ``RecordWriter``."""
        return _lines(data)

    def rows(self, records: Sequence[object], columns: Sequence[Column]) -> pa.Table:
        """See ``RecordWriter``."""
        pattern = re.compile(self.pattern)
        matches = [pattern.fullmatch(str(line)) for line in records]
        groups = [one.groups() for one in matches if one is not None]
        if len(groups) < len(matches):
            raise ConversionError(f"a line does not match {self.pattern!r}")
        return pa.table(
            {
                column.name: pa.array([values[at] for values in groups], pa.string())
                for at, column in enumerate(columns)
            }
        )


def _lines(data: object) -> list[object]:
    """Lines without their ends; an end of the last one is no empty line."""
    if isinstance(data, bytes | bytearray):
        try:
            data = bytes(data).decode()
        except UnicodeDecodeError as error:
            raise ConversionError(f"text is not UTF-8: {error}") from error
    if isinstance(data, str):
        return list(data.removesuffix("\n").split("\n"))
    if isinstance(data, Iterable) and not isinstance(data, Mapping):
        return [line for part in data for line in _lines_of_part(part)]
    raise InvalidInputError(f"Text is a str, bytes, or a list of those, not {type(data).__name__}")


def _lines_of_part(part: object) -> list[object]:
    if not isinstance(part, str | bytes | bytearray):
        raise InvalidInputError(f"A line is a str or bytes, not {type(part).__name__}")
    return _lines(part)


def _is_named(row: object) -> bool:
    return isinstance(row, Mapping) or hasattr(row, "asDict") or hasattr(row, "_asdict")


def _is_values(row: object) -> bool:
    return isinstance(row, list | tuple)


def _by_name(names: Sequence[str], row: object) -> Mapping[str, object]:
    assert isinstance(row, list | tuple)
    if len(row) != len(names):
        raise ConversionError(f"a row has {len(row)} values for {len(names)} columns")
    return dict(zip(names, row, strict=True))


def _refuse_nested(columns: Sequence[Column], what: str) -> None:
    for column in columns:
        if isinstance(column.type, _NESTED):
            raise InvalidInputError(
                f"column {column.name} has type {column.type}, which {what} cannot hold",
                column=column.name,
                note="Use JsonWriter(), Arrow data or Python rows.",
            )
