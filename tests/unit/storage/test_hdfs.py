"""What is HDFS's own: rights, the trash, a name node that refuses, files that are open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hdfs_native import Client
from sqlalchemy.engine import make_url
from tests.hdfs import Hdfs, hdfs_server
from tests.proxy import Cut, proxy

import hiveacid
from hiveacid.errors import StorageError
from hiveacid.storage.failures import Retries
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.stores import opened_root
from hiveacid.testing import ManualClock

ACID = "stored as orc tblproperties ('transactional'='true')"
pytestmark = [pytest.mark.java, pytest.mark.long("storage")]
SLOW = pytest.mark.long()  # they wait for a server: only in `make test-all`


SITE = """<configuration>
<property><name>fs.permissions.umask-mode</name><value>002</value></property>
</configuration>"""


def test_what_is_made_has_the_rights_that_the_configuration_leaves(
    hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_number = hdfs.replace("localhost", "127.0.0.1")
    rights = {}
    opened_root.cache_clear()
    for umask, address in (("022", str(hdfs)), ("002", by_number)):
        if umask == "002":
            (tmp_path / "core-site.xml").write_text(SITE)
            monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        url, root = f"sqlite:///{tmp_path}/{umask}.db", f"/rights{umask}"
        with hiveacid.connect(None, url, warehouse=f"{address}{root}") as acid:
            acid.sql(f"create table t (id int) partitioned by (p string) {ACID}")
            acid.sql("insert into t values (1, 'a'), (2, 'b')")
        infos = Client(str(hdfs)).list_status(f"{root}/t", True)
        rights[umask] = {(info.isdir, oct(info.permission)) for info in infos}
    opened_root.cache_clear()
    assert rights == {
        "022": {(False, "0o644"), (True, "0o755")},
        "002": {(False, "0o664"), (True, "0o775")},
    }


def trashed(hdfs: Hdfs, warehouse: str) -> list[str]:
    """Directories of files that can be got back, below a warehouse."""
    found = Client(str(hdfs)).list_status("/user", True)
    paths = [one.path for one in found if "/.Trash/Current/" in one.path and not one.isdir]
    inside = [path.partition(f"/.Trash/Current/{warehouse}/") for path in paths]
    return sorted({re.sub("/(delta|base)_.*", "", path) for _, mark, path in inside if mark})


def test_what_is_dropped_is_in_the_trash_but_with_purge(hdfs: Hdfs, tmp_path: Path) -> None:
    parts = f"partitioned by (p string) {ACID}"
    with hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=f"{hdfs}/drops") as acid:
        for table in ("t", "purged", "replaced"):
            acid.sql(f"create table {table} (id int) {parts}")
            acid.sql(f"insert into {table} values (1, 'a'), (2, 'b'), (3, 'c')")
        acid.sql("alter table t drop partition (p='a')")
        (hidden,) = trashed(hdfs, "drops")
        assert hidden.startswith("t/") and hidden.endswith("/p=a")
        acid.sql("alter table t drop partition (p='b') purge")
        acid.sql("drop table purged purge")
        assert trashed(hdfs, "drops") == [hidden]
        acid.sql("drop table t")
        (whole,) = set(trashed(hdfs, "drops")) - {hidden}
        assert re.fullmatch(r"t\d*/p=c", whole), "a number where the name is taken"
        acid.sql("create or replace table replaced (other string)")
        assert {f"replaced/p={p}" for p in "abc"} <= set(trashed(hdfs, "drops"))
        acid.sql(f"create table quiet (id int) {ACID[:-1]}, 'auto.purge'='true')")
        acid.sql("insert into quiet values (1)")
        acid.sql("drop table quiet")
        acid.sql("create database d")
        acid.sql(f"create table d.inner (id int) {ACID}")
        acid.sql("insert into d.inner values (1)")
        acid.sql("drop database d cascade")
    assert [path for path in trashed(hdfs, "drops") if "quiet" in path] == []
    assert [path for path in trashed(hdfs, "drops") if path.endswith("d.db/inner")]


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
    told = r"no permission for /closed/f\nuser=nobody-here, access=WRITE"
    with pytest.raises(StorageError, match=told) as raised:
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
        assert not fs.exists(path), "it is written once it is closed"
    assert fs.size_bytes(path) == 10


@pytest.mark.parametrize(
    "step",
    [
        "rename",
        *(pytest.param(one, marks=SLOW) for one in ("open_output", "list_each", "write_bytes")),
    ],
)
def test_a_name_node_that_is_restarted_in_the_middle_of_a_statement_is_waited_for(
    hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    url, original, restarts = f"sqlite:///{tmp_path}/m.db", getattr(FileSystem, step), [1]

    def after_a_restart(self: FileSystem, *given: Any, **facts: Any) -> Any:
        if restarts:
            restarts.pop()
            hdfs.admin("restart")
        return original(self, *given, **facts)

    with hiveacid.connect(None, url, warehouse=f"{hdfs}/restarted{step}") as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql("insert into t values (1), (2)")
        with monkeypatch.context() as patch:
            patch.setattr(FileSystem, step, after_a_restart)
            acid.sql("insert into t values (3)")
            acid.table("t").delete_arrow("id = 2")
        assert not restarts
        found = hiveacid.read_arrow(acid.table("t")).read_all()["id"].to_pylist()
        assert sorted(found) == [1, 3]


@pytest.mark.parametrize("when", Cut)
def test_a_rename_whose_answer_is_lost_is_looked_up(hdfs: Hdfs, when: Cut) -> None:
    with proxy(hdfs.replace("hdfs:", "postgresql:")) as between:
        port = make_url(between.url).port
        fs, path = Files().at(f"hdfs://127.0.0.1:{port}/lost-{when.value}")
        fs.create_directory(path)
        fs.write_bytes(f"{path}/a", data=b"1")
        between.cut_once("rename", when)
        fs.rename(f"{path}/a", target=f"{path}/b")
        assert between.cuts == 1 and fs.read_bytes(f"{path}/b") == b"1"


@SLOW
def test_a_name_node_that_is_gone_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    settings = {"hiveacid.files.retry_s": "3"}
    with hdfs_server() as own:
        with hiveacid.connect(None, url, warehouse=f"{own}/wh", settings=settings) as acid:
            acid.sql(f"create table t (id int) {ACID}")
            acid.sql("insert into t values (1)")
            own.admin("stop")
            for _ in range(2):  # the client itself tries for three minutes each time
                with pytest.raises(StorageError, match="does not answer"):
                    acid.sql("insert into t values (2)")
        by_number = own.replace("localhost", "127.0.0.1")
        with pytest.raises(StorageError, match="does not answer"):
            Files(retries=Retries(3, ManualClock())).at(f"{by_number}/x")
