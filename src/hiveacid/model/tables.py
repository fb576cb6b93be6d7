"""Databases, tables and partitions as the catalog knows them; their ids, and the properties that
mean something to ACID, typed.

Keys of properties are looked up in any case, as Hive does for those it knows (metastore.md 5.1).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NewType

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.types import HiveType

TxnId = NewType("TxnId", int)
"""Global transaction id, from 1."""

WriteId = NewType("WriteId", int)
"""Per-table write id, from 1; 0 belongs to original files (format.md 6.2)."""

StatementId = NewType("StatementId", int)
"""Statement in a transaction, 0..4095; ``NO_STATEMENT`` where a directory name has none."""

LockId = NewType("LockId", int)
"""External id of a lock request (HL_LOCK_EXT_ID)."""

NO_STATEMENT: Final = StatementId(-1)
LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
MAX_BUCKET_ID: Final = 4095
MAX_STATEMENT_ID: Final = 4095
_ATTEMPTS: Final = 1_000_000
"""Hive takes a task attempt of up to six digits from a file's name."""
_ATTEMPTS_OF_STATEMENT: Final = 1_000
FIRST_WRITE_ID_AFTER_CONVERSION: Final = WriteId(10_000_001)
"""Of a table whose files were there before it became transactional (real-hive.md 9)."""


class AcidMode(Enum):
    """How a table takes part in transactions (format.md 1.9)."""

    NONE = "none"
    INSERT_ONLY = "insert_only"
    FULL = "full"


class Isolation(Enum):
    """What a transaction is kept apart from; the value is the word of settings and properties."""

    SNAPSHOT = "snapshot"
    """one snapshot; of two that change the same, the first to commit wins"""
    SERIALIZABLE = "serializable"
    """and nothing that it read was written meanwhile"""


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
CONSTRAINT_PREFIXES: Final = (
    "hiveacid.not_null.",
    "hiveacid.default.",
    "hiveacid.default_name.",
    "hiveacid.check.",
    "hiveacid.key.",
)
"""With a column, or a name, after them table properties of ours: its constraints."""
RENAMING_FROM: Final = "hiveacid.renaming_from"
RENAMING_TO: Final = "hiveacid.renaming_to"
"""Table properties of ours, there while RENAME is at work: which directory moves, and where."""
DROPPING: Final = "hiveacid.dropping."
"""With the number of a transaction after it a table property of ours, there while this transaction
drops partitions: where it hides their directories.
"""
CREATING: Final = "hiveacid.creating"
"""A table property of ours, there until the rows are in of which the table is made: the number of
the lock under which that happens.
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

    @classmethod
    def of(cls, parts: Sequence[str], *, database: str = "") -> TableName:
        """The name that one part or two stand for; ``database`` is that of one part alone."""
        return cls(parts[0] if len(parts) == 2 else database, parts[-1])

    @property
    def rejected(self) -> TableName:
        """Where streams put records that do not fit, unless they say another."""
        return TableName(self.database, f"{self.table}_rejected")


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
class SortColumn:
    """A column of SORTED BY; NULL comes first where it ascends, last where it descends."""

    name: str
    is_descending: bool = False

    @property
    def direction(self) -> str:
        """ASC or DESC."""
        return "DESC" if self.is_descending else "ASC"


@dataclass(frozen=True, slots=True)
class Database:
    """A database; ``location`` is a URI or an absolute path, ``managed_location`` that of its
    managed tables where they have another one, as those of a Metastore of Hive 4.
    """

    name: str
    location: str
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    managed_location: str | None = None

    @property
    def locations(self) -> tuple[str, ...]:
        """Where its tables go."""
        return tuple(filter(None, (self.location, self.managed_location)))


@dataclass(frozen=True, slots=True)
class Table:
    """A table; ``columns`` without partition columns; ``location`` a URI or an absolute path."""

    name: TableName
    columns: tuple[Column, ...]
    location: str
    partition_columns: tuple[Column, ...] = ()
    bucket: BucketSpec | None = None
    sort_columns: tuple[SortColumn, ...] = ()
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
    def is_transactional(self) -> bool:
        """Whether writes to it need a transaction."""
        return self.acid_mode is not AcidMode.NONE

    def without_properties(self, keys: Collection[str]) -> Table:
        """The same without some of its properties."""
        kept = {key: text for key, text in self.properties.items() if key not in keys}
        return replace(self, properties=kept)

    @property
    def has_hive_3_names(self) -> bool:
        """Whether new files are ``bucket_00000``, which Hive 3.1 needs, not ``bucket_00000_12``."""
        text = self.properties.get(COMPAT) or self.properties.get(FILE_NAMES, HIVE_4)
        return text.lower() == HIVE_3

    def attempt(self, statement: int = 0) -> int:
        """What stands for the task attempt in the names of its files, below 1,000,000.

        Write ids of a table begin at 1, so two tables that have a name one after the other have
        directories of the same names in the same place. By the metastore's number of the table
        their files differ, so that who reads the first one late misses its files rather than find
        the other's rows in them; by ``statement`` those of statements that share a directory do.
        """
        return ((self.id or 0) + statement * _ATTEMPTS_OF_STATEMENT) % _ATTEMPTS

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

    @property
    def bucket_columns(self) -> tuple[str, ...]:
        """Names of the columns that tell a row's bucket; none where nothing tells it."""
        return () if self.bucket is None else self.bucket.columns

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column.name for column in self.all_columns)

    @property
    def types(self) -> Mapping[str, HiveType]:
        """The types of all columns, by their names."""
        return {column.name: column.type for column in self.all_columns}


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a table, or the whole of an unpartitioned one (``values == ()``).

    ``values`` are the texts in the directory name after unescaping, one per partition column;
    None stands for ``__HIVE_DEFAULT_PARTITION__``.
    """

    values: tuple[str | None, ...]
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)


NO_AUTO_COMPACTION: Final = "no_auto_compaction"
NO_CLEANUP: Final = "no_cleanup"
WORKER_POOL: Final = "hive.compactor.worker.pool"
HASHED_OTHERWISE: Final = "hiveacid.buckets.hashed.otherwise"
"""True where rows lie in buckets that today's types of their columns do not tell."""

