"""What is HDFS's own: a name node that refuses, files that are open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hdfs_native import Client
from tests.hdfs import Hdfs

import hiveacid
from hiveacid.errors import StorageError
from hiveacid.storage.filesystem import Files
from hiveacid.storage.retries import Retries
from hiveacid.testing import ManualClock

ACID = "stored as orc tblproperties ('transactional'='true')"
pytestmark = [pytest.mark.java, pytest.mark.long("storage")]


@contextmanager
def safe_mode(hdfs: Hdfs) -> Iterator[None]:
    """Within the block nothing is written."""
    hdfs.admin("-safemode", "enter")
    try:
        yield
    finally:
        hdfs.admin("-safemode", "leave")


def test_a_name_node_in_safe_mode_is_told(hdfs: Hdfs) -> None:
    fs, path = Files(retries=Retries(5, ManualClock())).at(f"{hdfs}/safe")
    fs.create_directory(path)
    with safe_mode(hdfs):
        assert fs.is_directory(path)
        for step in (
            lambda: fs.write_bytes(f"{path}/f", data=b"1"),
            lambda: fs.create_directory(f"{path}/d"),
        ):
            with pytest.raises(StorageError, match="is in safe mode") as raised:
                step()
            assert raised.value.context["detail"] == "read-only"
    fs.write_bytes(f"{path}/f", data=b"1")


class Leaving(ManualClock):
    """The administrator ends the safe mode while a request waits."""

    def __init__(self, hdfs: Hdfs) -> None:
        super().__init__()
        self._hdfs = hdfs

    def sleep_s(self, seconds: float) -> None:
        """See ``Clock``."""
        self._hdfs.admin("-safemode", "leave")
        super().sleep_s(seconds)


def test_safe_mode_is_waited_for(hdfs: Hdfs) -> None:
    clock = Leaving(hdfs)
    fs, path = Files(retries=Retries(60, clock)).at(f"{hdfs}/waited")
    fs.create_directory(path)
    with safe_mode(hdfs):
        fs.write_bytes(f"{path}/f", data=b"1")
    assert clock.monotonic_s() > 0 and fs.read_bytes(f"{path}/f") == b"1"


def test_what_is_not_permitted_is_told_and_not_asked_again(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Client(str(hdfs))
    own.mkdirs("/closed", 0o755, True)
    own.set_permission("/closed", 0o555)
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody-here")
    clock = ManualClock()
    by_number = hdfs.replace("localhost", "127.0.0.1")  # a client of its own, of this user
    fs, path = Files(retries=Retries(60, clock)).at(f"{by_number}/closed")
    with pytest.raises(StorageError, match=r"no permission for /closed/f$") as raised:
        fs.write_bytes(f"{path}/f", data=b"1")
    assert raised.value.context["detail"] == "no-permission" and clock.monotonic_s() == 0


def test_a_quota_that_is_exceeded_is_told_and_the_table_is_as_it_was(
    hdfs: Hdfs, tmp_path: Path
) -> None:
    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{hdfs}/quota") as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql("insert into t values (1)")
        hdfs.admin("-setQuota", "8", "/quota/t")
        with pytest.raises(StorageError, match="no quota left") as raised:
            for n in range(8):
                acid.sql(f"insert into t values ({n + 2})")
        assert raised.value.context["detail"] == "no-space"
        found = hiveacid.read_arrow(acid.table("t")).read_all()["id"].to_pylist()
        hdfs.admin("-clrQuota", "/quota/t")
        acid.sql("insert into t values (100)")
        again = hiveacid.read_arrow(acid.table("t")).read_all()["id"].to_pylist()
        assert sorted(again) == [*sorted(found), 100]


def test_of_a_file_that_is_open_others_see_nothing_for_certain(hdfs: Hdfs) -> None:
    fs, path = Files().at(f"{hdfs}/open/f")
    fs.create_directory(path.rpartition("/")[0])
    assert not fs.shows_flushed
    with closing(fs.open_output(path)) as out:
        out.write(b"0123456789")
        out.flush()
        assert fs.size_bytes(path) == 0, "what a listing tells does not grow"
    assert fs.size_bytes(path) == 10
