"""Which rows of a partition two transactions both deleted: their delete events, intersected."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from hiveacid.layout.names import DeltaName, parse_delta
from hiveacid.model.bucket import RowId
from hiveacid.model.conflicts import ROWS_NAMED
from hiveacid.model.ids import WriteId
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.storage.delete_set import DeleteSet, Int32s, Int64s
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.sources import read_delete_keys

_Keys = tuple[Int64s, Int32s, Int64s]


def overlapping_rows(
    fs: FileSystem,
    path: str,
    *,
    mine: WriteId,
    others: Collection[WriteId],
    limit: int = ROWS_NAMED,
) -> tuple[RowId, ...]:
    """Rows of the partition at ``path`` that write id ``mine`` deleted, and one of ``others`` too;
    sorted, ``limit`` at most.

    An update is a delete and an insert, so it counts. Write ids without a directory deleted
    nothing: a cleaner leaves the directories of a transaction alone while one that is open may
    need them.

    Raises:
        FormatError: a damaged delete file.
        StorageError: reading failed.
    """
    directories = [
        (name, info.path)
        for info in fs.list_directory(path)
        if info.is_directory
        and (name := parse_delta(info.path.rpartition("/")[2])) is not None
        and name.is_delete
    ]
    own = DeleteSet(_events(fs, directories, frozenset({mine})))
    if not len(own):
        return ()
    found: set[RowId] = set()
    for keys in _events(fs, directories, frozenset(others)):
        both = own.contains(*keys)
        places = np.flatnonzero(both)
        # In the order of the file, which is that of row ids.
        for at in places[:limit]:
            found.add(RowId(int(keys[0][at]), int(keys[1][at]), int(keys[2][at])))
    return tuple(sorted(found)[:limit])


def _events(
    fs: FileSystem, directories: list[tuple[DeltaName, str]], write_ids: frozenset[WriteId]
) -> Iterator[_Keys]:
    for name, path in directories:
        inside = range(name.min_write_id, name.max_write_id + 1)
        chosen = [one for one in write_ids if one in inside]
        if not chosen:
            continue
        hidden = () if len(inside) == 1 else tuple(w for w in inside if w not in write_ids)
        valid = ValidWriteIdList.of(None, hwm=max(chosen), open=hidden)
        for file in fs.list_directory(path):
            if not file.is_directory and file.path.rpartition("/")[2].startswith("bucket_"):
                yield read_delete_keys(fs, file.path, valid=valid, bucket=None)
