"""The definition of a table or view: all of its rows by one question, and what they make; its
parameters as they are stored.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import CompoundSelect, Select, String, cast, literal_column, select, union_all
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.expression import FromClause

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.metastore.sql.beside_hive import (
    IS_SERDE_PROPERTY,
    STORED_CONSTRAINTS,
    constraint_rows,
)
from hiveacid.metastore.sql.catalog_schema import (
    BUCKETING_COLS,
    COLUMNS_V2,
    PARTITION_KEYS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SORT_COLS,
    TABLE_PARAMS,
    TBLS,
)
from hiveacid.metastore.sql.dialect import Answer, Row
from hiveacid.metastore.sql.engine import Unit
from hiveacid.metastore.sql.objects import NAMED_TABLE
from hiveacid.model.commits import STATISTICS_KEYS
from hiveacid.model.tables import (
    STORAGE_CLASSES,
    BucketSpec,
    Column,
    FileFormat,
    SortColumn,
    Table,
    TableKind,
    TableName,
)
from hiveacid.model.types import parse_type

_COMMENT: Final = "comment"
_BUCKETING_VERSION: Final = "bucketing_version"


_FORMATS: Final = {classes.input_format: kind for kind, classes in STORAGE_CLASSES.items()}


def stored_parameters(table: Table, *, of_hive: bool) -> dict[str, str]:
    """The TABLE_PARAMS of a table: its properties, comment and bucketing version."""
    parameters = dict(table.properties)
    if of_hive:  # which keeps constraints in a table of their own
        parameters = {k: v for k, v in parameters.items() if not k.startswith(STORED_CONSTRAINTS)}
    if table.comment is not None:
        parameters[_COMMENT] = table.comment
    if table.bucket is not None:
        parameters[_BUCKETING_VERSION] = str(table.bucket.version)
    if table.kind is TableKind.EXTERNAL:
        parameters.setdefault("EXTERNAL", "TRUE")
    return parameters


def _column(row: Row) -> Column:
    name, type_text, comment = row
    try:
        return Column(name, parse_type(type_text), comment)
    except InvalidInputError:
        raise UnsupportedError(f"Column {name} is of the type {type_text} of Hive's") from None


def _kind(name: TableName, kind: str) -> TableKind:
    try:
        return TableKind(kind)
    except ValueError:
        raise UnsupportedError(f"{name} is a {kind} of Hive's", table=str(name)) from None


def _format(
    name: TableName, kind: TableKind, input_format: str | None, serde: str | None
) -> FileFormat:
    if kind is TableKind.VIEW:
        return FileFormat.ORC
    found = _FORMATS.get(input_format or "")
    if found is None or serde != STORAGE_CLASSES[found].serde:
        raise UnsupportedError(
            f"Table {name} has the input format {input_format} and the SerDe {serde}, which "
            "hiveacid does not read",
            table=str(name),
        )
    return found


_T = TBLS.c
_NOTHING: Final[ColumnElement[Any]] = literal_column("NULL")
_HEAD, _COLUMN, _KEY, _PARAM, _BUCKET, _SORT = range(6)
_FACTS: Final = (
    _T.TBL_ID,
    _T.OWNER,
    _T.CREATE_TIME,
    _T.TBL_TYPE,
    _T.VIEW_ORIGINAL_TEXT,
    _T.VIEW_EXPANDED_TEXT,
    SDS.c.LOCATION,
    SDS.c.INPUT_FORMAT,
    SDS.c.NUM_BUCKETS,
    SERDES.c.SLIB,
)


def _part_of_definition(
    kind: int,
    table: FromClause | None,
    *columns: ColumnElement[Any],
    on: ColumnElement[bool] | None,
) -> Select[Any]:
    """Rows of one kind: its number, an index and three values, then the facts of the table."""
    source: Any = TBLS.join(SDS, SDS.c.SD_ID == _T.SD_ID)
    if table is not None:
        source = source.join(table, on)
    else:
        source = source.join(SERDES, SERDES.c.SERDE_ID == SDS.c.SERDE_ID, isouter=True)
    padded = (*columns, *(_NOTHING,) * (4 - len(columns)))
    facts = _FACTS if table is None else (_NOTHING,) * len(_FACTS)
    return (
        select(literal_column(str(kind)), *padded, *facts).select_from(source).where(*NAMED_TABLE)
    )


# One statement for all of a definition: definitions are read all the time, and a single statement
# sees one state of the database.
_DEFINITION: Final = union_all(
    _part_of_definition(_HEAD, None, literal_column("0"), on=None),
    _part_of_definition(
        _COLUMN,
        COLUMNS_V2,
        COLUMNS_V2.c.INTEGER_IDX,
        COLUMNS_V2.c.COLUMN_NAME,
        COLUMNS_V2.c.TYPE_NAME,
        COLUMNS_V2.c.COMMENT,
        on=COLUMNS_V2.c.CD_ID == SDS.c.CD_ID,
    ),
    _part_of_definition(
        _KEY,
        PARTITION_KEYS,
        PARTITION_KEYS.c.INTEGER_IDX,
        PARTITION_KEYS.c.PKEY_NAME,
        PARTITION_KEYS.c.PKEY_TYPE,
        PARTITION_KEYS.c.PKEY_COMMENT,
        on=PARTITION_KEYS.c.TBL_ID == _T.TBL_ID,
    ),
    _part_of_definition(
        _PARAM,
        TABLE_PARAMS,
        literal_column("0"),
        TABLE_PARAMS.c.PARAM_KEY,
        TABLE_PARAMS.c.PARAM_VALUE,
        on=TABLE_PARAMS.c.TBL_ID == _T.TBL_ID,
    ),
    _part_of_definition(
        _BUCKET,
        BUCKETING_COLS,
        BUCKETING_COLS.c.INTEGER_IDX,
        BUCKETING_COLS.c.BUCKET_COL_NAME,
        on=BUCKETING_COLS.c.SD_ID == _T.SD_ID,
    ),
    _part_of_definition(
        _SORT,
        SORT_COLS,
        SORT_COLS.c.INTEGER_IDX,
        SORT_COLS.c.COLUMN_NAME,
        cast(SORT_COLS.c.ORDER, String),
        on=SORT_COLS.c.SD_ID == _T.SD_ID,
    ),
)

_OF_HIVE: Final[CompoundSelect[Any]] = union_all(
    *_DEFINITION.selects,
    _part_of_definition(
        _PARAM,
        SERDE_PARAMS,
        literal_column("-1"),  # those of the table itself come after them, and win, as in Hive
        SERDE_PARAMS.c.PARAM_KEY,
        SERDE_PARAMS.c.PARAM_VALUE,
        on=(SERDE_PARAMS.c.SERDE_ID == SDS.c.SERDE_ID) & IS_SERDE_PROPERTY,
    ),
    *(
        _part_of_definition(_PARAM, source, literal_column("0"), key, value, on=on)
        for source, key, value, on in constraint_rows()
    ),
)


def ask_definition(unit: Unit, name: TableName) -> Answer:
    """Ask for the rows of a table's definition."""
    definition = _OF_HIVE if unit.of_hive else _DEFINITION
    return unit.ask(definition, database=name.database, table=name.table)


