"""What a statement runs with, and a statement's value together with the look it was bound to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from hiveacid.client import Client
from hiveacid.errors import spark_needed
from hiveacid.model.transactions import Isolation
from hiveacid.settings import Settings
from hiveacid.spark.jobs import own_calls
from hiveacid.spark.types import quoted
from hiveacid.statements.answers import Listing
from hiveacid.statements.compact import CompactionStatement
from hiveacid.storage.filesystem import Files
from hiveacid.txn.unit import UnitOfWork
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Owner(Protocol):
    """The session whose statement it is, as far as statements change it."""

    def use_database(self, name: str) -> None:
        """It is the current one from now on."""

    def control(self, statement: Any) -> Listing | None:
        """Begin, end or go back in the session's transaction."""

    def compactions_listing(self, statement: CompactionStatement) -> Listing | None:
        """Carry out what is about compactions."""


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What a statement runs with; ``spark`` is None in a session for metadata only."""

    client: Client
    owner: Owner
    spark: SparkSession | None
    settings: Settings
    database: str
    unit: UnitOfWork | None = None
    """The transaction that the statement is one of several of; None: it has one of its own."""
    isolation: Isolation | None = None
    """That of the statement's own transaction; None: as the settings say."""

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
            return bool(spark.catalog.getTable(quoted(name)).isTemporary)
    except PySparkException:  # there is nothing of that name
        return False
