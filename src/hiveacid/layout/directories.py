"""Directories of a table: what names say, and which directories and files are read.

For names ``parse_x(format_x(v)) == v`` holds (format.md 1.1-1.8, real-hive.md 4). Parsing accepts
every name Hive accepts (any digit count); a name that is not of the form gives None. Formatting is
exact: Hive rebuilds names from numbers, so padding carries meaning.

What to read is said by the values in which the control plane and the data plane meet. Picklable,
they need no service. ``AcidDirectory`` is the answer of ``resolve`` for one partition directory (or
the root of an unpartitioned table); ``Snapshot`` is a table, its valid write ids and one
``AcidDirectory`` per partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from hiveacid.errors import InvalidInputError
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import (
    LONG_MAX,
    LONG_MIN,
    NO_STATEMENT,
    Partition,
    StatementId,
    Table,
    TxnId,
    WriteId,
)
from hiveacid.model.types import STRING, CharType, HiveType, VarcharType

BASE_PREFIX: Final = "base_"
DELTA_PREFIX: Final = "delta_"
DELETE_DELTA_PREFIX: Final = "delete_delta_"
BUCKET_PREFIX: Final = "bucket_"
FLUSH_LENGTH_SUFFIX: Final = "_flush_length"
"""What the name of a data file's side file has at its end (format.md 9): it never holds rows."""
VERSION_FILE: Final = "_orc_acid_version"
METADATA_FILE: Final = "_metadata_acid"
PUBLISHING_FILE: Final = "_hiveacid_publishing"
"""In each directory of a compaction for as long as one of them may lack files: readers who know of
no transactions pass all of them over."""
DETACHED_FILE: Final = "_hiveacid_detached.sql"
"""In the table's directory while it is detached: the statement that attaches it again."""
DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
NO_TXN: Final = TxnId(0)
"""No visibility suffix: the directory counts for everybody."""

NAMES_MAX: Final = 4_096
"""So many names are remembered as what they say: the partitions of a table have the same ones."""
STAGING_PREFIX: Final = "_hiveacid_staging_"
"""What the hidden directories begin with in which files wait for publication."""
MANIFESTS_PREFIX: Final = "-tmp."
"""What the directories begin with in which a statement of Hive lists its files until it commits."""
HIDDEN_PREFIXES: Final = ("_", ".", MANIFESTS_PREFIX)
"""What hidden names begin with."""
SWEPT_PREFIXES: Final = (STAGING_PREFIX, MANIFESTS_PREFIX)
"""What the directories begin with that go once their transaction is over."""


_STAGING = re.compile(r"_hiveacid_staging_([0-9]+)_.+", re.ASCII | re.DOTALL)
_BASE = re.compile(r"base_(-?[0-9]+)(?:_v([0-9]+))?", re.ASCII)
_DELTA = re.compile(r"(delete_)?delta_([0-9]+)_([0-9]+)(?:_([0-9]+))?(?:_v([0-9]+))?", re.ASCII)
_BUCKET = re.compile(r"bucket_([0-9]+)(?:_([0-9]+))?", re.ASCII)
_ORIGINAL = re.compile(r"([0-9]+)_([0-9]+)(?:_copy_([0-9]+|[0-9a-f]{16}))?", re.ASCII)
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_NOT_IN_URI_PATH = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}%#?\[\]]")


@dataclass(frozen=True, slots=True)
class BaseName:
    """``base_W[_vT]``; ``visibility_txn`` is 0 where there is no suffix."""

    write_id: WriteId
    visibility_txn: TxnId = NO_TXN


@dataclass(frozen=True, slots=True)
class DeltaName:
    """``delta_a_b[_s][_vT]`` or ``delete_delta_a_b[_s][_vT]``.

    ``statement_id`` is -1 where there is none, ``visibility_txn`` 0 where there is no suffix.
    """

    min_write_id: WriteId
    max_write_id: WriteId
    statement_id: StatementId = NO_STATEMENT
    visibility_txn: TxnId = NO_TXN
    is_delete: bool = False


@dataclass(frozen=True, slots=True)
class BucketFileName:
    """``bucket_N[_attempt]``; ``attempt`` is None where there is no suffix."""

    bucket: int
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class OriginalFileName:
    """``NNNNNN_M[_copy_K]``: a file without row events; ``copy`` is the text after ``_copy_``."""

    bucket: int
    task: int = 0
    copy: str | None = None


DirectoryName = BaseName | DeltaName


