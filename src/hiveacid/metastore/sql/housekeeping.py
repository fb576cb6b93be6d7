"""What processes do once in a while, one of them each time (Hive's AUX_TABLE tells who): time-outs
and the removal of what nobody needs any more (metastore.md 2.11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import (
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
from sqlalchemy.sql import Delete, Select

from hiveacid.metastore.api import OwnDatabase
from hiveacid.metastore.sql.catalog_schema import (
    DBS,
    HIVEACID_COMMITS,
    HIVEACID_DEFINITIONS,
    HIVEACID_DROPPED_PARTITIONS,
    HIVEACID_FLOORS,
    HIVEACID_PARTITIONS_SINCE,
    HIVEACID_PINS,
    TABLE_PARAMS,
    TBLS,
)
from hiveacid.metastore.sql.cleaning import FIRST_UNSEEN, MIN_SEEN_OPEN, or_max, purge_history
from hiveacid.metastore.sql.decided import note_decided
from hiveacid.metastore.sql.engine import Database, Part, Unit, one_of
from hiveacid.metastore.sql.objects import CATALOG
from hiveacid.metastore.sql.schema import (
    AUX_TABLE,
    COMPLETED_TXN_COMPONENTS,
    HIVE_LOCKS,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
    WRITE_SET,
)
from hiveacid.metastore.sql.txns import abort, watermarks
from hiveacid.model.tables import HISTORY_RETENTION, LONG_MAX, LONG_MIN, RETENTION, TxnId
from hiveacid.model.transactions import AbortReason, TxnState, TxnType
from hiveacid.settings_parts import parse_seconds

_A = AUX_TABLE.c
_LAST: Final = select(_A.MT_KEY2).where(_A.MT_KEY1 == bindparam("key"))
_LAST_HELD: Final = _LAST.with_for_update()
_FIRST: Final = insert(AUX_TABLE).values(MT_KEY1=bindparam("key"), MT_KEY2=0)
_SET_LAST: Final = (
    update(AUX_TABLE).where(_A.MT_KEY1 == bindparam("key")).values(MT_KEY2=bindparam("now"))
)


_HIVES_ALONE: Final = (
    select(_A.MT_KEY1)
    .where(one_of(_A.MT_KEY1, ("TxnCleaner", "CompactionScheduler", "MaterializationRebuild")))
    .limit(1)
)
"""Keys (metastore.md 1.10) of work that only Hive does; each is there from the first time on."""
_T = TXNS.c
_W = TXN_TO_WRITE_ID.c
_C = COMPLETED_TXN_COMPONENTS.c
_MUTEX: Final = "HouseKeeper"
_HISTORY: Final = "HiveacidHistory"
_HISTORY_S: Final = 3_600.0
_BATCH: Final = 2_000
"""Ids removed in one unit: others wait for a few milliseconds at most."""
_BATCH_PAUSE_S: Final = 0.002
"""Who releases a lock and takes it at once may overtake those who wait for it."""

_DROP_LOCKS: Final = delete(HIVE_LOCKS).where(
    HIVE_LOCKS.c.HL_TXNID == 0, HIVE_LOCKS.c.HL_LAST_HEARTBEAT < bindparam("before")
)
_STALE_LOCKS: Final = (
    select(HIVE_LOCKS.c.HL_LOCK_EXT_ID)
    .where(HIVE_LOCKS.c.HL_TXNID == 0, HIVE_LOCKS.c.HL_LAST_HEARTBEAT < bindparam("before"))
    .limit(1)
)
_ABANDONED: Final = (
    select(_T.TXN_ID)
    .where(
        _T.TXN_STATE == TxnState.OPEN.value,
        or_(
            and_(
                func.coalesce(_T.TXN_TYPE, 0) != int(TxnType.REPL_CREATED),
                _T.TXN_LAST_HEARTBEAT < bindparam("before"),
            ),
            and_(
                _T.TXN_TYPE == int(TxnType.REPL_CREATED),
                _T.TXN_LAST_HEARTBEAT < bindparam("repl_before"),
            ),
        ),
    )
    .order_by(_T.TXN_ID)
)
_ABANDONED_FREE: Final = _ABANDONED.with_for_update(skip_locked=True)
_WRITE_SET_GC: Final = delete(WRITE_SET).where(WRITE_SET.c.WS_COMMIT_ID < bindparam("below"))
_MIN_ABORTED: Final = select(func.min(_T.TXN_ID)).where(_T.TXN_STATE == TxnState.ABORTED.value)
_MIN_WRITE_SET: Final = select(func.min(WRITE_SET.c.WS_TXNID))
_TABLES_TO_CLEAN: Final = (
    select(_W.T2W_DATABASE, _W.T2W_TABLE).where(_W.T2W_TXNID < bindparam("below")).distinct()
)
_LOWEST_KEPT: Final = select(func.min(_W.T2W_WRITEID)).where(
    _W.T2W_DATABASE == bindparam("db"),
    _W.T2W_TABLE == bindparam("table"),
    _W.T2W_TXNID >= bindparam("below"),
)
_FIRST_WRITE_ID: Final = select(func.min(_W.T2W_WRITEID)).where(
    _W.T2W_DATABASE == bindparam("db"),
    _W.T2W_TABLE == bindparam("table"),
    _W.T2W_WRITEID >= bindparam("first"),
)
_CLEAN_WRITE_IDS: Final = delete(TXN_TO_WRITE_ID).where(
    _W.T2W_DATABASE == bindparam("db"),
    _W.T2W_TABLE == bindparam("table"),
    _W.T2W_WRITEID >= bindparam("first"),
    _W.T2W_WRITEID < bindparam("end"),
    _W.T2W_TXNID + 0 < bindparam("below"),
)
_FIRST_TXN: Final = select(func.min(_T.TXN_ID)).where(_T.TXN_ID >= bindparam("first"))
_CLEAN_TXNS: Final = delete(TXNS).where(
    _T.TXN_ID >= bindparam("first"),
    _T.TXN_ID < bindparam("end"),
    one_of(_T.TXN_STATE, [TxnState.ABORTED.value, TxnState.COMMITTED.value]),
    ~exists().where(TXN_COMPONENTS.c.TC_TXNID == _T.TXN_ID),
)
FORGOTTEN: Final = "/history"
"""Stands for the name of a partition, which has no slash in front, in the floors."""
_F = HIVEACID_FLOORS.c
_ABORTED_NAME: Final = literal("/aborted/") + cast(_W.T2W_WRITEID, String)
_NOTE_ABORTED: Final = insert(HIVEACID_FLOORS).from_select(
    [column.name for column in _F],
    select(TBLS.c.TBL_ID, _ABORTED_NAME, _W.T2W_WRITEID, _W.T2W_WRITEID)
    .join_from(TXN_TO_WRITE_ID, TXNS, _T.TXN_ID == _W.T2W_TXNID)
    .join(DBS, and_(DBS.c.NAME == _W.T2W_DATABASE, DBS.c.CTLG_NAME == CATALOG))
    .join(TBLS, and_(TBLS.c.DB_ID == DBS.c.DB_ID, TBLS.c.TBL_NAME == _W.T2W_TABLE))
    .where(
        _T.TXN_STATE == TxnState.ABORTED.value,
        _T.TXN_ID < bindparam("boundary"),
        ~exists().where(TXN_COMPONENTS.c.TC_TXNID == _T.TXN_ID),
        ~exists().where(_F.HF_TBL_ID == TBLS.c.TBL_ID, _F.HF_PARTITION == _ABORTED_NAME),
    ),
)
"""Before nobody else knows of them any more: what no record tells of may be a commit of Hive's."""
ABORTED_OF: Final = select(_F.HF_BASE).where(
    _F.HF_TBL_ID == bindparam("id"), _F.HF_PARTITION.like("/aborted/%")
)
"""The write ids of a table that were aborted, of those that nobody else remembers."""
_NEWER = COMPLETED_TXN_COMPONENTS.alias("newer")


