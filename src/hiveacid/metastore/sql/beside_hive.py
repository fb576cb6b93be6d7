"""What the database of a Metastore of Hive's own (schema 4.1) has besides: foreign keys, rows of
tables that hiveacid does not use, constraints in a table of their own. A database that hiveacid
made has none of them (``Unit.of_hive``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    MetaData,
    SmallInteger,
    String,
    and_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    table,
    text,
)
from sqlalchemy import Table as SqlTable
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.expression import FromClause

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.metastore.sql.catalog_schema import (
    COLUMNS_V2,
    DBS,
    PARTITION_KEYS,
    PARTITIONS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SORT_COLS,
    TBLS,
)
from hiveacid.metastore.sql.engine import Unit
from hiveacid.metastore.sql.objects import CATALOG, NAMED_TABLE
from hiveacid.model.tables import (
    CONSTRAINT_PREFIXES,
    SERDE_PROPERTIES,
    STORAGE_CLASSES,
    FileFormat,
    Table,
    TableKind,
    TableName,
)

_DEPENDENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "PART_ID": ("PART_COL_PRIVS", "PART_PRIVS"),
    "TBL_ID": ("TBL_COL_PRIVS", "TBL_PRIVS"),
    "DB_ID": ("DB_PRIVS",),
    "SD_ID": (
        "BUCKETING_COLS",
        "SD_PARAMS",
        "SKEWED_COL_NAMES",
        "SKEWED_COL_VALUE_LOC_MAP",
        "SORT_COLS",
    ),
    "SD_ID_OID": ("SKEWED_VALUES",),
    "SERDE_ID": ("SERDE_PARAMS",),
    "PARENT_TBL_ID": ("KEY_CONSTRAINTS",),
    "CHILD_TBL_ID": ("KEY_CONSTRAINTS",),
}
"""Tables by the column that says whom their rows belong to."""
_NEEDS: Final[Mapping[str, Mapping[str, str]]] = {
    "TBL_ID": {"MV_TABLES_USED": "a materialized view"},
    "DB_ID": {
        "FUNCS": "a function",
        "I_SCHEMA": "a schema",
        "PACKAGES": "a package",
        "STORED_PROCS": "a procedure",
    },
}
"""What of Hive's keeps a row, by its table and the same column."""
_DEFER: Final = text("SET CONSTRAINTS ALL DEFERRED")


def delete_dependents(unit: Unit, **owners: Any) -> None:
    """Delete what hangs on rows that go in this unit, by the names above, each with ids or a
    selection of ids. Foreign keys count at its commit only, so that the order is free.

    Raises: InvalidInputError: something of Hive's needs one of them.
    """
    if not unit.of_hive:
        return
    unit.ask(_DEFER)
    for key, ids in owners.items():
        for name, what in _NEEDS.get(key, {}).items():
            needs = select(literal(1)).select_from(table(name)).where(column(key).in_(ids))
            if unit.row(needs.limit(1)) is not None:
                raise InvalidInputError(f"It cannot be dropped: {what} of Hive's needs it")
        for name in _DEPENDENTS[key]:
            unit.ask(delete(table(name, column(key))).where(column(key).in_(ids)))


# -------------------------------------------------------------------- SerDes

_S = SERDE_PARAMS.c
_OF_PARTITION, _ITS_SERDE = SDS.alias("of_partition"), SERDES.alias("its_serde")
IS_SERDE_PROPERTY: Final = or_(_S.PARAM_KEY != "serialization.format", _S.PARAM_VALUE != "1")
"""What says how rows lie in files: of most SerDes Hive keeps that one, which means the default."""
_FROM_PARTITIONS: Final = (
    TBLS.join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    .join(PARTITIONS, PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID)
    .join(_OF_PARTITION, _OF_PARTITION.c.SD_ID == PARTITIONS.c.SD_ID)
    .join(SERDES, SERDES.c.SERDE_ID == SDS.c.SERDE_ID)
    .join(_ITS_SERDE, _ITS_SERDE.c.SERDE_ID == _OF_PARTITION.c.SERDE_ID)
)
_MINE, _OTHER = SERDE_PARAMS.alias("mine"), SERDE_PARAMS.alias("other")


def _has_more(storage: Any, than: Any) -> ColumnElement[bool]:
    """Whether a property of the SerDe of one storage is not that of the other's."""
    same = exists().where(
        _OTHER.c.SERDE_ID == than.c.SERDE_ID,
        _OTHER.c.PARAM_KEY == _MINE.c.PARAM_KEY,
        _OTHER.c.PARAM_VALUE == _MINE.c.PARAM_VALUE,
    )
    more = exists().where(_MINE.c.SERDE_ID == storage.c.SERDE_ID, ~same.correlate_except(_OTHER))
    return more.correlate_except(_MINE)