def parse_base(name: str) -> BaseName | None:
    """The base that a directory name says, None for any other name; the write id may be negative.

    >>> parse_base("base_0000005_v0000017")
    BaseName(write_id=5, visibility_txn=17)
    """
    found = _BASE.fullmatch(name)
    if found is None:
        return None
    write_id, txn = int(found[1]), int(found[2] or 0)
    if not LONG_MIN <= write_id <= LONG_MAX or txn > LONG_MAX:
        return None
    return BaseName(WriteId(write_id), TxnId(txn))


def parse_delta(name: str) -> DeltaName | None:
    """The delta or delete delta that a directory name says, None for any other name.

    >>> parse_delta("delete_delta_3_3_0001").statement_id
    1
    """
    found = _DELTA.fullmatch(name)
    if found is None:
        return None
    first, last, txn = int(found[2]), int(found[3]), int(found[5] or 0)
    if first > last or last > LONG_MAX or txn > LONG_MAX:
        return None
    statement = NO_STATEMENT if found[4] is None else StatementId(int(found[4]))
    return DeltaName(WriteId(first), WriteId(last), statement, TxnId(txn), bool(found[1]))


@lru_cache(NAMES_MAX)
def parse_directory(name: str) -> DirectoryName | None:
    """The base or delta that a directory name says, None for any other name."""
    return parse_base(name) or parse_delta(name)


def looks_acid(name: str) -> bool:
    """Whether Hive takes the directory for a base or delta: by its prefix alone."""
    return name.startswith((BASE_PREFIX, DELTA_PREFIX, DELETE_DELTA_PREFIX))


def format_base(name: BaseName) -> str:
    """The directory name of a base: ids with 7 digits or more."""
    return f"{BASE_PREFIX}{name.write_id:07d}{_visibility(name.visibility_txn)}"


def format_delta(name: DeltaName) -> str:
    """The directory name of a delta: ids with 7 digits or more, the statement with 4 or more."""
    prefix = DELETE_DELTA_PREFIX if name.is_delete else DELTA_PREFIX
    statement = "" if name.statement_id < 0 else f"_{name.statement_id:04d}"
    ids = f"{name.min_write_id:07d}_{name.max_write_id:07d}"
    return f"{prefix}{ids}{statement}{_visibility(name.visibility_txn)}"


def format_directory(name: DirectoryName) -> str:
    """The directory name of a base or delta."""
    return format_base(name) if isinstance(name, BaseName) else format_delta(name)


def parse_bucket_file(name: str) -> BucketFileName | None:
    """The bucket and attempt that a file name says, None for any other name."""
    found = _BUCKET.fullmatch(name)
    if found is None:
        return None
    return BucketFileName(int(found[1]), None if found[2] is None else int(found[2]))


def format_bucket_file(name: BucketFileName) -> str:
    """The file name of a bucket: the number with 5 digits or more."""
    attempt = "" if name.attempt is None else f"_{name.attempt}"
    return f"{BUCKET_PREFIX}{name.bucket:05d}{attempt}"


def parse_original_file(name: str) -> OriginalFileName | None:
    """The numbers in the name of a file without row events, None for any other name."""
    found = _ORIGINAL.fullmatch(name)
    return None if found is None else OriginalFileName(int(found[1]), int(found[2]), found[3])


def format_original_file(name: OriginalFileName) -> str:
    """The file name of a file without row events: the number with 6 digits or more."""
    copy = "" if name.copy is None else f"_copy_{name.copy}"
    return f"{name.bucket:06d}_{name.task}{copy}"


@lru_cache(NAMES_MAX)
def bucket_of_file(name: str) -> int:
    """The bucket number in a file's name, -1 where there is none (format.md 1.3)."""
    bucket = parse_bucket_file(name)
    if bucket is not None:
        return bucket.bucket
    original = parse_original_file(name)
    return -1 if original is None else original.bucket


def is_hidden(name: str) -> bool:
    """Whether a file or directory of this name is passed over (format.md 1.6)."""
    return name.startswith(HIDDEN_PREFIXES) and not is_marker(name)


def may_be_partition(name: str) -> bool:
    """Whether a directory of this name may be that of a partition, whose column may have any name;
    to Spark, too, an underscore hides no ``_x=1``.
    """
    hidden = name.startswith((".", MANIFESTS_PREFIX, STAGING_PREFIX))
    return "=" in name and not hidden and not looks_acid(name)


def is_marker(name: str) -> bool:
    """Whether the file makes its directory visible without being data."""
    return name.startswith((METADATA_FILE, VERSION_FILE))