def _dedupe(kind: str, newer_kinds: tuple[str, ...], *, whole_table: bool) -> Delete:
    """Delete records of a kind that have a newer one; apart for NULL partitions, for the index."""
    same = (
        and_(_NEWER.c.CTC_PARTITION.is_(None), _C.CTC_PARTITION.is_(None))
        if whole_table
        else _NEWER.c.CTC_PARTITION == _C.CTC_PARTITION
    )
    return delete(COMPLETED_TXN_COMPONENTS).where(
        _C.CTC_UPDATE_DELETE == kind,
        _C.CTC_TXNID < FIRST_UNSEEN,
        exists().where(
            _NEWER.c.CTC_DATABASE == _C.CTC_DATABASE,
            _NEWER.c.CTC_TABLE == _C.CTC_TABLE,
            same,
            _NEWER.c.CTC_WRITEID > _C.CTC_WRITEID,
            one_of(_NEWER.c.CTC_UPDATE_DELETE, newer_kinds),
        ),
    )


_DEDUPE: Final = tuple(
    _dedupe(kind, newer_kinds, whole_table=whole_table)
    for kind, newer_kinds in (("N", ("N", "Y")), ("Y", ("Y",)))
    for whole_table in (False, True)
)


class SqlHousekeeping(Part, OwnDatabase):
    """The part of ``OwnDatabase`` that Hive's metastore does in the background. On its own
    database it is left to it: its clients send heartbeats by its settings, which we do not know.
    """

    def perform_timeouts(self) -> tuple[TxnId, ...]:
        if self._db.of_hive:
            return ()
        options = self._db.options
        with self._db.read() as unit:
            moments = {
                "before": unit.now_ms - options.txn_timeout_ms,
                "repl_before": unit.now_ms - options.repl_txn_timeout_ms,
            }
            stale_locks = unit.ask(_STALE_LOCKS, before=moments["before"])
            abandoned = unit.ask(_ABANDONED, **moments)
        if not stale_locks.rows() and not abandoned.rows():
            return ()
        with self._db.write() as unit:
            unit.ask(_DROP_LOCKS, before=moments["before"])
            return tuple(
                TxnId(txn)
                for (txn,) in unit.rows(_ABANDONED_FREE, **moments)  # others abort the rest
                if abort(unit, TxnId(txn), AbortReason.TIMEOUT)
            )

    def write_set_gc(self) -> None:
        """Forget committed writes that no open transaction can conflict with."""
        with self._db.write() as unit:
            lowest, boundary, _ = watermarks(unit)
            unit.ask(_WRITE_SET_GC, below=min(lowest, boundary + 1))

    def clean_txn_to_write_id(self) -> None:
        """Forget which transaction had a write id, where all snapshots take it as committed."""
        # What is found here stays removable: it is committed, and later write ids are higher.
        with self._db.read() as unit:
            lowest, _, hwm = watermarks(unit)
            below = min(hwm + 1, or_max(unit.scalar(_MIN_ABORTED)))
            if self._db.options.use_min_history_level:
                below = min(below, or_max(unit.scalar(MIN_SEEN_OPEN)))
            else:
                below = min(below, lowest, or_max(unit.scalar(_MIN_WRITE_SET)))
            work = []
            for database, table in unit.rows(_TABLES_TO_CLEAN, below=below):
                where = {"db": database, "table": table, "below": below}
                # A write id above one that is kept stays too: a reader's watermark is the highest
                # row, so without it a committed write of an older transaction would be hidden
                # (metastore.md, surprise 3).
                work.append((where, or_max(unit.scalar(_LOWEST_KEPT, **where))))
        for where, end in work:
            self._delete_in_batches(_FIRST_WRITE_ID, _CLEAN_WRITE_IDS, end=end, where=where)

    def clean_empty_txns(self) -> None:
        """Forget committed transactions, and aborted ones that left nothing behind."""
        with self._db.read() as unit:
            _, boundary, _ = watermarks(unit)
        with self._db.write() as unit:
            note_decided(unit, boundary)
            unit.ask(_NOTE_ABORTED, boundary=boundary)
        self._delete_in_batches(_FIRST_TXN, _CLEAN_TXNS, end=boundary, where={})

    def dedupe_completed_components(self) -> None:
        """Keep the newest record, and the newest of an update or delete, of each partition."""
        with self._db.write() as unit:
            for statement in _DEDUPE:
                unit.ask(statement)

    def begin_cycle(self, name: str, *, interval_s: float) -> int | None:
        """See ``CompactionUpkeep``. A turn is taken, not held: who takes longer than the interval
        may meet the next one.
        """
        due_ms = interval_s * 1000
        with self._db.read() as unit:
            last = unit.scalar(_LAST, key=name)
            if last is not None and abs(unit.now_ms - last) < due_ms:
                return None
        with self._db.write() as unit:
            last = unit.scalar(_LAST_HELD, key=name)
            # Who took it while this one waited for the row has a later time than this unit's.
            if last is not None and abs(unit.now_ms - last) < due_ms:
                return None
            if last is None:  # the same row for all who are the first at once: one of them wins
                unit.ask(_FIRST, key=name)
            unit.ask(_SET_LAST, key=name, now=unit.now_ms)
            return int(unit.now_ms - (last or 0))

    def is_served_by_hive(self) -> bool:
        if self._db.of_hive:
            return True
        with self._db.query() as unit:
            return unit.row(_HIVES_ALONE) is not None

    def run_housekeeping(self, *, interval_s: float) -> bool:
        key = f"Hiveacid{_MUTEX}" if self._db.of_hive else _MUTEX  # Hive's services hold their own
        if self.begin_cycle(key, interval_s=interval_s) is None:
            return False
        if not self._db.of_hive:
            self.perform_timeouts()
            self.write_set_gc()
            self.clean_txn_to_write_id()
            self.clean_empty_txns()
            self.dedupe_completed_components()
            purge_history(self._db)
        if self.begin_cycle(_HISTORY, interval_s=_HISTORY_S) is not None:
            forget_commits(self._db)
        return True

    def _delete_in_batches(
        self, find: Select[Any], statement: Delete, *, end: int, where: Mapping[str, object]
    ) -> None:
        """Delete below ``end`` by ranges of ids, each a unit of its own."""
        first: int | None = LONG_MIN
        while first is not None:
            with self._db.write() as unit:
                first = unit.scalar(find, **where, first=first)
                if first is None or first >= end:
                    return
                following = first + _BATCH
                unit.ask(statement, **where, first=first, end=min(following, end))
            self._db.clock.sleep_s(_BATCH_PAUSE_S)
            first = following


