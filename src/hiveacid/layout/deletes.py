"""Which delete events can concern a data file (format.md 7.2, 7.3).

Events match rows by their whole identity, so to look at too many files is only slow, never wrong.
What is left out here could not match: a delete never comes before its row.
"""

from __future__ import annotations

from collections.abc import Iterable

from hiveacid.layout.names import BaseName, DeltaName
from hiveacid.layout.snapshot import AcidDirectory, DataFile, DeltaDirectory


def applicable_delete_deltas(
    directory: AcidDirectory, source: BaseName | DeltaName | None
) -> tuple[DeltaDirectory, ...]:
    """The delete deltas that may delete rows of ``source``: a base, a delta or (None) originals.

    Of the source's own transaction only those of later statements; where either directory
    has no statement id, as after a compaction, the delete delta counts.
    """
    return tuple(delta for delta in directory.delete_deltas if _applies(delta.name, source))


def delete_files(
    directory: AcidDirectory,
    source: BaseName | DeltaName | None,
    *,
    bucket: int | None,
) -> tuple[DataFile, ...]:
    """The delete files to read for rows of ``source`` in the file numbered ``bucket``.

    ``bucket`` None asks for the files of every number: a table without buckets written by Hive 3.0
    may have an event in any of them.
    """
    return tuple(_files(applicable_delete_deltas(directory, source), bucket))


def _files(deltas: Iterable[DeltaDirectory], bucket: int | None) -> Iterable[DataFile]:
    for delta in deltas:
        for file in delta.files:
            if bucket is None or bucket < 0 or file.bucket in (bucket, -1):
                yield file


def _applies(delete: DeltaName, source: BaseName | DeltaName | None) -> bool:
    if source is None or isinstance(source, BaseName):
        return True
    if delete.max_write_id != source.min_write_id:
        return delete.max_write_id > source.min_write_id
    if delete.statement_id < 0 or source.statement_id < 0:
        return True
    return source.statement_id < delete.statement_id
