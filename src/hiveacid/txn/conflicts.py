"""What a transaction keeps until its commit, and who wins there: what others committed before my
locks, whose rows overlap mine at the commit, and the commit itself, sent and looked up where no
reply came; never guessed.

Rows are compared outside the metastore's critical section. The commit itself only verifies that
nobody has come who was not checked, so it is one call where nobody has, and the loop ends unless
others keep committing to the same partitions faster than one comparison takes; each round compares
the newcomers alone.

Kept is what it has recorded as written, as the metastore has it, what it has read (for the check of
a serializable commit), what the commit is to do besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from hiveacid.errors import CommitOutcomeUnknownError, ConflictError, MetastoreError
from hiveacid.layout.directories import BASE_PREFIX, partition_name
from hiveacid.metastore.api import LockResponse, Metastore, own
from hiveacid.model.commits import (
    CommittedWrite,
    ConflictUnit,
    ReadSet,
    ReadTable,
    StatisticsChange,
    UnseenWrite,
    Written,
    by_partition,
    describe_conflict,
)
from hiveacid.model.history import CommitFacts, CommitNote, ConsumerMove, StreamBatch
from hiveacid.model.ids import RowId, ValidTxnList
from hiveacid.model.tables import (
    AcidMode,
    Column,
    Isolation,
    Partition,
    Table,
    TableName,
    TxnId,
    WriteId,
)
from hiveacid.model.transactions import AbortReason, LockComponent, OperationType, TxnState
from hiveacid.storage.listing import numbered_directories
from hiveacid.txn.footprint import Footprint, WriteKind
from hiveacid.txn.waiting import Manager


def outdated_by(
    manager: Manager,
    txn: TxnId,
    footprint: Footprint,
    *,
    granted: LockResponse,
    sees: ValidTxnList,
    by_row: bool,
) -> TxnId | None:
    """The transaction to which a statement with these locks would lose, None where there is none.

    ``granted`` is the metastore's answer to the request. ``by_row``: changes of others decide at
    the commit. An overwrite loses to any write.
    """
    store = manager.metastore
    if _replaced_by_hive(manager, footprint, sees) is not None:
        return TxnId(sees.hwm)
    kinds = {one.kind for one in footprint.writes if one.changes_rows}
    if kinds:
        by_row = by_row and WriteKind.OVERWRITE not in kinds
        unit = ConflictUnit.ROW if by_row else ConflictUnit.PARTITION
        found = store.latest_txn_in_conflict(txn, conflict_unit=unit)
        if found is not None:
            return found
    if footprint.overwritten_tables:
        unseen = _unseen(store, txn, footprint, sees)
        return None if unseen is None else unseen.winner
    if not footprint.written_tables:
        return None
    if granted.newer_overwrite is not None:
        return next(iter(granted.newer_overwrite), None)
    return own(store).newer_overwrite(txn)


def check_not_replaced(
    manager: Manager, txn: TxnId, footprint: Footprint, *, sees: ValidTxnList
) -> None:
    """Whether a transaction that cannot be opened anew may go on.

    Raises:
        ConflictError: what it is to write to was replaced, or what it is to replace was written to.
    """
    store = manager.metastore
    winner = own(store).newer_overwrite(txn)
    if winner is not None:
        raise ConflictError(
            f"Transaction {winner} replaced what transaction {txn} is to write to",
            txn=txn,
            winner=winner,
        )
    base = _replaced_by_hive(manager, footprint, sees)
    if base is not None:
        raise ConflictError(
            f"A statement of Hive's replaced what transaction {txn} is to write to: {base}",
            txn=txn,
        )
    unseen = _unseen(store, txn, footprint, sees)
    if unseen is not None:
        raise ConflictError(
            f"Transaction {txn} would replace {unseen.resource} and with it what transaction "
            f"{unseen.winner} wrote to it, which it does not see",
            txn=txn,
            winner=unseen.winner,
            table=str(unseen.table),
            partition=unseen.partition,
        )


def _replaced_by_hive(manager: Manager, footprint: Footprint, sees: ValidTxnList) -> str | None:
    """The base of an overwrite that came between the snapshot and the locks, of which Hive's tables
    of transactions tell nothing: of TRUNCATE, of DELETE without WHERE, of partitions that only the
    rows name. None where no service of Hive works here, too.
    """
    tables = {one.table.name: one.table for one in footprint.writes} if manager.hive_cleans else {}
    names = tuple(name for name in footprint.written_tables if name in tables)
    if not names:
        return None
    store = manager.metastore
    then, now = store.valid_write_ids(names, sees), store.valid_write_ids(names)
    for name, before, after in zip(names, then, now, strict=True):
        later = (*before.open, *range(before.hwm + 1, after.hwm + 1))
        unseen = {write_id for write_id in later if after.is_valid(WriteId(write_id))}
        if not unseen:
            continue
        places = [tables[name].location, *(p.location for p in store.list_partitions(name))]
        for path, write_id, compaction in numbered_directories(manager.files, places):
            is_base = path.rpartition("/")[2].startswith(BASE_PREFIX) and not compaction
            if is_base and write_id in unseen:
                return path
    return None


def _unseen(
    store: Metastore, txn: TxnId, footprint: Footprint, sees: ValidTxnList
) -> UnseenWrite | None:
    tables = footprint.overwritten_tables
    return own(store).unseen_write(txn, ReadSet(sees, tables)) if tables else None


class Overlap(Protocol):
    """Compares delete events, handed in by who knows where the files are."""

    def __call__(
        self, table: TableName, partition: str | None, winners: Sequence[WriteId]
    ) -> Sequence[RowId] | None:
        """Rows of the partition that my transaction and one of the winners' write ids both
        deleted, ten at most; None where that cannot be told any more."""


def commit_rows(
    txn: TxnId,
    *,
    commit: Callable[[frozenset[TxnId]], Sequence[CommittedWrite]],
    sees: Callable[[TxnId], bool],
    overlap: Overlap,
) -> None:
    """Commit ``txn`` unless a row it changed was changed by who committed first.

    ``commit`` commits unless a change that overlaps mine was made by a transaction outside the set
    it gets, and then gives those. What my snapshot ``sees`` is no conflict: its rows were not there
    for me to change.

    Raises:
        ConflictError: it is not committed and has to be aborted.
    """
    checked: set[TxnId] = set()
    while left := commit(frozenset(checked)):
        _check(txn, [one for one in left if not sees(one.winner)], overlap)
        checked.update(one.winner for one in left)


def _check(txn: TxnId, writes: Sequence[CommittedWrite], overlap: Overlap) -> None:
    for (table, partition), those in by_partition(writes).items():
        decided = next((one for one in those if one.is_decided), None)
        if decided is not None:
            raise _conflict(txn, decided, ())
        winners = tuple(dict.fromkeys(one.write_id for one in those if one.write_id is not None))
        found = overlap(table, partition, winners)
        if found is not None and not found:
            continue
        for one in those:  # in the order of their commits: who was the first?
            assert one.write_id is not None
            if len(winners) > 1:
                found = overlap(table, partition, (one.write_id,))
            if found is None or found:
                raise _conflict(txn, one, found or ())


def _conflict(txn: TxnId, lost_to: CommittedWrite, rows: Sequence[RowId]) -> ConflictError:
    return ConflictError(
        describe_conflict(txn, lost_to, rows),
        txn=txn,
        winner=lost_to.winner,
        table=str(lost_to.table),
        partition=lost_to.partition,
        rows=tuple(rows),
    )


_LOOKUP_PAUSE_S = 0.05


def commit_or_look_up(
    manager: Manager,
    txn: TxnId,
    commit: Callable[[], Sequence[CommittedWrite]],
    *,
    writes: bool,
) -> Sequence[CommittedWrite]:
    """Commit by ``commit``; where no reply comes, ask what became of it, and commit again if it is
    open. A commit may hang in the server, as for want of a standby, and come true later: after one
    that got no reply "open" counts only where the transaction could be aborted.

    Raises:
        CommitOutcomeUnknownError: nobody could be asked, or it could not be aborted.
        MetastoreError: it failed, and the transaction is open, or it only reads.
        ConflictError, TransactionError: as ``TxnStore.commit_txn``.
    """
    failure: MetastoreError | None = None
    known_open = in_doubt = False
    store = manager.metastore
    for attempt in range(manager.settings.commit_retries + 1):
        if failure is not None:
            manager.clock.sleep_s(_LOOKUP_PAUSE_S * 2**attempt)
        try:
            info = None if failure is None else store.txn_info(txn)
            if info is not None and info.state is TxnState.COMMITTED:
                return ()
            return commit()
        except MetastoreError as error:
            if error.context.get("outcome") == "committed":
                raise CommitOutcomeUnknownError(
                    f"Transaction {txn} is committed, and may be gone after a power failure: "
                    f"{error.message}",
                    txn=txn,
                ) from error
            failure = error
            in_doubt = in_doubt or error.context.get("outcome") == "unknown"
            known_open = _is_known_open(store, txn)
    assert failure is not None
    if not writes or (known_open and not in_doubt):
        raise failure
    state = _ended(store, txn) if known_open else None
    if state is TxnState.COMMITTED:
        return ()
    if state is TxnState.ABORTED:
        raise failure
    raise CommitOutcomeUnknownError(
        f"The commit of transaction {txn} was sent, no reply came, and its outcome could not be "
        "looked up",
        txn=txn,
        note="SHOW TRANSACTIONS tells; an open transaction is aborted after its time-out.",
    ) from failure


def _is_known_open(store: Metastore, txn: TxnId) -> bool:
    try:
        info = store.txn_info(txn)
    except MetastoreError:
        return False
    return info is not None and info.state is TxnState.OPEN


def _ended(store: Metastore, txn: TxnId) -> TxnState | None:
    """How a transaction has ended, which is aborted unless it has; None where nobody knows."""
    try:
        store.abort_txns([txn], reason=AbortReason.ROLLBACK)
        info = store.txn_info(txn)
    except MetastoreError:
        return None
    return None if info is None else info.state


@dataclass(slots=True)
class Records:
    """The records, and the tables with a placeholder: a lock request left it where only the rows
    will tell the partitions.

    ``asked``: more was asked for, and nobody knows whether it is recorded; a lock request records
    what it is for, granted or not.
    """

    known: frozenset[Written] = frozenset()
    placeholders: set[TableName] = field(default_factory=set)
    asked: bool = False

    def note_locks(self, components: Iterable[LockComponent]) -> None:
        """What the metastore recorded with a lock request."""
        self.asked = False
        for one in components:
            if one.operation is None or not one.operation.is_write or one.table is None:
                continue
            name = TableName(one.database, one.table)
            if one.dynamic:
                self.placeholders.add(name)
            else:
                self.known |= {Written(name, one.partition, one.operation)}

    def missing(
        self, table: TableName, partitions: Sequence[str | None], operation: OperationType
    ) -> list[str | None] | None:
        """The partitions that are not recorded yet; None where nothing is to be done.

        The record of a change to a whole table stands for inserts too.
        """
        new = [
            partition
            for partition in dict.fromkeys(partitions)
            if not self._is_known(Written(table, partition, operation))
        ]
        return new if new or table in self.placeholders else None

    def note(
        self, table: TableName, partitions: Sequence[str | None], operation: OperationType
    ) -> None:
        """Keep that the metastore has these as written, in place of its lock's placeholder."""
        self.asked = False
        self.known |= {Written(table, one, operation) for one in partitions}
        self.placeholders.discard(table)

    def forget(self, table: TableName) -> None:
        """What was recorded of the table is gone with it."""
        self.known = frozenset(one for one in self.known if one.table != table)
        self.placeholders.discard(table)

    def differ_from(self, known: frozenset[Written]) -> bool:
        """Whether the metastore has, or may have, other writes recorded than these."""
        return self.known != known or bool(self.placeholders) or self.asked

    def go_back(self, known: frozenset[Written]) -> None:
        """Keep these as all that the metastore has recorded: a rollback took the rest back."""
        self.known = known
        self.placeholders.clear()
        self.asked = False

    def _is_known(self, one: Written) -> bool:
        if one.partition is None and one.operation is OperationType.INSERT:
            return any((known.table, known.partition) == (one.table, None) for known in self.known)
        return one in self.known


