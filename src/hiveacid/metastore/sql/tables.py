"""The catalog's tables: one row of TBLS, its storage, columns and parameters.

Tables that other metastores made are entered with their history, in one step. The write ids that do
not count get aborted transactions of this metastore, as Hive's would have them (metastore.md 2.5,
2.8). A reader's watermark is the highest write id remembered, and its list ends at the first one
that is not committed where none is (metastore.md, surprises 3 and 4): so two committed transactions
come after the aborted ones, with the lowest free write id and the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import bindparam, delete, or_, select, update

from hiveacid.errors import AlreadyExistsError, ConflictError, InvalidInputError, no_such_table
from hiveacid.layout.takeover import Takeover
from hiveacid.metastore.api import Catalog, Claim, OwnDatabase, Place
from hiveacid.metastore.sql.beside_hive import (
    delete_dependents,
    store_constraints,
    store_serde_properties,
)
from hiveacid.metastore.sql.catalog_schema import (
    BUCKETING_COLS,
    CDS,
    COLUMNS_V2,
    HIVEACID_PINS,
    PARTITION_KEYS,
    PARTITIONS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SORT_COLS,
    TABLE_PARAMS,
    TBLS,
)
from hiveacid.metastore.sql.definitions import ask_definition, read_definition, stored_parameters
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.history import keep_columns
from hiveacid.metastore.sql.objects import (
    TableIds,
    claim_place,
    database_id,
    delete_where,
    find_table,
    forget_table,
    locked_table_ids,
    read_places,
    rename_table,
    take_ids,
)
from hiveacid.metastore.sql.partitions import delete_partitions, insert_partitions, move_partitions
from hiveacid.metastore.sql.pins import keep_dropped, note_converted
from hiveacid.metastore.sql.schema import NEXT_WRITE_ID, TXNS
from hiveacid.metastore.sql.statistics import delete_column_statistics, forget_statistics
from hiveacid.metastore.sql.txns import assume_committed, highest_txn, read_open_txns
from hiveacid.metastore.sql.write_ids import (
    give_write_ids,
    insert_components,
    last_write_id,
    read_valid_write_ids,
)
from hiveacid.model.commits import STATISTICS_KEYS
from hiveacid.model.history import WHOLE_TABLE
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import (
    Column,
    Partition,
    Table,
    TableKind,
    TableName,
    TxnId,
    storage_classes,
)
from hiveacid.model.transactions import OperationType, TxnState, TxnType

_T = TBLS.c
_MOVE: Final = (
    update(TBLS)
    .where(_T.TBL_ID == bindparam("id"))
    .values(TBL_NAME=bindparam("name"), DB_ID=bindparam("db"))
)


class SqlTables(Part, OwnDatabase, Catalog):
    """The part of ``Catalog`` about tables, also those of other metastores."""

    def create_table(
        self, table: Table, *, if_not_exists: bool = False, claim: Claim | None = None
    ) -> bool:
        with self._db.write() as unit:
            made = insert_table(unit, table, if_not_exists=if_not_exists)
            claim_place(unit, claim if made else None)
            return made

    def drop_table(self, name: TableName) -> None:
        with self._db.write() as unit:
            if not delete_table(unit, name):
                raise no_such_table(name)

    def replace_table(self, name: TableName, *, by: TableName) -> None:
        with self._db.write() as unit:
            ids = locked_table_ids(unit, by)
            delete_table(unit, name)
            _rename(unit, ids, by, name)

    def get_table(self, name: TableName) -> Table:
        with self._db.query() as unit:
            return read_table(unit, name)

    def get_tables(self, names: Collection[TableName]) -> Mapping[TableName, Table]:
        if not names:
            return {}
        with self._db.query() if len(names) == 1 else self._db.read() as unit:
            asked = {name: ask_definition(unit, name) for name in names}
        found = {name: read_definition(name, rows) for name, rows in asked.items()}
        return {name: table for name, table in found.items() if table is not None}

    def alter_table(
        self,
        name: TableName,
        change: Callable[[Table], Table],
        *,
        claim: Claim | None = None,
    ) -> Table:
        with self._db.write() as unit:
            ids = locked_table_ids(unit, name)
            old = read_table(unit, name)
            table = replace(change(old), id=old.id)
            moved = table.location != old.location
            if table.name != name:
                _rename(unit, ids, name, table.name)
                if moved:
                    move_partitions(unit, ids.table, old.location, table.location)
            elif moved or old.is_transactional != table.is_transactional:
                forget_statistics(unit, table=ids.table)
                if not old.is_transactional:
                    forget_table(unit, name, but=NEXT_WRITE_ID)  # its files are of no transaction
            _delete_details(unit, ids, but=STATISTICS_KEYS)
            unit.ask(update(SDS).where(SDS.c.SD_ID == ids.storage).values(**_storage_values(table)))
            unit.ask(
                update(SERDES)
                .where(SERDES.c.SERDE_ID == ids.serde)
                .values(SLIB=storage_classes(table).serde)
            )
            unit.ask(
                update(TBLS)
                .where(_T.TBL_ID == ids.table)
                .values(OWNER=table.owner or None, **_kind_values(table))
            )
            _insert_columns(unit, ids.columns, table)
            _insert_storage_details(unit, ids.storage, table)
            of_serde = store_serde_properties(unit, ids.serde, table.properties)
            _insert_details(unit, ids.table, table, but=(*STATISTICS_KEYS, *of_serde))
            store_constraints(unit, ids.table, ids.columns, table)
            claim_place(unit, claim)
            if moved and table.name == name:
                keep_dropped(unit, ids.table, [WHOLE_TABLE])
            if table.is_transactional and not old.is_transactional:
                note_converted(unit, ids.table)
            if old.columns != table.columns:
                keep_columns(unit, ids.table, old.columns)
            return table

    def attach_table(
        self,
        table: Table,
        partitions: Sequence[Partition],
        takeover: Takeover | None,
        *,
        claim: Claim | None = None,
    ) -> None:
        with self._db.write() as unit:
            if takeover is not None:
                unit.exclude_opens()
            insert_table(unit, table, if_not_exists=False)
            insert_partitions(unit, table.name, partitions, if_not_exists=True)
            claim_place(unit, claim)
            if takeover is not None:
                _enter_history(unit, table, takeover)

    def detach_table(
        self, name: TableName, *, but: TxnId, told: ValidWriteIdList | None = None
    ) -> tuple[ValidWriteIdList, ValidTxnList]:
        with self._db.write() as unit:
            found = read_open_txns(unit, (TxnType.READ_ONLY,))
            opened = [txn for txn in found.open if txn != but]
            txns = ValidTxnList.of(hwm=found.hwm, open=opened, aborted=found.aborted)
            last = last_write_id(unit, name)
            (valid,) = read_valid_write_ids(unit, (name,), txns, whole=True)
            whole = ValidWriteIdList.of(str(name), hwm=last, open=valid.open, aborted=valid.aborted)
            if whole == told and not delete_table(unit, name):
                raise no_such_table(name)
        return whole, txns

    def assume_committed(self, txn: TxnId) -> None:
        with self._db.write() as unit:
            unit.exclude_opens()
            assume_committed(unit, txn)

    def places(self) -> tuple[Place, ...]:
        with self._db.read() as unit:
            return read_places(unit)


def insert_table(unit: Unit, table: Table, *, if_not_exists: bool) -> bool:
    """Store a new table; False where it existed and ``if_not_exists``.

    Raises:
        AlreadyExistsError, NotFoundError: the name is taken; no such database.
    """
    database = database_id(unit, table.name.database)
    if find_table(unit, table.name) is not None:
        if if_not_exists:
            return False
        raise _exists(table.name)
    forget_table(unit, table.name)
    storage, columns, of_serde = insert_storage(unit, table)
    (found,) = take_ids(unit, "MTable", 1)
    created_s = (table.created_at_ms or unit.now_ms) // 1000
    row = {
        "TBL_ID": found,
        "DB_ID": database,
        "SD_ID": storage,
        "TBL_NAME": table.name.table,
        "CREATE_TIME": created_s,
        "LAST_ACCESS_TIME": 0,
        "RETENTION": 0,
        "OWNER": table.owner or None,
        "OWNER_TYPE": "USER",
    }
    unit.insert(TBLS, [row | _kind_values(table)])
    _insert_details(unit, found, table, but=of_serde)
    store_constraints(unit, found, columns, table)
    return True


def read_table(unit: Unit, name: TableName) -> Table:
    """Raises: NotFoundError (Hive's 10001)."""
    table = read_definition(name, ask_definition(unit, name))
    if table is None:
        raise no_such_table(name)
    return table


def delete_table(unit: Unit, name: TableName) -> bool:
    """Forget the table and all that hangs on it; False where it does not exist."""
    ids = find_table(unit, name)
    if ids is None:
        return False
    parts = select(PARTITIONS.c.PART_ID).where(PARTITIONS.c.TBL_ID == ids.table)
    storages = select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.TBL_ID == ids.table)
    delete_partitions(unit, parts, storages)
    table, storage = (ids.table,), (ids.storage,)
    delete_dependents(unit, TBL_ID=table, PARENT_TBL_ID=table, CHILD_TBL_ID=table)
    delete_dependents(unit, SD_ID=storage, SD_ID_OID=storage)
    _delete_details(unit, ids)
    unit.ask(delete_where(_T.TBL_ID), value=ids.table)
    unit.ask(delete_where(SDS.c.SD_ID), value=ids.storage)
    for serde_table in (SERDE_PARAMS, SERDES):
        unit.ask(delete_where(serde_table.c.SERDE_ID), value=ids.serde)
    unit.ask(delete_where(CDS.c.CD_ID), value=ids.columns)
    unit.ask(delete_where(HIVEACID_PINS.c.HP_TBL_ID), value=ids.table)
    forget_table(unit, name)
    delete_column_statistics(unit, table=ids.table)
    return True


