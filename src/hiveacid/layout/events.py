"""The six-column row event of an ACID file: names, operations, order (format.md 4.1-4.5).

The only place where the ORC names stand; elsewhere ``originalTransaction`` and
``currentTransaction`` are called original and current write id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from hiveacid.errors import FormatError
from hiveacid.layout.directories import BaseName, DeltaName, bucket_of_file, path_order
from hiveacid.model.ids import RowId, encode_bucket
from hiveacid.model.tables import NO_STATEMENT, StatementId, WriteId

OPERATION: Final = "operation"
ORIGINAL_TRANSACTION: Final = "originalTransaction"
BUCKET: Final = "bucket"
ROW_ID: Final = "rowId"
CURRENT_TRANSACTION: Final = "currentTransaction"
ROW: Final = "row"

EVENT_FIELDS: Final = (
    OPERATION,
    ORIGINAL_TRANSACTION,
    BUCKET,
    ROW_ID,
    CURRENT_TRANSACTION,
    ROW,
)
"""The root columns in file order; written in exactly this case, read in any."""

SYSTEM_FIELDS: Final = EVENT_FIELDS[:-1]
"""The root columns without ``row``."""

FIRST_USER_COLUMN_ID: Final = 7
"""ORC column id of the first user column: 0 is the root, 1 to 6 the event's fields."""

_EVENT_FIELDS_LOWER = frozenset(name.lower() for name in EVENT_FIELDS)
_POSITIONAL = re.compile(r"_col[0-9]+", re.ASCII)


class Operation(IntEnum):
    """The value of ``operation``."""

    INSERT = 0
    UPDATE = 1
    """the full new image of a row; files of Hive before 3 only"""
    DELETE = 2


def is_event_schema(names: Iterable[str]) -> bool:
    """Whether a file with these root columns holds row events; order and case do not matter.

    A file's schema is the only sure sign: metadata and markers may be missing (format.md 11.11).
    """
    found = [name.lower() for name in names]
    return len(found) == len(EVENT_FIELDS) and set(found) == _EVENT_FIELDS_LOWER


def is_positional_row(names: Sequence[str]) -> bool:
    """Whether the columns of ``row`` go by position: all are called ``_colN`` (HIVE-15190)."""
    return bool(names) and all(_POSITIONAL.fullmatch(name) for name in names)


# -------------------------------------------------------------------- rows without events
# Row ids of files without row events: the order of the files makes them (format.md 6.2).
#
# Hive numbers the rows of all original files that share a number in their name as if they were one
# file, in path order, over the whole partition (or over one loaded base or delta). Files must hence
# never be added, removed or renamed until a major compaction writes the ids down.


_ORIGINAL_WRITE_ID = WriteId(0)


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """A file without row events: ``path`` relative to the partition, and its number of rows."""

    path: str
    rows: int


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """The ids of one file's rows: row ``i`` is ``(write_id, bucket, first_row_id + i)``.

    ``bucket`` is the encoded property, None where the name has no number: such a file can be read,
    its rows cannot be deleted.
    """

    path: str
    write_id: WriteId
    bucket: int | None
    first_row_id: int
    rows: int


def assign_row_ids(
    files: Iterable[OriginalFile], *, directory: BaseName | DeltaName | None = None
) -> tuple[OriginalRows, ...]:
    """Give every row of the files of one scope its id; the order of ``files`` does not matter.

    ``directory`` is the base or delta that holds them, None for the files outside all of them. The
    answer is in path order.

    Raises:
        InvalidInputError: a file's number or the statement is beyond 4095.
    """
    write_id, statement = _origin(directory)
    next_row: dict[int, int] = {}
    assigned: list[OriginalRows] = []
    for file in sorted(files, key=lambda file: path_order(file.path)):
        bucket = bucket_of_file(file.path.rpartition("/")[2])
        first = next_row.get(bucket, 0)
        next_row[bucket] = first + file.rows
        property_ = None if bucket < 0 else encode_bucket(bucket, statement)
        assigned.append(OriginalRows(file.path, write_id, property_, first, file.rows))
    return tuple(assigned)


def _origin(directory: BaseName | DeltaName | None) -> tuple[WriteId, StatementId]:
    if directory is None:
        return _ORIGINAL_WRITE_ID, NO_STATEMENT
    if isinstance(directory, BaseName):
        return directory.write_id, NO_STATEMENT
    return directory.min_write_id, directory.statement_id


