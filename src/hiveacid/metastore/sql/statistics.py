"""Statistics of tables and partitions: kept in step with commits, asked for under a snapshot.

Each commit writes its write id beside the statistics of what it changed, while it holds the row's
lock. So the write id there is that of the last commit, and a snapshot that sees it has seen all
before it: then, and only then, are the statistics the snapshot's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from sqlalchemy import bindparam, delete, insert, select, update

from hiveacid.layout.names import partition_name
from hiveacid.metastore.api import Catalog
from hiveacid.metastore.sql.catalog_schema import (
    PART_COL_STATS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    TAB_COL_STATS,
    TABLE_PARAMS,
    TBLS,
)
from hiveacid.metastore.sql.engine import Database, Row, Unit, one_of
from hiveacid.metastore.sql.lookup import TableIds, find_table, table_ids
from hiveacid.metastore.sql.objects import take_ids
from hiveacid.metastore.sql.schema import TXN_COMPONENTS, TXN_TO_WRITE_ID, TXNS
from hiveacid.metastore.sql.write_ids import write_id_of
from hiveacid.model.ids import TxnId
from hiveacid.model.statistics import (
    STATISTICS_KEYS,
    ColumnStatistics,
    StatisticsChange,
    changed,
    row_count,
)
from hiveacid.model.tables import TableName
from hiveacid.model.transactions import OperationType, TxnState
from hiveacid.model.valid import ValidWriteIdList

_C = TXN_COMPONENTS.c
_W = TXN_TO_WRITE_ID.c
_TOUCHED: Final = (
    select(_C.TC_DATABASE, _C.TC_TABLE, _C.TC_PARTITION)
    .where(_C.TC_TXNID == bindparam("txn"), _C.TC_OPERATION_TYPE != OperationType.COMPACT.value)
    .distinct()
)
_IS_PARTITIONED: Final = (
    select(PARTITION_KEYS.c.PKEY_NAME).where(PARTITION_KEYS.c.TBL_ID == bindparam("id")).limit(1)
)
_TABLE_WRITE_ID: Final = select(TBLS.c.WRITE_ID).where(TBLS.c.TBL_ID == bindparam("id"))
_LOCKED_TABLE_WRITE_ID: Final = _TABLE_WRITE_ID.with_for_update()
_PARTS: Final = select(PARTITIONS.c.PART_ID, PARTITIONS.c.PART_NAME, PARTITIONS.c.WRITE_ID).where(
    PARTITIONS.c.TBL_ID == bindparam("id")
)
_LOCKED_PARTS: Final = _PARTS.order_by(PARTITIONS.c.PART_NAME).with_for_update()
_LOCKED_PART: Final = _PARTS.where(PARTITIONS.c.PART_NAME == bindparam("name")).with_for_update()
_TABLE_PARAMS: Final = select(TABLE_PARAMS.c.PARAM_KEY, TABLE_PARAMS.c.PARAM_VALUE).where(
    TABLE_PARAMS.c.TBL_ID == bindparam("id"), one_of(TABLE_PARAMS.c.PARAM_KEY, STATISTICS_KEYS)
)
_PART_PARAMS: Final = select(PARTITION_PARAMS.c.PARAM_KEY, PARTITION_PARAMS.c.PARAM_VALUE).where(
    PARTITION_PARAMS.c.PART_ID == bindparam("id"),
    one_of(PARTITION_PARAMS.c.PARAM_KEY, STATISTICS_KEYS),
)
_ALL_PART_PARAMS: Final = (
    select(PARTITION_PARAMS.c.PART_ID, PARTITION_PARAMS.c.PARAM_KEY, PARTITION_PARAMS.c.PARAM_VALUE)
    .join_from(PARTITION_PARAMS, PARTITIONS, PARTITION_PARAMS.c.PART_ID == PARTITIONS.c.PART_ID)
    .where(
        PARTITIONS.c.TBL_ID == bindparam("id"),
        one_of(PARTITION_PARAMS.c.PARAM_KEY, STATISTICS_KEYS),
    )
)
_STATE_OF_WRITE_ID: Final = (
    select(TXNS.c.TXN_STATE)
    .join_from(TXN_TO_WRITE_ID, TXNS, _W.T2W_TXNID == TXNS.c.TXN_ID)
    .where(
        _W.T2W_DATABASE == bindparam("db"),
        _W.T2W_TABLE == bindparam("table"),
        _W.T2W_WRITEID == bindparam("write_id"),
    )
)
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


@dataclass(frozen=True, slots=True)
class _Kept:
    """Where the statistics of a table, or of a partition, are kept."""

    head: Any
    key: Any
    params: Any
    params_key: Any
    column_stats: Any
    owner: str
    read: Any
    sequence: str


_TABLE: Final = _Kept(
    TBLS, TBLS.c.TBL_ID, TABLE_PARAMS, TABLE_PARAMS.c.TBL_ID, TAB_COL_STATS, "TBL_ID",
    _TABLE_PARAMS, "MTableColumnStatistics",
)  # fmt: skip
_PARTITION: Final = _Kept(
    PARTITIONS, PARTITIONS.c.PART_ID, PARTITION_PARAMS, PARTITION_PARAMS.c.PART_ID,
    PART_COL_STATS, "PART_ID", _PART_PARAMS, "MPartitionColumnStatistics",
)  # fmt: skip


class SqlStatistics(Catalog):
    """The part of ``Catalog`` about statistics."""

    _db: Database

    def row_count(self, name: TableName, valid: ValidWriteIdList) -> int | None:
        with self._db.read() as unit:
            ids = table_ids(unit, name)
            if unit.row(_IS_PARTITIONED, id=ids.table) is None:
                write_id = unit.scalar(_TABLE_WRITE_ID, id=ids.table)
                return _rows_seen(dict(unit.rows(_TABLE_PARAMS, id=ids.table)), write_id, valid)
            parameters: dict[int, dict[str, str]] = {}
            for part, key, value in unit.rows(_ALL_PART_PARAMS, id=ids.table):
                parameters.setdefault(part, {})[key] = value
            total = 0
            for part, _, write_id in unit.rows(_PARTS, id=ids.table):
                found = _rows_seen(parameters.get(part, {}), write_id, valid)
                if found is None:
                    return None
                total += found
            return total

    def column_statistics(
        self, name: TableName, column: str, *, partition: tuple[str | None, ...] | None = None
    ) -> ColumnStatistics | None:
        with self._db.read() as unit:
            ids = table_ids(unit, name)
            kept, owner = _TABLE, ids.table
            if partition is not None:
                keys = [
                    row[0]
                    for row in unit.query(
                        select(PARTITION_KEYS.c.PKEY_NAME)
                        .where(PARTITION_KEYS.c.TBL_ID == ids.table)
                        .order_by(PARTITION_KEYS.c.INTEGER_IDX)
                    )
                ]
                text = partition_name(keys, partition)
                row = next((r for r in unit.rows(_PARTS, id=ids.table) if r[1] == text), None)
                if row is None:
                    return None
                kept, owner = _PARTITION, row[0]
            stats = kept.column_stats
            names = [field.name for field in fields(ColumnStatistics)]
            rows = unit.query(
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
            unit.change(delete(owner).where(params, owner.c.PARAM_KEY == accurate))
    if part is not None:
        unit.change(
            delete(PARTITION_PARAMS).where(
                PARTITION_PARAMS.c.PART_ID == part, PARTITION_PARAMS.c.PARAM_KEY == accurate
            )
        )


def delete_column_statistics(unit: Unit, *, table: Any = None, parts: Any = None) -> None:
    """Forget what hangs on a table's id, or on the partitions of a selection."""
    if table is not None:
        unit.change(delete(TAB_COL_STATS).where(TAB_COL_STATS.c.TBL_ID == table))
    if parts is not None:
        unit.change(delete(PART_COL_STATS).where(PART_COL_STATS.c.PART_ID.in_(parts)))


