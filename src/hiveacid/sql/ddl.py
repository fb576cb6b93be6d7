"""Grammar of CREATE, DROP, TRUNCATE, and of views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hiveacid.errors import UnsupportedError
from hiveacid.model.tables import (
    STORAGE_CLASSES,
    BucketSpec,
    Column,
    FileFormat,
    SortColumn,
    TableName,
)
from hiveacid.sql.columns import (
    ConstraintReader,
    parse_column_type,
    parse_row_format,
    property_keys,
    property_list,
)
from hiveacid.sql.cursor import Cursor, TokenKind
from hiveacid.sql.dml import optional_pairs
from hiveacid.sql.forms import TABLE, clauses, form, refused, said
from hiveacid.sql.query import QueryParser
from hiveacid.statements.ddl.databases import CreateDatabase, DropDatabase
from hiveacid.statements.ddl.tables import CreateTable, DropTable
from hiveacid.statements.ddl.views import AlterView, CreateView, DropView
from hiveacid.statements.insert import Truncate
from hiveacid.statements.values import Command

_COMMENT: Final = ("comment", Cursor.string)
_PROPERTIES: Final = ("properties", property_list)
_IF_EXISTS: Final = ("if_exists", Cursor.if_exists)


def parse_create_view(cursor: Cursor, *, or_replace: bool) -> CreateView:
    """What follows CREATE [OR REPLACE] VIEW."""
    view = CreateView(
        if_not_exists=cursor.if_not_exists(),
        name=cursor.table_name(),
        columns=cursor.in_parentheses(_view_column) if cursor.key == "(" else (),
        or_replace=or_replace,
        **clauses(
            cursor,
            {
                "COMMENT": _COMMENT,
                "PARTITIONED ON": ("partitioned_on", Cursor.names),
                "TBLPROPERTIES": _PROPERTIES,
            },
        ),
    )
    if not cursor.accept("AS"):
        raise cursor.unrecognized("create view statement")
    return replace(view, query=_query(cursor))


def parse_alter_view(cursor: Cursor) -> AlterView | CreateView:
    """What follows ALTER VIEW."""
    name = cursor.table_name()
    if cursor.accept("SET", "TBLPROPERTIES"):
        return AlterView(name, properties=property_list(cursor))
    if cursor.accept("UNSET", "TBLPROPERTIES"):
        cursor.if_exists()
        return AlterView(name, unset=property_keys(cursor))
    if cursor.accept("RENAME", "TO"):
        return AlterView(name, new_name=cursor.table_name())
    if cursor.accept_any("ADD", "DROP"):
        raise UnsupportedError(
            "partitions of a view are not supported",
            note="A view has the rows of its query: it needs none.",
        )
    cursor.accept("AS")
    if not cursor.at_query():
        raise cursor.unrecognized("alter view statement")
    return CreateView(name, query=_query(cursor), alter=True)


def _query(cursor: Cursor) -> Any:
    if not cursor.at_query():
        raise cursor.unrecognized("view definition")
    return QueryParser(cursor).query_fragment()


def _view_column(cursor: Cursor) -> tuple[str, str | None]:
    return cursor.small_name("view column"), cursor.string() if cursor.accept("COMMENT") else None


_OF_INPUT_FORMATS = {classes.input_format: kind for kind, classes in STORAGE_CLASSES.items()}
_FORMATS = {
    "ORC": FileFormat.ORC,
    "ORCFILE": FileFormat.ORC,
    "PARQUET": FileFormat.PARQUET,
    "PARQUETFILE": FileFormat.PARQUET,
    "TEXTFILE": FileFormat.TEXT,
}


@dataclass(slots=True)
class _Columns:
    """Columns and constraints while they are being read."""

    columns: list[Column] = field(default_factory=list)
    constraints: ConstraintReader = field(default_factory=ConstraintReader)

    def read(self, cursor: Cursor) -> None:
        """Read a column with its constraints, or a constraint of the table."""
        if self.constraints.table(cursor):
            return
        start = cursor.token
        name = cursor.small_name("column specification")
        if any(character in name for character in ".,:"):
            raise cursor.error("'[., :] can not be used in column name in create table statement.'")
        if not name:
            raise cursor.error(f"'{start.text}' is not a column name")
        kind = parse_column_type(cursor)
        comment = None
        while True:
            if cursor.accept("COMMENT"):
                comment = cursor.string()
            elif not self.constraints.column(cursor, name):
                break
        self.columns.append(Column(name, kind, comment))


def parse_create(cursor: Cursor) -> Command:
    """CREATE DATABASE | SCHEMA | [OR REPLACE] VIEW | [OR REPLACE] [EXTERNAL | MANAGED |
    TRANSACTIONAL] TABLE.
    """
    or_replace = cursor.accept("OR", "REPLACE")
    if cursor.accept("VIEW"):
        return parse_create_view(cursor, or_replace=or_replace)
    if not or_replace and cursor.accept_any("DATABASE", "SCHEMA") is not None:
        return _create_database(cursor)
    words = []
    while word := cursor.accept_any("EXTERNAL", "MANAGED", "TRANSACTIONAL", "TEMPORARY"):
        words.append(word)
    if cursor.key != "TABLE":
        kind = " ".join([*words, cursor.token.text.upper()])
        raise UnsupportedError(f"CREATE {kind} is not supported")
    cursor.next()
    table = _create_table(cursor)
    properties = dict(table.properties)
    if "TRANSACTIONAL" in words:
        properties.setdefault("transactional", "true")
        if table.format not in (None, FileFormat.ORC):  # only ORC holds row ids
            properties.setdefault("transactional_properties", "insert_only")
    return replace(
        table,
        external="EXTERNAL" in words,
        temporary="TEMPORARY" in words,
        properties=properties,
        or_replace=or_replace,
    )


def parse_replace(cursor: Cursor) -> CreateTable:
    """REPLACE TABLE, which must exist."""
    cursor.expect("TABLE")
    return replace(_create_table(cursor), or_replace=True, must_exist=True)


def _create_database(cursor: Cursor) -> CreateDatabase:
    made = CreateDatabase(
        if_not_exists=cursor.if_not_exists(),
        name=cursor.small_name("create database statement"),
        **clauses(
            cursor,
            {
                "COMMENT": _COMMENT,
                "LOCATION": ("location", Cursor.string),
                "MANAGEDLOCATION": ("location", Cursor.string),
                "WITH DBPROPERTIES": _PROPERTIES,
            },
        ),
    )
    if not cursor.at_end():
        raise cursor.error(f"missing EOF at '{cursor.token.text}' near '{made.name}'")
    return made


def _create_table(cursor: Cursor) -> CreateTable:
    if_not_exists = cursor.if_not_exists()
    name = cursor.table_name()
    table = CreateTable(name, if_not_exists=if_not_exists)
    if cursor.accept("LIKE"):
        if cursor.token.kind is TokenKind.STRING or cursor.key == "FILE":
            raise UnsupportedError("CREATE TABLE LIKE a file is not supported")
        table = replace(table, like=cursor.table_name())
    elif cursor.key == "(" and cursor.peek(1).key not in ("SELECT", "WITH", "FROM"):
        definitions = _Columns()
        cursor.in_parentheses(definitions.read)
        found = definitions.constraints.value()
        table = replace(table, columns=tuple(definitions.columns), constraints=found)
    while clause := next((one for words, one in _CLAUSES.items() if cursor.accept(*words)), None):
        table = clause(cursor, table)
    if table.columns and table.partition_names:
        table = _with_named_partitions(cursor, table)
    if cursor.accept("AS") or cursor.at_query():
        query: Any = QueryParser(cursor).query_fragment()
        return replace(table, query=query)
    from_files = table.location is not None and table.properties
    if not table.columns and table.like is None and not from_files:
        raise cursor.unrecognized("create table statement")
    return table


def _using(cursor: Cursor, table: CreateTable) -> CreateTable:
    """USING hiveacid, which is Spark's way to ask for a full ACID table."""
    start = cursor.token
    if cursor.small_name("using clause") != "hiveacid":
        raise UnsupportedError(f"USING {start.text} is not supported")
    properties = {"transactional": "true", **table.properties}
    return replace(table, format=FileFormat.ORC, properties=properties)