_IS_OTHER: Final = or_(
    _OF_PARTITION.c.INPUT_FORMAT != SDS.c.INPUT_FORMAT,
    _ITS_SERDE.c.SLIB != SERDES.c.SLIB,
    and_(
        SDS.c.INPUT_FORMAT == STORAGE_CLASSES[FileFormat.TEXT].input_format,
        or_(_has_more(_OF_PARTITION, SDS), _has_more(SDS, _OF_PARTITION)),
    ),
)
_OTHER_FORMAT: Final = (
    select(PARTITIONS.c.PART_NAME)
    .select_from(_FROM_PARTITIONS)
    .where(*NAMED_TABLE, _IS_OTHER)
    .limit(1)
)
_KNOWN: Final = or_(
    *(
        and_(SDS.c.INPUT_FORMAT == one.input_format, SERDES.c.SLIB == one.serde)
        for one in STORAGE_CLASSES.values()
    )
)
_KINDS: Final = tuple(TBLS.c.TBL_TYPE == kind.value for kind in TableKind)
_COPY_SERDE: Final = insert(SERDE_PARAMS).from_select(
    ["SERDE_ID", "PARAM_KEY", "PARAM_VALUE"],
    select(cast(bindparam("serde"), BigInteger), _S.PARAM_KEY, _S.PARAM_VALUE)
    .join_from(SDS, SERDE_PARAMS, _S.SERDE_ID == SDS.c.SERDE_ID)
    .where(SDS.c.SD_ID == bindparam("storage")),
)


def copy_serde_properties(unit: Unit, storage: int, serdes: Sequence[int]) -> None:
    """Let the SerDes of new partitions be as that of their table's storage."""
    if unit.of_hive:
        unit.run_many(_COPY_SERDE, [{"storage": storage, "serde": serde} for serde in serdes])


def store_serde_properties(
    unit: Unit, serde: int, properties: Mapping[str, str]
) -> tuple[str, ...]:
    """Keep with the SerDe of this id those properties that Hive has there; their names. It would
    find them among a table's parameters, too, but not for a partition.
    """
    if not unit.of_hive:
        return ()
    mine = (_S.SERDE_ID == serde, IS_SERDE_PROPERTY)
    known = {row[0] for row in unit.rows(select(_S.PARAM_KEY).where(*mine))}
    unit.ask(delete(SERDE_PARAMS).where(*mine))
    kept = [key for key in properties if key in known or key in SERDE_PROPERTIES]
    unit.insert(
        SERDE_PARAMS,
        [{"SERDE_ID": serde, "PARAM_KEY": key, "PARAM_VALUE": properties[key]} for key in kept],
    )
    return tuple(kept)


def check_formats(unit: Unit, name: TableName) -> None:
    """Raises: UnsupportedError: files of a partition are of another format than the table's."""
    if not unit.of_hive:
        return
    row = unit.row(_OTHER_FORMAT, database=name.database, table=name.table)
    if row is not None:
        raise UnsupportedError(
            f"Partition {row[0]} of {name} has another format, or other separators, than the table",
            table=str(name),
            partition=row[0],
        )


def is_for_hive_alone(database: Any, name: Any) -> ColumnElement[bool]:
    """Whether the table of this name is one that hiveacid does not read, or does not compact."""
    its = (DBS.c.NAME == database, DBS.c.CTLG_NAME == CATALOG, TBLS.c.TBL_NAME == name)
    tables = TBLS.join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID).join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    tables = tables.join(SERDES, SERDES.c.SERDE_ID == SDS.c.SERDE_ID)
    is_sorted = exists().where(SORT_COLS.c.SD_ID == SDS.c.SD_ID).correlate_except(SORT_COLS)
    unknown = or_(~or_(*_KINDS), ~func.coalesce(_KNOWN, false()), is_sorted)
    return or_(
        exists().select_from(tables).where(*its, unknown),
        exists().select_from(_FROM_PARTITIONS).where(*its, _IS_OTHER),
    )


# -------------------------------------------------------------------- constraints

KEY_CONSTRAINTS: Final = SqlTable(
    "KEY_CONSTRAINTS",
    MetaData(),
    Column("PARENT_CD_ID", BigInteger),
    Column("PARENT_INTEGER_IDX", BigInteger),
    Column("PARENT_TBL_ID", BigInteger),
    Column("POSITION", BigInteger),
    Column("CONSTRAINT_NAME", String(400)),
    Column("CONSTRAINT_TYPE", SmallInteger),
    Column("ENABLE_VALIDATE_RELY", SmallInteger),
    Column("DEFAULT_VALUE", String(400)),
)
_K = KEY_CONSTRAINTS.c
_NOT_NULL, _DEFAULT, _CHECK = 3, 4, 5
"""Of CONSTRAINT_TYPE; primary, unique and foreign keys come before them."""
_ENABLED: Final = 4
"""Bit of ENABLE_VALIDATE_RELY."""
_ENABLED_RELY: Final = 5
_NOT_NULL_KEY, _DEFAULT_KEY, _DEFAULT_NAME_KEY, _CHECK_KEY, _ = CONSTRAINT_PREFIXES
STORED_CONSTRAINTS: Final = (_NOT_NULL_KEY, _DEFAULT_KEY, _DEFAULT_NAME_KEY, _CHECK_KEY)
"""What the properties begin with that stand for rows of KEY_CONSTRAINTS."""


