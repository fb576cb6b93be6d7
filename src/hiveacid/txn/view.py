"""The catalog as one statement sees it: at first without locks, only to know what to lock, then
under its locks; from the second everything else follows.

    look = Look(catalog, ...)       names as they are now: binds the text, tells what to lock
    txn.lock(needs of the look)
    view = look.under_locks(...)    the same names, looked up anew, all at one moment
    view.changed_since(look)        names whose definition was changed before the locks were had
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hiveacid.errors import no_such_table
from hiveacid.model.commits import STATISTICS_KEYS
from hiveacid.model.history import AsOf, Version
from hiveacid.model.tables import Database, Partition, Table, TableName
from hiveacid.txn.past import as_it_was, find_version

if TYPE_CHECKING:
    from hiveacid.metastore.api import Catalog
    from hiveacid.txn.conflicts import Pending


TEMPORARY: Final = re.compile(r"temporary_[0-9a-f]{8}_.+")
"""By what name the catalog has a temporary table."""


@dataclass(frozen=True, slots=True)
class TemporaryTables:
    """The names by which the catalog has a session's temporary tables; ``key`` is in each."""

    key: str = ""
    names: dict[TableName, TableName] = field(default_factory=dict)

    def seen(self, database: str, names: Iterable[str]) -> tuple[str, ...]:
        """Of the names of a database's tables in the catalog those that the session sees, sorted:
        its own temporary tables by the names that it gave them, and none of another session's.
        """
        taken = set(names)
        own = {
            name.table
            for name, hidden in self.names.items()
            if name.database == database and hidden.table in taken
        }
        return tuple(sorted(own | {name for name in taken if not TEMPORARY.fullmatch(name)}))