# -------------------------------------------------------------------- at the commit


def apply_changes(unit: Unit, txn: TxnId, changes: Sequence[StatisticsChange]) -> None:
    """Bring the statistics of all that the transaction recorded, or changed, up to date; what it
    did not count is not accurate any more.
    """
    touched: dict[TableName, set[str | None]] = {}
    for database, table, partition in unit.rows(_TOUCHED, txn=txn):
        touched.setdefault(TableName(database, table), set()).add(partition)
    for change in changes:
        touched.setdefault(change.table, set())
    for name in sorted(touched):
        ids = find_table(unit, name)
        if ids is not None:
            mine = [change for change in changes if change.table == name]
            _apply_to_table(unit, txn, name, ids, mine, touched[name])


def _apply_to_table(
    unit: Unit,
    txn: TxnId,
    name: TableName,
    ids: TableIds,
    changes: Sequence[StatisticsChange],
    recorded: set[str | None],
) -> None:
    write_id = write_id_of(unit, txn, name.database, name.table) or 0
    if unit.row(_IS_PARTITIONED, id=ids.table) is None:
        before = unit.scalar(_LOCKED_TABLE_WRITE_ID, id=ids.table)
        _apply(unit, name, _TABLE, ids.table, before, write_id, changes or [_unknown(name)])
        return
    by_partition: dict[str, list[StatisticsChange]] = {}
    for change in changes:
        by_partition.setdefault(change.partition or "", []).append(change)
    uncounted = {one for one in recorded if one is not None} - set(by_partition)
    everything = None in recorded and not changes
    for part, text, before in _locked_parts(unit, ids, {*by_partition, *uncounted}, everything):
        found = by_partition.get(text) or [_unknown(name)]
        _apply(unit, name, _PARTITION, part, before, write_id, found)


