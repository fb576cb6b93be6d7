"""How object stores are reached, and what they answer."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from pyarrow import fs as pafs
from tests.s3 import S3Server

from hiveacid.client import open_client
from hiveacid.errors import InvalidInputError, MissingExtraError, StorageError
from hiveacid.settings import Settings
from hiveacid.storage.failures import Retries, mapped
from hiveacid.storage.filesystem import FileInfo, Files, FileSystem
from hiveacid.storage.locations import one_name
from hiveacid.storage.s3_uploads import Upload
from hiveacid.storage.stores import (
    S3Access,
    S3Keys,
    Telling,
    _as_arrow_takes,
    bounded,
    s3_of_environment,
    s3_of_hadoop,
    s3_of_settings,
    tries,
)
from hiveacid.testing import ManualClock

KEYS = S3Keys("the-key", "the-secret", "the-token")


def test_s3_s3a_and_s3n_are_one_place(s3: S3Server) -> None:
    files = Files(s3=s3_of_settings(Settings.of(s3.settings)))
    bucket = s3.bucket()
    places = [files.at(f"{scheme}://{bucket}/a b//%2B/+é") for scheme in ("s3", "s3a", "s3n")]
    assert len(set(places)) == 1
    assert places[0][1] == f"{bucket}/a b/%2B/+é"
    assert one_name("s3n://b//x/") == one_name("s3a://b/x") == "s3://b/x"


def access(source: str) -> S3Access:
    if source == "settings":
        names = {
            "endpoint": "https://Here:1",
            "region": "r",
            "path_style": "false",
            "timeout_s": "7s",
            "access_key": "the-key",
            "secret_key": "the-secret",
            "session_token": "the-token",
        }
        return s3_of_settings(Settings.of({f"hiveacid.s3.{k}": v for k, v in names.items()}))
    if source == "spark":
        conf = {
            "spark.hadoop.fs.s3a.endpoint": "Here:1",
            "fs.s3a.endpoint.region": "r",
            "spark.hadoop.fs.s3a.path.style.access": "false",
            "fs.s3a.access.key": "the-key",
            "spark.hadoop.fs.s3a.secret.key": "the-secret",
            "fs.s3a.session.token": "the-token",
        }
        return s3_of_hadoop(conf.get)
    return s3_of_environment(
        {
            "AWS_ENDPOINT_URL": "https://elsewhere",
            "AWS_ENDPOINT_URL_S3": "https://Here:1",
            "AWS_DEFAULT_REGION": "r",
            "AWS_ACCESS_KEY_ID": "the-key",
            "AWS_SECRET_ACCESS_KEY": "the-secret",
            "AWS_SESSION_TOKEN": "the-token",
        }
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("settings", S3Access("https://Here:1", "r", False, 7.0, KEYS)),
        ("spark", S3Access("Here:1", "r", False, None, KEYS)),
        ("environment", S3Access("https://Here:1", "r", None, None, KEYS)),
    ],
)
def test_what_each_source_says(source: str, expected: S3Access) -> None:
    assert access(source) == expected
    assert "the-" not in repr(expected)


def test_a_host_without_tls_is_said_apart_in_sparks_configuration() -> None:
    conf = {"fs.s3a.endpoint": "here:1", "fs.s3a.connection.ssl.enabled": "false"}
    assert s3_of_hadoop(conf.get).endpoint == "http://here:1"


def test_settings_go_before_spark_and_that_before_the_environment() -> None:
    lent = S3Access(region="r", keys=S3Keys("other", "other", "other"))
    assert S3Access("e").or_else(lent) == S3Access("e", "r", keys=lent.keys)
    own = S3Access(keys=S3Keys("k", "s"))
    assert own.or_else(lent).keys == S3Keys("k", "s"), "the token belongs to the other key"


def test_other_processes_get_what_was_found_out_here(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in s3.environment.items():
        monkeypatch.setenv(name, text)
    bucket = s3.bucket()
    asked: list[str] = []
    files = Files(hadoop=lambda name: asked.append(name))
    assert pickle.loads(pickle.dumps(files)) == Files()
    assert not asked, "nobody is asked before it matters"
    fs, path = files.at(f"s3a://{bucket}/x")
    fs.write_bytes(path, data=b"1")
    carried = pickle.dumps((files, fs))
    for name in s3.environment:
        monkeypatch.delenv(name)
    there, fs_there = pickle.loads(carried)
    assert isinstance(there, Files) and isinstance(fs_there, FileSystem)
    assert there.at(f"s3://{bucket}/x")[0].read_bytes(path) == fs_there.read_bytes(path) == b"1"
    assert fs == fs_there != FileSystem(f"s3://{bucket}/", S3Access("elsewhere", "r"))
    assert "secret" not in repr((files, fs, there))


def test_keys_are_never_shown_and_stay(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = Settings.of(
        {"hiveacid.s3.secret_key": "Se cRet", "hiveacid.s3.endpoint": "HTTP://Host"}
    )
    assert settings.s3_secret_key == "Se cRet"
    shown = dict(settings.items())
    assert shown["hiveacid.s3.secret_key"] == settings.get("hiveacid.s3.secret_key") == "***"
    assert shown["hiveacid.s3.endpoint"] == "HTTP://Host"
    assert shown["hiveacid.s3.access_key"] == ""
    assert "Se cRet" not in repr(settings)
    root = tmp_path_factory.mktemp("keys")
    both = settings.with_("hiveacid.s3.access_key", "key")
    client = open_client(f"sqlite:///{root}/m.db", warehouse=str(root), settings=both)
    with pytest.raises(InvalidInputError, match="secret_key cannot be changed"):
        client.use_settings(client.settings.with_("hiveacid.s3.secret_key", "other"))
    client.close()


@pytest.mark.parametrize("name", ["access_key", "secret_key"])
def test_a_key_without_its_secret_is_refused(name: str) -> None:
    given = Settings.of({f"hiveacid.s3.{name}": "x"})
    with pytest.raises(InvalidInputError, match=rf"^hiveacid\.s3\.{name} is given without"):
        s3_of_settings(given)


def test_the_warehouse_of_a_metastore_is_one_place_however_it_is_spelled(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('m')}/m.db"
    open_client(url, warehouse="s3a://b/wh").close()
    open_client(url, warehouse="s3://b//wh/").close()
    with pytest.raises(InvalidInputError, match="is s3a://b/wh, not s3://b/other"):
        open_client(url, warehouse="s3://b/other")


# -------------------------------------------------------------------- objects are no files


def test_what_hdfs_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(MissingExtraError, match="hdfs-native, which is not installed") as raised:
        Files().at("hdfs://nobody:1/wh")
    assert raised.value.__notes__ == ["pip install 'hiveacid[hdfs]'"]


def test_a_client_tries_no_longer_than_it_is_told_to() -> None:
    assert [tries(wait_s)["dfs.client.failover.max.attempts"] for wait_s in (0, 1.5, 60)] == [
        "1",
        "2",
        "7",
    ]


@pytest.mark.parametrize("host", ["127.0.0.1:1", "no-such-host.invalid:8020"])
def test_an_address_where_no_name_node_listens_is_given_up_soon(host: str) -> None:
    clock = ManualClock()
    with pytest.raises(StorageError, match="does not answer") as raised:
        Files(retries=Retries(60, clock)).at(f"hdfs://{host}/wh")
    assert raised.value.context["detail"] == "no-answer"
    assert clock.monotonic_s() < 10


def test_a_name_node_that_does_not_answer_is_not_taken_for_one_without_files() -> None:
    pytest.importorskip("hdfs_native")

    class Going(fsspec.AbstractFileSystem):  # type: ignore[misc]
        """Two directories, of which the second is not listed any more."""

        refused: OSError = ConnectionRefusedError("Connection refused (os error 111)")

        @property
        def client(self) -> Any:
            return self

        @client.setter
        def client(self, _: object) -> None:
            """It is its own."""

        def list_status(self, _: str, __: bool) -> list[Any]:
            raise self.refused

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            if path != "/t":
                raise self.refused
            return {"name": path, "type": "directory", "size": 0}

        def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
            if path == "/t/b":
                raise self.refused
            names = ("/t/a", "/t/b") if path == "/t" else ()
            return [{"name": name, "type": "directory", "size": 0} for name in names]

    made = _as_arrow_takes(Going, Going, None, KeyError)()
    library = pafs.PyFileSystem(pafs.FSSpecHandler(made))
    for step in (
        lambda: library.get_file_info(pafs.FileSelector("/t", recursive=True)),
        lambda: library.get_file_info(pafs.FileSelector("/t/b", allow_not_found=True)),
        lambda: library.open_input_file("/t/a/f"),
    ):
        with pytest.raises(ConnectionRefusedError):
            step()
    Going.refused = FileNotFoundError("/t/b")
    assert [one.path for one in library.get_file_info(pafs.FileSelector("/t", recursive=True))] == [
        "/t/a",
        "/t/b",
    ]
    assert library.get_file_info(pafs.FileSelector("/t/b", allow_not_found=True)) == []


def test_what_a_name_node_refuses_is_an_error_of_files() -> None:
    class Open(io.BytesIO):
        def write(self, _: object) -> int:
            raise RuntimeError('RPCError("...DSQuotaExceededException", "The quota\\n\\tat x")')

    class Client:
        def create(self, path: str) -> Open:
            if path == "/safe":
                raise RuntimeError('RPCError("...SafeModeException", "is on\\n\\tat x.y(z:1)')
            return Open(b"12")

    client = Telling(Client())
    with pytest.raises(OSError, match=r'^RPCError."...SafeModeException", "is on$'):
        client.create("/safe")
    with client.create("/x") as file:
        assert file.read() == b"12" and not file.closed
        with pytest.raises(OSError, match="DSQuotaExceededException"):
            file.write(b"1")
    assert file.closed


@pytest.mark.parametrize(
    ("root", "bucket"),
    [("gs://b", "b"), ("gs://anonymous@b", "b"), ("abfss://c@a.dfs.core.windows.net", "c")],
)
def test_other_object_stores_are_opened_in_the_same_way(root: str, bucket: str) -> None:
    location = f"{root}/wh/a b%2F+é"
    fs, path = Files().at(location)
    assert path == f"{bucket}/wh/a b%2F+é" and fs.location_of(path) == location
    assert fs.is_object_store and fs.uploads is None and not fs.shows_flushed


def test_google_is_not_asked_for_a_quarter_of_an_hour() -> None:
    assert bounded("gs://b/", 60.0) == "gs://b/?retry_limit_seconds=60"
    assert bounded("gcs://b/?scheme=http", 0.1) == "gcs://b/?scheme=http&retry_limit_seconds=1"
    for given in ("gs://b/?retry_limit_seconds=5", "abfss://c@a.dfs.core.windows.net/"):
        assert bounded(given, 60.0) == given


@pytest.mark.parametrize("root", ["wasbs://c@a.blob.core.windows.net", "oss://b", "nfs://h"])
def test_what_no_library_opens_is_told_with_what_is_known(root: str) -> None:
    with pytest.raises(InvalidInputError, match="no file system for location") as raised:
        Files().at(f"{root}/wh")
    assert "hdfs:, viewfs:, gs:" in raised.value.__notes__[0]


def test_a_location_on_azure_names_its_account() -> None:
    with pytest.raises(
        InvalidInputError, match="no file system for location 'abfs://c/'"
    ) as raised:
        Files().at("abfs://c/t")
    assert "names no account: abfss://container@account.dfs" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("failure", "note"),
    [
        (
            pa.ArrowException("Unknown error: Failed to get token from DefaultAzureCredential."),
            "AZURE_CLIENT_ID",
        ),
        (
            OSError("google::cloud::Status(UNAVAILABLE: Could not create a OAuth2 access token"),
            "GOOGLE_APPLICATION_CREDENTIALS",
        ),
    ],
)
def test_who_has_no_credentials_is_told_where_they_are_looked_for(
    failure: Exception, note: str
) -> None:
    with pytest.raises(StorageError, match="no credentials for c/t") as raised, mapped("c/t"):
        raise failure
    assert raised.value.context["detail"] == "no-permission"
    assert note in raised.value.__notes__[0]


def test_what_the_library_says_of_itself_is_no_error_of_files() -> None:
    with pytest.raises(pa.ArrowInvalid), mapped("c/t"):
        raise pa.ArrowInvalid("a mistake of ours")


@pytest.mark.timing  # Arrow asks again where the server takes more than three seconds
def test_more_objects_than_one_page_of_a_listing(s3: S3Server) -> None:
    fs, path = Files(s3=s3_of_settings(Settings.of(s3.settings))).at(f"s3://{s3.bucket()}/t")
    fs.write_bytes(f"{path}/source", data=b"")
    fs.copy_files([(f"{path}/source", f"{path}/many/{n:04d}") for n in range(1001)])
    with s3.requests() as made:
        assert len(fs.list_recursive(f"{path}/many")) == 1001
    assert [one.partition(" ")[0] for one in made] == ["LIST", "LIST"]


# -------------------------------------------------------------------- servers that refuse


@contextmanager
def answering(
    answer: Callable[[str, int], tuple[int, str]], *, retries: Retries | None = None
) -> Iterator[tuple[Files, list[str]]]:
    """Files on a server that answers each request with a status and a body; what is put gets a tag
    where nothing is said of it.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(self.command)
            status, body = answer(self.command, len(asked))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if self.command == "PUT" and not body:
                self.send_header("ETag", '"1"')
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = respond

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    host = f"http://127.0.0.1:{server.server_port}"
    try:
        access = S3Access(host, "r", keys=S3Keys("key", "the-secret"))
        yield Files(s3=access, retries=retries or Retries()), asked
    finally:
        server.shutdown()
        server.server_close()


