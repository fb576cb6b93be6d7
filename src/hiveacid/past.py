"""What users hold of the past: ``df(as_of_...)`` of a table, and ``acid.at(...)``, in which many
tables are as they were at one moment; tags, names for versions of one table or of many, and
consumers of changes, whose files cleaners keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from hiveacid.errors import ConflictError, InvalidInputError, NotFoundError
from hiveacid.model.history import AsOf, Pin, PinKind, as_of, moment_ms
from hiveacid.model.tables import FileFormat, Table, TableName, TxnId
from hiveacid.spark.session import quoted
from hiveacid.sql import Arguments, parse_one
from hiveacid.statements.arguments import check_number, checked
from hiveacid.statements.history import (
    Consumer,
    CreateTag,
    DescribeHistory,
    DropPin,
    RestoreTable,
    UndoTransaction,
    consumers,
    create,
    drop,
    pins,
)
from hiveacid.statements.values import (
    Insert,
    InsertResult,
    Listing,
    Query,
    TableRef,
    UndoResult,
    VirtualColumn,
    shortened,
)
from hiveacid.txn.pins import kept_ms, make_tags, pin_name
from hiveacid.txn.view import Look, is_same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.reading.changes import RowHistory
    from hiveacid.statements.context import OpenSession
    from hiveacid.statements.select import Keep, Lease


def rows_query(table: TableName, *, row_ids: bool, wanted: AsOf | None) -> Any:
    """All rows of a table, now or as of then, as a statement."""
    placeholder = "__hiveacid_0"
    virtual = frozenset([VirtualColumn.ROW_ID] if row_ids else [])

    def built(look: Look) -> Query:
        if wanted is not None:
            look.past_definition(table, wanted)
        ref = TableRef(table, virtual, as_of=wanted)
        return Query(f"SELECT * FROM {placeholder}", {placeholder: ref})

    return built


@checked
@dataclass(frozen=True, slots=True)
class PastTable:
    """A table as it was at one moment: ``df()``, or ``read_arrow`` of it."""

    session: OpenSession
    name: TableName
    moment: AsOf

    def __repr__(self) -> str:
        return f"<PastTable {shortened(str(self.name))}>"

    @property
    def definition(self) -> Table:
        """The table with the columns of then.

        Raises:
            NotFoundError: there is no such table, or it has no such version.
        """
        return self.session.look().past_definition(self.name, self.moment)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of then, partition columns last."""
        return self.definition.column_names

    def df(self, *, row_ids: bool = False) -> DataFrame:
        """The rows of then as a lazy DataFrame; ``row_ids`` adds ROW__ID."""
        query = rows_query(self.name, row_ids=row_ids, wanted=self.moment)
        return cast("DataFrame", self.session.execute(query))

    def lease(self, *, keep: Keep, expected: Table) -> Lease:
        """The files of then, for ``read_arrow`` and ``dataset``.

        Raises:
            NotFoundError, LockError, StorageError: the table cannot be read.
        """
        from hiveacid.statements.select import open_lease

        context = self.session.reading_context()
        return open_lease(context, expected, keep=keep, as_of=self.moment)


@checked
@dataclass(frozen=True, slots=True)
class Past:
    """Many tables as they were at one moment."""

    session: OpenSession
    moment: AsOf

    def sql(self, text: str, args: Arguments | None = None) -> Any:
        """The answer of a query over tables as they were; a table of which the text asks for
        another version is as of that.

        Raises:
            InvalidInputError: it is no query.
            AcidError: as ``Session.sql``.
        """
        setting_of = self.session.client.settings.get
        statement = parse_one(text, setting_of=setting_of, args=args)
        return self.session.run(statement, moment=self.moment)

    def table(self, name: str) -> PastTable:
        """A table as it was.

        Raises:
            NotFoundError: there is no table of this name now, or it has no such version.
        """
        found = self.session.table_name(name)
        self.session.look().past_definition(found, self.moment)
        return PastTable(self.session, found, self.moment)


def restore(session: OpenSession, now: Table, wanted: AsOf) -> InsertResult:
    """Make a table's rows what they were, in its columns of today: those that came since are NULL,
    or have their default, one that was renamed goes by its new name, and where the files are ORC
    one of another type has the values that its files show today. A transaction like another:
    INSERT OVERWRITE of the whole table, which another RESTORE takes back.

    Raises:
        NotFoundError: there is no such version.
        SnapshotExpiredError: its files are gone.
        ConflictError: others wrote to the table at the same time, or altered it.
    """
    past = PastTable(session, now.name, wanted)
    names = _names_of_today(past.definition, now)
    if now.format is FileFormat.ORC:
        past = replace(past, moment=replace(wanted, in_todays_columns=True))
        names = {new: new for new in names.values()}
    rows: Any
    if session.reading_context().spark is None:
        from hiveacid.reading.rows import read_arrow

        rows = read_arrow(past, columns=list(names)).read_all().rename_columns(list(names.values()))
    else:
        found = past.df()
        rows = found.select(*[found[old].alias(new) for old, new in names.items()])

    def built(look: Look) -> Insert:
        if not is_same(now, look.definition(now.name)):
            raise ConflictError(
                f"{now.name} was altered or replaced while RESTORE read what it was",
                table=str(now.name),
                note="Run it again.",
            )
        return Insert(
            now.name,
            rows,
            columns=tuple(names.values()),
            overwrite=True,
            by_name=True,
            whole=True,
            restores=wanted,
        )

    return cast("InsertResult", session.execute(built))


