"""What to read: the values in which the control plane and the data plane meet.

Picklable, they need no service. ``AcidDirectory`` is the answer of ``resolve`` for one partition
directory (or the root of an unpartitioned table); ``Snapshot`` is a table, its valid write ids and
one ``AcidDirectory`` per partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hiveacid.layout.names import BUCKET_PREFIX, BaseName, DeltaName
from hiveacid.model.tables import Partition, Table
from hiveacid.model.valid import ValidWriteIdList


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
    def is_bucket_file(self) -> bool:
        """Whether its name is that of a file of row events."""
        return self.path.rpartition("/")[2].startswith(BUCKET_PREFIX)


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
    def insert_deltas(self) -> tuple[DeltaDirectory, ...]:
        """The deltas that hold rows."""
        return tuple(d for d in self.deltas if not d.name.is_delete)

    @property
    def delete_deltas(self) -> tuple[DeltaDirectory, ...]:
        """The deltas that hold delete events."""
        return tuple(d for d in self.deltas if d.name.is_delete)


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
