"""A table in a store that believes no signature, and knows no checksum of AWS's library."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs as pafs
from tests.interop.hive_tool import HiveIsMissingError
from tests.s3 import S3Server
from tests.s3_strict import strict_server

import hiveacid
from hiveacid.errors import StorageError
from hiveacid.model.tables import StatementId, WriteId
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import Files
from hiveacid.storage.stage import RowStage
from hiveacid.storage.stores import s3_of_settings
from hiveacid.storage.target import WriteTarget, end_uploads, publish

pytestmark = [pytest.mark.java, pytest.mark.long("storage", "statements")]
FULL = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture(scope="module")
def strict() -> Iterator[S3Server]:
    """One for all tests, with a bucket; skips where there is no Maven to fetch it."""
    try:
        with strict_server() as server:
            keys = server.environment
            pafs.S3FileSystem(
                access_key=keys["AWS_ACCESS_KEY_ID"],
                secret_key=keys["AWS_SECRET_ACCESS_KEY"],
                endpoint_override=server.endpoint,
                region="us-east-1",
                allow_bucket_creation=True,
            ).create_dir("bucket-1")
            yield server
    except HiveIsMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def acid(strict: S3Server, tmp_path: Path) -> Iterator[Session]:
    """A session whose warehouse is in it."""
    with hiveacid.connect(
        None,
        f"sqlite:///{tmp_path}/metastore.db",
        warehouse=f"s3a://bucket-1/{tmp_path.name}/a wh/50%+ü%2F日本",
        settings={**strict.settings, "hiveacid.compactor.auto": "off"},
    ) as session:
        yield session


def ids(acid: Session, table: str) -> list[int]:
    """Sorted."""
    found: list[int] = hiveacid.read_arrow(acid.table(table)).read_all()["id"].to_pylist()
    return sorted(found)


def test_a_table_is_written_changed_compacted_moved_and_cleaned(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string) partitioned by (p string) {FULL}")
    acid.sql("insert into t values (1, 'a', 'x y'), (2, 'b', '50%+é'), (3, 'c', 'a/b')")
    acid.sql("insert into t values (4, 'd', null)")
    changes = pa.table({"id": [1, 5], "v": ["A", "e"], "p": ["x y", "n"]})
    acid.table("t").merge_arrow(changes, on="id")
    acid.table("t").delete_arrow("id = 2")
    with acid.stream("t") as stream, stream.transaction():
        stream.write({"id": 6, "v": "s", "p": "x y"})
    assert ids(acid, "t") == [1, 3, 4, 5, 6]
    acid.table("t").compact("major", wait=True)
    acid.sql("set hiveacid.retention_s = 0")
    acid.clean()
    acid.sql("alter table t partition (p='x y') rename to partition (p='z%z')")
    acid.sql("alter table t drop partition (p='a/b')")
    acid.sql("alter table t rename to u")
    assert ids(acid, "u") == [1, 4, 5, 6]


def test_files_of_tasks_are_sent_and_completed(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string) {FULL}")
    table, files = acid.table("t").definition, acid.client.files
    fs, path = files.at(table.location)
    target = WriteTarget(
        files,
        table,
        WriteId(1),
        f"{table.location}/_staging",
        insert_statement=StatementId(0),
        sends=True,
    )
    stage = RowStage(target, dynamic=(), bucketed=False, statement=StatementId(0))
    task: RowStage = pickle.loads(pickle.dumps(stage))
    rows = pa.record_batch([pa.array([1], pa.int32()), pa.array(["a"])], names=["id", "v"])
    (winner,), _ = (task.staged([rows], name=name, number=3) for name in ("3-1", "3-2"))
    publish(fs, path, [winner])
    assert fs.size_bytes(winner.staged_path) == winner.size_bytes
    assert fs.uploads is not None and len(list(fs.uploads.begun(path))) == 1
    end_uploads(fs, path, WriteId(1))
    assert list(fs.uploads.begun(path)) == []


def test_a_wrong_secret_is_told(strict: S3Server) -> None:
    settings = {**strict.settings, "hiveacid.s3.secret_key": "another"}
    fs, path = Files(s3=s3_of_settings(Settings.of(settings))).at("s3://bucket-1/t")
    for step in (
        lambda: fs.list_recursive(path),
        lambda: fs.list_each([f"{path}/a", f"{path}/b"]),
        lambda: fs.write_bytes(f"{path}/x", data=b"1"),
    ):
        with pytest.raises(StorageError, match="no permission for bucket-1"):
            step()
