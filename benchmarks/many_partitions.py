"""A table of very many small partitions, made without Spark: two insert deltas and a delete delta
in each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from hiveacid.model.bucket import encode_bucket
from hiveacid.model.tables import Partition, TableName
from hiveacid.storage.filesystem import Files
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.target import FileKind

if TYPE_CHECKING:
    from hiveacid.session import Session

_ROWS: Final = 10


def make_many_partitions(acid: Session, name: str, *, partitions: int) -> int:
    """Make the table; returns how many rows it has."""
    acid.sql(f"drop table if exists {name}")
    acid.sql(
        f"create table {name} (k int, v string) partitioned by (p int)"
        " stored as orc tblproperties ('transactional'='true')"
    )
    metastore, full = acid.client.metastore, TableName("default", name)
    table = metastore.get_table(full)
    metastore.add_partitions(
        full, [Partition((str(n),), f"{table.location}/p={n}") for n in range(partitions)]
    )
    for write_id in (1, 2, 3):
        with acid.client.transactions.begin() as txn:
            assert txn.write_id(full) == write_id
            txn.commit()
    fs, root = Files().at(table.location)
    for number in range(partitions):
        directory = Path(f"{root}/p={number}")
        for write_id in (1, 2):
            path = directory / f"delta_{write_id:07d}_{write_id:07d}_0000"
            path.mkdir(parents=True)
            with BucketFileWriter(
                fs,
                str(path / "bucket_00000_0"),
                columns=table.columns,
                kind=FileKind.INSERT,
                write_id=write_id,
                bucket_property=encode_bucket(0, 0),
            ) as writer:
                keys = np.arange(_ROWS, dtype=np.int32) + number * 100 + write_id * _ROWS
                writer.write_rows(pa.record_batch([pa.array(keys), ["x"] * _ROWS], ["k", "v"]))
        path = directory / "delete_delta_0000003_0000003_0000"
        path.mkdir()
        with BucketFileWriter(
            fs,
            str(path / "bucket_00000"),
            columns=table.columns,
            kind=FileKind.DELETE,
            write_id=3,
        ) as writer:
            writer.write_deletes(
                pa.array([1], pa.int64()),
                pa.array([encode_bucket(0, 0)], pa.int32()),
                pa.array([5], pa.int64()),
            )
    return partitions * (2 * _ROWS - 1)