def error_body(code: str) -> str:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_no_permission_is_told_and_not_tried_again(code: str) -> None:
    with answering(lambda _, __: (403, error_body(code))) as (files, asked):
        fs, path = files.at("s3://bucket/t")
        for step in (
            lambda: fs.list_recursive(path),
            lambda: fs.write_bytes(f"{path}/x", data=b"1"),
            lambda: fs.read_bytes(f"{path}/x"),
        ):
            asked.clear()
            with pytest.raises(StorageError, match="no permission for bucket/t") as raised:
                step()
            assert raised.value.context["detail"] == "no-permission"
            assert "hiveacid.s3.*" in raised.value.__notes__[0]
            assert len(asked) == 1
            assert "the-secret" not in str(raised.value)


def test_a_bucket_that_is_not_there_is_no_empty_table(s3: S3Server) -> None:
    files = Files(s3=s3_of_settings(Settings.of(s3.settings)))
    fs, path = files.at("s3://no-such-bucket/t")
    for step in (
        lambda: fs.list_recursive(path),
        lambda: fs.list_directory(path),
        lambda: fs.write_bytes(f"{path}/x", data=b"1"),
    ):
        with pytest.raises(StorageError, match="There is no bucket no-such-bucket"):
            step()


@pytest.mark.slow
def test_a_server_that_is_too_busy_is_asked_again() -> None:
    def busy(verb: str, number: int) -> tuple[int, str]:
        return (503, error_body("SlowDown")) if number < 3 else (200, "")

    with answering(busy) as (files, asked):
        fs, path = files.at("s3://bucket/t")
        fs.write_bytes(f"{path}/x", data=b"1")
        assert asked == ["PUT"] * 3


