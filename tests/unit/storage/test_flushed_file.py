"""A bucket file that is read while it grows: what counts after each flush."""

from __future__ import annotations

import errno
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.errors import StorageError
from hiveacid.layout.events import parse_key_index
from hiveacid.model.ids import encode_bucket
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.flushed_file import FlushedFile
from hiveacid.storage.orc.joined_tail import cover
from hiveacid.storage.orc.tail import read_tail

COLUMNS = (Column("id", parse_type("int")), Column("v", parse_type("varchar(9)")))
PROPERTY = encode_bucket(0, 0)


def rows(first: int, count: int) -> pa.RecordBatch:
    ids = pa.array(range(first, first + count), pa.int32())
    return pa.RecordBatch.from_arrays([ids, ids.cast(pa.string())], names=["id", "v"])


def lengths(path: Path) -> list[int]:
    data = Path(f"{path}_flush_length").read_bytes()
    return [int(value) for (value,) in struct.iter_unpack(">q", data)]


def ids_of(path: Path, length: int, at: Path) -> list[tuple[int, int, int]]:
    """(write id, row id, id) of the rows in the first ``length`` bytes."""
    at.write_bytes(path.read_bytes()[:length])
    table = orc.ORCFile(at).read()
    found = zip(
        table["originalTransaction"].to_pylist(),
        table["rowId"].to_pylist(),
        table["row"].combine_chunks().field("id").to_pylist(),
        strict=True,
    )
    return list(found)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bucket_00000"


def opened(path: Path, **properties: str) -> FlushedFile:
    return FlushedFile(
        FileSystem("/"),
        str(path),
        columns=COLUMNS,
        bucket_property=PROPERTY,
        properties={"orc.compress": "ZLIB", **properties},
    )


@pytest.mark.slow
def test_each_length_ends_a_whole_file(path: Path, tmp_path: Path) -> None:
    file = opened(path)
    assert lengths(path) == [0]
    expected = []
    for write_id, count in ((4, 3), (5, 20_000), (6, 1)):
        file.begin(write_id)
        file.write_rows(rows(write_id * 100_000, count))
        file.flush()
        expected += [(write_id, n, write_id * 100_000 + n) for n in range(count)]
        assert ids_of(path, lengths(path)[-1], tmp_path / "copy") == expected
        tail = read_tail(FileSystem("/"), str(path), length=lengths(path)[-1])
        index = parse_key_index(tail.user_metadata["hive.acid.key.index"].decode())
        assert len(index) == len(tail.stripes) and index[-1].write_id == write_id
        assert tail.user_metadata["hive.acid.stats"] == f"{len(expected)},0,0".encode()
        assert "varchar(9)" in str(tail.root)
    size = path.stat().st_size
    file.close()
    assert path.stat().st_size == size and not Path(f"{path}_flush_length").exists()
    assert ids_of(path, size, tmp_path / "copy") == expected


def test_stripes_of_one_transaction_go_out_as_they_fill(path: Path, tmp_path: Path) -> None:
    file = opened(path, **{"orc.stripe.size": "65536", "orc.compress": "NONE"})
    file.begin(1)
    for n in range(40):
        file.write_rows(rows(n * 5_000, 5_000))
    assert path.stat().st_size > 200_000, "stripes wait in memory"
    assert lengths(path) == [0]
    file.flush()
    file.close()
    assert [found[2] for found in ids_of(path, path.stat().st_size, tmp_path / "c")] == list(
        range(200_000)
    )


def test_rows_given_up_are_dead_bytes(path: Path, tmp_path: Path) -> None:
    file = opened(path, **{"orc.stripe.size": "65536", "orc.compress": "NONE"})
    for write_id, keep in ((1, True), (2, False), (3, True), (4, False)):
        file.begin(write_id)
        for _ in range(10):
            file.write_rows(rows(write_id * 100_000, 5_000))
        file.flush() if keep else file.drop()
    file.close()
    found = ids_of(path, path.stat().st_size, tmp_path / "c")
    assert {one[0] for one in found} == {1, 3} and len(found) == 100_000


@pytest.mark.parametrize(
    ("codec", "counts", "expected"),
    [
        ("ZSTD", (10, 50_000), "SNAPPY"),
        ("ZSTD", (50_000, 10), "ZSTD"),
        ("zstd", (1,), "SNAPPY"),
        ("ZLIB", (10,), "ZLIB"),
        ("NONE", (10,), "NONE"),
    ],
)
def test_few_rows_of_the_first_transaction_are_compressed_by_a_codec_that_begins_quickly(
    path: Path, tmp_path: Path, codec: str, counts: tuple[int, ...], expected: str
) -> None:
    file = opened(path, **{"orc.compress": codec})
    for write_id, count in enumerate(counts, start=1):
        file.begin(write_id)
        file.write_rows(rows(0, count))
        file.flush()
    file.close()

    assert read_tail(FileSystem("/"), str(path)).compression.name == expected
    assert len(ids_of(path, path.stat().st_size, tmp_path / "copy")) == sum(counts)


def test_rows_that_were_given_up_decide_no_codec(path: Path) -> None:
    file = opened(path, **{"orc.compress": "ZSTD"})
    file.begin(1)
    file.write_rows(rows(0, 1))
    file.drop()
    file.begin(2)
    file.write_rows(rows(0, 50_000))
    file.flush()
    file.close()

    assert read_tail(FileSystem("/"), str(path)).compression.name == "ZSTD"


def test_nothing_flushed_leaves_no_file(path: Path) -> None:
    file = opened(path)
    file.begin(1)
    file.flush()
    file.close()
    assert list(path.parent.iterdir()) == []


