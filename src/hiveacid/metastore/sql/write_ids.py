"""Write ids: allocation, what a reader may see, seeds (metastore.md 2.5, 2.6), and what is recorded
as written under them: rows of aborted transactions stay invisible as long as that stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import compress
from typing import Final

from sqlalchemy import (
    BigInteger,
    String,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from hiveacid.errors import AlreadyExistsError, TransactionError
from hiveacid.metastore.api import TxnStore
from hiveacid.metastore.sql.catalog_schema import DBS, HIVEACID_FLOORS, TBLS
from hiveacid.metastore.sql.dialect import packed, server_now, unpacked
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.objects import NAMED_TABLE
from hiveacid.metastore.sql.schema import (
    NEXT_WRITE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
    WRITE_SET,
)
from hiveacid.metastore.sql.txns import ask_open_type, open_type, read_open_txns
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import LONG_MAX, TableName, TxnId, WriteId
from hiveacid.model.transactions import LockComponent, OperationType, TxnState, TxnType

_W = TXN_TO_WRITE_ID.c
_N = NEXT_WRITE_ID.c
_OF_TABLE: Final = (_W.T2W_DATABASE == bindparam("db"), _W.T2W_TABLE == bindparam("table"))
_NEXT_OF_TABLE: Final = (_N.NWI_DATABASE == bindparam("db"), _N.NWI_TABLE == bindparam("table"))

WRITE_ID_OF_TXN: Final = select(_W.T2W_WRITEID).where(*_OF_TABLE, _W.T2W_TXNID == bindparam("txn"))
"""The write id of the transaction ``txn`` for the table ``db``, ``table``."""
_C: Final = TXN_COMPONENTS.c
_INSERT_COMPONENT: Final = insert(TXN_COMPONENTS).values(
    TC_TXNID=bindparam("txn"),
    TC_DATABASE=bindparam("db"),
    TC_TABLE=bindparam("table"),
    TC_PARTITION=bindparam("partition"),
    TC_OPERATION_TYPE=bindparam("op"),
    TC_WRITEID=bindparam("write_id"),
)
_INSERT_WRITE: Final = _INSERT_COMPONENT.values(TC_WRITEID=WRITE_ID_OF_TXN.scalar_subquery())
_RECORDED: Final = (
    select(_C.TC_DATABASE, _C.TC_TABLE, _C.TC_PARTITION, _C.TC_OPERATION_TYPE)
    .join_from(
        TXN_COMPONENTS,
        TXN_TO_WRITE_ID,
        and_(
            _W.T2W_TXNID == _C.TC_TXNID,
            _W.T2W_DATABASE == _C.TC_DATABASE,
            _W.T2W_TABLE == _C.TC_TABLE,
            _W.T2W_WRITEID == _C.TC_WRITEID,
        ),
    )
    .where(_C.TC_TXNID == bindparam("txn"))
)
_DELETE_OF_TXN: Final = delete(TXN_TO_WRITE_ID).where(*_OF_TABLE, _W.T2W_TXNID == bindparam("txn"))
_INSERT: Final = insert(TXN_TO_WRITE_ID).values(
    T2W_TXNID=bindparam("txn"),
    T2W_DATABASE=bindparam("db"),
    T2W_TABLE=bindparam("table"),
    T2W_WRITEID=bindparam("write_id"),
)
_NEXT: Final = select(_N.NWI_NEXT).where(*_NEXT_OF_TABLE)
_NEXT_FOR_UPDATE: Final = _NEXT.with_for_update()
_SET_NEXT: Final = update(NEXT_WRITE_ID).where(*_NEXT_OF_TABLE).values(NWI_NEXT=bindparam("next"))
_INSERT_NEXT: Final = insert(NEXT_WRITE_ID).values(
    NWI_DATABASE=bindparam("db"), NWI_TABLE=bindparam("table"), NWI_NEXT=bindparam("next")
)
# Adding 0 keeps planners off the index of that column: walk down the write ids here, ...
_HIGHEST_SEEN: Final = (
    select(_W.T2W_WRITEID)
    .where(*_OF_TABLE, _W.T2W_TXNID + 0 <= bindparam("hwm"))
    .order_by(_W.T2W_WRITEID.desc())
    .limit(1)
)
_WATERMARK: Final = select(
    func.coalesce(_HIGHEST_SEEN.scalar_subquery(), _NEXT.scalar_subquery() - 1, 0).label("hwm")
).cte("watermark")
_HWM: Final = select(_WATERMARK.c.hwm).scalar_subquery()
# ... and look up the few transactions here.
_DOUBTFUL: Final = select(packed(_W.T2W_TXNID, _W.T2W_WRITEID)).where(
    *_OF_TABLE, _W.T2W_WRITEID + 0 <= _HWM, _W.T2W_TXNID >= bindparam("first_doubtful")
)
_LOWEST_TXN: Final = select(func.min(_W.T2W_TXNID)).where(*_OF_TABLE)
_SEEN: Final = select(_HWM, _LOWEST_TXN.scalar_subquery(), _DOUBTFUL.scalar_subquery())
"""The watermark, who wrote first, packed the transactions and write ids that may not be valid."""


class SqlWriteIds(Part, TxnStore):
    """The part of ``TxnStore`` about write ids."""

    def allocate_write_ids(
        self,
        txns: Sequence[TxnId],
        table: TableName,
        *,
        writes: Sequence[LockComponent] = (),
        reallocate: bool = False,
    ) -> Mapping[TxnId, WriteId]:
        ordered = sorted(txns)
        with self._db.write() as unit:
            where = {"db": table.database, "table": table.table}
            kinds = {txn: ask_open_type(unit, txn) for txn in ordered}
            given = {txn: unit.ask(WRITE_ID_OF_TXN, **where, txn=txn) for txn in ordered}
            next_one = unit.ask(_NEXT_FOR_UPDATE, **where)
            for txn, asked in kinds.items():
                kind = open_type(asked)
                if kind is None or kind is TxnType.READ_ONLY:
                    raise TransactionError(
                        f"Write ID allocation failed on {table} "
                        "as not all input txns in open state or read-only",
                        txn=txn,
                        table=str(table),
                        state="unknown",
                    )
            if reallocate:
                unit.run_many(_DELETE_OF_TXN, [{**where, "txn": txn} for txn in ordered])
            else:
                found = {
                    txn: WriteId(write_id)
                    for txn, asked in given.items()
                    if (write_id := asked.scalar()) is not None
                }
                if len(found) == len(ordered):
                    return found
                assert not found, "a batch has write ids of a table all or none"
            following = next_one.scalar()
            first = 1 if following is None else int(following)
            new = {txn: WriteId(first + at) for at, txn in enumerate(ordered)}
            unit.ask(
                _INSERT_NEXT if following is None else _SET_NEXT,
                **where,
                next=first + len(ordered),
            )
            unit.run_many(
                _INSERT, [{**where, "txn": txn, "write_id": one} for txn, one in new.items()]
            )
            intended = intended_writes(writes)
            insert_writes(unit, [{**one, "txn": txn} for txn in ordered for one in intended])
            return new

    def valid_write_ids(
        self, tables: Sequence[TableName], valid_txns: ValidTxnList | None = None
    ) -> tuple[ValidWriteIdList, ...]:
        single = valid_txns is not None and len(tables) == 1
        with self._db.query() if single else self._db.read() as unit:
            return read_valid_write_ids(unit, tables, valid_txns)

    def last_write_id(self, table: TableName) -> WriteId:
        with self._db.query() as unit:
            return last_write_id(unit, table)

    def seed_write_id(self, table: TableName, seed: int) -> None:
        with self._db.write() as unit:
            where = {"db": table.database, "table": table.table}
            if unit.row(_NEXT, **where) is not None:
                raise AlreadyExistsError(
                    f"Table {table} has write ids already", table=str(table), seed=seed
                )
            unit.ask(_INSERT_NEXT, **where, next=seed + 1)


def insert_components(unit: Unit, rows: Sequence[dict[str, object]]) -> None:
    """Record intended writes: ``txn``, ``db``, ``table``, ``partition``, ``op``, ``write_id``."""
    unit.run_many(_INSERT_COMPONENT, rows)


def insert_writes(unit: Unit, rows: Sequence[dict[str, object]]) -> None:
    """The same, under the write ids that the transactions have for the tables."""
    unit.run_many(_INSERT_WRITE, rows)


def record_missing(unit: Unit, txn: TxnId, writes: Sequence[dict[str, object]]) -> bool:
    """Record those of the intended writes that are not recorded yet under the write ids that the
    transaction has for the tables; whether there are any.
    """
    known = set(unit.rows(_RECORDED, txn=txn))
    missing = [
        one for one in writes if (one["db"], one["table"], one["partition"], one["op"]) not in known
    ]
    insert_writes(unit, [{**one, "txn": txn} for one in missing])
    return bool(missing)


def intended_writes(components: Sequence[LockComponent]) -> list[dict[str, object]]:
    """What is to be recorded of a lock request (metastore.md 3.3), but ``txn`` and ``write_id``;
    dynamic partitions leave one placeholder a table.
    """
    rows: list[dict[str, object]] = []
    placeholders: dict[tuple[str, str | None], str] = {}
    for one in components:
        operation = one.operation or OperationType.UPDATE
        if one.transactional is False or not operation.is_write:
            continue
        database, table = one.database.lower(), None if one.table is None else one.table.lower()
        if one.dynamic:
            strict = operation is not OperationType.INSERT
            letter = placeholders.setdefault((database, table), OperationType.INSERT.value)
            placeholders[database, table] = OperationType.UPDATE.value if strict else letter
        else:
            rows.append(
                {"db": database, "table": table, "partition": one.partition, "op": operation.value}
            )
    return rows + [
        {"db": database, "table": table, "partition": None, "op": letter}
        for (database, table), letter in placeholders.items()
    ]


def last_write_id(unit: Unit, table: TableName) -> WriteId:
    """See ``TxnStore``."""
    following = unit.scalar(_NEXT, db=table.database, table=table.table)
    return WriteId(0 if following is None else int(following) - 1)


def give_write_ids(
    unit: Unit, table: TableName, txn_of: Mapping[int, TxnId], *, following: int
) -> None:
    """Enter whose the write ids of a new table are, and which is its next."""
    where = {"db": table.database, "table": table.table}
    unit.ask(_INSERT_NEXT, **where, next=following)
    rows = [{**where, "txn": txn, "write_id": write_id} for write_id, txn in txn_of.items()]
    unit.run_many(_INSERT, rows)


def read_valid_write_ids(
    unit: Unit,
    tables: Sequence[TableName],
    valid_txns: ValidTxnList | None = None,
    *,
    whole: bool = False,
) -> tuple[ValidWriteIdList, ...]:
    """What a reader with these transactions, or one that comes now, sees of each table.

    ``whole``: named are all that are not committed, also where none below them is remembered to
    be. A reader's list, as Hive's, ends at the first of them then (metastore.md, surprise 4).
    """
    if valid_txns is None:
        found = read_open_txns(unit, (TxnType.READ_ONLY,))
        valid_txns = ValidTxnList.of(hwm=found.hwm, open=found.open, aborted=found.aborted)
    hidden = frozenset(valid_txns.open), frozenset(valid_txns.aborted)
    return tuple(_valid_of_table(unit, one, valid_txns, *hidden, whole=whole) for one in tables)


def _valid_of_table(
    unit: Unit,
    table: TableName,
    valid: ValidTxnList,
    open_txns: frozenset[int],
    aborted_txns: frozenset[int],
    *,
    whole: bool,
) -> ValidWriteIdList:
    # All transactions below the first exception are valid: their rows need no look.
    doubted = min([*valid.exceptions[:1], valid.hwm + 1])
    where = {"db": table.database, "table": table.table}
    (row,) = unit.rows(_SEEN, **where, hwm=valid.hwm, first_doubtful=doubted)
    hwm, lowest_txn, doubtful = row
    numbers = unpacked(doubtful)
    txns, write_ids = numbers[::2], numbers[1::2]

    def of(those: Set[int]) -> list[int]:
        return sorted(compress(write_ids, map(those.__contains__, txns)))

    later = {txn for txn in txns if txn > valid.hwm} - aborted_txns
    aborted, opened = of(aborted_txns), of(open_txns | later if later else open_txns)
    min_open = opened[0] if opened else LONG_MAX
    found_valid = whole or len(aborted) + len(opened) < len(txns)
    found_valid = found_valid or (lowest_txn or doubted) < doubted
    if not found_valid and (opened or aborted):
        # All valid writes were compacted and forgotten: below the first exception all is valid.
        first = min(opened[:1] + aborted[:1])
        opened = [first] if opened and first == opened[0] else []
        aborted = [] if opened else [first]
        hwm = first
    return ValidWriteIdList(str(table), hwm, min_open, tuple(opened), tuple(aborted))


# -------------------------------------------------------------------- beside Hive


_EARLIER: Final = TXN_TO_WRITE_ID.alias("earlier")
_WRITTEN_LATE: Final = (
    select(_W.T2W_DATABASE, _W.T2W_TABLE)
    .where(
        _W.T2W_TXNID == bindparam("txn"),
        exists().where(
            _EARLIER.c.T2W_DATABASE == _W.T2W_DATABASE,
            _EARLIER.c.T2W_TABLE == _W.T2W_TABLE,
            _EARLIER.c.T2W_WRITEID < _W.T2W_WRITEID,
            _EARLIER.c.T2W_TXNID > _W.T2W_TXNID,
        ),
    )
    .order_by(_W.T2W_DATABASE, _W.T2W_TABLE)
)
_T: Final = TXNS.c
_NOW: Final = server_now(bindparam("now", type_=BigInteger))
_INSERT_COMMITTED: Final = (
    insert(TXNS)
    .from_select(
        ["TXN_USER", "TXN_HOST", "TXN_STATE", "TXN_STARTED", "TXN_LAST_HEARTBEAT"],
        select(_T.TXN_USER, _T.TXN_HOST, literal(TxnState.COMMITTED.value), _NOW, _NOW).where(
            _T.TXN_ID == bindparam("txn")
        ),
    )
    .returning(_T.TXN_ID)
)
_WRITE_ID: Final = bindparam("write_id", type_=BigInteger)
_NOTE_NO_COMMIT: Final = insert(HIVEACID_FLOORS).from_select(
    [column.name for column in HIVEACID_FLOORS.c],
    select(TBLS.c.TBL_ID, literal("/aborted/") + cast(_WRITE_ID, String), _WRITE_ID, _WRITE_ID)
    .join_from(TBLS, DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(*NAMED_TABLE),
)
"""It is no version, as if it had been aborted."""


def end_lists_later(unit: Unit, txn: TxnId) -> None:
    """Let the lists of readers not end below what the transaction, committed in this unit, wrote:
    a new one, committed as well, takes the write id after it in each table where a later one took
    an earlier write id.

    Hive forgets write ids by the transaction alone, and a list ends at the highest that is left.
    """
    late = unit.rows(_WRITTEN_LATE, txn=txn) if unit.of_hive else []
    if not late:
        return
    taken = []
    for database, table in late:
        where = {"db": database, "table": table}
        write_id = unit.scalar(_NEXT_FOR_UPDATE, **where)
        if write_id is not None:  # nobody has dropped the table
            unit.ask(_SET_NEXT, **where, next=write_id + 1)
            taken.append((database, table, write_id))
    # later than all that have lower write ids by now
    last = unit.scalar(_INSERT_COMMITTED, txn=txn, now=unit.statement_time_ms)
    rows = [{"txn": last, "db": one[0], "table": one[1], "write_id": one[2]} for one in taken]
    unit.run_many(_INSERT, rows)
    for database, table, write_id in taken:
        unit.ask(_NOTE_NO_COMMIT, database=database, table=table, write_id=write_id)


# -------------------------------------------------------------------- overwrites
# Statements that tell whether what a transaction is to write to was replaced meanwhile: asked with
# its locks, and by the commit's checks.


_S = WRITE_SET.c

OVERLAPPING: Final = and_(
    _S.WS_DATABASE == _C.TC_DATABASE,
    _S.WS_TABLE == _C.TC_TABLE,
    _S.WS_COMMIT_ID >= bindparam("txn"),
    _S.WS_TXNID != bindparam("txn"),
)
"""What others committed, beside what a transaction recorded, since it opened."""
NEWER_OVERWRITE: Final = (
    select(_S.WS_TXNID)
    .join_from(WRITE_SET, TXN_COMPONENTS, OVERLAPPING)
    .join(
        TXN_TO_WRITE_ID,
        and_(
            _W.T2W_TXNID == _S.WS_TXNID,
            _W.T2W_DATABASE == _S.WS_DATABASE,
            _W.T2W_TABLE == _S.WS_TABLE,
        ),
    )
    .where(
        _C.TC_TXNID == bindparam("txn"),
        _S.WS_OPERATION_TYPE == OperationType.UPDATE.value,
        _W.T2W_WRITEID > _C.TC_WRITEID,
        or_(
            _S.WS_PARTITION == _C.TC_PARTITION,
            _S.WS_PARTITION.is_(None),
            _C.TC_PARTITION.is_(None),
        ),
    )
    .limit(1)
)
"""See ``OwnDatabase.newer_overwrite``."""
