"""Every golden table, compacted, has the rows and row ids that Hive returned before."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from tests.golden.compacting import FS, PLANS, Compacted, compact, seen_after, table_of
from tests.golden.tables import (
    as_hive_prints,
    differences,
    golden_answer,
    golden_meta,
)
from tests.golden.test_read_arrow import WIDE_TIMESTAMPS
from tests.recorded import golden_names, golden_path
from tests.sampling import first_letter, sampled

from hiveacid.compaction.rewrites import Method, rewrite
from hiveacid.layout.compaction import MajorCompaction
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.reading.rows import read_arrow
from hiveacid.settings import Settings

COPY_ALL = Settings(compactor_stripe_bytes=0)
"""Stripes are copied however small they are."""


@pytest.mark.parametrize("method", [Method.ARROW, Method.STRIPE_COPY], ids=lambda m: m.name)
@pytest.mark.parametrize("kind", ["minor", "major"])
@pytest.mark.parametrize(
    "name", sampled(golden_names(), "storage", "compaction", "layout", group=first_letter)
)
def test_rows_and_row_ids_stay(name: str, kind: str, method: Method, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(golden_path(name) / "data", root)
    meta = golden_meta(name)
    txns = ValidTxnList.parse(meta["valid_txn_list"])
    write_ids = ValidWriteIdList.parse(meta["valid_write_id_list"])
    table = table_of(root, meta)
    done = compact(
        table,
        write_ids=write_ids,
        txns=txns,
        plan=PLANS[kind],
        rewrite=partial(rewrite, FS, settings=COPY_ALL, method=method),
    )
    if not done.plans:
        pytest.skip("nothing to compact")
    check(name, root, done)
    remove_inputs(done)
    check(name, root, done)


def check(name: str, root: Path, done: Compacted) -> None:
    """The table reads as Hive read it before."""
    meta = golden_meta(name)
    header, expected = golden_answer(name, nanoseconds=name not in WIDE_TIMESTAMPS)
    row_ids = header[0] == "writeid"
    txns = ValidTxnList.parse(meta["valid_txn_list"])
    table = read_arrow(
        str(root),
        valid_write_ids=meta["valid_write_id_list"],
        valid_txns=seen_after(txns, done.txn),
        row_ids=row_ids,
    ).read_all()
    got = as_hive_prints(table, meta, row_ids=row_ids) if len(table) else []
    assert list(differences(got, expected)) == []


def remove_inputs(done: Compacted) -> None:
    """What the cleaner takes away."""
    for plan in done.plans:
        directory = plan.directory
        gone = [delta.path for delta in directory.deltas]
        if isinstance(plan.compaction, MajorCompaction):
            gone += [directory.base.path] if directory.base else []
            gone += [file.path for file in directory.originals]
        for path in gone:
            full = f"{plan.location}/{path}"
            if FS.is_directory(full):
                FS.delete_directory(full)
            else:
                FS.delete_file(full)
