"""ORC user metadata of ACID files: key index, stats, version (format.md 5.1).

Readers require none of it; writers write all of it, because Hive 3 fails without.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hiveacid.errors import FormatError
from hiveacid.model.bucket import RowId

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


def file_metadata(last_rows: Iterable[RowId], stats: AcidStats) -> dict[str, bytes]:
    """All user metadata of an ACID file, as key and raw value."""
    return {
        KEY_INDEX_KEY: format_key_index(last_rows).encode(),
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