def constraint_rows() -> Iterator[
    tuple[FromClause, ColumnElement[str], ColumnElement[Any], ColumnElement[bool]]
]:
    """For each kind of constraint that Hive enforces where to look, key and value of the property
    that stands for it, and what joins it to TBLS.
    """
    of_column = KEY_CONSTRAINTS.join(
        COLUMNS_V2,
        and_(
            COLUMNS_V2.c.CD_ID == _K.PARENT_CD_ID,
            COLUMNS_V2.c.INTEGER_IDX == _K.PARENT_INTEGER_IDX,
        ),
    )
    of_key = KEY_CONSTRAINTS.join(
        PARTITION_KEYS,
        and_(
            PARTITION_KEYS.c.TBL_ID == _K.PARENT_TBL_ID,
            PARTITION_KEYS.c.INTEGER_IDX == _K.PARENT_INTEGER_IDX,
            _K.PARENT_CD_ID.is_(None),
        ),
    )
    name, key_name = COLUMNS_V2.c.COLUMN_NAME, PARTITION_KEYS.c.PKEY_NAME
    for source, kind, prefix, key, value in (
        (of_column, _NOT_NULL, _NOT_NULL_KEY, name, _K.CONSTRAINT_NAME),
        (of_key, _NOT_NULL, _NOT_NULL_KEY, key_name, _K.CONSTRAINT_NAME),
        (of_column, _DEFAULT, _DEFAULT_KEY, name, _K.DEFAULT_VALUE),
        (of_column, _DEFAULT, _DEFAULT_NAME_KEY, name, _K.CONSTRAINT_NAME),
        (KEY_CONSTRAINTS, _CHECK, _CHECK_KEY, _K.CONSTRAINT_NAME, _K.DEFAULT_VALUE),
    ):
        on = and_(
            _K.PARENT_TBL_ID == TBLS.c.TBL_ID,
            _K.CONSTRAINT_TYPE == kind,
            _K.ENABLE_VALIDATE_RELY >= _ENABLED,
        )
        yield source, literal(prefix) + key, value, on


def store_constraints(unit: Unit, owner: int, columns: int, definition: Table) -> None:
    """Keep the NOT NULL, DEFAULT and CHECK constraints of a table where Hive does, in place of
    those that are there; ``owner`` is its TBL_ID, ``columns`` its CD_ID.
    """
    if not unit.of_hive:
        return
    mine = (_K.PARENT_TBL_ID == owner, _K.CONSTRAINT_TYPE.in_((_NOT_NULL, _DEFAULT, _CHECK)))
    stored = (*mine, _K.ENABLE_VALIDATE_RELY >= _ENABLED)
    known = select(_K.CONSTRAINT_NAME, _K.ENABLE_VALIDATE_RELY).where(*stored)
    relied_on: dict[str, int] = dict(unit.rows(known))
    unit.ask(delete(KEY_CONSTRAINTS).where(*stored))
    at: dict[str, tuple[int | None, int]] = {
        one.name: (None, index) for index, one in enumerate(definition.partition_columns)
    }
    at |= {one.name: (columns, index) for index, one in enumerate(definition.columns)}
    given, short = definition.properties, definition.name.table
    rows: list[tuple[str, int, int | None, int, str | None]] = []
    for key, value in given.items():
        if key.startswith(_NOT_NULL_KEY) and (of := key.removeprefix(_NOT_NULL_KEY)) in at:
            name = f"nn_{short}_{of}" if value == "true" else value
            rows.append((name, _NOT_NULL, *at[of], None))
        elif key.startswith(_DEFAULT_KEY) and (of := key.removeprefix(_DEFAULT_KEY)) in at:
            name = given.get(f"{_DEFAULT_NAME_KEY}{of}", f"dc_{short}_{of}")
            rows.append((name, _DEFAULT, *at[of], value))
        elif key.startswith(_CHECK_KEY):
            of = key.removeprefix(_CHECK_KEY)
            name = f"ck_{short}_{of}" if of.isdigit() else of
            rows.append((name, _CHECK, None, -1, value))
    unit.insert(
        KEY_CONSTRAINTS,
        [
            {
                "CONSTRAINT_NAME": name,
                "CONSTRAINT_TYPE": kind,
                "PARENT_CD_ID": cd,
                "PARENT_INTEGER_IDX": index,
                "PARENT_TBL_ID": owner,
                "POSITION": 1,
                "ENABLE_VALIDATE_RELY": relied_on.get(name, _ENABLED_RELY),
                "DEFAULT_VALUE": text_of,
            }
            for name, kind, cd, index, text_of in rows
        ],
    )
