"""The client of HDFS as we take it, without a server: lost answers, failing writes, data nodes that
go.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from pyarrow import fs as pafs
from pyarrow import parquet

import hiveacid
from hiveacid.client import open_client
from hiveacid.errors import MissingFileError, StorageError
from hiveacid.model.tables import Column
from hiveacid.model.types import INT
from hiveacid.storage.failures import Retries
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.merge.bucket_rewrite import RewriterBasis
from hiveacid.storage.plain.writers import ParquetFileWriter
from hiveacid.storage.stores import _as_arrow_takes, hadoop_umask
from hiveacid.testing import ManualClock

SAFE = 'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "is on")'
LOST = 'DataTransferError("All DataNodes failed: []")'
SITE = """<configuration>
<property><name>fs.permissions.umask-mode</name><value>{umask}</value></property>
</configuration>"""
CLOSED = 'DataTransferError("Block writer is closed")'


class Writer(io.RawIOBase):
    """What the client gives to write to."""

    def __init__(self, server: Server, path: str) -> None:
        super().__init__()
        self._server, self._path, self._data = server, path, b""
        self._is_broken = False
        server.files[path] = b""

    def write(self, data: Any, /) -> int:
        """See ``io``."""
        self._is_broken = True
        self._server.request("write")
        self._is_broken = False
        assert type(data) is bytes, "Arrow's buffers cost the client a hundred times as much"
        self._data += data
        return len(data)

    def close(self) -> None:
        """It does not tell ``io`` that it is closed, so it is asked again by whoever clears up."""
        self._server.request("complete")
        if self._is_broken:
            raise RuntimeError(CLOSED)
        self._server.files[self._path] = self._data


class Reader(io.BytesIO):
    """What the client gives to read from: it knows who had the blocks when it was opened."""

    def __init__(self, server: Server, data: bytes) -> None:
        super().__init__(data)
        self._server, self._nodes = server, server.nodes

    def read(self, size: int | None = -1, /) -> bytes:
        """See ``io``."""
        data = super().read(size)
        if self._nodes != self._server.nodes:
            raise RuntimeError(LOST)
        return data


class Server:
    """A name node and its client: files by path; ``fails`` are the next failures of requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.fails: dict[str, list[Exception]] = {}
        self.asked: list[str] = []
        self.nodes = 1

    def request(self, name: str) -> None:
        """One arrives."""
        self.asked.append(name)
        if self.fails.get(name):
            raise self.fails[name].pop(0)

    def create(self, path: str, write_options: object) -> Writer:
        """See the client."""
        del write_options
        self.request("create")
        return Writer(self, path)

    def read(self, path: str) -> Reader:
        """See the client."""
        return Reader(self, self.files[path])

    def rename(self, source: str, target: str) -> None:
        """Where an answer is lost the client itself asks again."""
        if source not in self.files:
            raise FileNotFoundError(f"rename source {source} is not found.")
        self.files[target] = self.files.pop(source)
        self.request("rename")


@pytest.fixture
def server() -> Server:
    """One without files."""
    return Server()


