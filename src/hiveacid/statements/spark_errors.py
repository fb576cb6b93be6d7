"""What Spark's errors in a statement are: ours, with Hive's codes where Hive has one for the same
mistake.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from hiveacid.errors import AcidError, InvalidInputError, NotFoundError, SqlSyntaxError
from hiveacid.spark.session import quoted
from hiveacid.statements.values import Merge
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_IN_JVM = re.compile(
    r"(?:Job aborted due to stage failure: [^\n]*\): [\w.]+|An error occurred [^\n]*\n: java\.lang)"
    r"\.(?:Spark)?(?P<kind>\w+): (?P<message>[^\n]*)"
)
"""What a task failed with, as PySpark 3.5 leaves it to py4j, or the analysis, in any version."""
_POSITION = re.compile(r"[;,]?\s*\(?line (\d+)[ ,]+pos (\d+)\)?")


@contextmanager
def spark_errors_mapped(statement: object, look: Look | None = None) -> Iterator[None]:
    """Maps what Spark raises while it parses and analyses the text of ``statement``; ``look`` has
    the tables whose columns may be meant by a name that is none.

    Raises:
        NotFoundError: 10001 a table or view that neither we nor Spark have.
        SqlSyntaxError: the expression is not SQL; line and column are those of the text that Spark
        got.
        InvalidInputError: 10004 (10002 in MERGE) an unknown column, 10007 an ambiguous one, or
        another mistake without a code of Hive's; an expression that fails on some row.
    """
    try:
        yield
    except Exception as error:
        mapped = _mapped(error, statement, look) if sys.modules.get("pyspark.errors") else None
        if mapped is None:
            raise
        raise mapped from error


def _mapped(error: Exception, statement: object, look: Look | None) -> AcidError | None:
    """The error of ours that stands for one of Spark's; None where Spark's own is raised."""
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    if isinstance(error, ParseException):
        line, column = _place(error)
        return SqlSyntaxError(_first_line(error), line=line, column=column)
    if isinstance(error, AnalysisException):
        return _analysis_error(error, statement, look)
    name = type(error).__name__
    if isinstance(error, PySparkException):
        return InvalidInputError(_first_line(error)) if name in _AT_RUN_TIME else None
    failed = _IN_JVM.search(str(error)) if name == "Py4JJavaError" else None
    if failed is None or failed["kind"] not in _AT_RUN_TIME:
        return None
    return InvalidInputError(_SQLSTATE.sub("", failed["message"]))


_AT_RUN_TIME = frozenset(
    {
        "ArithmeticException",
        "ArrayIndexOutOfBoundsException",
        "DateTimeException",
        "IllegalArgumentException",
        "NumberFormatException",
        "RuntimeException",
        "SparkNoSuchElementException",
        "SparkRuntimeException",
        "SparkUpgradeException",
        "UnsupportedOperationException",
    }
)
"""What an expression of the user's can run into: the statement is wrong, or its data."""


def _analysis_error(error: PySparkException, statement: object, look: Look | None) -> AcidError:
    get = getattr(error, "getCondition", None) or error.getErrorClass
    text, condition = _first_line(error), get() or ""
    if condition.startswith(("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")):
        return NotFoundError(text, code=10001)
    if condition.startswith("UNRESOLVED_COLUMN"):
        text = _with_nearest(text, look)
        return InvalidInputError(text, code=10002 if isinstance(statement, Merge) else 10004)
    if condition == "AMBIGUOUS_REFERENCE":
        return InvalidInputError(text, code=10007)
    return InvalidInputError(text)


def _with_nearest(text: str, look: Look | None) -> str:
    """The error with the nearest names of all columns there are: Spark knows those that were read
    alone, which are those that the text names.
    """
    found = _UNKNOWN.fullmatch(text)
    if found is None:
        return text
    tables = [] if look is None else filter(None, map(look.table, look.names))
    names = {column.name for table in tables for column in table.all_columns}
    proposed = map(_PARTS.findall, (found["proposal"] or "").split(", "))
    names |= {parts[-1] for parts in proposed if parts}
    wanted = _PARTS.findall(found["name"])[-1].lower()
    nearest = sorted(names, key=lambda name: (-SequenceMatcher(None, wanted, name).ratio(), name))
    told = ", ".join(map(quoted, nearest[:_NEAREST_MAX]))
    if not told:
        return f"[UNRESOLVED_COLUMN.WITHOUT_SUGGESTION]{found['told']}"
    asked = f"Did you mean one of the following? [{told}]."
    return f"[UNRESOLVED_COLUMN.WITH_SUGGESTION]{found['told']} {asked}"


_UNKNOWN = re.compile(
    r"\[UNRESOLVED_COLUMN[.\w]*\](?P<told>[^`]*(?P<name>(?:`[^`]*`\.?)+)[^`?]*?\.)"
    r"(?: Did you mean one of the following\? \[(?P<proposal>.*)\]\.)?\s*"
)
_PARTS = re.compile(r"`([^`]*)`")
_NEAREST_MAX: Final = 5


def _first_line(error: PySparkException) -> str:
    first, *rest = str(error).strip().split("\n")
    if first.endswith(":") and rest:
        first = f"{first} {rest[0].strip()}"
    return _POSITION.sub("", _SQLSTATE.sub("", first)).rstrip(" ;")


def _place(error: PySparkException) -> tuple[int, int]:
    found = _POSITION.search(str(error))
    return (int(found.group(1)), int(found.group(2)) + 1) if found else (1, 1)