class Look:
    """Definitions and partitions without any lock; what was fetched once is remembered."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        database: str,
        is_temporary: Callable[[str], bool] = lambda _: False,
        pending: Callable[[], Pending | None] = lambda: None,
        now_ms: int = 0,
        hidden: TemporaryTables | None = None,
    ) -> None:
        """``is_temporary`` tells Spark's temporary views; ``pending`` has the partitions and
        columns that the statement's transaction is to make; ``now_ms`` is the statement's time;
        ``hidden`` the names by which the catalog has the session's temporary tables.
        """
        self._hidden = hidden or TemporaryTables()
        self._catalog = catalog
        self._database = database
        self._is_temporary = is_temporary
        self._temporary: dict[str, bool] = {}
        self._pending = pending
        self.now_ms = now_ms
        self._databases: dict[str, Database] = {}
        self._tables: dict[TableName, Table | None] = {}
        self._partitions: dict[TableName, Sequence[Partition]] = {}
        self._versions: dict[tuple[TableName, AsOf], Version] = {}

    moment: AsOf | None = None
    """What all tables of a query are seen as of, where it does not say another; None: as of now."""

    def version(self, table: Table, wanted: AsOf) -> Version:
        """A table as it was.

        Raises:
            NotFoundError: it has no such version.
            InvalidInputError: it is no transactional table.
        """
        key = table.name, wanted
        if key not in self._versions:
            found = find_version(self._catalog, table, wanted)
            self._versions[key] = (
                replace(found, columns=None) if wanted.in_todays_columns else found
            )
        return self._versions[key]

    def past_definition(self, name: TableName, wanted: AsOf) -> Table:
        """A table with the columns of then.

        Raises:
            NotFoundError: there is no such table, or it has no such version.
        """
        table = self.definition(name)
        return as_it_was(table, self.version(table, wanted))

    @property
    def current_database(self) -> str:
        """The session's current database."""
        return self._database

    def is_temporary_view(self, name: str) -> bool:
        """Whether Spark has a temporary view of this name, which comes before tables of ours."""
        key = name.lower()
        if key not in self._temporary:
            self._temporary[key] = self._is_temporary(name)
        return self._temporary[key]

    @property
    def names(self) -> frozenset[TableName]:
        """The tables and views that were asked for, whether or not they exist."""
        return frozenset(self._tables)

    def table(self, name: TableName) -> Table | None:
        """The table or view of this name, with the columns that the transaction is to append; None
        where there is none.
        """
        if name not in self._tables:
            self._tables.update(self._fetched((name,)))
        table, pending = self._tables[name], self._pending()
        return table if table is None or pending is None else pending.with_columns(table)

    def ask(self, names: Iterable[TableName]) -> None:
        """Ask for the tables and views of these names at once."""
        new = tuple(dict.fromkeys(name for name in names if name not in self._tables))
        self._tables.update(self._fetched(new) if new else {})

    def _fetched(self, names: Collection[TableName]) -> dict[TableName, Table | None]:
        found = self._catalog.get_tables(tuple(names))
        return {name: found.get(name) for name in names}

    def actual(self, name: TableName) -> TableName:
        """The name by which the catalog has the table that a user calls so: a temporary table comes
        before another one. All else goes by that name.
        """
        hidden = self._hidden.names.get(name)
        return name if hidden is None or self.table(hidden) is None else hidden

    def hide(self, name: TableName) -> TableName:
        """The name by which the catalog has, or is to have, a temporary table."""
        if name in self._hidden.names.values():
            return name
        hidden = TableName(name.database, f"temporary_{self._hidden.key}_{name.table}")
        return self._hidden.names.setdefault(name, hidden)

    def database(self, name: str) -> Database:
        """The database of this name.

        Raises:
            NotFoundError: there is none.
        """
        if name not in self._databases:
            self._databases[name] = self._catalog.get_database(name)
        return self._databases[name]

    def expect(self, table: Table) -> None:
        """A definition that was fetched before: it need not be the one there is by now."""
        self._tables[table.name] = table

    def definition(self, name: TableName) -> Table:
        """The table or view of this name.

        Raises:
            NotFoundError: 10001 there is none.
        """
        table = self.table(name)
        if table is None:
            raise no_such_table(name)
        return table

    def partitions(self, table: Table) -> tuple[Partition, ...]:
        """The table's partitions, with those that the transaction is to make; one stands for all
        of a table without.
        """
        if not table.partition_columns:
            return (Partition((), table.location),)
        if table.name not in self._partitions:
            self._partitions[table.name] = self._catalog.list_partitions(table.name)
        known, pending = self._partitions[table.name], self._pending()
        return tuple(known) if pending is None else pending.with_new(table.name, known)

    def under_locks(self, pending: Callable[[], Pending | None]) -> View:
        """The same names as they are now, all fetched at once; to be called under the locks."""
        view = View(
            self._catalog,
            database=self._database,
            is_temporary=self._is_temporary,
            pending=pending,
            now_ms=self.now_ms,
            hidden=self._hidden,
        )
        view.moment = self.moment
        view.ask(self.names)
        return view

    def within(self, database: str, moment: AsOf | None) -> Look:
        """The same as seen from another current database, such as that of a view; with ``moment``
        as of then.
        """
        seen = copy(self)
        seen._database, seen.moment = database, moment or self.moment
        return seen

    def changed_since(self, earlier: Look) -> frozenset[TableName]:
        """The names that stand for another definition than they did, statistics apart."""
        return frozenset(
            name for name in earlier.names if not is_same(earlier.table(name), self.table(name))
        )


class View(Look):
    """Definitions and partitions under the locks of a statement."""


def is_same(before: Table | None, now: Table | None) -> bool:
    """Whether a name still stands for the same definition; its statistics may be others."""
    if before is None or now is None:
        return before is now
    before, now = (one.without_properties(STATISTICS_KEYS) for one in (before, now))
    return before.id == now.id and before == now


def is_another(before: Table | None, now: Table | None) -> bool:
    """Whether a name stands for another table than at the first look, or for none any more."""
    return before is not None and (now is None or _identity(before) != _identity(now))


def _identity(table: Table) -> object:
    """The table's number; where the metastore tells none, when it was made, and where it lies."""
    return (table.created_at_ms, table.location) if table.id is None else table.id