def _row_format(cursor: Cursor, table: CreateTable) -> CreateTable:
    """ROW FORMAT ..., of a table of its format where STORED AS does not say otherwise."""
    file_format, properties = parse_row_format(cursor)
    properties |= table.properties
    return replace(table, format=table.format or file_format, properties=properties)


def _stored(cursor: Cursor) -> FileFormat:
    if cursor.accept("BY"):
        raise UnsupportedError(f"STORED BY '{cursor.string()}' is not supported")
    cursor.expect("AS")
    return parse_file_format(cursor)


def parse_file_format(cursor: Cursor) -> FileFormat:
    """What follows STORED AS, or SET FILEFORMAT."""
    if cursor.accept("INPUTFORMAT"):
        input_format = cursor.string()
        cursor.expect("OUTPUTFORMAT")
        cursor.string()
        if input_format not in _OF_INPUT_FORMATS:
            raise UnsupportedError(
                f"INPUTFORMAT '{input_format}' is not supported",
                note=f"There are {', '.join(_OF_INPUT_FORMATS)}.",
            )
        return _OF_INPUT_FORMATS[input_format]
    start = cursor.token
    name = cursor.name("stored as")
    if name.upper() not in _FORMATS:
        raise UnsupportedError(
            f"STORED AS {start.text} is not supported", note="There are ORC, PARQUET and TEXTFILE."
        )
    return _FORMATS[name.upper()]