@dataclass(slots=True)
class Reads:
    """The tables read; the isolation rises where a table demands it, and never falls.

    A table is kept as "all of it but these partitions": what a predicate left out among the
    partitions that were there. So a write to a partition made later counts as one to what was read.
    """

    isolation: Isolation
    _left_out: dict[TableName, frozenset[str]] = field(default_factory=dict)

    @property
    def is_serializable(self) -> bool:
        """Whether the commit is to check what was read."""
        return self.isolation is Isolation.SERIALIZABLE

    def touch(self, table: Table) -> None:
        """The transaction reads or writes the table."""
        if not self.is_serializable and table.isolation is Isolation.SERIALIZABLE:
            self.isolation = Isolation.SERIALIZABLE

    def note(
        self,
        table: Table,
        *,
        chosen: Sequence[Partition] | None = None,
        of: Sequence[Partition] | None = None,
    ) -> None:
        """The table was read: ``chosen`` of the partitions ``of``, or all of it."""
        if table.acid_mode is AcidMode.NONE:
            return
        self.touch(table)
        left_out: frozenset[str] = frozenset()
        # Thousands of names take time: only a serializable transaction notes what it left out.
        if self.is_serializable and chosen is not None and of is not None:
            keys = table.partition_keys
            left_out = frozenset(partition_name(keys, one.values) for one in of)
            left_out -= {partition_name(keys, one.values) for one in chosen}
        known = self._left_out.get(table.name)
        self._left_out[table.name] = left_out if known is None else known & left_out

    def as_of(self, seen: ValidTxnList) -> ReadSet:
        """What was read by a transaction that sees these."""
        return ReadSet(
            seen, tuple(ReadTable(name, left_out) for name, left_out in self._left_out.items())
        )


