"""The past, as commits leave it: each that wrote takes its place among all and notes what it did to
each table; what changes a table's columns keeps those of before.

Reads ask for one table. Which of its write ids were valid at a version follows from the places.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from sqlalchemy import bindparam, exists, func, insert, select, true, update
from sqlalchemy.types import BigInteger, Integer, String, Text

from hiveacid.errors import NotFoundError, SnapshotExpiredError
from hiveacid.metastore.sql.catalog_schema import (
    DBS,
    HIVEACID_COMMIT_CLOCK,
    HIVEACID_COMMITS,
    HIVEACID_DEFINITIONS,
    HIVEACID_DROPPED_PARTITIONS,
    HIVEACID_FLOORS,
    TBLS,
)
from hiveacid.metastore.sql.dialect import Row
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.housekeeping import ABORTED_OF, FORGOTTEN_UP_TO
from hiveacid.metastore.sql.objects import NAMED_TABLE, find_table, table_ids
from hiveacid.metastore.sql.pins import ask_partitions_since, came_since, tick
from hiveacid.metastore.sql.schema import COMPLETED_TXN_COMPONENTS, TXN_TO_WRITE_ID, TXNS
from hiveacid.metastore.sql.write_ids import read_valid_write_ids
from hiveacid.metastore.upkeep import Past
from hiveacid.model.history import (
    WHOLE_TABLE,
    Commit,
    CommitFacts,
    CommitNote,
    Floor,
    UnrecordedCommit,
    Version,
    state_after,
)
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.readable import at
from hiveacid.model.tables import HISTORY_RETENTION, LONG_MAX, Column, TableName, TxnId, WriteId
from hiveacid.model.types import parse_type

_C = HIVEACID_COMMITS.c
_K = HIVEACID_COMMIT_CLOCK.c
_D = HIVEACID_DEFINITIONS.c
_F = HIVEACID_FLOORS.c
_NOTE: Final = insert(HIVEACID_COMMITS).from_select(
    [column.name for column in _C],
    select(
        TBLS.c.TBL_ID,
        _K.HK_SEQ,
        bindparam("write_id", type_=BigInteger),
        TXNS.c.TXN_ID,
        TXNS.c.TXN_STARTED,
        _K.HK_TIME,
        bindparam("kind", type_=String),
        bindparam("inserted", type_=BigInteger),
        bindparam("updated", type_=BigInteger),
        bindparam("deleted", type_=BigInteger),
        bindparam("files", type_=Integer),
        bindparam("bytes", type_=BigInteger),
        TXNS.c.TXN_USER,
        TXNS.c.TXN_HOST,
        bindparam("application", type_=String),
        bindparam("text", type_=Text),
    )
    .select_from(TBLS.join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID))
    .join(TXNS, TXNS.c.TXN_ID == bindparam("txn", type_=BigInteger))
    .join(HIVEACID_COMMIT_CLOCK, true())
    .where(*NAMED_TABLE),
)
_KEEP_COLUMNS: Final = insert(HIVEACID_DEFINITIONS).from_select(
    ["HD_TBL_ID", "HD_UNTIL", "HD_COLUMNS"],
    select(bindparam("id", type_=BigInteger), _K.HK_SEQ, bindparam("columns", type_=Text)),
)
_X = HIVEACID_DROPPED_PARTITIONS.c
_DROPPED: Final = (
    select(_X.HX_PARTITION)
    .where(_X.HX_TBL_ID == bindparam("id"), _X.HX_UNTIL > bindparam("sequence"))
    .distinct()
)
_OF_TABLE: Final = _C.HC_TBL_ID == bindparam("id")
_ALL: Final = select(*_C).where(_OF_TABLE)
_OF_TXN: Final = (
    select(DBS.c.NAME, TBLS.c.TBL_NAME, *_C)
    .select_from(
        HIVEACID_COMMITS.outerjoin(TBLS, TBLS.c.TBL_ID == _C.HC_TBL_ID).outerjoin(
            DBS, DBS.c.DB_ID == TBLS.c.DB_ID
        )
    )
    .where(_C.HC_TXNID == bindparam("txn"))
    .order_by(_C.HC_TBL_ID)
)
_W = TXN_TO_WRITE_ID.c
_N = COMPLETED_TXN_COMPONENTS.c
_UNRECORDED: Final = (
    select(_W.T2W_WRITEID, _W.T2W_TXNID, TXNS.c.TXN_STARTED, TXNS.c.TXN_USER, TXNS.c.TXN_HOST)
    .join_from(TXN_TO_WRITE_ID, TXNS, TXNS.c.TXN_ID == _W.T2W_TXNID, isouter=True)
    .where(
        _W.T2W_DATABASE == bindparam("db"),
        _W.T2W_TABLE == bindparam("table"),
        ~exists().where(_OF_TABLE, _C.HC_WRITEID == _W.T2W_WRITEID),
    )
)
_UNRECORDED_WRITES: Final = (
    select(_N.CTC_WRITEID, _N.CTC_TXNID, func.max(_N.CTC_UPDATE_DELETE))
    .where(
        _N.CTC_DATABASE == bindparam("db"),
        _N.CTC_TABLE == bindparam("table"),
        _N.CTC_WRITEID.is_not(None),
        ~exists().where(_OF_TABLE, _C.HC_WRITEID == _N.CTC_WRITEID),
    )
    .group_by(_N.CTC_WRITEID, _N.CTC_TXNID)
)
_KINDS: Final = {"N": "INSERT", "Y": "UPDATE OR DELETE"}
_BY_WRITE_ID: Final = _ALL.where(_C.HC_WRITEID == bindparam("write_id"))
_LAST_UP_TO_TIME: Final = (
    _ALL.where(_C.HC_TIME <= bindparam("time")).order_by(_C.HC_SEQ.desc()).limit(1)
)
_LAST_UP_TO: Final = (
    _ALL.where(_C.HC_SEQ <= bindparam("sequence")).order_by(_C.HC_SEQ.desc()).limit(1)
)
_SEQUENCE_OF_TXN: Final = select(func.max(_C.HC_SEQ)).where(_C.HC_TXNID == bindparam("txn"))
_SEQUENCE_OF_TIME: Final = select(func.max(_C.HC_SEQ)).where(_C.HC_TIME <= bindparam("time"))
_HIGHEST: Final = select(func.max(_C.HC_WRITEID)).where(
    _OF_TABLE, _C.HC_SEQ <= bindparam("sequence")
)
_LATER: Final = select(_C.HC_WRITEID).where(
    _OF_TABLE,
    _C.HC_SEQ > bindparam("sequence"),
    _C.HC_WRITEID < _HIGHEST.correlate(None).scalar_subquery(),
)
_BEFORE_WRITE_ID: Final = select(func.max(_C.HC_SEQ)).where(
    _OF_TABLE, _C.HC_WRITEID < bindparam("write_id")
)
_FIRST: Final = select(_C.HC_TIME, _C.HC_WRITEID).where(_OF_TABLE).order_by(_C.HC_SEQ).limit(1)
_FLOORS: Final = select(_F.HF_PARTITION, _F.HF_FIRST, _F.HF_BASE).where(
    _F.HF_TBL_ID == bindparam("id"), ~_F.HF_PARTITION.like("/%")
)
_FLOOR: Final = (
    select(_F.HF_FIRST, _F.HF_BASE)
    .where(_F.HF_TBL_ID == bindparam("id"), _F.HF_PARTITION == bindparam("partition"))
    .with_for_update()
)
_NEW_FLOOR: Final = insert(HIVEACID_FLOORS).values(
    HF_TBL_ID=bindparam("id"),
    HF_PARTITION=bindparam("partition"),
    HF_FIRST=bindparam("first"),
    HF_BASE=bindparam("base"),
)
_LOWER_FLOOR: Final = (
    update(HIVEACID_FLOORS)
    .where(_F.HF_TBL_ID == bindparam("id"), _F.HF_PARTITION == bindparam("partition"))
    .values(HF_FIRST=bindparam("first"), HF_BASE=bindparam("base"))
)
_COLUMNS_AT: Final = (
    select(_D.HD_COLUMNS)
    .where(_D.HD_TBL_ID == bindparam("id"), _D.HD_UNTIL > bindparam("sequence"))
    .order_by(_D.HD_UNTIL)
    .limit(1)
)


def note_commit(unit: Unit, txn: TxnId, note: CommitNote, recorded: Sequence[Row]) -> None:
    """Give the commit its place and note what it did, as the last thing in its unit: from here on
    others wait for its end. ``recorded`` are database, table and write id of what was written, for
    tables that ``note`` does not tell of.
    """
    known: dict[tuple[TableName, int], CommitFacts] = {}
    for one in note.facts:
        key = one.table, int(one.write_id)
        known[key] = known[key].together(one) if key in known else one
    for database, table, write_id in recorded:
        if write_id is not None and table is not None:
            name = TableName(database, table)
            known.setdefault((name, write_id), CommitFacts(name, WriteId(write_id)))
    if not known:
        return
    tick(unit)
    for facts in known.values():
        unit.ask(
            _NOTE,
            database=facts.table.database,
            table=facts.table.table,
            txn=txn,
            write_id=facts.write_id,
            kind=facts.kind[:128],
            inserted=facts.inserted,
            updated=facts.updated,
            deleted=facts.deleted,
            files=facts.files,
            bytes=facts.size_bytes,
            application=note.application[:256],
            text=note.statement,
        )


def keep_columns(unit: Unit, table: int, columns: Sequence[Column]) -> None:
    """Keep a table's columns as they were up to now."""
    texts = [[one.name, str(one.type), one.comment] for one in columns]
    tick(unit)
    unit.ask(_KEEP_COLUMNS, id=table, columns=json.dumps(texts))


