"""The deleted rows of one bucket as sorted numbers, and which rows of a batch are among them.

Identities are packed into one int64 where their ranges allow (they nearly always do): ``(index of
write id * bucket properties + index of bucket property) * span of row ids + row id``. Else they are
compared as 20-byte records.

Where deltas hold updates and deletes (Hive before 3), ``newest_rows`` tells which events of a
bucket count. All events of a row share its identity, and the newest valid one decides: a delete
takes the row away, an insert or update is the row (format.md 4.7). Needs five numbers for each
event of the bucket in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hiveacid.layout.events import Operation
from hiveacid.model.tables import LONG_MAX

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
_RECORD: Final = np.dtype([("write_id", ">u8"), ("bucket", ">u4"), ("row_id", ">u8")])


@dataclass(frozen=True, slots=True)
class DeleteBitmap:
    """Deleted rows in runs of ``2**bits`` row ids: one entry for each run that has some.

    ``run`` is the row ids without their last ``bits`` bits. ``words`` has a line for each run, a
    bit for each of its row ids, 64 in a word, the lowest first.
    """

    bits: int
    write_id: Int64s
    bucket: Int32s
    run: Int64s
    words: Int64s


RUN_BITS: Final = (6, 9, 12, 16)
"""Runs of one word, where deleted rows are far apart, to runs of 1,024 words."""
_RUN_BYTES: Final = 64
"""What a run takes in a hash table besides its words."""
_WORD_BITS: Final = 6


class DeleteSet:
    """Identities (write id, bucket property, row id) of deleted rows; each is matched as a
    whole.
    """

    def __init__(self, parts: Iterable[tuple[Int64s, Int32s, Int64s]]) -> None:
        """Collect delete events in any order, duplicates allowed (format.md 7.1)."""
        collected = list(parts)
        write_id = _joined([part[0] for part in collected], np.int64)
        bucket = _joined([part[1] for part in collected], np.int32)
        row_id = _joined([part[2] for part in collected], np.int64)
        self._write_ids = distinct(write_id)
        self._buckets = distinct(bucket)
        self._first = int(row_id.min()) if len(row_id) else 0
        self._last = int(row_id.max()) if len(row_id) else -1
        pairs = len(self._write_ids) * len(self._buckets)
        self._packs = pairs * (self._last - self._first + 1) <= LONG_MAX
        if self._packs:
            keys, _ = self._pack(write_id, bucket, row_id)
            self._keys: npt.NDArray[Any] = distinct(keys)
        else:
            self._keys = np.unique(_records(write_id, bucket, row_id))

    def __len__(self) -> int:
        return len(self._keys)

    def bitmap_bytes(self) -> Mapping[int, int]:
        """What ``bitmap`` takes in a hash table with runs of so many bits; empty where identities
        are too wide to be packed, of which there is no bitmap.
        """
        if not self._packs:
            return {}
        pairs, row_ids = self._identities()
        return {
            bits: len(_firsts(pairs, row_ids >> bits)) * ((1 << bits) // 8 + _RUN_BYTES)
            for bits in RUN_BITS
        }

    def bitmap(self, bits: int) -> DeleteBitmap:
        """The set as bits, in runs of ``2**bits`` row ids (one of ``RUN_BITS``)."""
        assert self._packs
        pairs, row_ids = self._identities()
        first_of_run = _firsts(pairs, row_ids >> bits)
        first_of_word = _firsts(pairs, row_ids >> _WORD_BITS)
        run_of_word = np.searchsorted(first_of_run, first_of_word, side="right") - 1
        words_a_run = 1 << (bits - _WORD_BITS)
        place = (row_ids[first_of_word] >> _WORD_BITS) & (words_a_run - 1)
        words = np.zeros((len(first_of_run), words_a_run), dtype=np.int64)
        if len(row_ids):
            each = np.left_shift(np.int64(1), row_ids & 63)
            words[run_of_word, place] = np.bitwise_or.reduceat(each, first_of_word)
        pairs, runs = pairs[first_of_run], row_ids[first_of_run] >> bits
        write_place, bucket_place = np.divmod(pairs, max(len(self._buckets), 1))
        return DeleteBitmap(
            bits, self._write_ids[write_place], self._buckets[bucket_place], runs, words
        )

    def _identities(self) -> tuple[Int64s, Int64s]:
        """Which write id and bucket property together, and row id, of each packed key."""
        pairs, row_ids = np.divmod(self._keys, self._last - self._first + 1 or 1)
        return pairs, row_ids + self._first

    def places(self, write_id: Int64s, bucket: Int32s, row_id: Int64s) -> Int64s:
        """For each row its place among those of the set, in their order; -1 where it is none."""
        if not len(self):
            return np.full(len(row_id), -1, dtype=np.int64)
        if self._packs:
            keys, known = self._pack(write_id, bucket, row_id)
        else:
            keys, known = _records(write_id, bucket, row_id), np.ones(len(row_id), np.bool_)
        place = np.searchsorted(self._keys, keys)
        place[place == len(self._keys)] = 0
        return np.where((self._keys[place] == keys) & known, place, -1)

    def matches(self, write_id: Int64s, bucket: Int32s, row_id: Int64s) -> tuple[Int64s, Int64s]:
        """Which rows are in the set, and their places in it. Where they are of one write id and
        bucket and in order, as in most stripes, those of the set between the first and the last
        are looked for among them: the work is that of the rows, however large the set.
        """
        if not self._packs or not len(self) or not _is_run(write_id, bucket, row_id):
            places = self.places(write_id, bucket, row_id)
            at = np.flatnonzero(places >= 0)
            return at, places[at]
        ends = int(row_id[0]), int(row_id[-1])
        sought, places = self.between(int(write_id[0]), int(bucket[0]), *ends)
        at = np.searchsorted(row_id, sought)
        at[at == len(row_id)] = 0
        there = row_id[at] == sought
        return at[there], places[there]

    def between(self, write_id: int, bucket: int, first: int, last: int) -> tuple[Int64s, Int64s]:
        """The row ids of those of a write id and bucket property from a row id to another (both
        inclusive), and their places in the set.
        """
        if not self._packs:
            sought = np.arange(first, last + 1)
            alike = np.full(len(sought), write_id), np.full(len(sought), bucket, np.int32)
            places = self.places(*alike, sought)
            return sought[places >= 0], places[places >= 0]
        low, high = max(first, self._first), min(last, self._last)
        pair = int(np.searchsorted(self._write_ids, write_id)) * len(self._buckets)
        pair += int(np.searchsorted(self._buckets, bucket))
        is_there = low <= high and write_id in self._write_ids and bucket in self._buckets
        begin = pair * (self._last - self._first + 1) - self._first if is_there else 0
        ends = (begin + low, begin + high + 1) if is_there else (0, 0)
        start, stop = np.searchsorted(self._keys, ends)
        return self._keys[start:stop] - begin, np.arange(start, stop)

    def contains(self, write_id: Int64s, bucket: Int32s, row_id: Int64s) -> Bools:
        """For each row whether it is deleted."""
        found: Bools = np.zeros(len(row_id), dtype=np.bool_)
        found[self.matches(write_id, bucket, row_id)[0]] = True
        return found

    def _pack(self, write_id: Int64s, bucket: Int32s, row_id: Int64s) -> tuple[Int64s, Bools]:
        """Packed keys, and which rows can be in the set at all (keys of the others mean
        nothing).
        """
        if not len(self._write_ids):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
        write_place, write_known = _places(self._write_ids, write_id)
        bucket_place, bucket_known = _places(self._buckets, bucket)
        known = write_known & bucket_known & (row_id >= self._first) & (row_id <= self._last)
        span = self._last - self._first + 1
        pair = write_place * len(self._buckets) + bucket_place
        with np.errstate(over="ignore"):
            keys: Int64s = pair * span + (row_id - self._first)
        return keys, known


def _places(values: npt.NDArray[Any], sought: npt.NDArray[Any]) -> tuple[Int64s, Bools]:
    """The place of each sought value in sorted ``values``, and whether it is there."""
    if len(values) == 1:
        return np.zeros(len(sought), dtype=np.int64), sought == values[0]
    place = np.searchsorted(values, sought)
    place[place == len(values)] = 0
    return place, values[place] == sought


def _is_run(write_id: Int64s, bucket: Int32s, row_id: Int64s) -> bool:
    """Whether rows are of one write id and bucket property, their row ids ascending."""
    return bool(
        len(row_id)
        and (write_id == write_id[0]).all()
        and (bucket == bucket[0]).all()
        and (row_id[1:] > row_id[:-1]).all()
    )


def distinct(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The distinct numbers, sorted. ``numpy.unique`` hashes them, which takes sixty times as long
    as sorting, and those of files are sorted, or a few sorted runs.
    """
    if (numbers[1:] < numbers[:-1]).any():
        numbers = np.sort(numbers, kind="stable")
    return numbers[_firsts(numbers)]