def path_order(path: str) -> tuple[bytes, str]:
    """The sort key of originals: Hive compares paths as quoted URIs, by UTF-16 code units.

    This order is part of the format: it decides synthetic row ids (format.md 6.2).
    """
    quoted = _NOT_IN_URI_PATH.sub(lambda found: f"%{ord(found[0]):02X}", path)
    return quoted.encode("utf-16-be", "surrogatepass"), path


def escape_partition_text(text: str) -> str:
    """The text as it stands in a directory name: Hive escapes as few characters as it can."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def unescape_partition_text(text: str) -> str:
    """The inverse of ``escape_partition_text``; a ``%`` without two hex digits stays."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def partition_name(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """The directory of a partition below its table: ``p=x/q=1``.

    None and the empty text are Hive's default partition.

    Raises:
        InvalidInputError: there are not as many values as columns.
    """
    if len(columns) != len(values):
        raise InvalidInputError(
            f"Partition has {len(values)} values for {len(columns)} columns",
            columns=tuple(columns),
            values=tuple(values),
        )
    return "/".join(
        f"{escape_partition_text(column.lower())}="
        + (escape_partition_text(value) if value else DEFAULT_PARTITION)
        for column, value in zip(columns, values, strict=True)
    )


def name_of_partition(table: Table, partition: Partition) -> str | None:
    """The name of one of a table's partitions; None for what stands for a table without."""
    keys = table.partition_keys
    return partition_name(keys, partition.values) if keys else None


def parse_partition_name(name: str) -> tuple[tuple[str, str | None], ...] | None:
    """The (column, value) pairs of ``p=x/q=1``, None where a part has no ``column=value`` form.

    The default partition gives None as its value.
    """
    pairs: list[tuple[str, str | None]] = []
    for part in name.split("/"):
        column, equals, value = part.partition("=")
        if not column or not equals or not value:
            return None
        text = None if value == DEFAULT_PARTITION else unescape_partition_text(value)
        pairs.append((unescape_partition_text(column).lower(), text))
    return tuple(pairs)


def default_partition_value(kind: HiveType) -> str | None:
    """What a partition column of this type is in the rows of the default partition: its name, cut
    to the column's length, in a text column; NULL in others (real-hive.md 9).
    """
    if isinstance(kind, CharType | VarcharType):
        return DEFAULT_PARTITION[: kind.length]
    return DEFAULT_PARTITION if kind == STRING else None


def staging_name(txn: TxnId, what: str) -> str:
    """The hidden directory in which a transaction's files wait; ``what`` makes it unique within.

    >>> staging_name(TxnId(7), "0")
    '_hiveacid_staging_7_0'
    """
    return f"{STAGING_PREFIX}{txn}_{what}"


def parse_staging_name(name: str) -> TxnId | None:
    """The transaction whose files wait in a hidden directory, None for any other name."""
    found = _STAGING.fullmatch(name)
    return None if found is None or int(found[1]) > LONG_MAX else TxnId(int(found[1]))


def parse_manifests_name(name: str) -> DirectoryName | None:
    """The base or delta whose files are listed in a directory, None for any other name."""
    if not name.startswith(MANIFESTS_PREFIX):
        return None
    return parse_directory(name.removeprefix(MANIFESTS_PREFIX))