DELTA_NUM: Final = "hive.compactor.delta.num.threshold"
DELTA_PCT: Final = "hive.compactor.delta.pct.threshold"
"""What may follow ``compactorthreshold.``."""

_THRESHOLD: Final = "compactorthreshold."
_FULL_ACID_WORDS: Final = frozenset({"split_update", "hash_merge"})


def is_true(properties: Mapping[str, str], key: str) -> bool:
    """Whether a property, its key in any case, is true."""
    lower = {name.lower(): text for name, text in properties.items()}
    return lower.get(key, "").strip().lower() == "true"


def check_mode(table: Table) -> None:
    """It is known how the table's files are to be read: what takes an insert-only table for a full
    ACID one finds no rows in it. Hive refuses such a table, too.

    Raises:
        InvalidInputError: ``transactional_properties`` is not known.
    """
    text = table.properties.get("transactional_properties", "default").lower()
    known = text in ("default", "insert_only") or set(text.split("|")) <= _FULL_ACID_WORDS
    if table.acid_mode is not AcidMode.NONE and not known:
        raise InvalidInputError(
            f"Table {table.name} has the unknown value {text} for transactional_properties",
            table=str(table.name),
        )


def threshold(properties: Mapping[str, str], key: str) -> float | None:
    """A table's own threshold (``DELTA_NUM``, ``DELTA_PCT``), None where it has none.

    Raises:
        InvalidInputError: it is no number, or negative.
    """
    own = {name.lower(): text for name, text in properties.items() if name.startswith(_THRESHOLD)}
    text = own.get(_THRESHOLD + key)
    if text is None:
        return None
    try:
        number = int(text) if key == DELTA_NUM else float(text)
        if not 0 <= number < float("inf"):
            raise ValueError(text)
    except ValueError as error:
        kind = "a whole number" if key == DELTA_NUM else "a number"
        raise InvalidInputError(
            f"Table property '{_THRESHOLD}{key}' is {kind}, not negative: '{text}'",
            property=_THRESHOLD + key,
        ) from error
    return number


# -------------------------------------------------------------------- row format of text tables
# How a text table's rows stand in its files: the separators of Hive's LazySimpleSerDe.
#
# They are properties: ``field.delim``, ``collection.delim``, ``mapkey.delim``, ``escape.delim``,
# ``serialization.null.format``, ``skip.header.line.count``. Hive finds them among a table's
# parameters as well as among those of its SerDe.


