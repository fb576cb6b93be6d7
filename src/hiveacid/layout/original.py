"""Row ids of files without row events: the order of the files makes them (format.md 6.2).

Hive numbers the rows of all original files that share a number in their name as if they were one
file, in path order, over the whole partition (or over one loaded base or delta). Files must hence
never be added, removed or renamed until a major compaction writes the ids down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hiveacid.layout.names import BaseName, DeltaName, bucket_of_file, path_order
from hiveacid.model.bucket import RowId, encode_bucket
from hiveacid.model.ids import NO_STATEMENT, StatementId, WriteId

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

    def row_id(self, position: int) -> RowId | None:
        """The id of the row at ``position`` (from 0) in the file, None where there is none."""
        if self.bucket is None:
            return None
        return RowId(self.write_id, self.bucket, self.first_row_id + position)


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