def _visibility(txn: int) -> str:
    return f"_v{txn:07d}" if txn else ""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file: ``path`` is relative to the partition directory, ``/`` separated.

    ``bucket`` is the number in its name (format.md 1.3), or -1. ``logical_bytes`` is the length to
    read up to: the last complete value of the ``_flush_length`` side file where there is one, else
    ``size_bytes`` (filled in by storage's listing).
    """

    path: str
    size_bytes: int
    bucket: int
    logical_bytes: int | None = None
    modified_ns: int = field(default=0, compare=False)
    """When the file was last modified, since 1970; 0 where the file system does not say."""

    @property
    def length_bytes(self) -> int:
        """How much of it there is to read."""
        return self.size_bytes if self.logical_bytes is None else self.logical_bytes

    @property
    def is_bucket_file(self) -> bool:
        """Whether its name is that of a file of row events."""
        return self.path.rpartition("/")[2].startswith(BUCKET_PREFIX)


def written_by(file: DataFile) -> WriteId | None:
    """The one write id of all rows of a file without row events, told from its directory; None
    where it is none of a transaction's, or a compaction's.

    >>> written_by(DataFile("delta_0000003_0000003_0000/000000_0", 1, 0))
    3
    """
    name = parse_directory(file.path.rpartition("/")[0].rpartition("/")[2])
    if isinstance(name, BaseName):
        return None if name.visibility_txn else name.write_id
    is_one = name is not None and name.min_write_id == name.max_write_id
    return name.min_write_id if name is not None and is_one else None


@dataclass(frozen=True, slots=True)
class BaseDirectory:
    """A chosen base: ``path`` is the directory's name as on disk."""

    path: str
    name: BaseName
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class DeltaDirectory:
    """A chosen delta or delete delta: ``path`` is the directory's name as on disk.

    ``all_valid`` is False where some write ids of its range are open or aborted: its rows must be
    filtered by currentTransaction.
    """

    path: str
    name: DeltaName
    files: tuple[DataFile, ...]
    all_valid: bool


@dataclass(frozen=True, slots=True)
class AcidDirectory:
    """What ``resolve`` chose; every entry of the listing is in exactly one place.

    ``deltas`` holds deltas and delete deltas in resolve's order (format.md 2 step 7). ``obsolete``
    and ``aborted`` are directory names (for originals made obsolete by a base: file paths).
    ``ignored`` is the rest: hidden names, invisible compactions, invalid bases and deltas beyond
    the watermark.
    """

    base: BaseDirectory | None
    originals: tuple[DataFile, ...]
    deltas: tuple[DeltaDirectory, ...]
    obsolete: tuple[str, ...]
    aborted: tuple[str, ...]
    ignored: tuple[str, ...]

    @property
    def row_files(self) -> tuple[DataFile, ...]:
        """The files that hold rows: of the base, the originals, the deltas; none of logical
        length 0.
        """
        base = self.base.files if self.base else ()
        files = (*base, *self.originals, *(f for d in self.insert_deltas for f in d.files))
        return tuple(file for file in files if file.logical_bytes != 0)

    @property
    def rows_by_write_id(self) -> tuple[tuple[int, tuple[DataFile, ...]], ...]:
        """The files that hold rows, place by place, each with the highest write id that the place's
        name says: 0 of the originals, and of a base that was made of them alone.
        """
        places = [(0, self.originals)]
        if self.base is not None:
            places.append((max(int(self.base.name.write_id), 0), self.base.files))
        return (*places, *((int(d.name.max_write_id), d.files) for d in self.insert_deltas))

    @property
    def insert_deltas(self) -> tuple[DeltaDirectory, ...]:
        """The deltas that hold rows."""
        return tuple(d for d in self.deltas if not d.name.is_delete)

    @property
    def are_inserts_valid(self) -> bool:
        """Whether all rows of the deltas count that nobody deleted."""
        return all(delta.all_valid for delta in self.insert_deltas)

    @property
    def delete_deltas(self) -> tuple[DeltaDirectory, ...]:
        """The deltas that hold delete events."""
        return tuple(d for d in self.deltas if d.name.is_delete)

    @property
    def delete_files(self) -> tuple[DataFile, ...]:
        """The files that hold delete events."""
        return tuple(file for delta in self.delete_deltas for file in delta.files)

    def alone(self, file: DataFile) -> AcidDirectory:
        """As if nothing else lay there than a file whose rows no delta changes."""
        base = self.base
        if base is not None and file.path.startswith(f"{base.path}/"):
            return AcidDirectory(replace(base, files=(file,)), (), (), (), (), ())
        return AcidDirectory(None, (file,), (), (), (), ())

    def by_bucket(self) -> dict[int, AcidDirectory]:
        """As if the rows of each bucket lay by themselves, beside all delete deltas."""
        places = (("base", self.base.files if self.base else ()), ("originals", self.originals))
        found: dict[int, dict[str, list[DataFile]]] = {}
        for name, files in (*places, *((d.path, d.files) for d in self.insert_deltas)):
            for file in files:
                found.setdefault(file.bucket, {}).setdefault(name, []).append(file)
        return {bucket: self._holding(files) for bucket, files in found.items()}

    def _holding(self, files: Mapping[str, Sequence[DataFile]]) -> AcidDirectory:
        base, in_base = self.base, tuple(files.get("base", ()))
        deltas = [
            delta if delta.name.is_delete else replace(delta, files=tuple(files[delta.path]))
            for delta in self.deltas
            if delta.name.is_delete or delta.path in files
        ]
        return AcidDirectory(
            None if base is None else replace(base, files=in_base),
            tuple(files.get("originals", ())),
            tuple(deltas),
            (),
            (),
            (),
        )


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One partition of a snapshot."""

    partition: Partition
    directory: AcidDirectory


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table as of a set of valid write ids."""

    table: Table
    valid: ValidWriteIdList
    parts: tuple[SnapshotPart, ...]