FIELD: Final = "field.delim"
COLLECTION: Final = "collection.delim"
MAP_KEY: Final = "mapkey.delim"
ESCAPE: Final = "escape.delim"
LINE: Final = "line.delim"
NULL_TEXT: Final = "serialization.null.format"
ESCAPE_LINES: Final = "serialization.escape.crlf"
HEADER_LINES: Final = "skip.header.line.count"
_LEVELS: Final = 8
_ONLY: Final[Mapping[str, tuple[str, ...]]] = {
    "timestamp.formats": ("",),
    "skip.footer.line.count": ("", "0"),
    "serialization.encoding": ("", "utf-8", "utf8"),
    "serialization.last.column.takes.rest": ("", "false"),
    "hive.serialization.extend.nesting.levels": ("", "false"),
    "hive.serialization.extend.additional.nesting.levels": ("", "false"),
    "hive.lazysimple.extended_boolean_literal": ("", "false"),
}
"""Properties with which Hive reads other rows from the same bytes, and the only values, in small
letters, that are known here.
"""
SERDE_PROPERTIES: Final = (
    *(FIELD, COLLECTION, "colelction.delim", MAP_KEY, ESCAPE, LINE, NULL_TEXT, ESCAPE_LINES),
    *("serialization.format", *(key for key in _ONLY if not key.startswith("skip."))),
)
"""Properties that Hive keeps with a table's SerDe, and with that of each partition."""


@dataclass(frozen=True, slots=True)
class RowFormat:
    """Separators by level of nesting: fields, items, map keys, then ``^D`` to ``^H``; all bytes.

    ``escape`` is None where nothing is escaped; ``escapes_lines`` writes line ends as ``\\n`` and
    ``\\r``; ``null`` is the text of NULL.
    """

    separators: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    escape: int | None = None
    escapes_lines: bool = False
    null: bytes = b"\\N"
    header_lines: int = 0

    def separator(self, level: int) -> int:
        """The byte between the parts of a value at this depth; a row's fields are at 0.

        Raises:
            UnsupportedError: nested deeper than Hive's text files can be.
        """
        if level >= len(self.separators):
            raise UnsupportedError(
                f"Number of levels of nesting supported for LazySimpleSerde is {_LEVELS - 1} "
                f"Unable to work with level {level}"
            )
        return self.separators[level]


def row_format(properties: Mapping[str, str]) -> RowFormat:
    """The row format that a table's properties say; ``ROW FORMAT DELIMITED``'s defaults without.

    Raises:
        InvalidInputError: ``skip.header.line.count`` is not a number.
        UnsupportedError: lines that do not end with a newline, or a property with which Hive reads
            what is not read here.
    """
    for name, known in _ONLY.items():
        if (value := properties.get(name, "")).lower() not in known:
            raise UnsupportedError(f"text files of {name}={value!r} are not read or written")
    if properties.get(LINE, "\n") not in ("\n", "10"):
        raise UnsupportedError("LINES TERMINATED BY only supports newline '\\n' right now")
    given = [
        _byte(properties.get(FIELD, properties.get("serialization.format")), 1),
        _byte(properties.get(COLLECTION, properties.get("colelction.delim")), 2),
        _byte(properties.get(MAP_KEY), 3),
    ]
    escape = properties.get(ESCAPE)
    lines = properties.get(HEADER_LINES, "0")
    if not lines.isdecimal():
        raise InvalidInputError(f"{HEADER_LINES}={lines!r} is not a number")
    return RowFormat(
        separators=(*given, *range(4, _LEVELS + 1)),
        escape=None if escape is None else _byte(escape, ord("\\")),
        escapes_lines=properties.get(ESCAPE_LINES, "").lower() == "true",
        null=properties.get(NULL_TEXT, "\\N").encode(),
        header_lines=int(lines),
    )


def _byte(text: str | None, default: int) -> int:
    """A separator as Hive reads it: a number of Java's byte, else the low byte of the first of
    Java's characters, whatever it is in UTF-8.
    """
    if not text:
        return default
    if re.fullmatch(r"[+-]?\d+", text) and -128 <= int(text) <= 127:
        return int(text) & 0xFF
    return text.encode("utf-16-be", "surrogatepass")[1]


# -------------------------------------------------------------------- classes
# The Java classes that stand for a file format in Hive's catalog.


@dataclass(frozen=True, slots=True)
class StorageClasses:
    """Input format, output format and SerDe; a view has no SerDe."""

    input_format: str
    output_format: str
    serde: str | None


STORAGE_CLASSES: Final[Mapping[FileFormat, StorageClasses]] = {
    FileFormat.ORC: StorageClasses(
        "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
        "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
        "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
    ),
    FileFormat.PARQUET: StorageClasses(
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    ),
    FileFormat.TEXT: StorageClasses(
        "org.apache.hadoop.mapred.TextInputFormat",
        "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    ),
}
_TEXT: Final = STORAGE_CLASSES[FileFormat.TEXT]
_OF_VIEW: Final = StorageClasses(_TEXT.input_format, _TEXT.output_format, None)


def storage_classes(table: Table) -> StorageClasses:
    """Those of the table."""
    return _OF_VIEW if table.kind is TableKind.VIEW else STORAGE_CLASSES[table.format]