def _names_of_today(then: Table, now: Table) -> dict[str, str]:
    """Each column of then that is there today, with its name of today. The columns of ORC files are
    told by their places; of other formats one whose place has another name now, which was no column
    then, was renamed.
    """
    if now.format is FileFormat.ORC:
        names = {old.name: new.name for old, new in zip(then.columns, now.columns, strict=False)}
        return names | {key: key for key in now.partition_keys}
    here = set(now.column_names)
    before = set(then.column_names)
    names = {column.name: column.name for column in then.all_columns if column.name in here}
    for old, new in zip(then.columns, now.columns, strict=False):
        if old.name not in here and new.name not in before:
            names[old.name] = new.name
    return names


@checked
class TablePast:
    """The part of ``AcidTable`` that reads its rows, of now and of then."""

    __slots__ = ()
    session: OpenSession
    name: TableName

    def df(
        self,
        *,
        row_ids: bool = False,
        as_of_write_id: int | None = None,
        as_of_time: object = None,
        as_of_tag: str | None = None,
    ) -> DataFrame:
        """The table's rows as a lazy DataFrame over the snapshot of now, or as they were just after
        a write id committed, at a time or at a tag; ``row_ids`` adds ROW__ID.

        Raises:
            NotFoundError: there is no such version.
            SnapshotExpiredError: its files are gone; it names the oldest that is there.
        """
        wanted = as_of(as_of_write_id, as_of_time, as_of_tag)
        query = rows_query(self.name, row_ids=row_ids, wanted=wanted)
        return cast("DataFrame", self.session.execute(query))

    def restore(
        self, *, write_id: int | None = None, time: object = None, tag: str | None = None
    ) -> InsertResult:
        """RESTORE TABLE: its rows as they were, in its columns of today; see ``docs/history.md``.

        Raises:
            NotFoundError, SnapshotExpiredError: as ``df``.
            ConflictError: others wrote to the table at the same time.
        """
        wanted = as_of(write_id, time, tag)
        if wanted is None:
            raise InvalidInputError("restore needs a version: write_id=, time= or tag=")
        now = self.session.look().definition(self.name)
        return restore(self.session, now, wanted)

    def as_of(self, wanted: AsOf) -> PastTable:
        """The table as it was."""
        return PastTable(self.session, self.name, wanted)


class PastMethods:
    """The part of ``Session`` about the past."""

    def restored(self: OpenSession, statement: RestoreTable) -> InsertResult:
        """Carries out RESTORE TABLE."""
        look = self.look()
        return restore(self, look.definition(statement.name), statement.wanted.at(look.now_ms))

    def undo(
        self: OpenSession, txn: int, *, key: str | Sequence[str] | None = None
    ) -> tuple[UndoResult, ...]:
        """UNDO TRANSACTION: a transaction that takes back what another one did, in all its tables:
        what it inserted goes, what it deleted comes back, what it updated is set back. Without
        ``key``, the columns that tell a row, the PRIMARY KEY does.

        Raises:
            ChangedSinceError: rows have changed since: its ``rows`` are these; nothing is done.
            NotFoundError: no commit of this transaction was recorded, or a table is gone.
            SnapshotExpiredError: the files that tell what it did are gone.
        """
        names = (key,) if isinstance(key, str) else None if key is None else tuple(key)
        chosen = None if names is None else tuple(name.lower() for name in names)
        statement = UndoTransaction(TxnId(txn), chosen)
        return cast("tuple[UndoResult, ...]", self.execute(statement))

    def explain_row(
        self: OpenSession,
        table: str,
        *,
        where: object,
        key: str | Sequence[str] | None = None,
    ) -> RowHistory:
        """Which transactions inserted, updated and deleted the rows of a table that meet ``where``
        (a condition as ``read_arrow`` takes it), or met it once. ``key`` names the columns that
        tell a row; None: the PRIMARY KEY. Without one each state of a row is told by itself.

        Example:
            >>> acid.explain_row("emp", where="id = 5", key="id")  # doctest: +SKIP

        Raises:
            NotFoundError: no such table, or column.
            InvalidInputError: a condition that is not understood; the table has no versions.
        """
        from hiveacid.reading.changes import explain_row

        found = self.look().definition(self.table_name(table))
        context, names = self.reading_context(), (key,) if isinstance(key, str) else key
        return explain_row(context, found, where=where, key=names)

    def rows_explained(self, statement: DescribeHistory) -> Listing:
        """Carries out DESCRIBE HISTORY ... WHERE."""
        name = statement.name
        explain = cast("Callable[..., RowHistory]", cast("Any", self).explain_row)
        where = statement.where or ""
        return explain(quoted(name.database, name.table), where=where).listing()

    def at(self: OpenSession, moment: object = None, *, tag: str | None = None) -> Past:
        """The tables just after a transaction committed (its id), or at a time (a datetime, or a
        text of one; UTC where it names no zone), or as of a tag.

        Example:
            >>> acid.at(1742).sql("select count(*) from orders join lines ...")  # doctest: +SKIP

        Raises:
            NotFoundError: no commit of this transaction was recorded.
            InvalidInputError: it is no time.
        """
        if (moment is None) is (tag is None):
            raise InvalidInputError("at() takes a transaction, a time or tag=")
        if tag is not None:
            return Past(self, cast("AsOf", as_of(None, None, tag)))
        own = self.client.own
        if isinstance(moment, int) and not isinstance(moment, bool):
            check_number("a transaction", moment)
            sequence = own.sequence_of(txn=TxnId(moment))
            if sequence is None:
                raise NotFoundError(
                    f"No commit of transaction {moment} was recorded: it is not committed, it "
                    "wrote nothing, or it is older than the history",
                    txn=moment,
                )
            return Past(self, AsOf(sequence=sequence))
        time_ms = moment_ms(moment)
        return Past(self, AsOf(time_ms=time_ms, sequence=own.sequence_of(time_ms=time_ms)))


