"""What commits keep: statistics of tables and partitions, asked for under a snapshot, and the last
micro-batch of each stream in each table.

Each commit writes its write id beside the statistics of what it changed, while it holds the row's
lock. So the write id there is that of the last commit, and a snapshot that sees it has seen all
before it: then, and only then, are the statistics the snapshot's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import (
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.schema import Table as SqlTable
from sqlalchemy.sql import ColumnElement

from hiveacid.errors import ConflictError, no_such_table
from hiveacid.layout.directories import partition_name
from hiveacid.metastore.api import Catalog, OwnDatabase
from hiveacid.metastore.sql.catalog_schema import (
    DBS,
    PART_COL_STATS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    TAB_COL_STATS,
    TABLE_PARAMS,
    TBLS,
)
from hiveacid.metastore.sql.dialect import Answer, Row
from hiveacid.metastore.sql.engine import Part, Unit, one_of
from hiveacid.metastore.sql.objects import NAMED_TABLE, table_ids, take_ids
from hiveacid.metastore.sql.schema import HIVEACID_STREAM_BATCHES, TXN_TO_WRITE_ID, TXNS
from hiveacid.metastore.upkeep import Past
from hiveacid.model.commits import (
    ACCURATE,
    ROWS,
    STATISTICS_KEYS,
    ColumnStatistics,
    StatisticsChange,
    changed,
    row_count,
)
from hiveacid.model.history import StreamBatch
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import TableName, TxnId
from hiveacid.model.transactions import OperationType, TxnState

_W = TXN_TO_WRITE_ID.c
_PARTITIONED: Final = exists().where(PARTITION_KEYS.c.TBL_ID == TBLS.c.TBL_ID)
_OF_PARTS: Final = (*NAMED_TABLE, PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID)
_OF_PART: Final = (*_OF_PARTS, PARTITIONS.c.PART_NAME == bindparam("part"))
_HOLD_TABLE: Final = (
    select(TBLS.c.TBL_ID).where(*NAMED_TABLE, ~_PARTITIONED).with_for_update(of=TBLS)
)
_HOLD_PARTS: Final = (
    select(PARTITIONS.c.PART_ID)
    .where(*_OF_PARTS)
    .order_by(PARTITIONS.c.PART_NAME)
    .with_for_update(of=PARTITIONS)
)
_HOLD_PART: Final = select(PARTITIONS.c.PART_ID).where(*_OF_PART).with_for_update(of=PARTITIONS)
_IS_THERE: Final = select(TBLS.c.TBL_ID).where(*NAMED_TABLE)
_PART_ID: Final = select(PARTITIONS.c.PART_ID).where(*_OF_PART)
_WRITE_ID: Final = (
    select(_W.T2W_WRITEID)
    .where(
        _W.T2W_DATABASE == bindparam("database"),
        _W.T2W_TABLE == bindparam("table"),
        _W.T2W_TXNID == bindparam("txn"),
    )
    .scalar_subquery()
)


def _facts(
    kept: SqlTable,
    owner: ColumnElement[Any],
    params: SqlTable,
    *where: ColumnElement[bool],
    keys: Sequence[str] = STATISTICS_KEYS,
) -> Select[Any]:
    """Of each owner (a table or a partition) its id, name, write id and statistics, a row each, the
    state of that write id's transaction, and the write id of mine; these two as NULL where only
    some ``keys`` are asked for.
    """
    name = PARTITIONS.c.PART_NAME if kept is PARTITIONS else TBLS.c.TBL_NAME
    state = (
        select(TXNS.c.TXN_STATE)
        .where(
            _W.T2W_DATABASE == bindparam("database"),
            _W.T2W_TABLE == bindparam("table"),
            _W.T2W_WRITEID == kept.c.WRITE_ID,
            _W.T2W_TXNID == TXNS.c.TXN_ID,
        )
        .scalar_subquery()
    )
    columns = (owner, name, kept.c.WRITE_ID, params.c.PARAM_KEY, params.c.PARAM_VALUE)
    mine = (state, _WRITE_ID) if keys is STATISTICS_KEYS else (null(), null())
    is_statistic = one_of(params.c.PARAM_KEY, keys)
    source = TBLS.join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    if kept is PARTITIONS:
        source = source.join(PARTITIONS, PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID)
    source = source.outerjoin(params, and_(params.c[owner.name] == owner, is_statistic))
    found = select(*columns, *mine).select_from(source)
    return found.where(*NAMED_TABLE, *where)


_TABLE_FACTS: Final = _facts(TBLS, TBLS.c.TBL_ID, TABLE_PARAMS, ~_PARTITIONED)
_PARTS_FACTS: Final = _facts(PARTITIONS, PARTITIONS.c.PART_ID, PARTITION_PARAMS)
_PARTS_COUNTS: Final = _facts(
    PARTITIONS, PARTITIONS.c.PART_ID, PARTITION_PARAMS, keys=(ACCURATE, ROWS)
)
_PART_FACTS: Final = _PARTS_FACTS.where(PARTITIONS.c.PART_NAME == bindparam("part"))
_BOUNDS: Final[Mapping[str, str]] = {
    "long_low": "LONG_LOW_VALUE",
    "long_high": "LONG_HIGH_VALUE",
    "double_low": "DOUBLE_LOW_VALUE",
    "double_high": "DOUBLE_HIGH_VALUE",
    "decimal_low": "BIG_DECIMAL_LOW_VALUE",
    "decimal_high": "BIG_DECIMAL_HIGH_VALUE",
    "nulls": "NUM_NULLS",
    "distinct": "NUM_DISTINCTS",
    "average_length": "AVG_COL_LEN",
    "longest": "MAX_COL_LEN",
    "trues": "NUM_TRUES",
    "falses": "NUM_FALSES",
    "column": "COLUMN_NAME",
    "type": "COLUMN_TYPE",
}


class _Kept:
    """Where the statistics of tables, or of partitions, are kept: statements and names."""

    def __init__(
        self, head: SqlTable, params: SqlTable, column_stats: SqlTable, key: str, sequence: str
    ) -> None:
        self.column_stats = column_stats
        self.owner = key
        self.sequence = sequence
        of_owner = (params.c[key] == bindparam("owner"), params.c.PARAM_KEY == bindparam("key"))
        self.forget: Final = delete(params).where(*of_owner)
        self.change: Final = update(params).where(*of_owner).values(PARAM_VALUE=bindparam("value"))
        self.insert: Final = insert(params).values(
            **{
                key: bindparam("owner"),
                "PARAM_KEY": bindparam("key"),
                "PARAM_VALUE": bindparam("value"),
            }
        )
        self.set_write_id: Final = (
            update(head)
            .where(head.c[key] == bindparam("owner"))
            .values(WRITE_ID=bindparam("write_id"))
        )


_TABLE: Final = _Kept(TBLS, TABLE_PARAMS, TAB_COL_STATS, "TBL_ID", "MTableColumnStatistics")
_PARTITION: Final = _Kept(
    PARTITIONS, PARTITION_PARAMS, PART_COL_STATS, "PART_ID", "MPartitionColumnStatistics"
)


@dataclass(slots=True)
class _Facts:
    """What is kept of one table or partition, as a commit finds it; ``state`` is that of the
    transaction with the write id ``before``, None where it is forgotten or there is none.
    """

    owner: int
    name: str
    before: int | None
    state: object
    write_id: int
    parameters: dict[str, str] = field(default_factory=dict)


class SqlStatistics(Part, OwnDatabase, Catalog):
    """The part of ``Catalog`` about statistics."""

    def row_count(self, name: TableName, valid: ValidWriteIdList) -> int | None:
        where = {"database": name.database, "table": name.table}
        if self._db.of_hive:  # whose clients commit without a word about the rows
            return None
        with self._db.read() as unit:
            is_there = unit.ask(_IS_THERE, **where)
            of_table = unit.ask(_TABLE_FACTS, **where, txn=0)
            of_parts = unit.ask(_PARTS_COUNTS, **where)
        if is_there.row() is None:
            raise no_such_table(name)
        total: int | None = 0
        for one in _by_owner((of_table, of_parts)):
            rows = _rows_seen(one.parameters, one.before, valid)
            total = None if rows is None or total is None else total + rows
        return total

    def forget_column_statistics(self, table: TableName) -> int:
        """See ``CompactionUpkeep``."""
        with self._db.write() as unit:
            owner = table_ids(unit, table).table
            parts = select(PARTITIONS.c.PART_ID).where(PARTITIONS.c.TBL_ID == owner)
            of_table = TAB_COL_STATS.c.TBL_ID == owner
            of_parts = PART_COL_STATS.c.PART_ID.in_(parts)
            counts = (
                unit.scalar(select(func.count()).select_from(TAB_COL_STATS).where(of_table)),
                unit.scalar(select(func.count()).select_from(PART_COL_STATS).where(of_parts)),
            )
            delete_column_statistics(unit, table=owner, parts=parts)
        return sum(one or 0 for one in counts)

    def column_statistics(
        self, name: TableName, column: str, *, partition: tuple[str | None, ...] | None = None
    ) -> ColumnStatistics | None:
        with self._db.read() as unit:
            ids = table_ids(unit, name)
            kept, owner = _TABLE, ids.table
            if partition is not None:
                keys = [
                    row[0]
                    for row in unit.rows(
                        select(PARTITION_KEYS.c.PKEY_NAME)
                        .where(PARTITION_KEYS.c.TBL_ID == ids.table)
                        .order_by(PARTITION_KEYS.c.INTEGER_IDX)
                    )
                ]
                text = partition_name(keys, partition)
                where = {"database": name.database, "table": name.table, "part": text}
                owner = unit.scalar(_PART_ID, **where)
                if owner is None:
                    return None
                kept = _PARTITION
            stats = kept.column_stats
            names = [field.name for field in fields(ColumnStatistics)]
            rows = unit.rows(
                select(*[stats.c[_BOUNDS[field]] for field in names]).where(
                    stats.c[kept.owner] == owner, stats.c.COLUMN_NAME == column.lower()
                )
            )
            return ColumnStatistics(**dict(zip(names, rows[0], strict=True))) if rows else None


def _rows_seen(
    parameters: Mapping[str, str], write_id: int | None, valid: ValidWriteIdList
) -> int | None:
    """The row count where it is that of the snapshot; without a write id only nothing is known."""
    rows = row_count(parameters)
    if not write_id:
        return 0 if rows == 0 else None
    return rows if valid.is_valid(write_id) else None


def forget_statistics(unit: Unit, *, table: int | None = None, part: int | None = None) -> None:
    """The statistics of a table (and its partitions) or of a partition do not hold any more."""
    accurate = STATISTICS_KEYS[0]
    if table is not None:
        parts = select(PARTITIONS.c.PART_ID).where(PARTITIONS.c.TBL_ID == table)
        for params, owner in (
            (TABLE_PARAMS.c.TBL_ID == table, TABLE_PARAMS),
            (PARTITION_PARAMS.c.PART_ID.in_(parts), PARTITION_PARAMS),
        ):
            unit.ask(delete(owner).where(params, owner.c.PARAM_KEY == accurate))
    if part is not None:
        unit.ask(
            delete(PARTITION_PARAMS).where(
                PARTITION_PARAMS.c.PART_ID == part, PARTITION_PARAMS.c.PARAM_KEY == accurate
            )
        )


def delete_column_statistics(unit: Unit, *, table: Any = None, parts: Any = None) -> None:
    """Forget what hangs on a table's id, or on the partitions of a selection."""
    if table is not None:
        unit.ask(delete(TAB_COL_STATS).where(TAB_COL_STATS.c.TBL_ID == table))
    if parts is not None:
        unit.ask(delete(PART_COL_STATS).where(PART_COL_STATS.c.PART_ID.in_(parts)))