@pytest.fixture
def fs(server: Server, monkeypatch: pytest.MonkeyPatch) -> FileSystem:
    """Its file system."""
    pytest.importorskip("hdfs_native")

    class Given(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "hdfs"
        client: Any = server

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            if path not in server.files:
                raise FileNotFoundError(path)
            return {"name": path, "type": "file", "size": len(server.files[path])}

        def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
            return [self.info(one) for one in server.files if one.rpartition("/")[0] == path]

        def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
            server.files.pop(path, None)

        def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            return self.client.read(path)

    made = _as_arrow_takes(Given, lambda: server, lambda **_: None, KeyError)(
        skip_instance_cache=True
    )
    library = pafs.PyFileSystem(pafs.FSSpecHandler(made))
    monkeypatch.setattr("hiveacid.storage.filesystem.opened_root", lambda *_: (library, ""))
    return Files(retries=Retries(60, ManualClock())).at("hdfs://nn:1/")[0]


def test_a_rename_that_the_client_asked_for_twice_is_looked_up(
    fs: FileSystem, server: Server
) -> None:
    fs.write_bytes("/t/a", data=b"1")
    server.fails["rename"] = [FileNotFoundError("rename source /t/a is not found.")]
    fs.rename("/t/a", target="/t/b")
    assert server.files == {"/t/b": b"1"}
    with pytest.raises(MissingFileError):
        fs.rename("/t/none", target="/t/other")


def test_a_name_is_no_pattern_of_names(fs: FileSystem, server: Server) -> None:
    server.files |= {"/t/[a]*": b"1", "/t/ab": b"2"}
    fs.copy_file("/t/[a]*", target="/t/x")
    assert server.files["/t/x"] == b"1"


def small(fs: FileSystem) -> Iterator[Callable[[], object]]:
    """Ways to write a file of few bytes."""
    yield lambda: fs.write_bytes("/t/f", data=b"12")

    def stream() -> None:
        with fs.open_output("/t/f") as out:
            out.write(b"1")
            out.write(b"2")

    yield stream

    def copy() -> None:
        fs.write_bytes("/t/g", data=b"12")
        fs.copy_file("/t/g", target="/t/f")

    yield copy


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("name", ["create", "write", "complete"])
def test_a_small_file_is_written_again_where_its_name_node_goes_away(
    fs: FileSystem, server: Server, name: str, number: int
) -> None:
    server.fails[name] = [RuntimeError(SAFE), RuntimeError(SAFE)]
    list(small(fs))[number]()
    assert server.files["/t/f"] == b"12"


def test_of_a_file_that_fails_nothing_more_is_asked(fs: FileSystem, server: Server) -> None:
    server.fails["write"] = [RuntimeError("RPCError(QuotaExceeded)")]
    with pytest.raises(StorageError, match="no quota left"):
        fs.write_bytes("/t/f", data=b"12")
    assert server.asked == ["create", "write"]


def test_a_file_that_is_begun_goes_where_its_writer_fails(
    fs: FileSystem, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hiveacid.storage.s3_uploads._PART_BYTES", 1)
    with fs.open_output("/t/f") as out:
        out.write(b"12")
    assert server.files == {"/t/f": b"12"}
    with pytest.raises(KeyError), fs.open_output("/t/g") as out:
        out.write(b"12")
        raise KeyError
    assert "/t/g" not in server.files


def test_what_failed_first_is_told_also_of_other_files_than_orc(
    fs: FileSystem, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hiveacid.storage.s3_uploads._PART_BYTES", 1)
    writer = ParquetFileWriter(fs, "/t/f", columns=[Column("a", INT)], properties={})
    server.fails["write"] = [RuntimeError("RPCError(QuotaExceeded)")]
    with pytest.raises(StorageError, match="no quota left"):
        writer.write_rows(pa.RecordBatch.from_pydict({"a": pa.array([1], pa.int32())}))
        writer.close()
    writer.abort()
    assert server.files == {}
    writer.write_rows(pa.RecordBatch.from_pydict({"a": pa.array([1], pa.int32())}))
    writer.close()
    assert parquet.read_table(io.BytesIO(server.files["/t/f"])).to_pydict() == {"a": [1]}


def test_a_file_whose_data_nodes_are_others_now_is_opened_anew(
    fs: FileSystem, server: Server
) -> None:
    fs.write_bytes("/t/f", data=b"0123456789")
    with fs.open_input("/t/f") as file:
        assert file.read(2) == b"01"
        server.nodes += 1
        assert file.read(3) == b"234"
        file.seek(8)
        assert file.read() == b"89"


def test_a_compaction_writes_a_file_again_that_failed_in_passing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, failures = RewriterBasis._made, [OSError(SAFE)]

    def made(self: RewriterBasis, *given: Any) -> Any:
        if failures:
            raise StorageError("nothing is written") from failures.pop()
        return original(self, *given)

    monkeypatch.setattr(RewriterBasis, "_made", made)
    with hiveacid.connect(f"sqlite:///{tmp_path}/m.db", warehouse=f"{tmp_path}/wh") as acid:
        acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
        for id in range(3):
            acid.sql(f"insert into t values ({id})")
        acid.sql("alter table t compact 'major' and wait")
        read = hiveacid.read_arrow(acid.table("t")).read_all()
        assert sorted(read["id"].to_pylist()) == [0, 1, 2]
    assert not failures


def test_the_umask_is_that_of_hadoops_configuration(tmp_path: Path) -> None:
    conf = tmp_path / "etc" / "hadoop"
    conf.mkdir(parents=True)
    for environment in ({"HADOOP_CONF_DIR": str(conf)}, {"HADOOP_HOME": str(tmp_path)}):
        assert hadoop_umask(environment) == hadoop_umask({}) == 0o022
        for name, umask in (("core-site.xml", "077"), ("hdfs-site.xml", "002")):
            (conf / name).write_text(SITE.format(umask=umask))
            assert hadoop_umask(environment) == int(umask, 8)
        for place in conf.iterdir():
            place.unlink()


def test_a_name_node_of_a_metastore_that_is_there_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise ConnectionRefusedError("Connection refused (os error 111)")

    monkeypatch.setattr("hiveacid.storage.filesystem.opened_root", refused)
    waited_s = []
    for warehouse in ("hdfs://nn:1/wh", "hdfs://nn:1/wh", None):
        clock = ManualClock()
        url = f"sqlite:///{tmp_path}/m.db"
        with closing(open_client(url, warehouse=warehouse, clock=clock)) as client:
            began_s = clock.monotonic_s()
            with pytest.raises(StorageError, match="does not answer"):
                client.files.at("hdfs://nn:1/wh/t")
            waited_s.append(clock.monotonic_s() - began_s)
    assert waited_s[0] < 10 and min(waited_s[1:]) > 40, "at first it may be a wrong address"