# -------------------------------------------------------------------- metadata of event files
# ORC user metadata of ACID files: key index, stats, version (format.md 5.1).
#
# Readers require none of it; writers write all of it, because Hive 3 fails without.


KEY_INDEX_KEY: Final = "hive.acid.key.index"
STATS_KEY: Final = "hive.acid.stats"
VERSION_KEY: Final = "hive.acid.version"
VERSION_VALUE: Final = "2"


@dataclass(frozen=True, slots=True)
class AcidStats:
    """Numbers of events in one file, by operation."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    def __str__(self) -> str:
        return f"{self.inserts},{self.updates},{self.deletes}"


def parse_stats(text: str) -> AcidStats:
    """The numbers in ``inserts,updates,deletes``.

    Raises:
        FormatError: the text is not three numbers.
    """
    try:
        inserts, updates, deletes = map(int, text.split(","))
    except ValueError as error:
        raise _bad(STATS_KEY, text, "inserts,updates,deletes") from error
    return AcidStats(inserts, updates, deletes)


def format_key_index(last_rows: Iterable[RowId]) -> str:
    """The index from the last row of each stripe, in stripe order; no stripes give an empty text.

    >>> format_key_index([RowId(1, 536870912, 2)])
    '1,536870912,2;'
    """
    return "".join(f"{row.write_id},{row.bucket},{row.row_id};" for row in last_rows)


def parse_key_index(text: str) -> tuple[RowId, ...]:
    """The last row of each stripe.

    Raises:
        FormatError: the text is not an index.
    """
    rows: list[RowId] = []
    for part in text.split(";"):
        if not part:
            continue
        try:
            write_id, bucket, row_id = map(int, part.split(","))
        except ValueError as error:
            raise _bad(KEY_INDEX_KEY, text, "writeId,bucket,rowId;...") from error
        rows.append(RowId(write_id, bucket, row_id))
    return tuple(rows)


def usable_key_index(text: str | None, *, stripes: int) -> tuple[RowId, ...] | None:
    """The index where it has one entry for each stripe, else None: old writers lose the last.

    Raises:
        FormatError: the text is not an index.
    """
    if text is None:
        return None
    rows = parse_key_index(text)
    return rows if len(rows) == stripes else None


def file_metadata(key_index: str, stats: AcidStats) -> dict[str, bytes]:
    """All user metadata of an ACID file, as key and raw value."""
    return {
        KEY_INDEX_KEY: key_index.encode(),
        STATS_KEY: str(stats).encode(),
        VERSION_KEY: VERSION_VALUE.encode(),
    }


def _bad(key: str, text: str, expected: str) -> FormatError:
    return FormatError(
        f"Metadata {key} is not of the form {expected}: {text[:200]!r}",
        path=key,
        expected=expected,
        found=text[:200],
    )


# -------------------------------------------------------------------- markers
# The two marker files of a directory: ``_orc_acid_version`` and ``_metadata_acid`` (1.4, 1.5).


VERSION_TEXT: Final = "2"
"""The whole content of ``_orc_acid_version``."""

_MARKER_VERSION: Final = "0"


class DataFormat(Enum):
    """What ``_metadata_acid`` says about the base in which it lies."""

    COMPACTED = "compacted"
    """made by the compactor of Hive 3, not by INSERT OVERWRITE"""
    TRUNCATED = "truncated"
    DROPPED = "dropped"


def format_marker(data_format: DataFormat) -> str:
    """The text of ``_metadata_acid``, byte for byte as Hive writes it.

    >>> format_marker(DataFormat.TRUNCATED)
    '{"thisFileVersion":"0","dataFormat":"truncated"}'
    """
    content = {"thisFileVersion": _MARKER_VERSION, "dataFormat": data_format.value}
    return json.dumps(content, separators=(",", ":"))


def parse_marker(text: str, *, path: str) -> DataFormat:
    """What the text of ``_metadata_acid`` at ``path`` says; key order and case do not matter.

    Raises:
        FormatError: the text is not JSON, of another version or says something unknown.
    """
    try:
        content = json.loads(text)
        if content["thisFileVersion"] != _MARKER_VERSION:
            raise ValueError("version")
        return DataFormat(content["dataFormat"].lower())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"Marker {path} is not one of version {_MARKER_VERSION}: {text[:200]!r}",
            path=path,
            expected=format_marker(DataFormat.COMPACTED),
            found=text[:200],
        ) from error
