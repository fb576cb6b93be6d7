"""What a statement runs with, its value together with the look it was bound to, and what Spark's
errors in it are: ours, with Hive's codes where Hive has one for the same mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from hiveacid.client import Client
from hiveacid.errors import (
    AcidError,
    InvalidInputError,
    NotFoundError,
    SqlSyntaxError,
    spark_needed,
)
from hiveacid.model.history import AsOf
from hiveacid.model.tables import Isolation, Table, TableName
from hiveacid.settings import Settings
from hiveacid.spark.jobs import own_calls
from hiveacid.spark.text import quoted
from hiveacid.statements.compact import CompactionStatement
from hiveacid.statements.health import Purge
from hiveacid.statements.history import DescribeHistory, RestoreTable
from hiveacid.statements.values import Listing, Merge
from hiveacid.storage.filesystem import Files
from hiveacid.txn.unit import UnitOfWork
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession


class OpenSession(Protocol):
    """``Session``, as what lies below it knows it."""

    @property
    def client(self) -> Client:
        """Metastore, transactions, files, clock, settings."""

    @property
    def compacting(self) -> Any:
        """What carries its compactions out."""

    def look(self) -> Look:
        """The catalog as it is now."""

    def table_name(self, name: str) -> TableName:
        """A name with its database."""

    def table_definition(self, name: TableName) -> Table:
        """The table as the catalog has it now."""

    def table(self, name: str) -> Any:
        """The handle of a table."""

    def sql(self, text: str, args: Any = None) -> Any:
        """Carry out one statement of SQL."""

    def run(self, statement: Any, *, moment: AsOf | None = None) -> Any:
        """Carry out a statement that was read, a query as of a moment."""

    def execute(self, statement: Any) -> Any:
        """Carry out a statement that was built, or what a function makes of the catalog."""

    def reading_context(self) -> ExecutionContext:
        """What a read outside of statements needs."""

    def use_database(self, name: str) -> None:
        """It is the current one from now on."""

    def control(self, statement: Any) -> Listing | None:
        """Begin, end or go back in the session's transaction."""

    def compactions_listing(self, statement: CompactionStatement) -> Listing | None:
        """Carry out what is about compactions."""

    def restored(self, statement: RestoreTable) -> Any:
        """Carry out RESTORE."""

    def rows_explained(self, statement: DescribeHistory) -> Listing:
        """Carry out DESCRIBE HISTORY ... WHERE."""

    def purged(self, statement: Purge, *, has_spark: bool) -> Any:
        """Carry out PURGE."""


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What a statement runs with; ``spark`` is None in a session for metadata only."""

    client: Client
    owner: OpenSession
    spark: SparkSession | None
    settings: Settings
    database: str
    unit: UnitOfWork | None = None
    """The transaction that the statement is one of several of; None: it has one of its own."""
    isolation: Isolation | None = None
    """That of the statement's own transaction; None: as the settings say."""
    statement: str | None = None
    """Its text without literals; None for what was built in Python."""

    def session(self) -> SparkSession:
        """The Spark session.

        Raises:
            SparkNeededError: there is none.
        """
        if self.spark is None:
            raise spark_needed("This statement")
        return self.spark

    @property
    def files(self) -> Files:
        """The files of tables."""
        return self.client.files

    def look(self) -> Look:
        """The catalog as it is from now on, without locks."""
        return Look(
            self.client.metastore,
            database=self.database,
            is_temporary=partial(_is_temporary_view, self.spark),
            pending=lambda: None if self.unit is None else self.unit.pending,
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement's value, the look that it was bound to, and how to bind it to another."""

    value: Any
    look: Look
    bind: Callable[[Look], Any] = field(repr=False)

    @staticmethod
    def to(look: Look, bind: Callable[[Look], Any]) -> Bound:
        """The statement as these definitions make it.

        Raises:
            AcidError: it does not fit them.
        """
        return Bound(bind(look), look, bind)

    def again(self, look: Look) -> Bound:
        """The same text, or what was built in Python, bound to other definitions."""
        return Bound.to(look, self.bind)


def fixed(value: object) -> Callable[[Look], Any]:
    """How to bind what is the same whatever the definitions are."""
    return lambda _: value


def _is_temporary_view(spark: SparkSession | None, name: str) -> bool:
    """Whether Spark has a temporary view of this name."""
    if spark is None:
        return False
    from pyspark.errors import PySparkException

    try:
        with own_calls():
            if not spark.catalog.tableExists(quoted(name)):  # quicker than an error that says so
                return False
            return bool(spark.catalog.getTable(quoted(name)).isTemporary)
    except PySparkException:  # there is nothing of that name
        return False


_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_IN_TASK = re.compile(
    r"Job aborted due to stage failure: [^\n]*\): [\w.]+\.(?:Spark)?(?P<kind>\w+): "
    r"(?P<message>[^\n]*)"
)
"""What a task failed with, as PySpark 3.5 leaves it to py4j."""
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
    except Exception as error:
        failed = _IN_TASK.search(str(error)) if type(error).__name__ == "Py4JJavaError" else None
        if failed is None or failed["kind"] not in _AT_RUN_TIME:
            raise
        raise InvalidInputError(_SQLSTATE.sub("", failed["message"])) from error


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