# -------------------------------------------------------------------- at the commit


def apply_changes(
    unit: Unit,
    txn: TxnId,
    records: Sequence[Row],
    changes: Sequence[StatisticsChange],
) -> None:
    """Bring the statistics of all that the transaction recorded (database, table, partition,
    write id, operation), or changed, up to date; what it did not count is not accurate any more.
    """
    touched: dict[TableName, set[str | None]] = {}
    for database, table, partition, _, operation in records:
        if operation != OperationType.COMPACT.value:
            touched.setdefault(TableName(database, table), set()).add(partition)
    by_table: dict[TableName, list[StatisticsChange]] = {name: [] for name in touched}
    for change in changes:
        by_table.setdefault(change.table, []).append(change)
    asked = [
        (name, mine, _ask_facts(unit, txn, name, mine, touched.get(name, set())))
        for name, mine in sorted(by_table.items(), key=itemgetter(0))
    ]
    for name, mine, (of_table, of_parts) in asked:
        for facts in _by_owner(of_table):
            _apply(unit, _TABLE, facts, mine or [_unknown(name)])
        by_partition: dict[str, list[StatisticsChange]] = {}
        for change in mine:
            by_partition.setdefault(change.partition or "", []).append(change)
        for facts in _by_owner(of_parts):
            _apply(unit, _PARTITION, facts, by_partition.get(facts.name) or [_unknown(name)])


