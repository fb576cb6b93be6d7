"""Values of DDL, SHOW, DESCRIBE, SET and EXPLAIN.

``database`` is None and ``TableName.database`` is '' where the text names none; binding fills in
the current database. Partition specifications are pairs of column and text (None for NULL), in the
order written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hiveacid.model.ids import LockId, TxnId
from hiveacid.model.tables import BucketSpec, Column, FileFormat, TableName
from hiveacid.statements.constraints import KeyConstraint
from hiveacid.statements.values import Delete, Insert, Inserts, Merge, Query, Update
from hiveacid.statements.values_compactions import AbortCompactions, Compact, ShowCompactions
from hiveacid.statements.values_load import Load
from hiveacid.statements.values_locks import LockStatement
from hiveacid.statements.values_upkeep import Analyze, RepairTable
from hiveacid.statements.values_views import AlterView, CreateView, DropView, ShowViews

PartitionText = tuple[tuple[str, str | None], ...]


# -------------------------------------------------------------------- databases and settings


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """CREATE DATABASE [IF NOT EXISTS] name [COMMENT ...] [LOCATION ...] [WITH DBPROPERTIES
    (...)].
    """

    name: str
    if_not_exists: bool = False
    comment: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE [IF EXISTS] name [CASCADE]."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class UseDatabase:
    """USE name."""

    name: str


@dataclass(frozen=True, slots=True)
class SetProperty:
    """SET key = value; without ``value`` it shows the key, without ``key`` all settings."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ResetProperties:
    """RESET [key ...]: settings go back to their defaults."""

    keys: tuple[str, ...] = ()