def insert_storage(unit: Unit, table: Table) -> tuple[int, int, tuple[str, ...]]:
    """Store the table's location, format, buckets and columns; the ids of storage and columns, and
    the names of properties that are stored with them.
    """
    (columns,) = take_ids(unit, "MColumnDescriptor", 1)
    (serde,) = take_ids(unit, "MSerDeInfo", 1)
    (storage,) = take_ids(unit, "MStorageDescriptor", 1)
    unit.insert(CDS, [{"CD_ID": columns}])
    _insert_columns(unit, columns, table)
    unit.insert(SERDES, [{"SERDE_ID": serde, "SLIB": storage_classes(table).serde}])
    row = {
        "SD_ID": storage,
        "CD_ID": columns,
        "SERDE_ID": serde,
        "IS_COMPRESSED": False,
        "IS_STOREDASSUBDIRECTORIES": False,
    }
    unit.insert(SDS, [row | _storage_values(table)])
    _insert_storage_details(unit, storage, table)
    return storage, columns, store_serde_properties(unit, serde, table.properties)


def _storage_values(table: Table) -> dict[str, Any]:
    classes = storage_classes(table)
    return {
        "INPUT_FORMAT": classes.input_format,
        "OUTPUT_FORMAT": classes.output_format,
        "LOCATION": table.location,
        "NUM_BUCKETS": -1 if table.bucket is None else table.bucket.count,
    }


