"""Golden tables rebalanced: the same rows, in files of as many rows each, with new ids in order."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.golden.compacting import FS, compact, seen_after, table_of
from tests.golden.tables import golden_meta
from tests.recorded import golden_path
from tests.sampling import first_letter, sampled

from hiveacid.compaction.rewrites import rewrite
from hiveacid.errors import AcidError, InvalidInputError, UnsupportedError
from hiveacid.layout.compaction import plan_rebalance
from hiveacid.layout.directories import AcidDirectory
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import TxnId
from hiveacid.reading.rows import read_arrow
from hiveacid.settings import Settings
from hiveacid.storage.orc.bucket_reader import BucketFileReader

TABLES = (
    "a03_merge",
    "a08_major_clean",
    "i07_load_major",
    "l01_many",
    "i12_big",
    "e02_converted_dml",
)


def read(name: str, root: Path, txn: TxnId | None = None) -> pa.Table:
    meta = golden_meta(name)
    txns = ValidTxnList.parse(meta["valid_txn_list"])
    return read_arrow(
        str(root),
        valid_write_ids=meta["valid_write_id_list"],
        valid_txns=txns if txn is None else seen_after(txns, txn),
        row_ids=True,
    ).read_all()


def rebalance(
    name: str, root: Path, *, buckets: int | None, order_by: str | None = None
) -> tuple[TxnId, tuple[Path, ...]]:
    """The compaction's transaction and the new files."""
    shutil.copytree(golden_path(name) / "data", root)
    meta = golden_meta(name)

    def plan(directory: AcidDirectory, *, txn: TxnId) -> Any:
        return plan_rebalance(directory, txn=txn, buckets=buckets, order_by=order_by)

    done = compact(
        table_of(root, meta),
        write_ids=ValidWriteIdList.parse(meta["valid_write_id_list"]),
        txns=ValidTxnList.parse(meta["valid_txn_list"]),
        plan=plan,
        rewrite=lambda plan: rewrite(FS, plan, settings=Settings()),
    )
    return done.txn, tuple(root / file.directory / file.name for file in done.files)


def row_counts(files: tuple[Path, ...]) -> list[int]:
    counts = []
    for path in files:
        with BucketFileReader(FS, str(path)) as reader:
            counts.append(reader.rows)
    return counts


@pytest.mark.parametrize("name", sampled(TABLES, "storage", "compaction", group=first_letter))
def test_rows_stay_in_order_and_ids_are_new(name: str, tmp_path: Path) -> None:
    root = tmp_path / "data"
    before = read(name, golden_path(name) / "data").sort_by("row__id")
    txn, files = rebalance(name, root, buckets=3)
    after = read(name, root, txn)
    assert after.drop_columns(["row__id"]).equals(before.drop_columns(["row__id"]))
    old, new = (t["row__id"].combine_chunks() for t in (before, after))
    assert new.field("rowid").to_pylist() == list(range(len(after)))
    assert new.field("writeid").equals(old.field("writeid"))
    size = -(-len(after) // 3)
    counts = row_counts(files)
    assert counts == [min(size, len(after) - start) for start in range(0, len(after), size)]
    assert [path.name for path in files] == [f"bucket_{n:05d}" for n in range(len(counts))]
    numbers = [(b & 0x0FFF0000) >> 16 for b in new.field("bucketid").to_pylist()]
    assert numbers == [row // size for row in range(len(after))]


def test_order_by_columns_with_their_null_order(tmp_path: Path) -> None:
    root = tmp_path / "data"
    txn, files = rebalance(
        "a03_merge", root, buckets=2, order_by="name DESC NULLS LAST, `id` ASC NULLS LAST"
    )
    after = read("a03_merge", root, txn)
    found = list(zip(after["name"].to_pylist(), after["id"].to_pylist(), strict=True))
    by_id = sorted(found, key=lambda row: row[1])
    assert found == sorted(by_id, key=lambda row: row[0] or "", reverse=True)
    write_ids = after["row__id"].combine_chunks().field("writeid").to_pylist()
    assert len(files) == 2 and len(set(write_ids)) == 1


@pytest.mark.parametrize(
    ("order_by", "error"),
    [("upper(name)", UnsupportedError), ("nosuch DESC NULLS FIRST", InvalidInputError)],
)
def test_what_it_cannot_be_ordered_by(
    order_by: str, error: type[AcidError], tmp_path: Path
) -> None:
    with pytest.raises(error, match="order"):
        rebalance("a03_merge", tmp_path / "data", buckets=2, order_by=order_by)


def test_more_buckets_than_rows_and_as_many_as_there_were(tmp_path: Path) -> None:
    _, files = rebalance("a03_merge", tmp_path / "many", buckets=100)
    assert set(row_counts(files)) == {1}
    _, files = rebalance("l01_many", tmp_path / "same", buckets=None)
    assert len(files) == len({path.name for path in files}) >= 1
