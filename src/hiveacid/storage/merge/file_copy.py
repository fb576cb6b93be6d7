"""Compact a directory of an insert-only table: files are copied, byte by byte, never read.

A delta of such a table counts as a whole or not at all (format.md 1.9): those of aborted
transactions are not in the plan, and none holds rows of several transactions that did not all
commit. So no file needs to be opened, whatever its format.
"""

from __future__ import annotations

from collections.abc import Iterator

from hiveacid.layout.compaction import MajorCompaction, RewritePlan, RewrittenFile
from hiveacid.layout.names import OriginalFileName, format_directory, format_original_file
from hiveacid.layout.snapshot import DataFile
from hiveacid.storage.filesystem import FileSystem


def copy_files(fs: FileSystem, plan: RewritePlan) -> tuple[RewrittenFile, ...]:
    """Stage a copy of every input file with a name of its own; files of 0 bytes are left out.

    Raises:
        MissingFileError: a file that the plan names is not there.
        StorageError: copying failed.
    """
    compaction = plan.compaction
    output = compaction.output if isinstance(compaction, MajorCompaction) else compaction.delta
    if output is None:
        return ()
    directory, location = format_directory(output), fs.path_of(plan.location)
    copied = []
    for file, name in _named(plan):
        target = f"{fs.path_of(plan.staging)}/{directory}-{name}"
        fs.copy_file(f"{location}/{file.path}", target=target)
        copied.append(RewrittenFile(directory, name, target, None, file.size_bytes))
    return tuple(copied)


def _named(plan: RewritePlan) -> Iterator[tuple[DataFile, str]]:
    """Input files with their new names: numbers from 0 on; where the table has buckets the file's
    own, the second of a number being a copy.
    """
    directory = plan.directory
    if isinstance(plan.compaction, MajorCompaction):
        files = directory.row_files
    else:
        files = tuple(file for delta in directory.insert_deltas for file in delta.files)
    seen: dict[int, int] = {}
    for number, file in enumerate(file for file in files if file.size_bytes):
        bucket = file.bucket if plan.table.bucket is not None and file.bucket >= 0 else number
        copy = seen.get(bucket, 0)
        seen[bucket] = copy + 1
        yield file, format_original_file(OriginalFileName(bucket, 0, str(copy) if copy else None))