def _kind_values(table: Table) -> dict[str, Any]:
    view = table.kind is TableKind.VIEW
    return {
        "TBL_TYPE": table.kind.value,
        "VIEW_ORIGINAL_TEXT": table.view_text if view else None,
        "VIEW_EXPANDED_TEXT": table.view_expanded if view else None,
        "IS_REWRITE_ENABLED": False,
    }


def _insert_columns(unit: Unit, columns: int, table: Table) -> None:
    unit.insert(
        COLUMNS_V2,
        [_column_row(columns, column, at) for at, column in enumerate(table.columns)],
    )


def append_columns(unit: Unit, columns: Sequence[tuple[TableName, Column]]) -> None:
    """Give each table, and with it its partitions, one more column.

    Raises:
        NotFoundError: no such table.
        ConflictError: it has a column of this name.
    """
    for name, column in columns:
        ids, table = locked_table_ids(unit, name), read_table(unit, name)
        if any(one.name == column.name for one in table.all_columns):
            raise ConflictError(
                f"Column {column.name} was added to {name} meanwhile",
                table=str(name),
                column=column.name,
            )
        row = _column_row(ids.columns, column, len(table.columns))
        unit.insert(COLUMNS_V2, [row])
        keep_columns(unit, ids.table, table.columns)


def _column_row(columns: int, column: Column, at: int) -> dict[str, Any]:
    return {
        "CD_ID": columns,
        "COLUMN_NAME": column.name.lower(),
        "TYPE_NAME": str(column.type),
        "COMMENT": column.comment,
        "INTEGER_IDX": at,
    }


def _insert_storage_details(unit: Unit, storage: int, table: Table) -> None:
    unit.insert(
        BUCKETING_COLS,
        [
            {"SD_ID": storage, "BUCKET_COL_NAME": name, "INTEGER_IDX": at}
            for at, name in enumerate(table.bucket_columns)
        ],
    )
    unit.insert(
        SORT_COLS,
        [
            {
                "SD_ID": storage,
                "COLUMN_NAME": column.name,
                "ORDER": 0 if column.is_descending else 1,
                "INTEGER_IDX": at,
            }
            for at, column in enumerate(table.sort_columns)
        ],
    )