class SqlHistory(Part, Past):
    """Commits and versions."""

    def commits(
        self,
        table: TableName,
        *,
        after: int = 0,
        until: int | None = None,
        above: int = 0,
        limit: int | None = None,
        latest: bool = False,
    ) -> tuple[Commit, ...]:
        query = _ALL.where(_C.HC_SEQ > bindparam("after"), _C.HC_SEQ <= bindparam("until"))
        query = query.where(_C.HC_WRITEID > bindparam("above"))
        query = query.order_by(_C.HC_SEQ.desc() if latest else _C.HC_SEQ)
        query = query if limit is None else query.limit(limit)
        with self._db.read() as unit:
            places = {"after": after, "until": LONG_MAX if until is None else until}
            rows = unit.rows(query, id=table_ids(unit, table).table, above=above, **places)
        return tuple(_commit(table, row) for row in rows)

    def unrecorded(self, table: TableName) -> tuple[UnrecordedCommit, ...]:
        where = {"db": table.database, "table": table.table}
        with self._db.read() as unit:
            number = table_ids(unit, table).table
            now = _valid_now(unit, table, number)
            gone = unit.ask(FORGOTTEN_UP_TO, id=number)
            asked = [unit.ask(one, id=number, **where) for one in (_UNRECORDED, _UNRECORDED_WRITES)]
            forgotten = gone.scalar() or 0
            known, written = (one.rows() for one in asked)
        kinds = {write_id: _KINDS.get(kind, "") for write_id, _, kind in written}
        rows = {write_id: (txn, None, None, None) for write_id, txn, _ in written}
        # what neither list has may have been aborted and forgotten: it is left out
        rows |= {
            write_id: (txn, begun, user, host)
            for write_id, txn, begun, user, host in known
            if begun is not None or write_id in rows
        }
        return tuple(
            UnrecordedCommit(
                TxnId(txn),
                WriteId(write_id),
                begun,
                CommitFacts(table, WriteId(write_id), kinds.get(write_id, "")),
                user,
                host,
            )
            for write_id, (txn, begun, user, host) in sorted(rows.items(), reverse=True)
            if write_id > forgotten and now.is_valid(write_id)
        )

    def commits_of(self, txn: TxnId) -> tuple[Commit, ...]:
        with self._db.query() as unit:
            rows = unit.rows(_OF_TXN, txn=txn)
        if any(row[1] is None for row in rows):
            raise NotFoundError(
                f"Transaction {txn} wrote to a table that was dropped since", txn=int(txn)
            )
        return tuple(_commit(TableName(row[0], row[1]), row[2:]) for row in rows)

    def version(
        self,
        table: TableName,
        *,
        write_id: int | None = None,
        time_ms: int | None = None,
        sequence: int | None = None,
    ) -> Version:
        with self._db.read() as unit:
            number = table_ids(unit, table).table
            if write_id is not None:
                asked = unit.ask(_BY_WRITE_ID, id=number, write_id=write_id)
            elif time_ms is not None:
                asked = unit.ask(_LAST_UP_TO_TIME, id=number, time=time_ms)
            else:
                asked = unit.ask(_LAST_UP_TO, id=number, sequence=sequence)
            now = _valid_now(unit, table, number)
            row = next(iter(asked.rows()), None)
            place = max(0 if row is None else row[1], sequence or 0)
            later = ask_partitions_since(unit, number, place, time_ms)
            found = self._version(unit, table, number, now, row, write_id)
            came = came_since(later)
        if write_id is None and any(one.name == WHOLE_TABLE for one in came):
            raise NotFoundError(
                f"{table} became transactional later than that: nobody can tell what it was then",
                table=str(table),
            )
        return replace(found, came=came)

    def latest(self, tables: Sequence[TableName]) -> tuple[Version, ...]:
        with self._db.read() as unit:
            return tuple(self._latest(unit, table) for table in tables)

    def _latest(self, unit: Unit, table: TableName) -> Version:
        number = table_ids(unit, table).table
        now = _valid_now(unit, table, number)
        row = unit.row(_LAST_UP_TO, id=number, sequence=LONG_MAX)
        if row is not None:
            return replace(self._version(unit, table, number, now, row, None), valid=now)
        last = now.hwm
        while last and not now.is_valid(last):
            last -= 1
        return Version(WriteId(last), now, None, None)

    def floors(self, table: TableName) -> Mapping[str, Floor]:
        with self._db.read() as unit:
            rows = unit.rows(_FLOORS, id=table_ids(unit, table).table)
        return {partition: Floor(first, base) for partition, first, base in rows}

    def note_floor(self, table: TableName, partition: str | None, floor: Floor) -> None:
        with self._db.write() as unit:
            ids = find_table(unit, table)
            if ids is None:
                return
            where = {"id": ids.table, "partition": partition or ""}
            known = unit.row(_FLOOR, **where)
            if known is None:
                unit.ask(_NEW_FLOOR, **where, first=floor.first, base=floor.base)
            else:
                first, base = min(known[0], floor.first), max(known[1], floor.base)
                unit.ask(_LOWER_FLOOR, **where, first=first, base=base)

    def sequence_of(self, *, txn: TxnId | None = None, time_ms: int | None = None) -> int | None:
        with self._db.query() as unit:
            if txn is not None:
                found = unit.scalar(_SEQUENCE_OF_TXN, txn=txn)
            else:
                found = unit.scalar(_SEQUENCE_OF_TIME, time=time_ms)
        return None if found is None else int(found)

    def _version(
        self,
        unit: Unit,
        table: TableName,
        number: int,
        now: ValidWriteIdList,
        row: Row | None,
        write_id: int | None,
    ) -> Version:
        if row is not None:
            found = _commit(table, row)
            queries = (_HIGHEST, _LATER, _COLUMNS_AT, _DROPPED)
            asked = [unit.ask(one, id=number, sequence=found.sequence) for one in queries]
            ((highest,),), later, texts, gone = (one.rows() for one in asked)
            return Version(
                found.write_id,
                state_after(now, highest=highest, later=[one for (one,) in later]),
                found.sequence,
                found.committed_ms,
                columns=_columns_of(texts),
                dropped=tuple(sorted(name for (name,) in gone)),
            )
        forgotten = unit.scalar(FORGOTTEN_UP_TO, id=number)
        if forgotten is not None and write_id is not None and write_id <= forgotten:
            raise _forgotten(unit, table, number, write_id)
        if not write_id:
            came = came_since(ask_partitions_since(unit, number, 0))
            first = next(one for one in count(1) if one > now.hwm or now.is_valid(one))
            knows_first = unit.row(_BY_WRITE_ID, id=number, write_id=first) is not None
            if first > now.hwm or knows_first or any(one.name == WHOLE_TABLE for one in came):
                empty = ValidWriteIdList.of(now.table, hwm=0)
                columns, dropped = _columns_at(unit, number, 0), _dropped_since(unit, number, 0)
                return Version(WriteId(0), empty, 0, None, columns, dropped)
            if write_id is None:
                raise _not_told(unit, table, number)
            write_id = 0
        if write_id < 0 or not now.is_valid(write_id):
            raise _no_such_version(table, write_id, now)
        before = unit.scalar(_BEFORE_WRITE_ID, id=number, write_id=write_id) or 0
        columns, dropped = _columns_at(unit, number, before), _dropped_since(unit, number, before)
        valid = state_after(now, highest=write_id)
        return Version(WriteId(write_id), valid, None, None, columns, dropped)


