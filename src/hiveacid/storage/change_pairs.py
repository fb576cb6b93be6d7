"""Images of updates: a delete and an insert of one version that have one key, and its order.

A split update leaves a delete event and an insert event with no link between them. What links them
is a key of the table, where each version has one of each for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.layout.changes import Versions
from hiveacid.storage.changes import CHANGE_FIELDS, INSERT, positions

PREIMAGE: Final = "update_preimage"
POSTIMAGE: Final = "update_postimage"
_TYPE, _VERSION, _TIME, _ID = (field.name for field in CHANGE_FIELDS)
_Int64s = npt.NDArray[np.int64]


def paired(
    events: pa.Table, *, key: Sequence[str], versions: Versions, is_net: bool = False
) -> pa.Table:
    """The events with images of updates, ordered by version; in a version by key, the row of before
    first. Without a ``key`` nothing tells an update: in a version deletes come first.

    With ``is_net`` a key has its images from all versions, and they have the later one's version.
    Rows whose key is NULL, and keys with several events of a kind, stay deletes and inserts.
    """
    if not key:
        return _in_order(events, versions)
    events = events.combine_chunks()
    write_ids = _numbers(events[_VERSION])
    is_insert = events[_TYPE].to_numpy() == INSERT
    group, has_key = row_groups(events, key)
    if not is_net:
        group = _joined(group, write_ids)
    sides = [has_key & ~is_insert, has_key & is_insert]
    counts = [np.bincount(group[side], minlength=len(group) + 1) for side in sides]
    is_pair = has_key & (counts[0] == 1)[group] & (counts[1] == 1)[group]
    if is_net:
        write_ids = _later(write_ids, group, is_pair)
    kinds = np.where(is_insert, POSTIMAGE, PREIMAGE).astype(object)
    kinds = np.where(is_pair, kinds, events[_TYPE].to_numpy())
    columns = {name: events[name] for name in events.schema.names}
    times = _times_of(events, write_ids)
    columns |= {_TYPE: pa.array(kinds, pa.string()), _VERSION: pa.array(write_ids)}
    columns |= {_TIME: times, _ID: pa.array(write_ids)}
    order = np.lexsort((is_insert, group, positions(write_ids, versions)))
    found = pa.table({name: columns[name] for name in events.schema.names})
    return found.take(pa.array(order))


def _in_order(events: pa.Table, versions: Versions) -> pa.Table:
    """The events by version; in a version deletes first."""
    is_insert = events[_TYPE].to_numpy() == INSERT
    order = np.lexsort((is_insert, positions(_numbers(events[_VERSION]), versions)))
    return events.take(pa.array(order))


def row_groups(events: pa.Table, key: Sequence[str]) -> tuple[_Int64s, npt.NDArray[np.bool_]]:
    """A number for each row, the same where keys are equal; and which rows have no NULL in it."""
    group = np.zeros(events.num_rows, np.int64)
    has_key = np.full(events.num_rows, bool(key))
    for name in key:
        column = events[name]
        has_key &= np.asarray(pc.is_valid(column).combine_chunks())
        codes = pc.fill_null(_told_apart(column).dictionary_encode().indices, -1)
        group = _joined(group, np.asarray(codes, np.int64))
    return group, has_key


def _told_apart(column: pa.ChunkedArray) -> pa.Array:
    """The values, as texts where they are nested: Arrow does not compare those."""
    array = column.combine_chunks()
    if not pa.types.is_nested(array.type):
        return array
    return pa.array([None if one is None else repr(one) for one in array.to_pylist()], pa.string())


def _joined(first: _Int64s, second: _Int64s) -> _Int64s:
    """A number for each pair of numbers."""
    firsts, seconds = (np.unique(one, return_inverse=True)[1] for one in (first, second))
    span = int(seconds.max()) + 1 if len(seconds) else 1
    joined: _Int64s = np.unique(firsts.astype(np.int64) * span + seconds, return_inverse=True)[1]
    return joined


def _later(write_ids: _Int64s, group: _Int64s, is_pair: npt.NDArray[np.bool_]) -> _Int64s:
    last = np.zeros(len(group) + 1, np.int64)
    np.maximum.at(last, group[is_pair], write_ids[is_pair])
    return np.where(is_pair, last[group], write_ids)


def _times_of(events: pa.Table, write_ids: _Int64s) -> pa.Array:
    """The times of these versions, each of which some event has."""
    distinct, first = np.unique(_numbers(events[_VERSION]), return_index=True)
    known = events[_TIME].take(pa.array(first))
    return known.take(pa.array(np.searchsorted(distinct, write_ids))).combine_chunks()


def _numbers(column: pa.ChunkedArray) -> _Int64s:
    values: _Int64s = column.to_numpy()
    return values