def _insert_details(unit: Unit, found: int, table: Table, *, but: Sequence[str] = ()) -> None:
    unit.insert(
        PARTITION_KEYS,
        [
            {
                "TBL_ID": found,
                "PKEY_NAME": column.name.lower(),
                "PKEY_TYPE": str(column.type),
                "PKEY_COMMENT": column.comment,
                "INTEGER_IDX": at,
            }
            for at, column in enumerate(table.partition_columns)
        ],
    )
    unit.insert(
        TABLE_PARAMS,
        [
            {"TBL_ID": found, "PARAM_KEY": key, "PARAM_VALUE": value}
            for key, value in stored_parameters(table, of_hive=unit.of_hive).items()
            if key not in but
        ],
    )


def _delete_details(unit: Unit, ids: TableIds, *, but: Sequence[str] = ()) -> None:
    """Forget columns, keys, buckets and parameters ``but`` those."""
    unit.ask(delete_where(COLUMNS_V2.c.CD_ID), value=ids.columns)
    unit.ask(delete_where(PARTITION_KEYS.c.TBL_ID), value=ids.table)
    unit.ask(
        delete(TABLE_PARAMS).where(
            TABLE_PARAMS.c.TBL_ID == ids.table, TABLE_PARAMS.c.PARAM_KEY.not_in(but)
        )
    )
    for table in (BUCKETING_COLS, SORT_COLS):
        unit.ask(delete_where(table.c.SD_ID), value=ids.storage)


def _rename(unit: Unit, ids: TableIds, old: TableName, new: TableName) -> None:
    database = database_id(unit, new.database)
    if find_table(unit, new) is not None:
        raise _exists(new)
    unit.ask(_MOVE, id=ids.table, name=new.table, db=database)
    rename_table(unit, old, new)


def _exists(name: TableName) -> AlreadyExistsError:
    return AlreadyExistsError(f"Table {name} already exists", table=str(name))


# -------------------------------------------------------------------- tables of other metastores

_X = TXNS.c
_NOT_COMMITTED: Final = select(_X.TXN_ID, _X.TXN_STATE).where(
    or_(_X.TXN_STATE == TxnState.OPEN.value, _X.TXN_STATE == TxnState.ABORTED.value)
)


def _enter_history(unit: Unit, table: Table, takeover: Takeover) -> None:
    _check_compactions(unit, table, takeover)
    assume_committed(unit, takeover.highest_txn)
    where = {"db": table.name.database, "table": table.name.table}
    write_ids = sorted({write_id for write_id, _ in takeover.aborted})
    first = highest_txn(unit) + 1
    txn_of = {write_id: TxnId(first + at) for at, write_id in enumerate(write_ids)}
    after = takeover.highest_write_id + 1
    committed = [] if not write_ids else [after] if 1 in txn_of or after == 1 else [1, after]
    txn_of |= {one: TxnId(first + len(txn_of) + at) for at, one in enumerate(committed)}
    aborted, done = TxnState.ABORTED.value, TxnState.COMMITTED.value
    # Those that are committed look old, so that nobody takes an id below for a late one.
    as_it_is, as_committed = (aborted, unit.now_ms), (done, 0)
    states = [as_committed if one in committed else as_it_is for one in txn_of]
    unit.insert(
        TXNS,
        [
            {
                "TXN_ID": txn,
                "TXN_STATE": state,
                "TXN_STARTED": at,
                "TXN_LAST_HEARTBEAT": at,
                "TXN_USER": table.owner,
                "TXN_HOST": "",
                "TXN_META_INFO": "taken over from another metastore",
            }
            for txn, (state, at) in zip(txn_of.values(), states, strict=True)
        ],
    )
    if txn_of:
        unit.dialect.set_next_txn_id(unit.channel, max(txn_of.values()) + 1)
    insert_components(
        unit,
        [
            {
                **where,
                "txn": txn_of[write_id],
                "partition": partition,
                "op": OperationType.INSERT.value,
                "write_id": write_id,
            }
            for write_id, partition in takeover.aborted
        ],
    )
    following = after + 1 if committed else after
    give_write_ids(unit, table.name, txn_of, following=following)


def _check_compactions(unit: Unit, table: Table, takeover: Takeover) -> None:
    """The transactions of another metastore whose results are read count as committed here."""
    names = {"o": "open", "a": "aborted"}
    states: dict[int, str] = dict(unit.rows(_NOT_COMMITTED))
    for txn in sorted(takeover.compactions.intersection(states)):
        raise InvalidInputError(
            f"Transaction {txn} made a compaction of {table.location}, and another transaction "
            f"{txn} of this metastore is {names[states[txn]]}: nobody would see that compaction",
            table=str(table.name),
            txn=txn,
            note="Let it end (`hiveacid clean` forgets an aborted one), or take another metastore.",
        )
