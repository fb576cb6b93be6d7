"""Spark's errors -> ours, with Hive's codes where Hive has one for the same mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hiveacid.errors import AcidError, InvalidInputError, NotFoundError, SqlSyntaxError
from hiveacid.statements.values import Merge

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_POSITION = re.compile(r"[;,]?\s*\(?line (\d+)[ ,]+pos (\d+)\)?")


@contextmanager
def spark_errors_mapped(statement: object) -> Iterator[None]:
    """Maps what Spark raises while it parses and analyses the text of ``statement``.

    Raises:
        NotFoundError: 10001 a table or view that neither we nor Spark have.
        SqlSyntaxError: the expression is not SQL; line and column are those of the text that Spark
        got. InvalidInputError: 10004 (10002 in MERGE) an unknown column, 10007 an ambiguous one,
        or another
            mistake without a code of Hive's; an expression that fails on some row.
    """
    try:
        from pyspark.errors import AnalysisException, ParseException, PySparkException
    except ImportError:
        yield
        return
    try:
        yield
    except ParseException as error:
        line, column = _place(error)
        raise SqlSyntaxError(_first_line(error), line=line, column=column) from error
    except AnalysisException as error:
        raise _analysis_error(error, statement) from error
    except PySparkException as error:
        if type(error).__name__ not in _AT_RUN_TIME:
            raise
        raise InvalidInputError(_first_line(error)) from error


_AT_RUN_TIME = frozenset(
    {
        "ArithmeticException",
        "ArrayIndexOutOfBoundsException",
        "DateTimeException",
        "IllegalArgumentException",
        "NumberFormatException",
        "SparkNoSuchElementException",
        "SparkRuntimeException",
        "SparkUpgradeException",
        "UnsupportedOperationException",
    }
)
"""What an expression of the user's can run into: the statement is wrong, or its data."""


def _analysis_error(error: PySparkException, statement: object) -> AcidError:
    text, condition = _first_line(error), _condition(error)
    if condition.startswith(("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")):
        return NotFoundError(text, code=10001)
    if condition.startswith("UNRESOLVED_COLUMN"):
        return InvalidInputError(text, code=10002 if isinstance(statement, Merge) else 10004)
    if condition == "AMBIGUOUS_REFERENCE":
        return InvalidInputError(text, code=10007)
    return InvalidInputError(text)


def _condition(error: PySparkException) -> str:
    get = getattr(error, "getCondition", None) or error.getErrorClass
    return get() or ""


def _first_line(error: PySparkException) -> str:
    first = str(error).strip().split("\n")[0]
    return _POSITION.sub("", _SQLSTATE.sub("", first)).rstrip(" ;")


def _place(error: PySparkException) -> tuple[int, int]:
    found = _POSITION.search(str(error))
    return (int(found.group(1)), int(found.group(2)) + 1) if found else (1, 1)