@dataclass(slots=True)
class Pending:
    """Kept until the commit; what came after a mark can be forgotten."""

    statistics: list[StatisticsChange] = field(default_factory=list)
    partitions: list[tuple[TableName, Partition]] = field(default_factory=list)
    columns: list[tuple[TableName, Column]] = field(default_factory=list)
    facts: list[CommitFacts] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    kind: str = ""
    """What is done to tables of which no statement tells more."""
    renamed: dict[TableName, TableName] = field(default_factory=dict)
    """By the names under which they got their write ids, the names that tables have by now."""
    batches: list[StreamBatch] = field(default_factory=list)
    """Micro-batches of streams that what follows is: a savepoint before them takes them back."""
    consumed: list[ConsumerMove] = field(default_factory=list)
    """What was read under the names of consumers."""

    sources: list[str] = field(default_factory=list)
    """Files that were taken and are to be removed: the transaction takes none of them again."""

    def note_statement(self, text: str | None) -> None:
        """The text of a statement of the transaction, where it has one."""
        if text:
            self.statements.append(text)

    def _parts(self) -> tuple[list[Any], ...]:
        made = self.statistics, self.partitions, self.columns, self.facts
        return *made, self.statements, self.consumed, self.batches, self.sources

    def mark(self) -> tuple[int, ...]:
        """What ``back_to`` needs to forget what comes after now."""
        return tuple(map(len, self._parts()))

    def back_to(self, mark: tuple[int, ...]) -> None:
        """Forget what came after the mark; an empty one stands for the beginning."""
        for at, part in enumerate(self._parts()):
            del part[mark[at] if mark else 0 :]

    def moves(self) -> tuple[ConsumerMove, ...]:
        """One move for each consumer; the further one where it has read twice."""
        found: dict[tuple[TableName, str], ConsumerMove] = {}
        for one in self.consumed:
            known = found.setdefault((one.after.table, one.after.name), one)
            if one.after.valid.covers(known.after.valid):
                found[one.after.table, one.after.name] = one
        return tuple(found.values())

    def note(self, write_ids: Mapping[TableName, WriteId], *, application: str) -> CommitNote:
        """What the commit keeps of itself: each table with a write id, told of or not."""
        told = tuple(one for one in self.facts if write_ids.get(one.table) == one.write_id)
        rest = write_ids.keys() - {one.table for one in told}
        bare = tuple(
            CommitFacts(self.renamed.get(name, name), write_ids[name], self.kind)
            for name in sorted(rest)
        )
        return CommitNote((*told, *bare), application, "; ".join(self.statements) or None)

    def with_columns(self, table: Table) -> Table:
        """The table as the commit will make it: with the columns that are to be appended."""
        known = set(table.column_names)
        new = [one for name, one in self.columns if name == table.name and one.name not in known]
        return replace(table, columns=(*table.columns, *new)) if new else table

    def add_partitions(self, table: TableName, partitions: Iterable[Partition]) -> None:
        """Partitions that are made unless they exist by then."""
        self.partitions += [(table, partition) for partition in partitions]

    def add_columns(self, table: TableName, columns: Iterable[Column]) -> None:
        """Columns that are appended; the transaction holds the table exclusively."""
        self.columns += [(table, column) for column in columns]

    def with_new(self, table: TableName, known: Iterable[Partition]) -> tuple[Partition, ...]:
        """The table's partitions: those known, and those that are to be made."""
        found = {partition.values: partition for partition in known}
        for name, partition in self.partitions:
            if name == table:
                found.setdefault(partition.values, partition)
        return tuple(found.values())

    def new_partitions(self) -> tuple[tuple[TableName, tuple[Partition, ...]], ...]:
        """Those of each table that the commit is to make, each once."""
        tables = dict.fromkeys(name for name, _ in self.partitions)
        return tuple((table, self.with_new(table, ())) for table in tables)
