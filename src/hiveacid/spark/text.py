"""What stands in the text of a query of Spark's: names and literals; rows that the driver has; and,
of files that Spark reads, a relation that is kept for the next query of the same files, with what a
scan chooses of it. Each is few calls to Spark's JVM, where a DataFrame costs a dozen.

Spark need not be installed: statements are made without it.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_ID_COLUMN: Final = "ROW__ID"
QUALIFIES: Final = "__hiveacid_qualifies"
"""The column of what QUALIFY says, which is left out again as only Spark 4 can."""
_AS_IT_IS: Final = re.compile(r"[A-Za-z0-9 ,.;:_/#@%&*()=<>!?|~^+-]*")
"""Texts of which no setting of Spark's takes a part for something else."""
_STRING: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\b[rR]"[^"]*"|"((?:[^"\\]|\\.)*)\"""",
    re.DOTALL,
)
_IN_STRING: Final = re.compile(r"\\.|'", re.DOTALL)


def quoted(*names: str) -> str:
    """A name, or a path of names, in back-quotes."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def literal(value: str | None) -> str:
    """A string literal, or NULL."""
    if value is None:
        return "cast(null as string)"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def constant(value: str | None) -> str:
    """An expression of a text, or of NULL, which is the same whatever the session's settings are:
    some unescape no literals, some take a part of a text for a variable.
    """
    if value is None or _AS_IT_IS.fullmatch(value):
        return literal(value)
    return f"cast(X'{value.encode().hex()}' as string)"


def single_quoted(text: str) -> str:
    """A text of Hive's with its strings in single quotes: with Spark's
    ``spark.sql.ansi.doubleQuotedIdentifiers`` what stands in double quotes is a name.
    """

    def one(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        inside = _IN_STRING.sub(lambda part: "\\'" if part[0] == "'" else part[0], found[1])
        return f"'{inside}'"

    return _STRING.sub(one, text) if '"' in text else text


_KEPT_MAX: Final = 32
_FILES_MAX: Final = 1_000
"""A relation of more files is not kept: Spark holds the status of each."""
_KEPT: Final[OrderedDict[object, DataFrame]] = OrderedDict()
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a scan takes of a relation: select expressions, a condition."""

    frame: DataFrame
    columns: Sequence[str]
    where: str

    def over(self, name: str) -> str:
        """The query in brackets, where ``name`` is the relation: one analysis of Spark's in the
        place of three.
        """
        return f"(select {', '.join(self.columns)} from {name} where {self.where})"

    def rows(self) -> DataFrame:
        """The rows as a DataFrame."""
        return self.frame.where(self.where).selectExpr(*self.columns)


def kept(
    spark: SparkSession,
    schema: str,
    files: Sequence[tuple[str, int, int]],
    load: Callable[[], DataFrame],
) -> DataFrame:
    """The relation of files, each with its path, length and time of change, all of which a listing
    of now says: another file of the same name is another relation.
    """
    known_times = all(modified_ns for _, _, modified_ns in files)
    if not known_times or len(files) > _FILES_MAX:
        return load()
    key = (spark, schema, tuple(files))
    with _LOCK:
        if key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
    frame = load()
    with _LOCK:
        _KEPT[key] = frame
        while len(_KEPT) > _KEPT_MAX:
            _KEPT.popitem(last=False)
    return frame


CELLS_MAX: Final = 1_000
"""More values than these are handed over as a DataFrame."""
_IS_ROW: Final = "__hiveacid_row"


@dataclass(frozen=True, slots=True)
class InlineColumn:
    """A column with its type as Spark writes it."""

    name: str
    type: str
    values: pa.ChunkedArray


def rows_text(columns: Sequence[InlineColumn], wanted: Sequence[str]) -> str | None:
    """A query in brackets that gives rows: the expressions ``wanted`` over ``columns``; None where
    they are many, or of a type whose values are not written as text.

    Columns may be NULL, as those of files: a row of nothing but NULL, which is left out again, says
    so, and says the types.
    """
    kinds = [column.type.partition("(")[0] for column in columns]
    if not columns or not _CELLS.keys() >= set(kinds):
        return None
    rows = len(columns[0].values)
    if rows * len(columns) > CELLS_MAX:
        return None
    cells = [["true"] * rows]
    for column, kind in zip(columns, kinds, strict=True):
        values = column.values.cast(pa.int32()) if kind == "date" else column.values
        cell = _CELLS[kind]
        cells.append(["null" if one is None else cell(one) for one in values.to_pylist()])
    nothing = ", ".join(f"cast(null as {column.type})" for column in columns)
    lines = [f"(false, {nothing})", *(f"({', '.join(row)})" for row in zip(*cells, strict=True))]
    names = ", ".join(quoted(name) for name in (_IS_ROW, *(column.name for column in columns)))
    return (
        f"(select {', '.join(wanted)} from values {', '.join(lines)} as {_IS_ROW}s({names})"
        f" where {_IS_ROW})"
    )


_CELLS: Final[Mapping[str, Callable[..., str]]] = {
    "boolean": lambda value: "true" if value else "false",
    "tinyint": "{}Y".format,
    "smallint": "{}S".format,
    "int": "{}".format,
    "bigint": "{}L".format,
    "float": "cast('{!r}' as float)".format,
    "double": "cast('{!r}' as double)".format,
    "decimal": "{:f}BD".format,
    "date": "date_from_unix_date({})".format,
    "timestamp_ntz": "timestamp_ntz'{}'".format,
    "string": constant,
    "binary": lambda value: f"X'{value.hex()}'",
}
