"""Places that refuse, lag, or are odd: one sentence says what is wrong, the table is as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.s3 import S3Server
from tests.s3_proxy import Between, proxy

import hiveacid
from hiveacid.errors import InvalidInputError, MissingFileError, StorageError
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.storage.failures import Retries
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import discover_partitions
from hiveacid.storage.s3_requests import Requests
from hiveacid.storage.stores import s3_of_settings

FULL = "stored as orc tblproperties ('transactional'='true')"
OFF = {"hiveacid.compactor.auto": "off"}


def rows(acid: Session, table: str = "t") -> list[tuple[object, ...]]:
    """Sorted."""
    read = hiveacid.read_arrow(acid.table(table)).read_all()
    return sorted((tuple(row.values()) for row in read.to_pylist()), key=str)


def clean(acid: Session) -> None:
    """Remove what was replaced; ids just below the newest count as open for a second."""
    until = time.monotonic() + 300
    while not acid.clean():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture
def behind(s3: S3Server, url: str) -> Iterator[tuple[Session, Between]]:
    """A session with table t, and what stands between it and its store."""
    warehouse = f"s3a://{s3.bucket()}/wh"
    with proxy(s3.endpoint) as between:
        settings = {**s3.settings, **OFF, "hiveacid.s3.endpoint": between.endpoint}
        with hiveacid.connect(None, url, warehouse=warehouse, settings=settings) as acid:
            acid.sql(f"create table t (id int, v string) {FULL}")
            yield acid, between


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a metastore."""
    return f"sqlite:///{tmp_path}/metastore.db"


WRITES = {
    "insert": "insert into t values (9, 'lost')",
    "overwrite": "insert overwrite table t values (9, 'lost')",
    "truncate": "truncate table t",
    "compact": "alter table t compact 'major' and wait",
    "rename": "alter table t rename to u",
    "create": "create table u (id int) " + FULL,
    "drop": "drop table t",
    "purge": "drop table t purge",
}


@pytest.mark.parametrize("name", WRITES)
def test_a_bucket_that_is_read_only_is_told_and_the_table_is_as_it_was(
    behind: tuple[Session, Between], name: str
) -> None:
    acid, between = behind
    acid.sql("insert into t values (1, 'a'), (2, 'b')")
    acid.sql("insert into t values (3, 'c')")
    expected = rows(acid)

    def refused(verb: str, _: str) -> tuple[int, str] | None:
        body = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
        return (403, body) if verb in ("PUT", "POST", "DELETE") else None

    between.rule = refused
    with pytest.raises(hiveacid.AcidError) as raised:
        acid.sql(WRITES[name])
    assert "no permission for bucket-" in str(raised.value)
    assert rows(acid) == expected, "what can be read is read"
    between.rule = None
    assert rows(acid) == expected
    acid.sql("insert into t values (4, 'd')")
    assert rows(acid) == sorted([*expected, (4, "d")], key=str)
    assert acid.client.metastore.show_locks() == ()


@pytest.mark.parametrize("name", WRITES)
def test_of_credentials_that_expire_each_statement_says_what_to_do(
    behind: tuple[Session, Between], name: str
) -> None:
    acid, between = behind
    acid.sql("insert into t values (1, 'a'), (2, 'b')")
    body = "<Error><Code>ExpiredToken</Code><Message>no</Message></Error>"
    between.rule = lambda *_: (400, body)
    with pytest.raises(hiveacid.AcidError) as raised:
        acid.sql(WRITES[name])
    between.rule = None
    told = " ".join([str(raised.value), *getattr(raised.value, "__notes__", ())])
    assert "expired" in told and "hiveacid.s3.*" in told
    assert rows(acid) == [(1, "a"), (2, "b")]


DROPS = {
    "drop table t": "wh/t",
    "drop table t purge": "wh",
    "drop database d cascade": "wh/d.db/t",
    "drop database e": "wh/e.db",
    "alter table p drop partition (k=1)": "wh/p",
    "alter table p drop partition (k=2)": "elsewhere",
    "create or replace table t (id string) " + FULL: "wh/t",
    "truncate table t": "wh/t",
    "truncate table plain": "wh/plain",
}