# -------------------------------------------------------------------- old history
# Which records of commits go once they are older than the history is kept: those before the first
# one that some version needs. What is known of columns and partitions up to there goes with them.
#
# A version is told by the places of the commits up to it, so records go from the first one on, and
# only so far that the first that stays has the highest write id up to its place. How far they are
# gone stands among the floors: a version below is an error then, never a guess.


_H = HIVEACID_COMMITS.c
_P = HIVEACID_PINS.c
_OF_TABLE: Final = _H.HC_TBL_ID == bindparam("id")
_OLD: Final = select(_H.HC_TBL_ID).where(_H.HC_TIME < bindparam("before")).distinct()
_KEPT_BY_TABLES: Final = select(TABLE_PARAMS.c.PARAM_VALUE).where(
    TABLE_PARAMS.c.PARAM_KEY == HISTORY_RETENTION
)
_LIMITS: Final = select(TABLE_PARAMS.c.PARAM_KEY, TABLE_PARAMS.c.PARAM_VALUE).where(
    TABLE_PARAMS.c.TBL_ID == bindparam("id"),
    one_of(TABLE_PARAMS.c.PARAM_KEY, (RETENTION, HISTORY_RETENTION)),
)
_IS_THERE: Final = select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID == bindparam("id"))
_FIRST_PINNED: Final = (
    select(func.min(_P.HP_WRITEID)).where(_P.HP_TBL_ID == bindparam("id")).scalar_subquery()
)
_PINNED: Final = select(func.min(_H.HC_SEQ)).where(_OF_TABLE, _H.HC_WRITEID >= _FIRST_PINNED)
_LAST_COMMIT: Final = select(func.max(_H.HC_SEQ)).where(_OF_TABLE)
_YOUNG: Final = select(func.min(_H.HC_SEQ)).where(_OF_TABLE, _H.HC_TIME >= bindparam("before"))
_WRITE_ID: Final = select(_H.HC_WRITEID).where(_OF_TABLE, _H.HC_SEQ == bindparam("end"))
_HIGHER: Final = select(func.min(_H.HC_SEQ)).where(
    _OF_TABLE, _H.HC_SEQ < bindparam("end"), _H.HC_WRITEID > bindparam("write_id")
)
_HIGHEST: Final = select(func.max(_H.HC_WRITEID)).where(_OF_TABLE, _H.HC_SEQ < bindparam("end"))
_FORGET: Final = tuple(
    delete(table).where(table.c[f"{prefix}_TBL_ID"] == bindparam("id"), where)
    for table, prefix, where in (
        (HIVEACID_COMMITS, "HC", _H.HC_SEQ < bindparam("end")),
        (HIVEACID_DEFINITIONS, "HD", HIVEACID_DEFINITIONS.c.HD_UNTIL <= bindparam("end")),
        (
            HIVEACID_DROPPED_PARTITIONS,
            "HX",
            HIVEACID_DROPPED_PARTITIONS.c.HX_UNTIL <= bindparam("end"),
        ),
        (HIVEACID_PARTITIONS_SINCE, "HA", HIVEACID_PARTITIONS_SINCE.c.HA_SEQ <= bindparam("end")),
    )
)
_OF_FLOOR: Final = (_F.HF_TBL_ID == bindparam("id"), _F.HF_PARTITION == FORGOTTEN)
FORGOTTEN_UP_TO: Final = select(_F.HF_BASE).where(*_OF_FLOOR)
_DROP_FLOOR: Final = delete(HIVEACID_FLOORS).where(*_OF_FLOOR)
_DROP_ABORTED: Final = delete(HIVEACID_FLOORS).where(
    _F.HF_TBL_ID == bindparam("id"),
    _F.HF_PARTITION.like("/aborted/%"),
    _F.HF_BASE <= bindparam("highest"),
)
_NEW_FLOOR: Final = insert(HIVEACID_FLOORS).values(
    HF_TBL_ID=bindparam("id"), HF_PARTITION=FORGOTTEN, HF_FIRST=0, HF_BASE=bindparam("highest")
)