def _locked_parts(unit: Unit, ids: TableIds, names: Iterable[str], everything: bool) -> list[Row]:
    wanted = sorted(names)
    if everything or len(wanted) > 100:
        rows = unit.rows(_LOCKED_PARTS, id=ids.table)
        return rows if everything else [row for row in rows if row[1] in set(wanted)]
    found = [unit.row(_LOCKED_PART, id=ids.table, name=name) for name in wanted]
    return [row for row in found if row is not None]


def _unknown(name: TableName) -> StatisticsChange:
    return StatisticsChange(name, None, None, 0, 0)


def _apply(
    unit: Unit,
    name: TableName,
    kept: _Kept,
    owner: int,
    before: int | None,
    write_id: int,
    changes: Sequence[StatisticsChange],
) -> None:
    parameters: dict[str, str] = dict(unit.rows(kept.read, id=owner))
    if before and not _is_committed(unit, name, before):
        parameters.pop(STATISTICS_KEYS[0], None)
    done = False
    for change in changes:
        if change.seen is not None and before and not change.seen.is_valid(before):
            continue  # somebody else committed since the rows were looked at
        done = True
        parameters = changed(parameters, change)
        if change.columns is not None:
            _set_columns(unit, kept, owner, change.columns)
    if not done:
        return
    of_owner = kept.params_key == owner
    unit.change(
        delete(kept.params).where(of_owner, one_of(kept.params.c.PARAM_KEY, STATISTICS_KEYS))
    )
    rows = [
        {kept.owner: owner, "PARAM_KEY": key, "PARAM_VALUE": value}
        for key, value in parameters.items()
    ]
    if rows:
        unit.change(insert(kept.params).values(rows))
    if write_id:
        unit.change(update(kept.head).where(kept.key == owner).values(WRITE_ID=write_id))


def _is_committed(unit: Unit, name: TableName, write_id: int) -> bool:
    """True also where the transaction is forgotten: none that is open or aborted is."""
    state = unit.scalar(_STATE_OF_WRITE_ID, db=name.database, table=name.table, write_id=write_id)
    return state in (None, TxnState.COMMITTED.value)


def _set_columns(unit: Unit, kept: _Kept, owner: int, columns: Sequence[ColumnStatistics]) -> None:
    stats = kept.column_stats
    names = [one.column for one in columns]
    unit.change(delete(stats).where(stats.c[kept.owner] == owner, stats.c.COLUMN_NAME.in_(names)))
    if not columns:
        return
    taken = take_ids(unit, kept.sequence, len(columns))
    now_s = unit.now_ms // 1000
    unit.change(
        insert(stats).values(
            [
                {
                    "CS_ID": number,
                    kept.owner: owner,
                    "ENGINE": "hive",
                    "LAST_ANALYZED": now_s,
                    **{sql: getattr(one, field) for field, sql in _BOUNDS.items()},
                }
                for number, one in zip(taken, columns, strict=True)
            ]
        )
    )
