"""What the listing of a large table takes of memory: so much for each object, however many there
are. The pages of the listing come from a function here, not from a server.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import Partition, Table, TableName
from hiveacid.sql import parse_columns
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import list_partitions, read_snapshot
from hiveacid.storage.s3_requests import Answer, Requests

PAGE = 1000
SNAPSHOT_BYTES = 800
"""for each object, while a reader chooses what counts"""


@dataclass
class Pages:
    """A bucket with so many partitions, each with so many deltas of a file and its side file."""

    partitions: int
    deltas: int
    bucket: str = "bucket"
    asked_for: int = 0

    @property
    def objects(self) -> int:
        """How many there are."""
        return self.partitions * self.deltas * 2

    def key(self, number: int) -> str:
        """Of an object."""
        partition, place = divmod(number, self.deltas * 2)
        write, side = divmod(place, 2)
        name = "bucket_00000_0" if side else "_orc_acid_version"
        return f"wh/t/p={partition:08d}/delta_{write + 1:07d}_{write + 1:07d}_0000/{name}"

    def asked(self, verb: str, path: str, query: Mapping[str, str]) -> Answer:
        """A page of a listing."""
        assert (verb, path) == ("GET", self.bucket)
        self.asked_for += 1
        low, high = 0, self.objects
        while low < high:  # the first name after what the last page ended with
            middle = (low + high) // 2
            low, high = (
                (middle + 1, high) if self.key(middle) <= query["start-after"] else (low, middle)
            )
        end = min(low + PAGE, self.objects)
        more = "true" if end < self.objects else "false"
        texts = [
            f"<Contents><Key>{self.key(number)}</Key><LastModified>2026-01-01T00:00:00Z"
            f"</LastModified><Size>{number}</Size></Contents>"
            for number in range(low, end)
        ]
        body = f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{''.join(texts)}"
        return Answer({}, body.encode())


class Bucket(FileSystem):
    """Its listings are such pages."""

    requests_at_once = 64

    def __init__(self, pages: Pages) -> None:
        super().__init__("/")
        self.pages = pages
        self._prefix = f"/{pages.bucket}"

    def path_of(self, location: str) -> str:
        """As of a bucket: without a slash at its beginning."""
        return f"{self.pages.bucket}{location}"

    def _own_requests(self) -> Requests:
        return cast(Requests, self.pages)


@dataclass(frozen=True, slots=True)
class OneBucket(Files):
    """All is in the bucket."""

    pages: Pages = field(kw_only=True)

    def opened(self, root: str) -> FileSystem:
        """The bucket."""
        return Bucket(self.pages)


def table_of(partitions: int, *, deltas: int) -> tuple[Table, list[Partition], OneBucket]:
    """A table, its partitions, and the bucket where they are."""
    columns = parse_columns("id int, p string")
    table = Table(
        name=TableName("default", "t"),
        columns=columns[:1],
        partition_columns=columns[1:],
        location="/wh/t",
        properties={"transactional": "true"},
    )
    parts = [Partition((f"{n:08d}",), f"/wh/t/p={n:08d}") for n in range(partitions)]
    return table, parts, OneBucket(pages=Pages(partitions, deltas))


@contextmanager
def peak() -> Iterator[list[int]]:
    """The list gets how many bytes of Python's were in use at most, at the end of the block."""
    found: list[int] = []
    tracemalloc.start()
    try:
        yield found
        found.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "partitions", [300, pytest.param(10_000, marks=pytest.mark.long("storage"))]
)
def test_a_snapshot_takes_so_much_memory_for_each_object(partitions: int) -> None:
    table, parts, files = table_of(partitions, deltas=5)
    write_ids, txns = ValidWriteIdList.everything(), ValidTxnList.everything()
    with peak() as bytes_max:
        snapshot = read_snapshot(table, parts, files=files, valid=write_ids, valid_txns=txns)
    assert sum(len(part.directory.deltas) for part in snapshot.parts) == 5 * partitions
    assert files.pages.asked_for == -(-files.pages.objects // PAGE)
    assert bytes_max[0] < SNAPSHOT_BYTES * files.pages.objects


@pytest.mark.slow
def test_partitions_that_are_looked_at_each_by_itself_take_no_more_where_there_are_more() -> None:
    """How many requests are on their way at once is up to the machine: a third more was seen."""
    peaks = []
    for partitions in (1_000, 4_000):
        _, parts, files = table_of(partitions, deltas=1)
        with peak() as bytes_max:
            assert all(len(entries) == 3 for entries in list_partitions(files, parts))
        peaks += bytes_max
    assert peaks[1] < 2 * peaks[0]
