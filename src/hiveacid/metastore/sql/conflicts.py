"""Commit, write sets and the conflict check: the first committer wins (metastore.md 2.7, 2.9).

A commit takes as its commit id the highest transaction id in existence; another transaction
overlaps it when it opened at or before that id. Updates and deletes of overlapping transactions to
one partition conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.sql import ColumnElement, Insert

from hiveacid.errors import ConflictError, TransactionError, UnsupportedError
from hiveacid.metastore.api import OwnDatabase, TxnStore
from hiveacid.metastore.sql.dialect import Row
from hiveacid.metastore.sql.engine import Part, Unit, one_of
from hiveacid.metastore.sql.history import note_commit
from hiveacid.metastore.sql.partitions import make_partitions
from hiveacid.metastore.sql.pins import note_moves
from hiveacid.metastore.sql.schema import (
    COMPACTION_QUEUE,
    COMPLETED_TXN_COMPONENTS,
    HIVE_LOCKS,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
    WRITE_SET,
)
from hiveacid.metastore.sql.statistics import apply_changes, note_batches
from hiveacid.metastore.sql.tables import append_columns
from hiveacid.metastore.sql.txns import (
    DELETE_REBUILD_LOCKS,
    abort,
    ask_open_type,
    forget_open,
    highest_txn,
    not_open_error,
    open_type,
)
from hiveacid.metastore.sql.write_ids import (
    NEWER_OVERWRITE,
    OVERLAPPING,
    end_lists_later,
    insert_components,
    insert_writes,
)
from hiveacid.model.commits import (
    CommittedWrite,
    ConflictUnit,
    ReadSet,
    StatisticsChange,
    UnseenWrite,
    Written,
    describe_unseen,
)
from hiveacid.model.history import CommitNote, ConsumerMove, StreamBatch
from hiveacid.model.tables import Column, Partition, TableName, TxnId, WriteId
from hiveacid.model.transactions import (
    COMPACTIONS,
    AbortReason,
    LockState,
    OperationType,
    TxnState,
    TxnType,
)

_C = TXN_COMPONENTS.c
_S = WRITE_SET.c
_W = TXN_TO_WRITE_ID.c
_COMPACT: Final = OperationType.COMPACT.value
_INSERTED: Final = OperationType.INSERT.value
_CHANGED: Final = (OperationType.UPDATE.value, OperationType.DELETE.value)
_MINE: Final = _C.TC_TXNID == bindparam("txn")

_RECORDED: Final = (
    select(_C.TC_DATABASE, _C.TC_TABLE, _C.TC_PARTITION, _C.TC_WRITEID, _C.TC_OPERATION_TYPE)
    .where(_MINE)
    .distinct()
)
_WRITE_SET_COLUMNS: Final = (
    "WS_DATABASE",
    "WS_TABLE",
    "WS_PARTITION",
    "WS_TXNID",
    "WS_COMMIT_ID",
    "WS_OPERATION_TYPE",
)


def _write_set_from(condition: ColumnElement[bool]) -> Insert:
    mine = (
        select(
            _C.TC_DATABASE,
            _C.TC_TABLE,
            _C.TC_PARTITION,
            _C.TC_TXNID,
            bindparam("commit_id").label("commit_id"),
            _C.TC_OPERATION_TYPE,
        )
        .where(_MINE, condition)
        .distinct()
    )
    return insert(WRITE_SET).from_select(_WRITE_SET_COLUMNS, mine)


_INSERT_CHANGES: Final = _write_set_from(one_of(_C.TC_OPERATION_TYPE, _CHANGED))
_INSERT_ALL: Final = _write_set_from(_C.TC_OPERATION_TYPE != _COMPACT)

_CUR = WRITE_SET.alias("cur")
_WON = WRITE_SET.alias("committed")
_CONFLICT: Final = (
    select(
        _WON.c.WS_DATABASE,
        _WON.c.WS_TABLE,
        _WON.c.WS_PARTITION,
        _WON.c.WS_TXNID,
        _WON.c.WS_COMMIT_ID,
        _CUR.c.WS_OPERATION_TYPE,
        _WON.c.WS_OPERATION_TYPE,
    )
    .join_from(
        _CUR,
        _WON,
        and_(
            _CUR.c.WS_DATABASE == _WON.c.WS_DATABASE,
            _CUR.c.WS_TABLE == _WON.c.WS_TABLE,
            or_(
                _CUR.c.WS_PARTITION == _WON.c.WS_PARTITION,
                and_(_CUR.c.WS_PARTITION.is_(None), _WON.c.WS_PARTITION.is_(None)),
            ),
        ),
    )
    .where(
        _CUR.c.WS_TXNID == bindparam("txn"),
        _WON.c.WS_TXNID != bindparam("txn"),
        _WON.c.WS_COMMIT_ID >= bindparam("txn"),
        one_of(_CUR.c.WS_OPERATION_TYPE, _CHANGED),
        one_of(_WON.c.WS_OPERATION_TYPE, _CHANGED),
    )
    .order_by(_WON.c.WS_COMMIT_ID, _WON.c.WS_TXNID)
    .limit(1)
)
_OVERLAPPING_WRITES: Final = (
    select(
        _S.WS_TXNID,
        _S.WS_COMMIT_ID,
        _S.WS_DATABASE,
        _S.WS_TABLE,
        _S.WS_PARTITION,
        _S.WS_OPERATION_TYPE,
        _W.T2W_WRITEID,
        _C.TC_OPERATION_TYPE,
    )
    .join_from(
        TXN_COMPONENTS,
        WRITE_SET,
        and_(
            _S.WS_DATABASE == _C.TC_DATABASE,
            _S.WS_TABLE == _C.TC_TABLE,
            or_(
                _S.WS_PARTITION == _C.TC_PARTITION,
                and_(_S.WS_PARTITION.is_(None), _C.TC_PARTITION.is_(None)),
            ),
            _S.WS_COMMIT_ID >= bindparam("txn"),
            _S.WS_TXNID != bindparam("txn"),
        ),
    )
    .outerjoin(
        TXN_TO_WRITE_ID,
        and_(
            _W.T2W_TXNID == _S.WS_TXNID,
            _W.T2W_DATABASE == _S.WS_DATABASE,
            _W.T2W_TABLE == _S.WS_TABLE,
        ),
    )
    .where(_MINE, one_of(_C.TC_OPERATION_TYPE, _CHANGED), one_of(_S.WS_OPERATION_TYPE, _CHANGED))
    .distinct()
)
_FORGET_WRITE_SET: Final = delete(WRITE_SET).where(_S.WS_TXNID == bindparam("txn"))
_COMPLETE: Final = insert(COMPLETED_TXN_COMPONENTS).from_select(
    (
        "CTC_TXNID",
        "CTC_DATABASE",
        "CTC_TABLE",
        "CTC_PARTITION",
        "CTC_WRITEID",
        "CTC_TIMESTAMP",
        "CTC_UPDATE_DELETE",
    ),
    select(
        _C.TC_TXNID,
        _C.TC_DATABASE,
        _C.TC_TABLE,
        _C.TC_PARTITION,
        _C.TC_WRITEID,
        bindparam("at").label("at"),
        bindparam("changes").label("changes"),
    ).where(_MINE, _C.TC_OPERATION_TYPE != _COMPACT),
)
_D = COMPLETED_TXN_COMPONENTS.c
_COMPLETED_SINCE: Final = (
    select(_D.CTC_TXNID, _D.CTC_PARTITION)
    .where(
        _D.CTC_DATABASE == bindparam("db"),
        _D.CTC_TABLE == bindparam("table"),
        _D.CTC_TXNID >= bindparam("first"),
        _D.CTC_TXNID != bindparam("txn"),
    )
    .order_by(_D.CTC_TXNID)
)
_DELETE_REQUESTS: Final = delete(HIVE_LOCKS).where(
    HIVE_LOCKS.c.HL_TXNID == bindparam("txn"),
    HIVE_LOCKS.c.HL_LOCK_STATE == LockState.WAITING.value,
)
_DELETE_COMPONENTS: Final = delete(TXN_COMPONENTS).where(_MINE)
_SET_COMMITTED: Final = (
    update(TXNS).where(TXNS.c.TXN_ID == bindparam("txn")).values(TXN_STATE=TxnState.COMMITTED.value)
)
_STAMP_QUEUE: Final = (
    update(COMPACTION_QUEUE)
    .where(COMPACTION_QUEUE.c.CQ_TXN_ID == bindparam("txn"))
    .values(CQ_NEXT_TXN_ID=bindparam("commit_id"), CQ_COMMIT_TIME=bindparam("now"))
)
# Hive forgets a rebalance, whose cleaning then waits for nobody.
_STAMPING: Final = (TxnType.SOFT_DELETE, *COMPACTIONS)
_DELETE_PLACEHOLDER: Final = delete(TXN_COMPONENTS).where(
    _MINE,
    _C.TC_DATABASE == bindparam("db"),
    _C.TC_TABLE == bindparam("table"),
    _C.TC_PARTITION.is_(None),
)
_LATEST_IN_CONFLICT: Final = (
    select(func.max(_S.WS_TXNID))
    .join_from(WRITE_SET, TXN_COMPONENTS, OVERLAPPING)
    .where(
        _MINE,
        one_of(_C.TC_OPERATION_TYPE, _CHANGED),
        _S.WS_OPERATION_TYPE != _INSERTED,
        or_(_S.WS_PARTITION == _C.TC_PARTITION, _C.TC_PARTITION.is_(None)),
    )
)
_LATEST_OVERWRITE: Final = _LATEST_IN_CONFLICT.where(
    _S.WS_OPERATION_TYPE == OperationType.UPDATE.value
)


def _note_streams(
    unit: Unit, batches: Sequence[StreamBatch], moves: Sequence[ConsumerMove]
) -> None:
    """Raises: ConflictError: one was overtaken; the unit is to be rolled back, with all others."""
    overtaken = note_batches(unit, batches) or note_moves(unit, moves)
    if overtaken is not None:
        raise overtaken


class SqlCommits(Part, OwnDatabase, TxnStore):
    """The part of ``TxnStore`` and ``OwnDatabase`` about what was written, and the commit."""

    def commit_txn(
        self,
        txn: TxnId,
        *,
        conflict_unit: ConflictUnit = ConflictUnit.PARTITION,
        excl_write_enabled: bool = False,
        checked: Collection[TxnId] = (),
        reads: ReadSet | None = None,
        statistics: Sequence[StatisticsChange] = (),
        columns: Sequence[tuple[TableName, Column]] = (),
        partitions: Sequence[tuple[TableName, Sequence[Partition]]] = (),
        batches: Sequence[StreamBatch] = (),
        moves: Sequence[ConsumerMove] = (),
        note: CommitNote | None = None,
    ) -> tuple[CommittedWrite, ...]:
        if reads is not None and not self._db.options.use_min_history_level:
            raise UnsupportedError("Serializable transactions need MIN_HISTORY_LEVEL")
        by_row = conflict_unit is ConflictUnit.ROW and not excl_write_enabled
        with self._db.write() as unit:
            asked, recorded = ask_open_type(unit, txn), unit.ask(_RECORDED, txn=txn)
            kind = open_type(asked)
            if kind is None:
                error: TransactionError | ConflictError = not_open_error(unit, txn)
                if error.context["state"] == "committed":
                    return ()
                raise error
            records = recorded.rows()
            operations = frozenset(letter for *_, letter in records)
            if by_row and not operations.isdisjoint(_CHANGED):
                unchecked = _unchecked(unit, txn, checked)
                if not unchecked:  # now that nobody else can commit: once more
                    unit.exclude_opens()
                    unchecked = _unchecked(unit, txn, checked)
                if unchecked:
                    return unchecked
            conflict = None
            if reads is not None and operations:
                conflict = _read_conflict(unit, txn, reads)
            conflict = conflict or _log_writes(
                unit,
                txn,
                kind,
                operations,
                check=not excl_write_enabled and not by_row,
                only_changes=self._db.options.use_min_history_level,
            )
            if conflict is None:
                _note_streams(unit, batches, moves)
                append_columns(unit, columns)
                make_partitions(unit, partitions)
                if kind is not TxnType.READ_ONLY:
                    apply_changes(unit, txn, records, statistics)
                _finish(unit, txn, kind, operations)
                if kind not in COMPACTIONS:
                    written = [(database, table, at) for database, table, _, at, _ in records]
                    note_commit(unit, txn, note or CommitNote(), written)
                return ()
            unit.ask(_FORGET_WRITE_SET, txn=txn)
            abort(unit, txn, AbortReason.WRITE_CONFLICT)
        raise conflict

    def add_dynamic_partitions(
        self,
        txn: TxnId,
        write_id: WriteId,
        table: TableName,
        partitions: Sequence[str | None],
        operation: OperationType | None,
    ) -> None:
        where = {"txn": txn, "db": table.database, "table": table.table}
        letter = (operation or OperationType.UPDATE).value
        with self._db.write() as unit:
            if open_type(ask_open_type(unit, txn)) is None:
                raise not_open_error(unit, txn)
            unit.ask(_DELETE_PLACEHOLDER, **where)
            insert_components(
                unit,
                [
                    {**where, "partition": partition, "op": letter, "write_id": write_id}
                    for partition in partitions
                ],
            )

    def replace_writes(self, txn: TxnId, writes: Collection[Written]) -> None:
        with self._db.write() as unit:
            if open_type(ask_open_type(unit, txn)) is None:
                raise not_open_error(unit, txn)
            unit.ask(_DELETE_REQUESTS, txn=txn)
            unit.ask(_DELETE_COMPONENTS, txn=txn)
            insert_writes(
                unit,
                [
                    {
                        "txn": txn,
                        "db": one.table.database,
                        "table": one.table.table,
                        "partition": one.partition,
                        "op": one.operation.value,
                    }
                    for one in writes
                ],
            )

    def forget_writes(self, txns: Collection[TxnId]) -> None:
        with self._db.write() as unit:
            unit.outlives_a_crash = False
            unit.run_many(_DELETE_COMPONENTS, [{"txn": txn} for txn in sorted(txns)])

    def latest_txn_in_conflict(
        self, txn: TxnId, *, conflict_unit: ConflictUnit = ConflictUnit.PARTITION
    ) -> TxnId | None:
        by_row = conflict_unit is ConflictUnit.ROW
        with self._db.query() as unit:
            found = unit.scalar(_LATEST_OVERWRITE if by_row else _LATEST_IN_CONFLICT, txn=txn)
        return None if found is None else TxnId(found)

    def unseen_write(self, txn: TxnId, reads: ReadSet) -> UnseenWrite | None:
        with self._db.read() as unit:
            return _unseen_write(unit, txn, reads)

    def newer_overwrite(self, txn: TxnId) -> TxnId | None:
        with self._db.query() as unit:
            found = unit.scalar(NEWER_OVERWRITE, txn=txn)
        return None if found is None else TxnId(found)


def _unchecked(unit: Unit, txn: TxnId, checked: Collection[TxnId]) -> tuple[CommittedWrite, ...]:
    """The changes that overlap those of ``txn``, without those of the transactions checked."""
    found = [
        CommittedWrite(
            winner=TxnId(winner),
            commit_id=TxnId(commit_id),
            table=TableName(database, table),
            partition=partition,
            operation=OperationType(theirs),
            write_id=None if write_id is None else WriteId(write_id),
            mine=OperationType(mine),
        )
        for winner, commit_id, database, table, partition, theirs, write_id, mine in unit.rows(
            _OVERLAPPING_WRITES, txn=txn
        )
        if winner not in checked
    ]
    return tuple(sorted(found, key=lambda one: (one.commit_id, one.winner)))


def _read_conflict(unit: Unit, txn: TxnId, reads: ReadSet) -> ConflictError | None:
    unit.exclude_opens()  # and other commits of this kind: one sees the other
    lost_to = _unseen_write(unit, txn, reads)
    if lost_to is None:
        return None
    return ConflictError(
        describe_unseen(txn, lost_to),
        txn=txn,
        winner=lost_to.winner,
        table=str(lost_to.table),
        partition=lost_to.partition,
    )


def _unseen_write(unit: Unit, txn: TxnId, reads: ReadSet) -> UnseenWrite | None:
    # All below the first exception are seen.
    first = min([*reads.seen.exceptions[:1], reads.seen.hwm + 1])
    for one in reads.tables:
        where = {"db": one.table.database, "table": one.table.table}
        for winner, partition in unit.rows(_COMPLETED_SINCE, **where, txn=txn, first=first):
            if one.includes(partition) and not reads.seen.is_valid(winner):
                return UnseenWrite(TxnId(winner), one.table, partition)
    return None


def _log_writes(
    unit: Unit,
    txn: TxnId,
    kind: TxnType,
    operations: frozenset[str],
    *,
    check: bool,
    only_changes: bool,
) -> ConflictError | None:
    """Write the WRITE_SET rows of the commit; the error where somebody else committed first."""
    if kind is TxnType.READ_ONLY:
        return None
    # A rebalance gives rows other ids, which is an overwrite to those who change them.
    stamps = kind in _STAMPING
    if stamps and (kind is not TxnType.REBALANCE_COMPACTION or operations.isdisjoint(_CHANGED)):
        unit.ask(_STAMP_QUEUE, txn=txn, commit_id=_take_commit_id(unit), now=unit.now_ms)
        return None
    if operations.isdisjoint(_CHANGED):
        if not only_changes and operations:
            unit.ask(_INSERT_ALL, txn=txn, commit_id=highest_txn(unit))
        return None
    commit_id = _take_commit_id(unit)
    unit.ask(_INSERT_CHANGES if only_changes else _INSERT_ALL, txn=txn, commit_id=commit_id)
    found = unit.row(_CONFLICT, txn=txn) if check else None
    if found is not None:
        return _conflict_error(txn, commit_id, found)
    if stamps:
        unit.ask(_STAMP_QUEUE, txn=txn, commit_id=commit_id, now=unit.now_ms)
    return None


def _take_commit_id(unit: Unit) -> int:
    """The highest id there is: whoever has a higher one opens after this commit and sees it."""
    unit.exclude_opens()
    return highest_txn(unit)


def _finish(unit: Unit, txn: TxnId, kind: TxnType, operations: frozenset[str]) -> None:
    if operations and kind is not TxnType.READ_ONLY:
        if kind not in COMPACTIONS:
            changes = "N" if operations.isdisjoint(_CHANGED) else "Y"
            at = unit.dialect.timestamp(unit.now_ms)
            unit.ask(_COMPLETE, txn=txn, at=at, changes=changes)
        unit.ask(_DELETE_COMPONENTS, txn=txn)
    unit.ask(_SET_COMMITTED, txn=txn)
    end_lists_later(unit, txn)
    forget_open(unit, txn)
    if kind is TxnType.MATER_VIEW_REBUILD:
        unit.ask(DELETE_REBUILD_LOCKS, txn=txn)


def _conflict_error(txn: TxnId, commit_id: int, row: Row) -> ConflictError:
    database, table, partition, winner, winner_commit_id, mine, theirs = row
    resource = "/".join(filter(None, (database, table, partition)))
    return ConflictError(
        f"Aborting [txnid:{txn},{commit_id}] due to a write conflict on {resource} "
        f"committed by [txnid:{winner},{winner_commit_id}] {mine}/{theirs}",
        txn=txn,
        winner=TxnId(winner),
        table=f"{database}.{table}",
        partition=partition,
    )