def _partitioned_by(cursor: Cursor, table: CreateTable) -> CreateTable:
    if cursor.accept("SPEC"):
        raise UnsupportedError("PARTITIONED BY SPEC is not supported")
    if cursor.peek(2).key in (",", ")"):
        return replace(table, partition_names=cursor.names())
    definitions = _Columns()
    cursor.in_parentheses(definitions.read)
    not_null = table.constraints.not_null + tuple(definitions.constraints.not_null)
    return replace(
        table,
        partition_columns=tuple(definitions.columns),
        constraints=replace(table.constraints, not_null=not_null),
    )


def _with_named_partitions(cursor: Cursor, table: CreateTable) -> CreateTable:
    """PARTITIONED BY (name), as Spark has it: of a column that is declared among the others."""
    columns = {column.name: column for column in table.columns}
    for name in table.partition_names:
        if name not in columns:
            raise cursor.error(f"the partition column '{name}' is none of the columns")
    partitions = tuple(columns.pop(name) for name in table.partition_names)
    return replace(
        table, columns=tuple(columns.values()), partition_columns=partitions, partition_names=()
    )


def _sorted_column(cursor: Cursor) -> SortColumn:
    column = SortColumn(*cursor.sort_key())
    cursor.nulls_first()
    return column


def _clustered_by(cursor: Cursor, table: CreateTable) -> CreateTable:
    columns = cursor.names()
    sorted_by = cursor.in_parentheses(_sorted_column) if cursor.accept("SORTED", "BY") else ()
    cursor.expect("INTO")
    count = cursor.integer("buckets")
    if count < 1:
        raise cursor.error("the number of buckets must be at least 1")
    cursor.expect("BUCKETS")
    return replace(table, bucket=BucketSpec(columns, count), sort_columns=sorted_by)


def parse_skewed(cursor: Cursor) -> None:
    """What follows SKEWED BY: (columns) ON (values) [STORED AS DIRECTORIES], where Hive may put
    rows, which are the same wherever they are.
    """
    cursor.names()
    cursor.expect("ON")
    cursor.skip_parentheses()
    cursor.accept("STORED", "AS", "DIRECTORIES")


def _skewed_by(cursor: Cursor, table: CreateTable) -> CreateTable:
    parse_skewed(cursor)
    return table


_CLAUSES: Final[Mapping[tuple[str, ...], Callable[[Cursor, CreateTable], CreateTable]]] = {
    ("COMMENT",): lambda cursor, table: replace(table, comment=cursor.string()),
    ("PARTITIONED", "BY"): _partitioned_by,
    ("CLUSTERED", "BY"): _clustered_by,
    ("SKEWED", "BY"): _skewed_by,
    ("ROW", "FORMAT"): _row_format,
    ("STORED",): lambda cursor, table: replace(table, format=_stored(cursor)),
    ("USING",): _using,
    ("LOCATION",): lambda cursor, table: replace(table, location=cursor.string()),
    ("TBLPROPERTIES",): lambda cursor, table: replace(
        table, properties={**table.properties, **property_list(cursor)}
    ),
}
"""What follows the columns of CREATE TABLE, in any order."""


# -------------------------------------------------------------------- columns


def column_definitions(cursor: Cursor) -> tuple[Column, ...]:
    """( name type [COMMENT ...], ... ) of ALTER TABLE, also without the parentheses: constraints
    are refused.
    """
    definitions = _Columns()
    cursor.in_parentheses(definitions.read) if cursor.key == "(" else cursor.listed(
        definitions.read
    )
    if definitions.constraints != ConstraintReader():
        raise UnsupportedError("constraints of added columns are not supported")
    return tuple(definitions.columns)


_drop_database: Final = form(
    DropDatabase,
    _IF_EXISTS,
    ("name", lambda cursor: cursor.small_name("drop database statement")),
    ("cascade", lambda cursor: cursor.accept_any("CASCADE", "RESTRICT") == "CASCADE"),
)
_DROPPED: Final[Mapping[str, Callable[[Cursor], Command]]] = {
    "DATABASE": _drop_database,
    "SCHEMA": _drop_database,
    "TABLE": form(DropTable, _IF_EXISTS, TABLE, ("purge", said("PURGE"))),
    "VIEW": form(DropView, _IF_EXISTS, TABLE),
}


def parse_drop(cursor: Cursor) -> Command:
    """DROP DATABASE | SCHEMA | VIEW | TABLE."""
    if cursor.key not in _DROPPED:
        raise UnsupportedError(f"DROP {cursor.token.text.upper()} is not supported")
    return _DROPPED[cursor.next().key](cursor)


def _truncate(
    *, name: TableName, pairs: tuple[tuple[str, str | None, bool], ...], force: bool
) -> Truncate:
    partition = tuple((column, text) for column, text, given in pairs if given)
    return Truncate(name, partition, force, tuple(pair[0] for pair in pairs if not pair[2]))


parse_truncate: Final = form(
    _truncate,
    ("", said("TABLE")),
    TABLE,
    ("pairs", optional_pairs),
    ("", refused("TRUNCATE TABLE ... COLUMNS is not supported", "COLUMNS")),
    ("force", said("FORCE")),
)
"""TRUNCATE [TABLE] name [PARTITION (...)] [FORCE]."""