@checked
class TableTags:
    """The part of ``AcidTable`` about its tags."""

    __slots__ = ()
    session: OpenSession
    name: TableName

    def tag(
        self,
        name: str,
        *,
        as_of_write_id: int | None = None,
        as_of_time: object = None,
        retain: timedelta | float | None = None,
    ) -> Pin:
        """CREATE TAG: a name for the table as it is, or was; its files are kept until the tag is
        dropped, or ``retain`` is over (a timedelta, or days).

        Raises:
            AlreadyExistsError: it has a tag of this name.
            NotFoundError, SnapshotExpiredError: there is no such version, or not any more.
            UnsupportedError: a service of Hive cleans, too.
        """
        wanted = as_of(as_of_write_id, as_of_time, None)
        value = CreateTag(name, self.name, wanted, kept_ms(retain))
        return cast("Pin", create(self.session.client, self.session.look(), value))

    def tags(self) -> tuple[Pin, ...]:
        """SHOW TAGS ON the table."""
        return pins(self.session.client.metastore, PinKind.TAG, self.name)

    def drop_tag(self, name: str, *, if_exists: bool = False) -> None:
        """DROP TAG: the next cleaning takes what it kept.

        Raises:
            NotFoundError: there is no such tag.
        """
        value = DropPin(PinKind.TAG, name, self.name, if_exists)
        drop(self.session.client.metastore, value)

    def drop_consumer(self, name: str, *, if_exists: bool = False) -> None:
        """DROP CONSUMER: nobody knows any more how far it has read, and its files may go.

        Raises:
            NotFoundError: there is no such consumer.
        """
        value = DropPin(PinKind.CONSUMER, name, self.name, if_exists)
        drop(self.session.client.metastore, value)


class TagMethods:
    """The part of ``Session`` about tags."""

    def tag(
        self: OpenSession,
        name: str,
        tables: Sequence[str],
        *,
        at: object = None,
        retain: timedelta | float | None = None,
    ) -> tuple[Pin, ...]:
        """Tag many tables, all at one moment: now, or ``at`` a transaction or time (as ``at``).

        Example:
            >>> acid.tag("close-2026", tables=["orders", "lines"])  # doctest: +SKIP

        Raises:
            AlreadyExistsError: one of them has a tag of this name; none is made.
            NotFoundError, SnapshotExpiredError: there is no such version of one of them.
        """
        if isinstance(tables, str) or not tables:
            raise InvalidInputError("tables= is a list of names of tables")
        look = self.look()
        chosen = dict.fromkeys(self.table_name(one) for one in tables)
        wanted = None if at is None else cast("Any", self).at(at).moment
        found = [look.definition(one) for one in chosen]
        return make_tags(self.client, name, found, wanted, kept_ms(retain))

    def tags(self: OpenSession) -> tuple[Pin, ...]:
        """SHOW TAGS: those of all tables."""
        return pins(self.client.metastore, PinKind.TAG)

    def show_consumers(self: OpenSession, table: str | None = None) -> tuple[Consumer, ...]:
        """SHOW CONSUMERS: who reads changes of a table by a name, or of all, and how far.

        Raises:
            NotFoundError: there is no such table.
        """
        return consumers(self.client, None if table is None else self.table_name(table))

    def drop_tag(self: OpenSession, name: str) -> tuple[Pin, ...]:
        """Drop a tag from all tables that have it.

        Raises:
            NotFoundError: no table has.
        """
        client = self.client
        found, tag = pins(client.metastore, PinKind.TAG), pin_name(name, PinKind.TAG)
        chosen = tuple(one for one in found if one.name == tag)
        if not client.own.drop_pins(chosen):
            raise NotFoundError(f"No table has a tag {name}", tag=name)
        return chosen