def _ask_facts(
    unit: Unit,
    txn: TxnId,
    name: TableName,
    changes: Sequence[StatisticsChange],
    recorded: Set[str | None],
) -> tuple[list[Answer], list[Answer]]:
    """Hold what is to change to the end of the unit, and then ask for it: for the table where it
    has no partitions, for those named, or for all.
    """
    where = {"database": name.database, "table": name.table}
    partitions = sorted(
        one for one in {*recorded, *(change.partition for change in changes)} if one is not None
    )
    if not partitions:
        unit.hold(_HOLD_TABLE, **where)
        of_table = [unit.ask(_TABLE_FACTS, **where, txn=txn)]
        if changes or None not in recorded:
            return of_table, []
        unit.hold(_HOLD_PARTS, **where)
        return of_table, [unit.ask(_PARTS_FACTS, **where, txn=txn)]
    if None in recorded and not changes:
        unit.hold(_HOLD_PARTS, **where)
        return [], [unit.ask(_PARTS_FACTS, **where, txn=txn)]
    for one in partitions:
        unit.hold(_HOLD_PART, **where, part=one)
    return [], [unit.ask(_PART_FACTS, **where, txn=txn, part=one) for one in partitions]


def _by_owner(asked: Iterable[Answer]) -> list[_Facts]:
    found: dict[int, _Facts] = {}
    for one in asked:
        for owner, name, before, key, value, state, write_id in one.rows():
            facts = found.get(owner)
            if facts is None:
                facts = found[owner] = _Facts(owner, name, before, state, write_id or 0)
            if key is not None:
                facts.parameters[key] = value
    return list(found.values())