def test_a_directory_that_is_gone_is_an_error_of_storage(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        opened(tmp_path / "none" / "bucket_00000")


class Full:
    """A stream on a disk that is full: a part of what is written gets there."""

    def __init__(self, stream: Any, step: str) -> None:
        self._stream, self._step = stream, step

    def write(self, data: bytes) -> None:
        if self._step == "write":
            self._stream.write(bytes(data)[:3])
            raise OSError(errno.ENOSPC, "No space left on device")
        self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        self._stream.close()


@pytest.mark.parametrize("step", ["write", "flush"])
@pytest.mark.parametrize("stream", ["_out", "_lengths"])
def test_a_full_disk_leaves_the_file_as_it_was_flushed_last(
    path: Path, tmp_path: Path, stream: str, step: str
) -> None:
    file = opened(path)
    file.begin(1)
    file.write_rows(rows(0, 5))
    file.flush()
    file.begin(2)
    file.write_rows(rows(10, 5))
    setattr(file, stream, Full(getattr(file, stream), step))
    with pytest.raises(StorageError, match="no space left"):
        file.flush()
    file.close()
    side = Path(f"{path}_flush_length").read_bytes()
    lengths = [int(one) for (one,) in struct.iter_unpack(">q", side[: len(side) // 8 * 8])]
    found = ids_of(path, lengths[-1], tmp_path / "copy")
    assert found[:5] == [(1, n, n) for n in range(5)]
    assert len(found) == (10 if (stream, step) == ("_lengths", "flush") else 5)


KINDS = {
    "i": "bigint",
    "d": "double",
    "s": "string",
    "n": "decimal(20,3)",
    "b": "boolean",
    "t": "date",
    "m": "timestamp",
    "a": "array<int>",
}
CHUNKS: list[list[tuple[Any, ...] | None]] = [
    [(1, 0.5, "m", "1.5", True, 3, 5_000, [1]), (7, 2.0, "z", "-2.125", False, 9, 1_000, [])],
    [None],
    [(-4, 8.0, "a", "99.000", True, -800, 9_000, [2, 3]), None],
    [(2**62, -0.25, "", "0.001", False, 5, -7_000, None)] * 2,
    [(2**62, 1.0, "q", "0.001", None, None, None, None)],
]


def of_kinds(chunk: list[tuple[Any, ...] | None]) -> pa.RecordBatch:
    columns = [[None if row is None else row[at] for row in chunk] for at in range(len(KINDS))]
    times = [None if value is None else value * 1_000_000 for value in columns[6]]
    arrays = [
        pa.array(columns[0], pa.int64()),
        pa.array(columns[1], pa.float64()),
        pa.array(columns[2], pa.string()),
        pa.array(columns[3], pa.string()).cast(pa.decimal128(20, 3)),
        pa.array(columns[4], pa.bool_()),
        pa.array(columns[5], pa.int32()).cast(pa.date32()),
        pa.array(times, pa.int64()).cast(pa.timestamp("us")),
        pa.array(columns[7], pa.list_(pa.int32())),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(KINDS))


@pytest.mark.parametrize("count", range(1, len(CHUNKS) + 1))
def test_statistics_of_the_file_are_those_of_all_its_rows(tmp_path: Path, count: int) -> None:
    """As where they were written at once; a bound that is left out is none that is wrong."""
    columns = [Column(name, parse_type(kind)) for name, kind in KINDS.items()]
    found = []
    for name, steps in (("parts", [[one] for one in CHUNKS[:count]]), ("whole", [CHUNKS[:count]])):
        path = str(tmp_path / name)
        file = FlushedFile(
            FileSystem("/"), path, columns=columns, bucket_property=PROPERTY, properties={}
        )
        first = 0
        for step in steps:
            file.begin(1)
            for chunk in step:
                file.write_rows(of_kinds(chunk))
                first += len(chunk)
            file.flush()
        file.close()
        found.append(read_tail(FileSystem("/"), path).footer.statistics[7:])
    for parts, whole in zip(*found, strict=True):
        for times in (parts, whole):
            times.timestampStatistics.ClearField("minimumNanos")
            times.timestampStatistics.ClearField("maximumNanos")
        assert str(parts) == str(whole)


def test_beside_nan_there_are_no_bounds() -> None:
    def statistics(low: float, high: float) -> Any:
        found = proto.ColumnStatistics(numberOfValues=2, hasNull=False)
        found.doubleStatistics.minimum, found.doubleStatistics.maximum = low, high
        return found

    total = statistics(1.0, 2.0)
    cover(total, statistics(0.5, float("nan")))
    cover(total, statistics(0.25, 9.0))
    assert (total.numberOfValues, total.doubleStatistics.minimum) == (6, 0.25)
    assert not total.doubleStatistics.HasField("maximum")


@pytest.mark.parametrize(
    ("low", "high", "total"),
    [
        (
            "12345678901234567890.123456789012345678",
            "-0.1",
            "12345678901234567890.023456789012345678",
        ),
        ("1E+30", "1", "1000000000000000000000000000001"),
        (
            "99999999999999999999.9",
            "0.000000000000000001",
            "99999999999999999999.900000000000000001",
        ),
        ("99999999999999999999999999999999999999", "1", ""),
    ],
)
def test_sums_of_decimals_keep_all_digits(low: str, high: str, total: str) -> None:
    """One of more than 38 digits is left out."""
    parts = [proto.ColumnStatistics(numberOfValues=1, hasNull=False) for _ in range(2)]
    for part, value in zip(parts, (low, high), strict=True):
        numbers = part.decimalStatistics
        numbers.minimum, numbers.maximum, numbers.sum = value, value, value
    cover(*parts)
    assert parts[0].decimalStatistics.sum == total