OF_A_SERVER: dict[str, Callable[[FileSystem, str], object]] = {
    "list": lambda fs, path: fs.list_recursive(path),
    "list together": lambda fs, path: fs.list_each([f"{path}/a", f"{path}/b"]),
    "write": lambda fs, path: fs.write_bytes(f"{path}/x", data=b"1"),
    "open": lambda fs, path: written(fs.open_output(f"{path}/x")),
    "send": lambda fs, path: written(fs.uploads.open_output(f"{path}/x")),  # type: ignore[union-attr]
    "complete": lambda fs, path: fs.complete_files([(f"{path}/x", Upload("7", ("tag",)), 1)]),
    "end": lambda fs, path: fs.end_uploads(path, if_=lambda _, __: True),
}


def written(file: Any) -> None:
    """A file of one byte."""
    with mapped("bucket/t/x"):
        file.write(b"1")
        file.close()


@pytest.mark.parametrize("name", OF_A_SERVER)
def test_a_server_that_says_yes_to_everything_is_told_to_be_none_of_s3(name: str) -> None:
    with answering(lambda _, __: (200, "<!doctype html><html>console</html>")) as (files, _):
        with pytest.raises(StorageError, match="does not speak S3") as raised:
            OF_A_SERVER[name](*files.at("s3://bucket/t"))
        assert raised.value.context["detail"] == "no-s3"
        assert "hiveacid.s3.endpoint" in raised.value.__notes__[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["list", "list together", "write", "open"])
