"""Files that tasks send to an object store and the driver completes."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from tests.s3 import S3Server
from tests.unit.storage.test_stores import answering, error_body

from hiveacid.errors import AcidError, MissingFileError, StorageError
from hiveacid.model.tables import Column, FileFormat, StatementId, Table, TableName, WriteId
from hiveacid.model.types import INT, STRING
from hiveacid.settings import Settings
from hiveacid.storage import s3_uploads
from hiveacid.storage.failures import Retries
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.s3_requests import authorization
from hiveacid.storage.stage import RowStage
from hiveacid.storage.stores import S3Access, S3Keys, s3_of_settings
from hiveacid.storage.target import WriteTarget, end_uploads, publish
from hiveacid.testing import ManualClock

HERE = "t 1+ü%/p=a%2Fb"


@pytest.fixture
def place(s3: S3Server) -> tuple[FileSystem, str]:
    """A file system with uploads, and a directory of it."""
    files = Files(s3=s3_of_settings(Settings.of(s3.settings)))
    return files.at(f"s3://{s3.bucket()}/{HERE}")


def stage(place: tuple[FileSystem, str], **facts: object) -> RowStage:
    """What a task does, in another process."""
    fs, path = place
    properties = {"transactional": "true", **facts.pop("properties", {})}  # type: ignore[dict-item]
    table = Table(
        TableName("d", "t"),
        (Column("id", INT), Column("v", STRING)),
        fs.location_of(path),
        properties=properties,
        **facts,  # type: ignore[arg-type]
    )
    target = WriteTarget(
        Files(s3=fs.s3),
        table,
        WriteId(1),
        f"{table.location}/_staging",
        insert_statement=StatementId(0),
        sends=True,
    )
    made: RowStage = pickle.loads(
        pickle.dumps(RowStage(target, dynamic=(), bucketed=False, statement=StatementId(0)))
    )
    return made


def rows(*texts: str) -> list[pa.RecordBatch]:
    """A row for each text."""
    ids = pa.array(range(len(texts)), pa.int32())
    return [pa.record_batch([ids, pa.array(texts)], names=["id", "v"])]


def objects(place: tuple[FileSystem, str]) -> list[str]:
    """Names of all files there are."""
    fs, path = place
    found = [info.path for info in fs.list_recursive(path) if not info.is_directory]
    return [one[len(path) + 1 :] for one in found]


def begun(place: tuple[FileSystem, str]) -> list[str]:
    """Names of what was sent and is no file."""
    fs, path = place
    assert fs.uploads is not None
    return [one[len(path) + 1 :] for one, _, _ in fs.uploads.begun(path)]


BUCKET = "delta_0000001_0000001_0000/bucket_00003_0"


def test_of_a_task_that_runs_twice_only_what_the_driver_completes_is_there(
    place: tuple[FileSystem, str],
) -> None:
    fs, path = place
    task = stage(place)
    (winner,) = task.staged(rows("first"), name="3-1", number=3)
    (loser,) = task.staged(rows("the second", "and more"), name="3-2", number=3)
    assert objects(place) == [] and begun(place) == [BUCKET, BUCKET]
    (winner,) = pickle.loads(pickle.dumps([winner]))
    publish(fs, path, [winner])
    assert fs.size_bytes(winner.staged_path) == winner.size_bytes != loser.size_bytes
    task.staged(rows("after the commit"), name="3-3", number=3)
    publish(fs, path, [winner])  # again, as after an answer that was lost
    assert fs.size_bytes(winner.staged_path) == winner.size_bytes
    assert objects(place) == ["delta_0000001_0000001_0000/_orc_acid_version", BUCKET]
    assert begun(place) == [BUCKET, BUCKET]
    end_uploads(fs, path, WriteId(2))
    assert begun(place) == [BUCKET, BUCKET], "another's"
    end_uploads(fs, path, WriteId(1))
    assert begun(place) == []


def test_a_task_that_fails_half_way_leaves_nothing(place: tuple[FileSystem, str]) -> None:
    def failing() -> object:
        yield from rows("a")
        raise AcidError("no more")

    with pytest.raises(AcidError, match="no more"):
        stage(place).staged(failing(), name="0-0", number=0)  # type: ignore[arg-type]
    assert objects(place) == begun(place) == []


@pytest.mark.parametrize("format", FileFormat)
def test_files_of_all_formats_are_sent_in_parts(
    place: tuple[FileSystem, str], monkeypatch: pytest.MonkeyPatch, format: FileFormat
) -> None:
    monkeypatch.setattr(s3_uploads, "_PART_BYTES", 5 * 1024 * 1024)
    properties = {"transactional_properties": "insert_only"}
    text = "".join(chr(33 + n * n % 94) for n in range(997)) * 6
    texts = [f"{n}{text[n % 997 :]}" for n in range(1000)]
    options = {"parquet.compression": "UNCOMPRESSED", "orc.compress": "NONE"}
    options["orc.dictionary.key.threshold"] = "0"
    task = stage(place, format=format, properties={**properties, **options})
    (file,) = task.staged(rows(*texts), name="0-0", number=0)
    assert file.upload is not None and len(file.upload.parts) == 2
    publish(place[0], place[1], [file])
    assert place[0].size_bytes(file.staged_path) == file.size_bytes > s3_uploads._PART_BYTES


def test_what_is_uploaded_has_the_bytes_of_a_file(place: tuple[FileSystem, str]) -> None:
    fs, path = place
    assert fs.uploads is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(s3_uploads, "_PART_BYTES", 5 * 1024 * 1024)
        data = bytes(range(256)) * 40_000
        out = fs.uploads.open_output(f"{path}/f")
        for start in range(0, len(data), 3_000_001):
            out.write(data[start : start + 3_000_001])
        out.close()
    fs.complete_files([(f"{path}/f", fs.uploads.taken(f"{path}/f"), len(data))])
    assert fs.read_bytes(f"{path}/f") == data


# -------------------------------------------------------------------- the server fails


@pytest.mark.slow
@pytest.mark.parametrize("code", ["SlowDown", "InternalError"])
def test_a_server_that_is_too_busy_is_asked_again(code: str) -> None:
    def busy(verb: str, number: int) -> tuple[int, str]:
        begun = "<InitiateMultipartUploadResult><UploadId>7</UploadId>"
        return (503, error_body(code)) if number % 2 else (200, begun)

    with answering(busy) as (files, asked):
        fs, path = files.at("s3://bucket/t")
        assert fs.uploads is not None
        assert fs.uploads._begun(path) == "7"
        fs.uploads.end(path, "7")
        assert asked == ["POST", "POST", "DELETE", "DELETE"]


def test_what_is_refused_is_told_and_not_asked_again() -> None:
    with answering(lambda _, __: (403, error_body("AccessDenied"))) as (files, asked):
        fs, path = files.at("s3://bucket/t")
        with pytest.raises(StorageError, match="no permission for bucket/t"):
            fs.complete_files([(path, s3_uploads.Upload("7", ("tag",)), 1)])
        assert asked == ["POST"]


def test_an_upload_that_is_gone_with_no_file_there_is_a_missing_file() -> None:
    nothing = "<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"

    def gone(verb: str, _: int) -> tuple[int, str]:
        return (200, nothing) if verb == "GET" else (404, error_body("NoSuchUpload"))

    with answering(gone) as (files, asked):
        fs, path = files.at("s3://bucket/t")
        with pytest.raises(MissingFileError):
            fs.complete_files([(path, s3_uploads.Upload("7", ("tag",)), 1)])
        assert asked[0] == "POST" and "POST" not in asked[1:]


def test_an_error_that_comes_after_200_is_one() -> None:
    with answering(lambda _, __: (200, error_body("InvalidPart"))) as (files, _):
        fs, path = files.at("s3://bucket/t")
        with pytest.raises(StorageError, match="InvalidPart"):
            fs.complete_files([(path, s3_uploads.Upload("7", ("tag",)), 1)])


def test_where_keys_are_the_librarys_alone_there_are_no_uploads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert Files(s3=S3Access("http://127.0.0.1:1", "r")).at("s3://b/t")[0].uploads is None
    assert Files().at("/t")[0].uploads is None


# -------------------------------------------------------------------- signatures

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ("lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_signatures_are_those_of_the_documentation_of_aws(query: str, signature: str) -> None:
    keys = S3Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "x-amz-content-sha256": EMPTY,
        "x-amz-date": "20130524T000000Z",
    }
    found = authorization(keys, "us-east-1", "GET", "/", query, headers)
    assert found.endswith(f"Signature={signature}")
    assert "wJalr" not in found


# -------------------------------------------------------------------- one process writes it all


@pytest.mark.parametrize(("megabytes", "puts"), [(1, 1), (12, 3)])
def test_a_file_is_one_request_where_it_is_small_and_else_whole_at_its_end(
    s3: S3Server,
    place: tuple[FileSystem, str],
    monkeypatch: pytest.MonkeyPatch,
    megabytes: int,
    puts: int,
) -> None:
    monkeypatch.setattr(s3_uploads, "_PART_BYTES", 5 * 1024 * 1024)
    fs, path = place
    data = bytes(range(256)) * 4096
    with s3.requests() as made, fs.open_output(f"{path}/f") as file:
        for _ in range(megabytes):
            file.write(data)
        assert objects(place) == []
    assert sum(one.startswith("PUT") for one in made) == puts
    assert fs.read_bytes(f"{path}/f") == data * megabytes and begun(place) == []


def test_a_file_whose_block_ends_in_an_error_is_not_there(
    place: tuple[FileSystem, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_uploads, "_PART_BYTES", 5 * 1024 * 1024)
    fs, path = place
    with pytest.raises(AcidError, match="no more"), fs.open_output(f"{path}/f") as file:
        file.write(bytes(11 * 1024 * 1024))
        assert begun(place) == ["f"]
        raise AcidError("no more")
    assert objects(place) == begun(place) == []


@pytest.mark.slow
def test_a_file_whose_write_fails_in_passing_is_sent_again() -> None:
    def busy(verb: str, number: int) -> tuple[int, str]:
        return (503, error_body("SlowDown")) if number < 7 else (200, "")

    with answering(busy, retries=Retries(1e9, ManualClock())) as (files, asked):
        fs, path = files.at("s3://bucket/t")
        with fs.open_output(f"{path}/x") as file:
            file.write(b"1")
        assert asked == ["PUT"] * 7