def read_definition(name: TableName, asked: Answer) -> Table | None:
    """The table's definition, None where there is none of the name."""
    rows = asked.rows()
    statistics = {row[2]: row[3] for row in rows if _is_statistic(row)}
    definition = _built(name, tuple(tuple(row) for row in rows if not _is_statistic(row)))
    if definition is None:
        return None
    return replace(definition, properties={**definition.properties, **statistics})


def _is_statistic(row: Row) -> bool:
    return row[0] == _PARAM and row[2] in STATISTICS_KEYS


@functools.lru_cache(maxsize=256)
def _built(name: TableName, rows: tuple[Row, ...]) -> Table | None:
    """A definition without statistics: it changes seldom, and is asked for by each statement."""
    kinds: tuple[list[Row], ...] = ([], [], [], [], [], [])
    for kind, _, *values in sorted(rows, key=itemgetter(0, 1)):
        kinds[kind].append(tuple(values))
    if not kinds[_HEAD]:
        return None
    number, owner, created_s, kind, text, expanded, *storage = kinds[_HEAD][0][3:]
    location, input_format, buckets, serde = storage
    which = _kind(name, kind)
    properties = {row[0]: row[1] for row in kinds[_PARAM]}
    comment = properties.pop(_COMMENT, None)
    bucket = None
    if kinds[_BUCKET] and buckets > 0:
        version = int(properties.get(_BUCKETING_VERSION, "1"))
        bucket = BucketSpec(tuple(row[0] for row in kinds[_BUCKET]), buckets, version)
    return Table(
        name=name,
        columns=tuple(_column(row[:3]) for row in kinds[_COLUMN]),
        location=location or "",
        partition_columns=tuple(_column(row[:3]) for row in kinds[_KEY]),
        bucket=bucket,
        sort_columns=tuple(SortColumn(row[0], row[1] == "0") for row in kinds[_SORT]),
        format=_format(name, which, input_format, serde),
        kind=which,
        properties=properties,
        comment=comment,
        view_text=text,
        owner=owner or "",
        created_at_ms=created_s * 1000,
        view_expanded=expanded,
        id=number,
    )
