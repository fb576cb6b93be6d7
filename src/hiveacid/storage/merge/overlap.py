"""Which rows of a partition two transactions both deleted: their delete events, intersected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from hiveacid.errors import MissingFileError
from hiveacid.layout.directories import BUCKET_PREFIX, BaseName, DeltaName, parse_directory
from hiveacid.model.commits import ROWS_NAMED
from hiveacid.model.ids import RowId, ValidWriteIdList
from hiveacid.model.tables import WriteId
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.merge.delete_set import DeleteSet, distinct
from hiveacid.storage.merge.sources import (
    DeleteKeys,
    check_holds_deletes,
    numpy_of,
    read_delete_keys,
)
from hiveacid.storage.orc.bucket_reader import BucketFileReader


def overlapping_rows(
    fs: FileSystem,
    path: str,
    *,
    mine: WriteId,
    others: Collection[WriteId],
    limit: int = ROWS_NAMED,
) -> tuple[RowId, ...] | None:
    """Rows of the partition at ``path`` that write id ``mine`` deleted, and one of ``others`` too;
    sorted, ``limit`` at most.

    An update is a delete and an insert, so it counts. A cleaner leaves the directories of a
    transaction alone while one that is open may need them, also after they were compacted; where
    those of ``others`` are gone nevertheless, and no compacted directory has their delete events,
    the answer is None.

    Raises:
        FormatError: a damaged delete file.
        StorageError: reading failed.
    """
    found = _Directories.listed(fs, path)
    own = DeleteSet(_events(fs, found.deletes_of(mine), frozenset({mine})))
    if not len(own):
        return ()
    if any(found.has_lost(one) for one in others):
        return None
    chosen = dict.fromkeys(one for write_id in others for one in found.deletes_of(write_id))
    rows: set[RowId] = set()
    try:
        for keys in _events(fs, chosen, frozenset(others)):
            # In the order of the file, which is that of row ids.
            for at in np.flatnonzero(own.contains(*keys))[:limit]:
                rows.add(RowId(int(keys[0][at]), int(keys[1][at]), int(keys[2][at])))
    except MissingFileError:
        return None
    return tuple(sorted(rows)[:limit])


def deleting_write_ids(fs: FileSystem, path: str) -> frozenset[int]:
    """The write ids whose delete events one delete file has.

    Raises:
        FormatError, MissingFileError: as ``read_delete_keys``.
    """
    found: set[int] = set()
    with BucketFileReader(fs, path) as reader:
        check_holds_deletes(reader)
        for ids in reader.identities():
            found.update(distinct(numpy_of(ids.current_write_id)).tolist())
    return frozenset(found)


_Place = tuple[DeltaName, str]


@dataclass(frozen=True, slots=True)
class _Directories:
    """The deltas and delete deltas of a partition with their paths, and the highest base."""

    deltas: tuple[_Place, ...]
    base: int

    @classmethod
    def listed(cls, fs: FileSystem, path: str) -> _Directories:
        deltas: list[_Place] = []
        base = 0
        for info in fs.list_directory(path):
            name = parse_directory(info.name) if info.is_directory else None
            if isinstance(name, BaseName):
                base = max(base, name.write_id)
            elif name is not None:
                deltas.append((name, info.path))
        return cls(tuple(deltas), base)

    def deletes_of(self, write_id: WriteId) -> tuple[_Place, ...]:
        """Where its delete events are: as it wrote them, else compacted."""
        holding = [one for one in self._holding(write_id) if one[0].is_delete]
        as_written = [one for one in holding if _is_as_written(one[0])]
        return tuple(as_written or holding)

    def has_lost(self, write_id: WriteId) -> bool:
        """Whether it was compacted, and nothing is left that tells what it deleted."""
        holding = [name for name, _ in self._holding(write_id)]
        if any(name.is_delete or _is_as_written(name) for name in holding):
            return False
        return bool(holding) or write_id <= self.base

    def _holding(self, write_id: WriteId) -> list[_Place]:
        return [
            one for one in self.deltas if one[0].min_write_id <= write_id <= one[0].max_write_id
        ]


def _is_as_written(name: DeltaName) -> bool:
    return name.min_write_id == name.max_write_id and not name.visibility_txn


def _events(
    fs: FileSystem, directories: Iterable[_Place], write_ids: frozenset[WriteId]
) -> Iterator[DeleteKeys]:
    for name, path in directories:
        inside = range(name.min_write_id, name.max_write_id + 1)
        chosen = [one for one in write_ids if one in inside]
        hidden = () if len(inside) == 1 else tuple(w for w in inside if w not in write_ids)
        valid = ValidWriteIdList.of(None, hwm=max(chosen), open=hidden)
        for file in fs.list_directory(path):
            if not file.is_directory and file.path.rpartition("/")[2].startswith(BUCKET_PREFIX):
                yield read_delete_keys(fs, file.path, valid=valid)