# -------------------------------------------------------------------- tables


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE [EXTERNAL] TABLE; ``query`` for CTAS, ``like`` for CREATE TABLE ... LIKE.

    ``partition_names`` are the columns of a CTAS' ``PARTITIONED BY (name, ...)``. ``not_null``,
    ``defaults`` and ``checks`` are the constraints. ``format`` is None where the text names none.
    """

    name: TableName
    columns: tuple[Column, ...] = ()
    partition_columns: tuple[Column, ...] = ()
    partition_names: tuple[str, ...] = ()
    bucket: BucketSpec | None = None
    sort_columns: tuple[str, ...] = ()
    format: FileFormat | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    external: bool = False
    managed: bool = False
    if_not_exists: bool = False
    like: TableName | None = None
    query: Query | None = None
    not_null: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    keys: tuple[KeyConstraint, ...] = ()
    constraint_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints of columns or of a table; the fields as in ``CreateTable``."""

    not_null: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    keys: tuple[KeyConstraint, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddConstraints:
    """ALTER TABLE name ADD [CONSTRAINT name] ..."""

    name: TableName
    constraints: Constraints


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """ALTER TABLE name DROP CONSTRAINT constraint."""

    name: TableName
    constraint: str


@dataclass(frozen=True, slots=True)
class SetLocation:
    """ALTER TABLE name [PARTITION (...)] SET LOCATION 'location'."""

    name: TableName
    location: str
    partition: PartitionText = ()


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE [IF EXISTS] name [PURGE]."""

    name: TableName
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """TRUNCATE TABLE name [PARTITION (...)]."""

    name: TableName
    partition: PartitionText = ()


@dataclass(frozen=True, slots=True)
class SetTableProperties:
    """ALTER TABLE name SET TBLPROPERTIES (...)."""

    name: TableName
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnsetTableProperties:
    """ALTER TABLE name UNSET TBLPROPERTIES [IF EXISTS] (...)."""

    name: TableName
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class PartitionToAdd:
    """PARTITION (...) [LOCATION ...] of ADD PARTITION."""

    spec: PartitionText
    location: str | None = None


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """ALTER TABLE name ADD [IF NOT EXISTS] PARTITION (...) ..."""

    name: TableName
    partitions: tuple[PartitionToAdd, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class PartitionCondition:
    """column operator text; ``operator`` is one of = != < <= > >=."""

    column: str
    operator: str
    text: str | None


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """ALTER TABLE name DROP [IF EXISTS] PARTITION (conditions), ...; one inner tuple per
    PARTITION.
    """

    name: TableName
    conditions: tuple[tuple[PartitionCondition, ...], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    """ALTER TABLE name RENAME TO new_name."""

    name: TableName
    new_name: TableName


@dataclass(frozen=True, slots=True)
class RenamePartition:
    """ALTER TABLE name PARTITION (...) RENAME TO PARTITION (...)."""

    name: TableName
    spec: PartitionText
    new_spec: PartitionText


@dataclass(frozen=True, slots=True)
class AddColumns:
    """ALTER TABLE name ADD COLUMNS (...); ``replace`` is REPLACE COLUMNS."""

    name: TableName
    columns: tuple[Column, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """ALTER TABLE name CHANGE [COLUMN] old new type [COMMENT ...] [FIRST | AFTER column].

    ``after`` is the column that it follows, '' for the first place, None where it stays.
    """

    name: TableName
    old_name: str
    column: Column
    after: str | None = None
    constraints: Constraints | None = None


# -------------------------------------------------------------------- SHOW, DESCRIBE, EXPLAIN


@dataclass(frozen=True, slots=True)
class ShowDatabases:
    """SHOW DATABASES | SCHEMAS [LIKE pattern]."""

    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES [IN database] [LIKE pattern]."""

    database: str | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """SHOW PARTITIONS name [PARTITION (...)] [WHERE conditions] [ORDER BY columns] [LIMIT n].

    All ``conditions`` hold; ``order`` pairs a column with whether it is descending.
    """

    name: TableName
    partition: PartitionText = ()
    conditions: tuple[PartitionCondition, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """SHOW COLUMNS IN name [LIKE pattern]."""

    name: TableName
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTableProperties:
    """SHOW TBLPROPERTIES name [('key')]."""

    name: TableName
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    """SHOW CREATE TABLE name."""

    name: TableName


@dataclass(frozen=True, slots=True)
class ShowTransactions:
    """SHOW TRANSACTIONS."""


@dataclass(frozen=True, slots=True)
class ShowLocks:
    """SHOW LOCKS [name [PARTITION (...)] | DATABASE name] [EXTENDED]."""

    name: TableName | None = None
    partition: PartitionText = ()
    schema: str | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True)
class AbortTransactions:
    """ABORT TRANSACTIONS id ..."""

    transactions: tuple[TxnId, ...]


@dataclass(frozen=True, slots=True)
class AbortLocks:
    """ABORT LOCKS id ...: give back what clients that are gone took by LOCK. Not Hive's."""

    locks: tuple[LockId, ...]


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """DESCRIBE [FORMATTED | EXTENDED] name [PARTITION (...)] [column]."""

    name: TableName
    column: str | None = None
    partition: PartitionText = ()
    formatted: bool = False
    extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeDatabase:
    """DESCRIBE DATABASE [EXTENDED] name."""

    name: str
    extended: bool = False


DdlStatement = (
    CreateDatabase
    | CreateView
    | AlterView
    | DropView
    | ShowViews
    | Analyze
    | Load
    | RepairTable
    | DropDatabase
    | UseDatabase
    | SetProperty
    | ResetProperties
    | CreateTable
    | DropTable
    | Truncate
    | SetTableProperties
    | UnsetTableProperties
    | AddPartitions
    | DropPartitions
    | RenameTable
    | AddConstraints
    | DropConstraint
    | SetLocation
    | RenamePartition
    | AddColumns
    | ChangeColumn
    | Compact
    | ShowDatabases
    | ShowTables
    | ShowPartitions
    | ShowColumns
    | ShowTableProperties
    | ShowCreateTable
    | ShowTransactions
    | ShowLocks
    | ShowCompactions
    | AbortTransactions
    | AbortLocks
    | AbortCompactions
    | DescribeTable
    | DescribeDatabase
    | LockStatement
)

DmlStatement = Insert | Inserts | Update | Delete | Merge


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [EXTENDED | FORMATTED | ...] statement; ``mode`` is '' or the word in lower case."""

    statement: Query | DmlStatement | DdlStatement
    mode: str = ""