def _unknown(name: TableName) -> StatisticsChange:
    return StatisticsChange(name, None, None, 0, 0)


def _apply(unit: Unit, kept: _Kept, facts: _Facts, changes: Sequence[StatisticsChange]) -> None:
    parameters, before = dict(facts.parameters), facts.before
    if before and facts.state not in (None, TxnState.COMMITTED.value):  # None: long committed
        parameters.pop(STATISTICS_KEYS[0], None)
    done = False
    for change in changes:
        if change.seen is not None and before and not change.seen.is_valid(before):
            continue  # somebody else committed since the rows were looked at
        done = True
        parameters = changed(parameters, change)
        if unit.of_hive:  # other clients of it commit without a word about the rows
            parameters.pop(ACCURATE, None)
        if change.columns is not None:
            _set_columns(unit, kept, facts.owner, change.columns)
    if not done:
        return
    _set_parameters(unit, kept, facts, parameters)
    if facts.write_id:
        unit.ask(kept.set_write_id, owner=facts.owner, write_id=facts.write_id)


def _set_parameters(unit: Unit, kept: _Kept, facts: _Facts, parameters: Mapping[str, str]) -> None:
    """Write what is not there yet: most commits change two of five."""
    known, owner = facts.parameters, facts.owner
    unit.run_many(kept.forget, [{"owner": owner, "key": key} for key in known.keys() - parameters])
    changed_rows: list[dict[str, object]] = []
    new_rows: list[dict[str, object]] = []
    for key, text in parameters.items():
        if known.get(key) != text:
            row = {"owner": owner, "key": key, "value": text}
            (changed_rows if key in known else new_rows).append(row)
    unit.run_many(kept.change, changed_rows)
    unit.run_many(kept.insert, new_rows)


