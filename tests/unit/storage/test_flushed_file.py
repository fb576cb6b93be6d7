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
from hiveacid.model.bucket import BucketCodec
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.orc.flushed_file import FlushedFile
from hiveacid.storage.orc.tail import read_tail

COLUMNS = (Column("id", parse_type("int")), Column("v", parse_type("varchar(9)")))
PROPERTY = BucketCodec.V1.encode(0, 0)


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