def _valid_now(unit: Unit, table: TableName, number: int) -> ValidWriteIdList:
    """Which write ids are committed, as far as it is known of each what became of it."""
    asked = unit.ask(ABORTED_OF, id=number)
    (now,) = read_valid_write_ids(unit, (table,), whole=True)
    gone = [write_id for (write_id,) in asked.rows()]
    return replace(now, aborted=(*now.aborted, *gone)) if gone else now


def _dropped_since(unit: Unit, table: int, sequence: int) -> tuple[str, ...]:
    return tuple(sorted(name for (name,) in unit.rows(_DROPPED, id=table, sequence=sequence)))


def _columns_at(unit: Unit, table: int, sequence: int) -> tuple[Column, ...] | None:
    return _columns_of(unit.rows(_COLUMNS_AT, id=table, sequence=sequence))


def _columns_of(rows: Sequence[Row]) -> tuple[Column, ...] | None:
    if not rows:
        return None
    ((text,),) = rows
    return tuple(
        Column(name, parse_type(kind), comment) for name, kind, comment in json.loads(text)
    )


def _commit(table: TableName, row: Row) -> Commit:
    _, sequence, write_id, txn, started, at, kind, *counts, user, host, application, text = row
    inserted, updated, deleted, files, size_bytes = counts
    facts = CommitFacts(
        table, WriteId(write_id), kind, inserted, updated, deleted, files, size_bytes
    )
    return Commit(
        sequence,
        TxnId(txn),
        facts.write_id,
        started,
        at,
        facts,
        user,
        host,
        application,
        text,
    )