def test_so_it_is_where_the_library_alone_knows_the_keys(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with answering(lambda _, __: (200, "<!doctype html><html>console</html>")) as (files, _):
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(variable, "x")  # the library looks there
        alone = FileSystem("s3://bucket/", replace(files.s3, keys=None))
        assert alone.uploads is None
        with pytest.raises(StorageError, match="of bucket does not speak S3"):
            OF_A_SERVER[name](alone, alone.path_of("s3://bucket/t"))


@pytest.mark.parametrize("endpoint", ["http://", "http://host:9000/minio", "host/bucket"])
def test_an_endpoint_is_a_server(endpoint: str) -> None:
    with pytest.raises(InvalidInputError, match="is no endpoint of S3") as raised:
        Files(s3=S3Access(endpoint, "r")).at("s3://bucket/t")
    assert "host:port" in raised.value.__notes__[0]


def test_a_listing_need_not_say_when_a_file_was_made() -> None:
    key = "<Contents><Key>t/{}/f</Key><Size>1</Size></Contents>"
    page = f"<ListBucketResult>{key.format('a')}{key.format('b')}</ListBucketResult>"
    with answering(lambda _, __: (200, page)) as (files, _):
        fs, path = files.at("s3://bucket/t")
        of_a, of_b = fs.list_each([f"{path}/a", f"{path}/b"])
        assert (of_a, of_b) == (
            (FileInfo(f"{path}/a/f", False, 1),),
            (FileInfo(f"{path}/b/f", False, 1),),
        )


@pytest.mark.parametrize("name", ["list", "write", "open", "send"])
def test_only_who_waits_asks_again(name: str) -> None:
    busy = (503, error_body("SlowDown"))
    with answering(lambda _, __: busy, retries=Retries(0.0, ManualClock())) as (files, asked):
        with pytest.raises(StorageError, match=r"(?i)slow_?down"):
            OF_A_SERVER[name](*files.at("s3://bucket/t"))
        assert len(asked) == 1
