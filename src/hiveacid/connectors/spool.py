"""Rows of many partitions and buckets, in any order, given back each place's together.

A data source of Spark's cannot ask for its rows sorted. So a task keeps what it gets, in memory up
to a limit, beyond it in Arrow files in the statement's hidden directory, which goes with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hiveacid.storage.failures import mapped
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.stage import runs

BYTES_MAX: Final = 128 << 20
"""What a task holds in memory before it writes it down."""

Place = tuple[str | None, ...]
"""The texts of the partition's values, then the bucket number's."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Batches of one place in a file, by their numbers."""

    place: Place
    path: str
    first: int
    count: int


class Spool:
    """The rows of one task."""

    def __init__(
        self, fs: FileSystem, path: str, *, width: int, bytes_max: int = BYTES_MAX
    ) -> None:
        """``path`` begins the names of its files; behind ``width`` columns stand the places."""
        self._fs = fs
        self._path = path
        self._width = width
        self._bytes_max = bytes_max
        self._bytes = 0
        self._held: dict[Place, list[pa.RecordBatch]] = {}
        self._numbers = itertools.count()
        self.chunks: list[Chunk] = []
        """What is written down."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Keep rows; those of one place stand together.

        Raises:
            StorageError: they could not be written down.
        """
        for start, stop in runs(rows.columns[self._width :], rows.num_rows):
            part = rows.slice(start, stop - start)
            place = tuple(
                str(column[0]) if column[0].is_valid else None
                for column in part.columns[self._width :]
            )
            self._held.setdefault(place, []).append(part)
            self._bytes += part.nbytes
        if self._bytes > self._bytes_max:
            self.write_down()

    def write_down(self) -> None:
        """Bring what is in memory into a file.

        Raises:
            StorageError: it could not be written.
        """
        if not self._held:
            return
        path = f"{self._path}-{next(self._numbers):04d}.arrow"
        schema = next(iter(self._held.values()))[0].schema
        count = 0
        with (
            mapped(path),
            self._fs.open_output(path) as out,
            pa.ipc.new_file(out, schema) as file,
        ):
            for place, batches in self._held.items():
                whole = _together(batches)
                for batch in whole:
                    file.write_batch(batch)
                self.chunks.append(Chunk(place, path, count, len(whole)))
                count += len(whole)
        self._held, self._bytes = {}, 0

    def in_order(self) -> Iterator[pa.RecordBatch]:
        """All rows, each place's together.

        Raises:
            StorageError: a file could not be read.
        """
        yield from in_order(self._fs, self.chunks, self._held)


_NOTHING: Mapping[Place, list[pa.RecordBatch]] = {}


def in_order(
    fs: FileSystem,
    chunks: Iterable[Chunk],
    held: Mapping[Place, list[pa.RecordBatch]] = _NOTHING,
) -> Iterator[pa.RecordBatch]:
    """The rows of chunks, and those that are ``held`` in memory, each place's together.

    Raises:
        StorageError: a file could not be read.
    """
    by_place: dict[Place, list[Chunk]] = {place: [] for place in held}
    for chunk in chunks:
        by_place.setdefault(chunk.place, []).append(chunk)
    for place, parts in by_place.items():
        for chunk in parts:
            with fs.open_input(chunk.path) as given, pa.ipc.open_file(given) as file:
                for number in range(chunk.first, chunk.first + chunk.count):
                    yield file.get_batch(number)
        yield from _together(held.get(place, ()))


def _together(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    found = list(batches)
    if len(found) < 2:
        return found
    whole: list[pa.RecordBatch] = pa.Table.from_batches(found).combine_chunks().to_batches()
    return whole