@pytest.mark.parametrize("text", DROPS)
def test_what_cannot_be_deleted_is_not_forgotten(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    acid = hiveacid.connect(None, url, warehouse=str(tmp_path / "wh"), settings=OFF)
    acid.sql("create database d")
    acid.sql("create database e")
    Path(tmp_path / "wh/e.db").mkdir(exist_ok=True)
    for table in ("t", "d.t"):
        acid.sql(f"create table {table} (id int) {FULL}")
        acid.sql(f"insert into {table} values (1)")
    acid.sql("create table plain (id int) stored as orc")
    acid.sql("insert into plain values (1)")
    acid.sql(f"create table p (id int) partitioned by (k int) {FULL}")
    acid.sql(f"alter table p add partition (k=2) location '{tmp_path}/elsewhere'")
    acid.sql("insert into p values (1, 1), (2, 2)")
    locked = f"{tmp_path}/{DROPS[text]}"

    def refusing(method: str) -> None:
        call = getattr(FileSystem, method)

        def refused(fs: FileSystem, path: str, *args: Any, **names: Any) -> Any:
            if f"{path}/".startswith(f"{locked}/") and path != locked:
                raise StorageError(f"no permission for {path}", path=path)
            return call(fs, path, *args, **names)

        monkeypatch.setattr(FileSystem, method, refused)

    before = sorted(tmp_path.rglob("*"))
    names = ("write_bytes", "open_output", "rename", "create_directory")
    with monkeypatch.context():
        for method in (*names, "delete_file", "delete_directory"):
            refusing(method)
        with pytest.raises(StorageError) as raised:
            acid.sql(text)
    monkeypatch.undo()
    assert "no permission for" in str(raised.value)
    if text.startswith(("drop", "create")) or "k=2" in text:
        assert "Nothing is dropped: " in str(raised.value)
        assert "writable and say it again" in " ".join(raised.value.__notes__)
    assert [len(rows(acid, one)) for one in ("t", "d.t", "plain", "p")] == [1, 1, 1, 2]
    assert "e" in acid.client.metastore.list_databases()
    assert [one for one in sorted(tmp_path.rglob("*")) if "metastore" not in str(one)] == [
        one for one in before if "metastore" not in str(one)
    ]
    acid.sql(text)
    acid.close()


def test_without_credentials_it_says_where_they_come_from(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in s3.environment:
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, f"{tmp_path}/none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with proxy(s3.endpoint) as between:
        between.rule = lambda *_: (403, "<Error><Code>AccessDenied</Code></Error>")
        names = ("hiveacid.s3.region",)
        given = {name: s3.settings[name] for name in names}
        given["hiveacid.s3.endpoint"] = between.endpoint
        fs, path = Files(s3=s3_of_settings(Settings.of(given))).at("s3://bucket/t")
        for step in (fs.list_recursive, fs.open_input, fs.exists):
            with pytest.raises(StorageError, match="no permission for bucket") as raised:
                step(path)
            assert "hiveacid.s3.*, Spark's fs.s3a.* or AWS_*" in raised.value.__notes__[0]


@pytest.mark.parametrize("step", ["list_recursive", "list_directory"])
def test_a_bucket_that_goes_is_no_empty_table(s3: S3Server, step: str) -> None:
    files, bucket = Files(s3=s3_of_settings(Settings.of(s3.settings))), s3.bucket()
    fs, path = files.at(f"s3://{bucket}/t")
    fs.write_bytes(f"{path}/x", data=b"1")
    assert len(getattr(fs, step)(path)) == 1
    for keys in (fs.s3.keys, None):
        alone = FileSystem(f"s3://{bucket}/", replace(fs.s3, keys=keys))
        assert getattr(alone, step)(f"{path}/none") == ()
    fs.delete_file(f"{path}/x", is_alone=False)
    fs.delete_directory(path)
    with urlopen(Request(f"{s3.endpoint}/{bucket}", method="DELETE")):
        pass
    with pytest.raises(StorageError, match=f"There is no bucket {bucket}"):
        getattr(fs, step)(path)


@pytest.mark.long("storage")
def test_in_a_bucket_that_keeps_versions_what_is_deleted_is_gone(s3: S3Server, url: str) -> None:
    bucket = s3.bucket()
    body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    access = s3_of_settings(Settings.of(s3.settings))
    requests = Requests(bucket, access, region="us-east-1", retries=Retries())
    requests.asked("PUT", bucket, {"versioning": ""}, body)
    settings = {**s3.settings, **OFF, "hiveacid.retention_s": "0"}
    with hiveacid.connect(None, url, warehouse=f"s3://{bucket}/wh", settings=settings) as acid:
        acid.sql(f"create table t (id int, v string) partitioned by (p int) {FULL}")
        for n in range(3):
            acid.sql(f"insert into t values ({n}, 'a', {n % 2})")
        acid.table("t").delete_arrow("id = 1")
        acid.sql("alter table t partition (p=0) compact 'major' and wait")
        clean(acid)
        expected: list[tuple[object, ...]] = [(0, "a", 0), (2, "a", 0)]
        assert rows(acid) == expected
        fs, path = acid.client.files.at(f"{acid.client.warehouse}/t")
        there = [one.path for one in fs.list_recursive(f"{path}/p=0") if "/bucket_" in one.path]
        assert len(there) == 1 and "/base_" in there[0]
        acid.sql("alter table t drop partition (p=0)")
        assert rows(acid) == []
        acid.sql("drop table t")
        assert not [one for one in fs.list_recursive(path) if not one.is_directory]


class Lagging:
    """A library whose listings are those of before, from when it is told to ``lag`` on."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._listed: dict[str, Any] = {}
        self.lags = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def get_file_info(self, asked: Any) -> Any:
        """As the library does, or did."""
        if not hasattr(asked, "base_dir"):
            return self._library.get_file_info(asked)
        key = f"{asked.base_dir} {asked.recursive}"
        if not self.lags or key not in self._listed:
            self._listed[key] = self._library.get_file_info(asked)
        return self._listed[key]


@pytest.mark.slow
@pytest.mark.parametrize("cleaned", [False, True])
def test_a_listing_that_still_shows_what_is_gone_gives_no_fewer_rows(
    tmp_path: Path, url: str, cleaned: bool
) -> None:
    settings = {**OFF, "hiveacid.retention_s": "0"}
    with (
        hiveacid.connect(None, url, warehouse=str(tmp_path / "wh"), settings=settings) as acid,
        hiveacid.connect(None, url, settings=settings) as other,
    ):
        acid.sql(f"create table t (id int, v string) {FULL}")
        for n in range(4):
            acid.sql(f"insert into t values ({n}, 'a')")
        expected = rows(acid)
        fs: FileSystem = acid.client.files.at(str(tmp_path))[0]
        lagging = Lagging(fs._fs)
        fs._fs = lagging
        assert rows(acid) == expected
        other.sql("alter table t compact 'major' and wait")
        if cleaned:
            clean(other)
        lagging.lags = True
        try:
            found = rows(acid)
        except StorageError:
            assert cleaned, "what was listed is there"
        else:
            assert found == expected
        lagging.lags = False
        assert rows(acid) == expected


def test_a_listing_that_hides_what_is_new_is_told_where_commits_are_counted(
    tmp_path: Path, url: str
) -> None:
    with (
        hiveacid.connect(None, url, warehouse=str(tmp_path / "wh"), settings=OFF) as acid,
        hiveacid.connect(None, url, settings=OFF) as other,
    ):
        acid.sql(f"create table t (id int, v string) {FULL}")
        acid.sql("insert into t values (1, 'a')")
        fs: FileSystem = acid.client.files.at(str(tmp_path))[0]
        fs._fs = lagging = Lagging(fs._fs)
        assert rows(acid) == [(1, "a")]
        other.sql("insert into t values (2, 'a')")
        lagging.lags = True
        with pytest.raises(MissingFileError, match="Files of version 2 of"):
            hiveacid.read_arrow(acid.table("t"), as_of_write_id=2).read_all()
        assert "missing files" in [one.kind for one in acid.doctor().findings]
        lagging.lags = False
        assert rows(acid) == [(1, "a"), (2, "a")]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("oss://bucket/t", "no file system for location 'oss://bucket/"),
        ("dbfs:/t", "location 'dbfs:/t' is not absolute"),
        ("relative/t", "location 'relative/t' is not absolute"),
    ],
)
def test_a_table_where_no_library_reaches_is_refused_when_it_is_made(
    tmp_path: Path, url: str, location: str, said: str
) -> None:
    with hiveacid.connect(None, url, warehouse=str(tmp_path), settings=OFF) as acid:
        with pytest.raises(InvalidInputError, match=said):
            acid.sql(f"create table t (id int) stored as orc location '{location}'")
        assert not acid.sql("show tables").rows


def test_an_overwrite_whose_old_files_cannot_be_deleted_loses_no_row(
    behind: tuple[Session, Between],
) -> None:
    acid, between = behind
    acid.sql("create table p (id int) stored as orc")
    for number in range(3):
        acid.sql(f"insert into p values ({number})")
    body = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    old = ("/p/000000_0", "/p/000000_0_copy_1", "/p/000000_0_copy_2")
    for refused, left in ((old, [(0,), (1,), (2,)]), (old[1:2], [(1,), (9,)])):
        between.rule = lambda verb, path, refused=refused: (  # type: ignore[misc]
            (403, body) if verb == "DELETE" and path.endswith(refused) else None
        )
        with pytest.raises(StorageError) as raised:
            acid.sql("insert overwrite table p values (9)")
        assert any("say the statement again" in note for note in raised.value.__notes__)
        assert rows(acid, "p") == left
    between.rule = None
    acid.sql("insert overwrite table p values (9)")
    assert rows(acid, "p") == [(9,)]


def test_a_listing_of_a_bucket_that_is_not_there_says_so(s3: S3Server) -> None:
    fs, path = Files(s3=s3_of_settings(Settings.of(s3.settings))).at("s3://bucket-nowhere/t")
    with pytest.raises(StorageError, match="bucket-nowhere") as raised:
        discover_partitions(fs, path)
    assert "table directory" not in str(raised.value)


@pytest.mark.parametrize("spelled", ["{}", "{}/", "file://{}"])
def test_a_table_is_replaced_at_its_own_place_only_by_one_that_is_defined_so(
    tmp_path: Path, spelled: str
) -> None:
    acid = hiveacid.connect(None, f"sqlite:///{tmp_path}/m.db", warehouse=str(tmp_path / "wh"))
    here = f"stored as orc location '{tmp_path}/t' tblproperties ('transactional'='true')"
    acid.sql(f"create table t (id int, v string) {here}")
    acid.sql("insert into t values (1, 'a')")
    here = here.replace(f"{tmp_path}/t", spelled.format(f"{tmp_path}/t"))
    with pytest.raises(InvalidInputError, match="lies elsewhere"):
        acid.sql(f"create or replace table t (id bigint) {here}")
    assert rows(acid) == [(1, "a")]
    acid.sql(f"create or replace table t (id int, v string) {here}")
    assert rows(acid) == []