def _set_columns(unit: Unit, kept: _Kept, owner: int, columns: Sequence[ColumnStatistics]) -> None:
    stats = kept.column_stats
    names = [one.column for one in columns]
    unit.ask(delete(stats).where(stats.c[kept.owner] == owner, stats.c.COLUMN_NAME.in_(names)))
    if not columns:
        return
    taken = take_ids(unit, kept.sequence, len(columns))
    now_s = unit.now_ms // 1000
    unit.insert(
        stats,
        [
            {
                "CS_ID": number,
                kept.owner: owner,
                "ENGINE": "hive",
                "LAST_ANALYZED": now_s,
                **{sql: getattr(one, field) for field, sql in _BOUNDS.items()},
            }
            for number, one in zip(taken, columns, strict=True)
        ],
    )


_B: Final = HIVEACID_STREAM_BATCHES.c
_THIS_STREAM: Final = and_(
    _B.SB_APP_ID == bindparam("app"),
    _B.SB_DATABASE == bindparam("db"),
    _B.SB_TABLE == bindparam("table"),
)
_LAST_BATCH: Final = select(_B.SB_BATCH_ID).where(_THIS_STREAM)
_NAME_NOW: Final = (
    func.coalesce(DBS.c.NAME, _B.SB_DATABASE),
    func.coalesce(TBLS.c.TBL_NAME, _B.SB_TABLE),
)
_LAST_BATCHES: Final = (
    select(*_NAME_NOW, _B.SB_BATCH_ID, _B.SB_TABLE_ID)
    .join_from(HIVEACID_STREAM_BATCHES, TBLS, TBLS.c.TBL_ID == _B.SB_TABLE_ID, isouter=True)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID, isouter=True)
    .where(_B.SB_APP_ID == bindparam("app"))
    .order_by(*_NAME_NOW)
)
"""A RENAME of Hive's says nothing of streams: the table tells its name."""
_RAISE_BATCH: Final = (
    update(HIVEACID_STREAM_BATCHES)
    .where(
        _THIS_STREAM,
        or_(_B.SB_BATCH_ID < bindparam("number"), _B.SB_TABLE_ID != bindparam("id")),
    )
    .values(SB_BATCH_ID=bindparam("number"), SB_TABLE_ID=bindparam("id"))
)
_FIRST_BATCH: Final = insert(HIVEACID_STREAM_BATCHES).values(
    SB_APP_ID=bindparam("app"),
    SB_DATABASE=bindparam("db"),
    SB_TABLE=bindparam("table"),
    SB_BATCH_ID=bindparam("number"),
    SB_TABLE_ID=bindparam("id"),
)


class SqlStreamBatches(Part, Past):
    """The part of ``OwnDatabase`` about streams."""

    def last_batches(self, app_id: str) -> tuple[StreamBatch, ...]:
        with self._db.query() as unit:
            rows = unit.rows(_LAST_BATCHES, app=app_id)
        return tuple(
            StreamBatch(app_id, TableName(database, table), int(number), table_id)
            for database, table, number, table_id in rows
        )


def note_batches(unit: Unit, batches: Sequence[StreamBatch]) -> ConflictError | None:
    """Keep the batches as the last ones; the error of one that is there already or overtaken."""
    for batch in batches:
        key = {"app": batch.app_id, "db": batch.table.database, "table": batch.table.table}
        kept = {**key, "number": batch.number, "id": batch.table_id}
        if unit.count(_RAISE_BATCH, **kept):
            continue
        last = unit.scalar(_LAST_BATCH, **key)
        if last is not None:
            return ConflictError(
                f"Batch {batch.number} of {batch.app_id} is in {batch.table} already: the last one"
                f" is {last}",
                table=str(batch.table),
                batch=batch.number,
                last=int(last),
            )
        unit.ask(_FIRST_BATCH, **kept)
    return None
