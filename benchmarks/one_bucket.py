"""Make a table of one large bucket, compact it (major, Arrow), tell the memory that it took.

    python -m benchmarks.one_bucket LINEITEM DIRECTORY BYTES

Two processes: the memory of making the table is not to be counted.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import dataset

from hiveacid.compaction.rewrites import Method, rewrite
from hiveacid.layout.compaction import RewritePlan, plan_major
from hiveacid.layout.resolve import resolve
from hiveacid.model.bucket import encode_bucket
from hiveacid.model.ids import TxnId
from hiveacid.model.tables import Column, Table, TableName
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.settings import Settings
from hiveacid.storage.arrow_types import hive_type
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import list_partition
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.target import FileKind

_FS: Final = FileSystem("/")
_DELETED: Final = 10
_PROPERTIES: Final = {"transactional": "true", "orc.compress": "ZLIB"}


def main() -> None:
    """Make the table in a child, compact it here."""
    lineitem, directory, size_bytes = sys.argv[1:]
    child = os.fork()
    if child == 0:
        make(lineitem, Path(directory), int(size_bytes))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0
    print(json.dumps(compact(Path(directory))))


def make(lineitem: str, directory: Path, size_bytes: int) -> None:
    """A base of one file of at least so many bytes, and a tenth of its rows deleted."""
    rows = dataset.dataset(lineitem, format="parquet")
    columns = tuple(Column(f.name.lower(), hive_type(f.type)) for f in rows.schema)
    path = directory / "base_0000001" / "bucket_00000"
    path.parent.mkdir(parents=True)
    with BucketFileWriter(
        _FS,
        str(path),
        columns=columns,
        kind=FileKind.BASE,
        write_id=1,
        bucket_property=encode_bucket(0),
        properties=_PROPERTIES,
    ) as writer:
        while not path.exists() or path.stat().st_size < size_bytes:
            for batch in rows.to_batches(batch_size=100_000):
                writer.write_rows(batch)
        count = writer.rows
    gone = np.arange(0, count, _DELETED)
    path = directory / "delete_delta_0000002_0000002_0000" / "bucket_00000"
    path.parent.mkdir()
    with BucketFileWriter(
        _FS, str(path), columns=columns, kind=FileKind.DELETE, write_id=2, properties=_PROPERTIES
    ) as writer:
        writer.write_deletes(
            pa.array(np.ones(len(gone), np.int64)),
            pa.array(np.full(len(gone), encode_bucket(0), np.int32)),
            pa.array(gone),
        )


def compact(directory: Path) -> dict[str, float]:
    """What it took."""
    valid = ValidWriteIdList.everything()
    found = resolve(list_partition(_FS, str(directory)), valid, None)
    assert found.base is not None
    with BucketFileReader(_FS, f"{directory}/{found.base.files[0].path}") as reader:
        columns = tuple(Column(name, kind) for name, kind in reader.fields)
        rows = reader.rows
    table = Table(TableName("default", "t"), columns, str(directory), properties=_PROPERTIES)
    major = plan_major(found, txn=TxnId(9))
    assert major is not None
    plan = RewritePlan(table, str(directory), found, valid, major, f"{directory}/_staging")
    begin, cpu = time.perf_counter(), time.process_time()
    [file] = rewrite(_FS, plan, settings=Settings(), method=Method.ARROW)
    assert file.rows == rows - -(-rows // _DELETED)
    return {
        "rows": rows,
        "wall_s": time.perf_counter() - begin,
        "cpu_s": time.process_time() - cpu,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


if __name__ == "__main__":
    main()