def _no_such_version(table: TableName, write_id: int, now: ValidWriteIdList) -> NotFoundError:
    if write_id > now.hwm or write_id < 0:
        why = f"its last write id is {now.hwm}"
    else:
        why = "that write was not committed"
    return NotFoundError(
        f"{table} has no version {write_id}: {why}", table=str(table), version=write_id
    )


def _forgotten(unit: Unit, table: TableName, number: int, write_id: int) -> SnapshotExpiredError:
    first = unit.row(_FIRST, id=number)
    assert first is not None, "the last record stays"
    _, oldest = first
    return SnapshotExpiredError(
        f"Version {write_id} of {table} is not told any more: its commit is older than the history "
        f"is kept. The oldest version that is told is {oldest}",
        table=str(table),
        version=int(write_id),
        oldest=int(oldest),
        write_id=int(oldest),
        note=f"The table property {HISTORY_RETENTION} says how long the history is kept.",
    )


def _not_told(unit: Unit, table: TableName, number: int) -> NotFoundError:
    first = unit.row(_FIRST, id=number)
    known = "no commit of it was recorded"
    if first is not None:
        when_ms, version = first
        known = f"the oldest one that is known by its time is version {version} of {at(when_ms)}"
    return NotFoundError(
        f"Nobody can tell what {table} was at that time: {known}",
        table=str(table),
        note="SELECT ... FOR SYSTEM_VERSION AS OF takes a write id.",
    )
