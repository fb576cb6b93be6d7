"""What fails in passing is asked again, and nothing else; what failed is said in one sentence."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from tests.s3 import S3Server
from tests.s3_proxy import proxy
from tests.unit.storage.test_stores import answering, error_body

from hiveacid.errors import MissingFileError, StorageError
from hiveacid.model.tables import Column
from hiveacid.model.types import parse_type
from hiveacid.settings import Settings
from hiveacid.storage.failures import Retries, storage_error
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.orc.bucket_reader import BucketFileReader, EventBatch
from hiveacid.storage.stores import S3Access, S3Keys, s3_of_settings
from hiveacid.testing import Fault, FaultyFiles, ManualClock, ScriptedFaults

BUSY = "AWS Error SLOW_DOWN during PutObject operation: Please reduce your request rate."
PASSING = [
    BUSY,
    "AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.",
    "AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Timeout was reached",
    "PUT got no answer: ConnectionResetError: [Errno 104] Connection reset by peer",
    "org.apache.hadoop.ipc.StandbyException: Operation category READ is not supported",
    "Connection refused (os error 111)",
    'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create file/x.',
    'OperationFailed("RPC listener disconnected")',
    'OperationFailed("Failed to complete file in time")',
    "could only be written to 0 of the 1 minReplication nodes. There are 0 datanode(s) running",
    'DataTransferError("All DataNodes failed: []")',
    "No route to host (os error 113)",
    "early eof",
]


@pytest.mark.parametrize("text", PASSING)
def test_what_fails_in_passing_is_asked_again_with_growing_pauses(text: str) -> None:
    clock, asked = ManualClock(), []

    def step() -> str:
        asked.append(clock.monotonic_s())
        if len(asked) < 6:
            raise OSError(text)
        return "done"

    assert Retries(60, clock).run(step) == "done"
    pauses = [b - a for a, b in pairwise(asked)]
    assert pauses == sorted(pauses) and pauses[-1] > 5 * pauses[0]


def test_it_is_given_up_at_the_deadline() -> None:
    clock, asked = ManualClock(), []

    def step() -> None:
        asked.append(clock.monotonic_s())
        clock.sleep_s(1)
        raise OSError(BUSY)

    with pytest.raises(OSError, match="SLOW_DOWN"):
        Retries(20, clock).run(step)
    assert 15 < clock.monotonic_s() <= 21 and len(asked) > 4


def test_what_takes_long_is_counted_from_where_it_fails() -> None:
    clock = ManualClock()
    asked: list[float] = []

    def long() -> None:
        asked.append(clock.monotonic_s())
        clock.sleep_s(100)
        raise OSError(BUSY)

    with pytest.raises(OSError, match="SLOW_DOWN"):
        Retries(20, clock).run(long)
    assert len(asked) == 1
    with pytest.raises(OSError, match="SLOW_DOWN"):
        Retries(20, clock).run(long, asks_itself=True)
    assert len(asked) == 3, "the second time took as long"


def test_what_asks_by_itself_ends_where_it_has_given_up() -> None:
    clock, asked = ManualClock(), []

    def never() -> None:
        asked.append(1)
        raise OSError(BUSY)

    retries = Retries(20, clock)
    with pytest.raises(OSError, match="SLOW_DOWN"):
        retries.run(lambda: retries.run(never), asks_itself=True)
    assert clock.monotonic_s() <= 20


@pytest.mark.parametrize(
    "error",
    [
        OSError("AWS Error ACCESS_DENIED (HTTP status 403)"),
        OSError("AWS Error NETWORK_CONNECTION: curlCode: 35, SSL connect error"),
        OSError(errno.ENOSPC, "No space left on device"),
        FileNotFoundError("x"),
        OSError(errno.EIO, "a bad disk"),
    ],
)
def test_what_is_refused_is_not_asked_again(error: OSError) -> None:
    asked = []

    def step() -> None:
        asked.append(1)
        raise error

    with pytest.raises(OSError) as raised:
        Retries(60, ManualClock()).run(step)
    assert raised.value is error and len(asked) == 1


class Once(ScriptedFaults):
    """The first request of a name fails in this way."""

    def __init__(self, request: str, fault: Fault) -> None:
        super().__init__()
        self._request = f"request {request} "
        self._fault = fault

    def before(self, operation: str, subject: str) -> Fault | None:
        """See ``Faults``."""
        super().before(operation, subject)
        named = [one for one in self.seen if one.startswith(self._request)]
        return self._fault if len(named) == 1 and self.seen[-1] == named[0] else None


STEPS: dict[str, Callable[[FileSystem, str], object]] = {
    "move": lambda fs, path: fs.rename(f"{path}/d", target=f"{path}/e"),
    "delete_file": lambda fs, path: fs.delete_file(f"{path}/d/f"),
    "copy_file": lambda fs, path: fs.copy_file(f"{path}/d/f", target=f"{path}/g"),
    "open_output_stream": lambda fs, path: fs.write_bytes(f"{path}/d/f", data=b"new"),
    "open_input_file": lambda fs, path: fs.open_input(f"{path}/d/f").close(),
}


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("name", STEPS)
def test_a_request_whose_answer_was_lost_is_looked_up(
    tmp_path: Path, name: str, fault: Fault
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"old")
    requests = Once(name, fault)
    files = FaultyFiles(ScriptedFaults(), requests, retries=Retries(9, ManualClock()))
    STEPS[name](*files.at(str(tmp_path)))
    left = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*/*")}
    left |= {p.name: p.read_bytes() for p in tmp_path.glob("g")}
    expected = {
        "move": {"e/f": b"old"},
        "delete_file": {},
        "copy_file": {"d/f": b"old", "g": b"old"},
        "open_output_stream": {"d/f": b"new"},
        "open_input_file": {"d/f": b"old"},
    }
    assert left == expected[name]
    assert sum(one.startswith(f"request {name} ") for one in requests.seen) >= 1


def test_a_rename_of_what_was_never_there_is_not_taken_for_done(tmp_path: Path) -> None:
    faults = Once("move", Fault.REFUSED)
    files = FaultyFiles(ScriptedFaults(), faults, retries=Retries(9, ManualClock()))
    fs, path = files.at(str(tmp_path / "none"))
    with pytest.raises(MissingFileError):
        STEPS["move"](fs, path)


# -------------------------------------------------------------------- what is said


SAID = {
    "AWS Error EXPIRED_TOKEN during GetObject operation": ("have expired", "hiveacid.s3.*"),
    "AWS Error ExpiredToken (HTTP status 400): no": ("have expired", "hiveacid.s3.*"),
    "AWS Error PERMANENT_REDIRECT (HTTP status 301)": ("in another region", "hiveacid.s3.region"),
    "AWS Error ACCESS_DENIED during PutObject operation": ("no permission for b/t/x", "AWS_*"),
    "AWS Error NO_SUCH_BUCKET during PutObject operation": ("There is no bucket b", "Make it"),
    "RemoteException: SafeModeException Cannot create file": ("in safe mode", "-safemode get"),
    "FatalRPCError(AccessControlException, Client cannot authenticate via:[TOKEN, KERBEROS])": (
        "no credentials for b/t/x",
        "kinit",
    ),
    "RPCError(SecretManager$InvalidToken, token (t) is expired)": ("no credentials", "kinit"),
    "DSQuotaExceededException: The DiskSpace quota of /t is exceeded": ("no quota left", "clean"),
    "AWS Error UNKNOWN (HTTP status 400): XAmzContentSHA256Mismatch": (
        "does not know AWS's checksums",
        "AWS_REQUEST_CHECKSUM_CALCULATION",
    ),
    "NETWORK_CONNECTION: curlCode: 35, SSL connect error": ("no trusted connection", "http://"),
    "GET failed: SSLError: WRONG_VERSION_NUMBER": ("no trusted connection", "http://"),
    "curlCode: 28, Timeout was reached": ("does not answer", "hiveacid.files.retry_s"),
    "Connection refused (os error 111)": ("does not answer", "HADOOP_CONF_DIR"),
    '"AccessControlException", "user=ann, access=WRITE, inode=\\"/t\\":bob:hive:drwxr-xr-x': (
        "no permission for b/t/x",
        'user=ann, access=WRITE, inode="/t":bob:hive:drwxr-xr-x. Who asks is said by HADOOP_USER',
    ),
    'InvalidArgument("No NameNode hosts found")': ("does not answer", "HADOOP_CONF_DIR"),
    BUSY: ("too busy", "hiveacid.files.retry_s"),
    "AWS Error InternalError (HTTP status 500): no": ("or fails", "hiveacid.files.retry_s"),
    "AWS Error UNKNOWN (HTTP status 400) during HeadObject operation: No response body.": (
        "is refused",
        "have expired",
    ),
    "When creating key: Bucket 'b' not found. To create buckets, enable": (
        "There is no bucket b",
        "Make it",
    ),
}


@pytest.mark.parametrize("text", SAID)
def test_an_error_is_one_sentence_and_says_what_to_do(text: str) -> None:
    error = storage_error(OSError(text), path="b/t/x")
    said, instead = SAID[text]
    assert said in str(error) and "\n" not in str(error)
    assert instead in error.__notes__[0]


def test_a_permission_that_is_missing_is_that_of_what_a_listing_went_into() -> None:
    text = "Cannot list directory '{}'. Detail: [errno 13] Permission denied"
    for told, named in (("/t/p=1/delta", "/t/p=1/delta"), ("/t2/x", "/t"), ("/t", "/t")):
        error = storage_error(PermissionError(errno.EACCES, text.format(told)), path="/t")
        assert (str(error), error.context["path"]) == (f"no permission for {named}", named)


def test_a_token_that_expires_in_the_middle_is_told(tmp_path: Path) -> None:
    def expired(_: str, number: int) -> tuple[int, str]:
        return (200, "") if number == 1 else (400, error_body("ExpiredToken"))

    with answering(expired) as (files, asked):
        fs, path = files.at("s3://bucket/t")
        fs.write_bytes(f"{path}/x", data=b"1")
        with pytest.raises(StorageError, match="the credentials for bucket/t/y have expired"):
            fs.write_bytes(f"{path}/y", data=b"1")
        with pytest.raises(StorageError, match="the credentials for bucket/t/x have expired"):
            fs.open_input(f"{path}/x")
        assert len(asked) == 3


@pytest.mark.parametrize(
    ("status", "code", "detail"),
    [
        (301, "PermanentRedirect", "wrong-region"),
        (400, "AuthorizationHeaderMalformed", "wrong-region"),
        (403, "RequestExpired", "no-permission"),
        (403, "AccessDenied", "no-permission"),
        (404, "NoSuchBucket", "no-bucket"),
    ],
)
def test_the_library_and_we_say_the_same_of_a_refusal(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, detail: str
) -> None:
    monkeypatch.setattr("hiveacid.storage.stores._ATTEMPTS", 1)  # it pauses before each other one
    steps: list[Callable[[FileSystem, str], object]] = [
        lambda fs, path: fs.write_bytes(path, data=b"1"),
        lambda fs, path: fs.list_directory(path),
        lambda fs, path: fs.open_input(path),
        lambda fs, path: fs.list_each([f"{path}/a", f"{path}/b"]),
    ]
    with answering(lambda _, __: (status, error_body(code))) as (files, _):
        fs, path = files.at("s3://bucket/t")
        for step in steps:
            with pytest.raises(StorageError) as raised:
                step(fs, path)
            assert raised.value.context["detail"] == detail, raised.value


@pytest.mark.slow
def test_a_listing_of_a_hundred_thousand_objects_is_as_many_requests_as_pages() -> None:
    def page(_: str, number: int) -> tuple[int, str]:
        keys = (f"t/p={number // 50}/{number:03d}-{n:03d}" for n in range(1000))
        one = "<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        one += "<Size>7</Size></Contents>"
        truncated = f"<IsTruncated>{'true' if number < 99 else 'false'}</IsTruncated>"
        return 200, f"<ListBucketResult>{''.join(one % key for key in keys)}{truncated}"

    with answering(lambda verb, number: page(verb, number - 1)) as (files, asked):
        fs, path = files.at("s3://bucket/t")
        listed = fs.list_each([f"{path}/p=1", f"{path}/p=0"])
    assert [len(infos) for infos in listed] == [50_000, 50_000] and len(asked) == 100
    assert {info.size_bytes for infos in listed for info in infos} == {7}


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hiveacid.storage.stores._ATTEMPTS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"http://127.0.0.1:{server.getsockname()[1]}"
        access = S3Access(host, "r", timeout_s=0.5, keys=S3Keys("k", "s"))
        fs, path = Files(s3=access, retries=Retries(1)).at("s3://bucket/t")
        for step in (fs.list_recursive, fs.open_input):
            with pytest.raises(StorageError, match="the server of bucket/t does not answer"):
                step(path)


def test_a_server_that_was_given_up_is_not_waited_for_with_each_request(tmp_path: Path) -> None:
    class Busy(ScriptedFaults):
        def before(self, operation: str, subject: str) -> Fault | None:
            super().before(operation, subject)
            return Fault.REFUSED if down else None

    clock, down, faults = ManualClock(), [1], Busy()
    fs, path = FaultyFiles(ScriptedFaults(), faults, retries=Retries(60, clock)).at(str(tmp_path))
    with pytest.raises(StorageError):
        fs.write_bytes(f"{path}/f", data=b"1")
    waited_s = clock.monotonic_s()
    assert waited_s > 30
    for _ in range(5):
        with pytest.raises(StorageError):
            fs.create_directory(f"{path}/d")
    assert clock.monotonic_s() == waited_s
    down.clear()
    fs.write_bytes(f"{path}/f", data=b"1")
    down.append(1)
    with pytest.raises(StorageError):
        fs.write_bytes(f"{path}/f", data=b"1")
    assert clock.monotonic_s() > waited_s + 30, "it answered in between"


def test_a_server_that_was_never_reached_is_given_up_soon() -> None:
    def refused() -> None:
        raise OSError("Connection refused (os error 111)")

    clock = ManualClock()
    retries = Retries(60, clock)
    with pytest.raises(OSError, match="refused"):
        retries.run(refused)
    assert clock.monotonic_s() < 10
    with pytest.raises(OSError, match="refused"):
        retries.of_a_server(answers=True).run(refused)
    assert clock.monotonic_s() > 50


def test_so_is_one_that_arrow_does_not_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}"
    clock = ManualClock()
    for host in (nobody, "http://nobody.invalid"):
        access = S3Access(host, "r", keys=S3Keys("k", "s"))
        fs, path = Files(s3=access, retries=Retries(60, clock)).at("s3://bucket/t")
        before_s = clock.monotonic_s()
        with pytest.raises(StorageError, match="does not answer"):
            fs.list_recursive(path)
        assert clock.monotonic_s() < before_s + 10


def batches_of(reader: BucketFileReader) -> list[EventBatch]:
    """All of a file of one column."""
    columns = (Column("a", parse_type("bigint")),)
    return list(reader.batches(table_columns=columns, wanted=(0,), identities=False))


@pytest.mark.parametrize(
    "fails", [("SlowDown", 503, 2), ("SlowDown", 503, 99), ("AccessDenied", 403, 1)]
)
def test_a_server_that_fails_while_a_stripe_is_read_is_no_damaged_file(
    s3: S3Server, fails: tuple[str, int, int]
) -> None:
    code, status, times = fails
    with proxy(s3.endpoint) as between:
        settings = Settings.of({**s3.settings, "hiveacid.s3.endpoint": between.endpoint})
        retries = Retries(30, ManualClock())
        fs, path = Files(s3=s3_of_settings(settings), retries=retries).at(f"s3://{s3.bucket()}/f")
        with fs.open_output(path) as out:
            values = np.random.default_rng(1).integers(0, 2**60, 400_000)
            orc.write_table(pa.table({"a": values}), out)
        with BucketFileReader(fs, path) as reader:
            between.fail("GET", status, error_body(code), times=times)
            if (status, times) == (503, 2):
                assert sum(batch.rows for batch in batches_of(reader)) == 400_000
            else:
                with pytest.raises(StorageError) as raised:
                    batches_of(reader)
                wanted = "no-permission" if status == 403 else "no-answer"
                assert raised.value.context["detail"] == wanted
