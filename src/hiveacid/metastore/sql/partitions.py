"""The catalog's partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, bindparam, delete, select, update

from hiveacid.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from hiveacid.layout.directories import DEFAULT_PARTITION, partition_name
from hiveacid.metastore.api import Catalog, Claim
from hiveacid.metastore.sql import pins as past
from hiveacid.metastore.sql.beside_hive import (
    check_formats,
    copy_serde_properties,
    delete_dependents,
)
from hiveacid.metastore.sql.catalog_schema import (
    PARTITION_KEY_VALS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SERDES,
    TBLS,
)
from hiveacid.metastore.sql.dialect import Answer
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.objects import (
    NAMED_TABLE,
    TableIds,
    ask_table,
    claim_place,
    forget_partitions,
    found_table,
    rename_partition,
    table_ids,
    take_ids,
)
from hiveacid.metastore.sql.statistics import delete_column_statistics, forget_statistics
from hiveacid.model.commits import STATISTICS_KEYS
from hiveacid.model.tables import Partition, TableName

_P = PARTITIONS.c
_V = PARTITION_KEY_VALS.c
_OF_TABLE: Final = _P.TBL_ID == bindparam("table")

_KEY_NAMES: Final = (
    select(PARTITION_KEYS.c.PKEY_NAME)
    .where(PARTITION_KEYS.c.TBL_ID == bindparam("table"))
    .order_by(PARTITION_KEYS.c.INTEGER_IDX)
)
_BY_NAME: Final = select(_P.PART_ID, _P.SD_ID).where(_OF_TABLE, _P.PART_NAME == bindparam("name"))
_OF_NAMED: Final = _P.TBL_ID == select(TBLS.c.TBL_ID).where(*NAMED_TABLE).scalar_subquery()
_LIST: Final = (
    select(_P.PART_ID, SDS.c.LOCATION)
    .join_from(PARTITIONS, SDS, SDS.c.SD_ID == _P.SD_ID)
    .where(_OF_NAMED)
    .order_by(_P.PART_NAME)
)
_LIST_VALUES: Final = (
    select(_V.PART_ID, _V.PART_KEY_VAL)
    .join_from(PARTITION_KEY_VALS, PARTITIONS, _V.PART_ID == _P.PART_ID)
    .where(_OF_NAMED)
    .order_by(_V.PART_ID, _V.INTEGER_IDX)
)
_LIST_PARAMS: Final = (
    select(PARTITION_PARAMS.c.PART_ID, PARTITION_PARAMS.c.PARAM_KEY, PARTITION_PARAMS.c.PARAM_VALUE)
    .join_from(PARTITION_PARAMS, PARTITIONS, PARTITION_PARAMS.c.PART_ID == _P.PART_ID)
    .where(_OF_NAMED)
)
_NO_STATISTICS: Final = and_(*(PARTITION_PARAMS.c.PARAM_KEY != key for key in STATISTICS_KEYS))
_LIST_OTHER_PARAMS: Final = _LIST_PARAMS.where(_NO_STATISTICS)
_NAMES: Final = select(_P.PART_NAME).where(_OF_TABLE)
_STORED: Final = select(_P.PART_NAME, _P.PART_ID, _P.SD_ID).where(_OF_TABLE)
_AT_ONCE: Final = 500
"""Partitions that one statement deletes: each is one of its parameters."""
_ONE: Final = _LIST.where(_P.PART_NAME == bindparam("name"))
_PARAMS_OF: Final = select(PARTITION_PARAMS.c.PARAM_KEY, PARTITION_PARAMS.c.PARAM_VALUE).where(
    PARTITION_PARAMS.c.PART_ID == bindparam("part")
)
_STORAGE_OF_TABLE: Final = (
    select(SDS.c.CD_ID, SDS.c.INPUT_FORMAT, SDS.c.OUTPUT_FORMAT, SDS.c.NUM_BUCKETS, SERDES.c.SLIB)
    .join_from(SDS, SERDES, SDS.c.SERDE_ID == SERDES.c.SERDE_ID)
    .where(SDS.c.SD_ID == bindparam("storage"))
)
_SET_LOCATION: Final = (
    update(SDS).where(SDS.c.SD_ID == bindparam("storage")).values(LOCATION=bindparam("location"))
)
_LOCATION: Final = select(SDS.c.LOCATION).where(SDS.c.SD_ID == bindparam("storage"))
_FOR_ALTER: Final = _BY_NAME.with_for_update()
_RENAME: Final = (
    update(PARTITIONS).where(_P.PART_ID == bindparam("part")).values(PART_NAME=bindparam("name"))
)
_DELETE_PARAMS: Final = delete(PARTITION_PARAMS).where(
    PARTITION_PARAMS.c.PART_ID == bindparam("part"), _NO_STATISTICS
)
_PARTITION_LOCATIONS: Final = (
    select(SDS.c.SD_ID, SDS.c.LOCATION)
    .join_from(PARTITIONS, SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
    .where(PARTITIONS.c.TBL_ID == bindparam("id"))
)


class SqlPartitions(Part, Catalog):
    """The part of ``Catalog`` about partitions."""

    def add_partitions(
        self,
        name: TableName,
        partitions: Sequence[Partition],
        *,
        if_not_exists: bool = True,
        have_rows: bool = False,
        claim: Claim | None = None,
    ) -> tuple[Partition, ...]:
        with self._db.write() as unit:
            added = insert_partitions(unit, name, partitions, if_not_exists=if_not_exists)
            claim_place(unit, claim)
            if added and have_rows:
                ids = table_ids(unit, name)
                keys = _keys(unit, ids)
                past.note_added(unit, ids.table, [_name(name, keys, one.values) for one in added])
            return added

    def alter_partition(
        self,
        name: TableName,
        values: tuple[str | None, ...],
        change: Callable[[Partition], Partition],
        *,
        claim: Claim | None = None,
    ) -> Partition:
        with self._db.write() as unit:
            ids = table_ids(unit, name)
            unit.rows(_FOR_ALTER, table=ids.table, name=_name(name, _keys(unit, ids), values))
            part, storage = _find(unit, ids, name, values)
            location = unit.scalar(_LOCATION, storage=storage) or ""
            old = Partition(values, location, dict(unit.rows(_PARAMS_OF, part=part)))
            new = change(old)
            if new.values != values:
                _rename(unit, ids, name, part, old=values, new=new.values)
            elif new.location != location:
                forget_statistics(unit, part=part)
                past.note_moved(unit, ids.table, _name(name, _keys(unit, ids), values))
            unit.ask(_SET_LOCATION, storage=storage, location=new.location)
            unit.ask(_DELETE_PARAMS, part=part)
            kept = {k: v for k, v in new.properties.items() if k not in STATISTICS_KEYS}
            _insert_params(unit, {part: kept})
            claim_place(unit, claim)
            return new

    def drop_partitions(
        self, name: TableName, values: Collection[tuple[str | None, ...]]
    ) -> tuple[Partition, ...]:
        wanted = set(values)
        with self._db.write() as unit:
            ids = table_ids(unit, name)
            keys = _keys(unit, ids)
            gone = tuple(one for one in _listed(*_ask_list(unit, name)) if one.values in wanted)
            names = {_name(name, keys, one.values) for one in gone}
            found = [row for row in unit.rows(_STORED, table=ids.table) if row[0] in names]
            for at in range(0, len(found), _AT_ONCE):
                texts, parts, storages = zip(*found[at : at + _AT_ONCE], strict=True)
                delete_partitions(unit, parts, storages)
                forget_partitions(unit, name, texts)
            if gone:
                past.note_dropped(unit, ids.table, sorted(names))
            return gone

    def list_partitions(
        self, name: TableName, *, statistics: bool = False
    ) -> tuple[Partition, ...]:
        with self._db.read() as unit:
            table, asked = ask_table(unit, name), _ask_list(unit, name, statistics=statistics)
            check_formats(unit, name)
        found_table(table, name)
        return _listed(*asked)

    def get_partition(self, name: TableName, values: tuple[str | None, ...]) -> Partition:
        with self._db.read() as unit:
            ids = table_ids(unit, name)
            text = _name(name, _keys(unit, ids), values)
            check_formats(unit, name)
            row = unit.row(_ONE, database=name.database, table=name.table, name=text)
            if row is None:
                raise _missing(name, text)
            return Partition(values, row[1] or "", dict(unit.rows(_PARAMS_OF, part=row[0])))


def delete_partitions(unit: Unit, parts: Any, storages: Any) -> None:
    """Delete what the catalog has of partitions; both are ids, or selections of ids."""
    serdes = select(SDS.c.SERDE_ID).where(SDS.c.SD_ID.in_(storages))
    delete_dependents(unit, PART_ID=parts, SD_ID=storages, SD_ID_OID=storages, SERDE_ID=serdes)
    delete_column_statistics(unit, parts=parts)
    unit.ask(delete(SERDES).where(SERDES.c.SERDE_ID.in_(serdes)))
    unit.ask(delete(SDS).where(SDS.c.SD_ID.in_(storages)))
    for table in (PARTITION_KEY_VALS, PARTITION_PARAMS, PARTITIONS):
        unit.ask(delete(table).where(table.c.PART_ID.in_(parts)))


def insert_partitions(
    unit: Unit, name: TableName, partitions: Sequence[Partition], *, if_not_exists: bool
) -> tuple[Partition, ...]:
    """Store those that do not exist; returns them. Raises: as ``Catalog.add_partitions``."""
    ids = table_ids(unit, name)
    keys = _keys(unit, ids)
    existing = {row[0] for row in unit.rows(_NAMES, table=ids.table)}
    new: dict[str, Partition] = {}
    for partition in partitions:
        text = _name(name, keys, partition.values)
        if text not in existing:
            new.setdefault(text, partition)
        elif not if_not_exists:
            raise _exists(name, text)
    _insert_partitions(unit, ids, new)
    return tuple(new.values())


def make_partitions(unit: Unit, wanted: Sequence[tuple[TableName, Sequence[Partition]]]) -> None:
    """Make those that are not there. Raises: NotFoundError: no such table; ConflictError: somebody
    made one of them in another place, where nothing was written.
    """
    for name, those in wanted:
        if len(insert_partitions(unit, name, those, if_not_exists=True)) == len(those):
            continue
        there = {one.values: one.location for one in _listed(*_ask_list(unit, name))}
        for one in those:
            if there.get(one.values) != one.location:
                raise ConflictError(
                    f"Partition {one.values} of {name} was added in another place meanwhile: what "
                    f"was written is in {one.location}",
                    table=str(name),
                )


def _rename(
    unit: Unit,
    ids: TableIds,
    name: TableName,
    part: int,
    *,
    old: tuple[str | None, ...],
    new: tuple[str | None, ...],
) -> None:
    keys = _keys(unit, ids)
    text = _name(name, keys, new)
    if unit.row(_BY_NAME, table=ids.table, name=text) is not None:
        raise _exists(name, text)
    unit.ask(_RENAME, part=part, name=text)
    unit.ask(delete(PARTITION_KEY_VALS).where(_V.PART_ID == part))
    _insert_values(unit, {part: new})
    before = _name(name, keys, old)
    rename_partition(unit, name, before, text)
    past.note_renamed(unit, ids.table, before, text)


def _insert_values(unit: Unit, values: Mapping[int, tuple[str | None, ...]]) -> None:
    """Store the values of partitions, by their ids."""
    unit.insert(
        PARTITION_KEY_VALS,
        [
            {
                "PART_ID": part,
                "PART_KEY_VAL": DEFAULT_PARTITION if text is None else text,
                "INTEGER_IDX": at,
            }
            for part, texts in values.items()
            for at, text in enumerate(texts)
        ],
    )


def _ask_list(
    unit: Unit, name: TableName, *, statistics: bool = False
) -> tuple[Answer, Answer, Answer]:
    """Ask for all partitions: for their values, their parameters, and themselves."""
    where = {"database": name.database, "table": name.table}
    return (
        unit.ask(_LIST_VALUES, **where),
        unit.ask(_LIST_PARAMS if statistics else _LIST_OTHER_PARAMS, **where),
        unit.ask(_LIST, **where),
    )


def _listed(asked_values: Answer, asked_params: Answer, asked: Answer) -> tuple[Partition, ...]:
    values: dict[int, list[str | None]] = {}
    for part, text in asked_values.rows():
        values.setdefault(part, []).append(None if text == DEFAULT_PARTITION else text)
    params: dict[int, dict[str, str]] = {}
    for part, key, value in asked_params.rows():
        params.setdefault(part, {})[key] = value
    return tuple(
        Partition(tuple(values[part]), location or "", params.get(part, {}))
        for part, location in asked.rows()
    )


def _insert_partitions(unit: Unit, ids: TableIds, new: dict[str, Partition]) -> None:
    if not new:
        return
    columns, input_format, output_format, buckets, lib = unit.rows(
        _STORAGE_OF_TABLE, storage=ids.storage
    )[0]
    keyed = list(
        zip(
            take_ids(unit, "MPartition", len(new)),
            take_ids(unit, "MStorageDescriptor", len(new)),
            take_ids(unit, "MSerDeInfo", len(new)),
            new.items(),
            strict=True,
        )
    )
    unit.insert(SERDES, [{"SERDE_ID": serde, "SLIB": lib} for _, _, serde, _ in keyed])
    copy_serde_properties(unit, ids.storage, [serde for _, _, serde, _ in keyed])
    unit.insert(
        SDS,
        [
            {
                "SD_ID": storage,
                "CD_ID": columns,
                "SERDE_ID": serde,
                "INPUT_FORMAT": input_format,
                "OUTPUT_FORMAT": output_format,
                "NUM_BUCKETS": buckets,
                "LOCATION": partition.location,
                "IS_COMPRESSED": False,
                "IS_STOREDASSUBDIRECTORIES": False,
            }
            for _, storage, serde, (_, partition) in keyed
        ],
    )
    created_s = unit.now_ms // 1000
    unit.insert(
        PARTITIONS,
        [
            {
                "PART_ID": part,
                "TBL_ID": ids.table,
                "SD_ID": storage,
                "PART_NAME": text,
                "CREATE_TIME": created_s,
                "LAST_ACCESS_TIME": 0,
            }
            for part, storage, _, (text, _) in keyed
        ],
    )
    _insert_values(unit, {part: one.values for part, _, _, (_, one) in keyed})
    _insert_params(unit, {part: one.properties for part, _, _, (_, one) in keyed})


def _insert_params(unit: Unit, properties: Mapping[int, Mapping[str, str]]) -> None:
    """Store the properties of partitions, by their ids."""
    unit.insert(
        PARTITION_PARAMS,
        [
            {"PART_ID": part, "PARAM_KEY": key, "PARAM_VALUE": value}
            for part, those in properties.items()
            for key, value in those.items()
        ],
    )


def _keys(unit: Unit, ids: TableIds) -> tuple[str, ...]:
    return tuple(row[0] for row in unit.rows(_KEY_NAMES, table=ids.table))


def _name(name: TableName, keys: tuple[str, ...], values: tuple[str | None, ...]) -> str:
    if not keys or len(keys) != len(values):
        raise InvalidInputError(
            f"Table {name} has {len(keys)} partition columns, {len(values)} values were given",
            table=str(name),
            columns=keys,
            values=values,
        )
    return partition_name(keys, values)


def _find(
    unit: Unit, ids: TableIds, name: TableName, values: tuple[str | None, ...]
) -> tuple[int, int]:
    text = _name(name, _keys(unit, ids), values)
    row = unit.row(_BY_NAME, table=ids.table, name=text)
    if row is None:
        raise _missing(name, text)
    return int(row[0]), int(row[1])


def _exists(name: TableName, text: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"Partition already exists: {text}", table=str(name), partition=text)


def _missing(name: TableName, text: str) -> NotFoundError:
    shown = "{" + text.replace("/", ", ") + "}"
    return NotFoundError(
        f"Partition not found {shown}", code=10006, table=str(name), partition=text
    )


def move_partitions(unit: Unit, table: int, source: str, target: str) -> None:
    """Those below the old place of their table are below its new one."""
    old = source.rstrip("/") + "/"
    unit.run_many(
        _SET_LOCATION,
        [
            {"storage": storage, "location": target.rstrip("/") + "/" + found[len(old) :]}
            for storage, found in unit.rows(_PARTITION_LOCATIONS, id=table)
            if found is not None and found.startswith(old)
        ],
    )