def _firsts(*sorted_columns: Int64s) -> Int64s:
    """The places at which sorted lines differ from the line before."""
    differs = np.ones(len(sorted_columns[0]), dtype=np.bool_)
    differs[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in sorted_columns])
    return np.flatnonzero(differs)


def _joined(parts: list[npt.NDArray[Any]], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)


def _records(write_id: Int64s, bucket: Int32s, row_id: Int64s) -> npt.NDArray[Any]:
    """Big-endian records seen as plain bytes, which numpy can sort and compare."""
    records = np.empty(len(row_id), dtype=_RECORD)
    records["write_id"] = write_id.astype(np.uint64)
    records["bucket"] = bucket.astype(np.uint32)
    records["row_id"] = row_id.astype(np.uint64)
    return records.view(f"V{_RECORD.itemsize}")


@dataclass(frozen=True, slots=True)
class FileEvents:
    """The events of one file, in its order.

    ``identity`` is (originalTransaction, bucket, rowId); ``visible`` marks those of valid write
    ids, None stands for all; ``statement`` is the statement id of the file's directory, or -1.
    """

    identity: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int64]]
    current_write_id: npt.NDArray[np.int64]
    operation: npt.NDArray[np.int32]
    statement: int
    visible: Bools | None


def newest_rows(files: Sequence[FileEvents]) -> list[Bools]:
    """For each file, which of its events are rows that count."""
    counts = [len(file.operation) for file in files]
    keys = [np.concatenate([file.identity[i] for file in files]) for i in range(3)]
    current = np.concatenate([file.current_write_id for file in files])
    statement = np.repeat([file.statement for file in files], counts)
    visible = np.concatenate(
        [
            np.ones(n, bool) if f.visible is None else f.visible
            for f, n in zip(files, counts, strict=True)
        ]
    )
    order = np.lexsort((-statement, -current, ~visible, keys[2], keys[1], keys[0]))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    operation = np.concatenate([file.operation for file in files])
    keep = np.zeros(len(order), dtype=bool)
    keep[order[first]] = True
    keep &= visible & (operation != Operation.DELETE)
    return np.split(keep, np.cumsum(counts)[:-1])