def forget_commits(database: Database) -> None:
    """Remove what is older than each table's history is kept, and nothing needs."""
    options = database.options
    with database.read() as unit:
        kept = [_kept_ms(text, options.history_ms) for (text,) in unit.rows(_KEPT_BY_TABLES)]
        before = unit.now_ms - min([options.history_ms, *kept])
        tables = [table for (table,) in unit.rows(_OLD, before=before)]
    for table in tables:
        with database.write() as unit:
            limits: dict[str, str] = dict(unit.rows(_LIMITS, id=table))
            history_ms = _kept_ms(limits.get(HISTORY_RETENTION), options.history_ms)
            files_ms = _kept_ms(limits.get(RETENTION), options.retention_ms)
            _forget(unit, table, before=unit.now_ms - max(history_ms, files_ms))


def _kept_ms(text: str | None, default: int) -> int:
    """A table's property; what is no length of time counts as none."""
    try:
        return default if text is None else int(parse_seconds(text) * 1000)
    except ValueError:
        return default


def _forget(unit: Unit, table: int, *, before: int) -> None:
    if unit.row(_IS_THERE, id=table) is None:
        young = unit.scalar(_YOUNG, id=table, before=before)
        end = LONG_MAX if young is None else young
    else:
        end = _first_needed(unit, table, before=before)
    highest = unit.scalar(_HIGHEST, id=table, end=end)
    if highest is None:
        return
    for statement in _FORGET:
        unit.ask(statement, id=table, end=end)
    unit.ask(_DROP_FLOOR, id=table)
    unit.ask(_DROP_ABORTED, id=table, highest=highest)
    unit.ask(_NEW_FLOOR, id=table, highest=highest)


def _first_needed(unit: Unit, table: int, *, before: int) -> int:
    """The place of the first record that stays: the last one does, young ones do, and those from
    the first on that a tag or a consumer needs.
    """
    asked = [unit.scalar(one, id=table, before=before) for one in (_LAST_COMMIT, _YOUNG)]
    asked.append(unit.scalar(_PINNED, id=table))
    end = min(int(one) for one in asked if one is not None)
    while True:
        write_id = unit.scalar(_WRITE_ID, id=table, end=end)
        higher = unit.scalar(_HIGHER, id=table, end=end, write_id=write_id)
        if higher is None:
            return end
        end = int(higher)
