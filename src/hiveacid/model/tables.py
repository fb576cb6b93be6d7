"""Databases, tables and partitions as the catalog knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from hiveacid.model.transactions import Isolation
from hiveacid.model.types import HiveType


class AcidMode(Enum):
    """How a table takes part in transactions (format.md 1.9)."""

    NONE = "none"
    INSERT_ONLY = "insert_only"
    FULL = "full"


COMPAT: Final = "hiveacid.compat"
"""A table property of ours: which Hive reads the files, ``hive4`` (default) or ``hive3``."""
FILE_NAMES: Final = "hiveacid.file.names"
"""Another name for it."""
HIVE_3: Final = "hive3"
HIVE_4: Final = "hive4"
RETENTION: Final = "hiveacid.retention"
"""A table property of ours: how long what a compaction replaced is kept, as ``12h`` or ``7d``."""
HISTORY_RETENTION: Final = "hiveacid.history.retention"
"""A table property of ours: how long the records of its commits are kept."""
RENAMING_FROM: Final = "hiveacid.renaming_from"
RENAMING_TO: Final = "hiveacid.renaming_to"
"""Table properties of ours, there while RENAME is at work: which directory moves, and where."""
DROPPING: Final = "hiveacid.dropping."
"""With the number of a transaction after it a table property of ours, there while this transaction
drops partitions: where it hides their directories.
"""
ISOLATION: Final = "hiveacid.isolation"
"""A table property of ours: what transactions that write are kept apart from where they read or
write the table, ``snapshot`` (default) or ``serializable``.
"""


class FileFormat(Enum):
    """Storage format of the data files."""

    ORC = "orc"
    PARQUET = "parquet"
    TEXT = "textfile"


class TableKind(Enum):
    """Hive's TBL_TYPE."""

    MANAGED = "MANAGED_TABLE"
    EXTERNAL = "EXTERNAL_TABLE"
    VIEW = "VIRTUAL_VIEW"


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """``database.table``, both lower case."""

    database: str
    table: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "database", self.database.lower())
        object.__setattr__(self, "table", self.table.lower())

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``name`` is lower case as Hive stores it."""

    name: str
    type: HiveType
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """CLUSTERED BY (columns) INTO count BUCKETS; ``version`` is ``bucketing_version`` (1 or 2)."""

    columns: tuple[str, ...]
    count: int
    version: int = 2


@dataclass(frozen=True, slots=True)
class Database:
    """A database; ``location`` is a URI or an absolute path."""

    name: str
    location: str
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """A table; ``columns`` without partition columns; ``location`` a URI or an absolute path."""

    name: TableName
    columns: tuple[Column, ...]
    location: str
    partition_columns: tuple[Column, ...] = ()
    bucket: BucketSpec | None = None
    sort_columns: tuple[str, ...] = ()
    format: FileFormat = FileFormat.ORC
    kind: TableKind = TableKind.MANAGED
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    view_text: str | None = None
    owner: str = ""
    created_at_ms: int = 0
    view_expanded: str | None = None
    """``view_text`` with full names and without stars"""
    id: int | None = field(default=None, compare=False)
    """The metastore's own number of the table, which a rename keeps and no other table gets; None
    before it is created, and from a metastore that does not tell it.
    """

    @property
    def acid_mode(self) -> AcidMode:
        """NONE, INSERT_ONLY or FULL from ``transactional`` and ``transactional_properties``."""
        if self.properties.get("transactional", "").lower() != "true":
            return AcidMode.NONE
        mode = self.properties.get("transactional_properties", "default").lower()
        return AcidMode.INSERT_ONLY if mode == "insert_only" else AcidMode.FULL

    @property
    def has_hive_3_names(self) -> bool:
        """Whether new files are ``bucket_00000``, which Hive 3.1 needs, not ``bucket_00000_0``."""
        text = self.properties.get(COMPAT) or self.properties.get(FILE_NAMES, HIVE_4)
        return text.lower() == HIVE_3

    @property
    def isolation(self) -> Isolation:
        """What transactions that read or write the table, and write, are kept apart from at
        least.
        """
        text = self.properties.get(ISOLATION, "").lower()
        is_serializable = text == Isolation.SERIALIZABLE.value
        return Isolation.SERIALIZABLE if is_serializable else Isolation.SNAPSHOT

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """Data columns, then partition columns: the order of ``SELECT *``."""
        return self.columns + self.partition_columns

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Names of the partition columns."""
        return tuple(column.name for column in self.partition_columns)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a table, or the whole of an unpartitioned one (``values == ()``).

    ``values`` are the texts in the directory name after unescaping, one per partition column;
    None stands for ``__HIVE_DEFAULT_PARTITION__``.
    """

    values: tuple[str | None, ...]
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)
