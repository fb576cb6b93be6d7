"""The changes of tables that Hive wrote lead from each of their states to the next."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.golden import tables
from tests.golden.compacting import FS, table_of
from tests.recorded import golden_names, golden_path

from hiveacid.errors import SnapshotExpiredError
from hiveacid.layout.changes import Versions
from hiveacid.layout.directories import DeltaName, parse_directory
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import AcidMode, Partition, Table
from hiveacid.storage.change_plan import change_units
from hiveacid.storage.changes import ChangeReader
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import discover_partitions, list_partition
from hiveacid.storage.read import TableReader

Rows = Counter[tuple[Any, ...]]


def told(name: str) -> tuple[Path, Table, ValidWriteIdList, ValidTxnList]:
    meta = tables.golden_meta(name)
    root = golden_path(name) / "data"
    valid = ValidWriteIdList.parse(meta["valid_write_id_list"])
    return root, table_of(root, meta), valid, ValidTxnList.parse(meta["valid_txn_list"])


def state(root: Path, table: Table, valid: ValidWriteIdList, txns: ValidTxnList) -> Rows:
    names = frozenset(column.name for column in table.columns)
    reader = TableReader(Files(), table, names, valid)
    found: Rows = Counter()
    for one in discover_partitions(FS, str(root)):
        entries = list_partition(FS, one.path)
        if table.acid_mode is AcidMode.INSERT_ONLY:  # rows of several write ids, not told apart
            entries = tuple(entry for entry in entries if not is_compacted_delta(entry.path))
        directory = resolve(entries, valid, txns, mode=table.acid_mode)
        for batch in reader.rows(Partition(one.values, one.path), directory):
            found.update(map(repr_of, batch.select(sorted(names)).to_pylist()))
    return found


def is_compacted_delta(path: str) -> bool:
    name = parse_directory(path.partition("/")[0])
    return isinstance(name, DeltaName) and bool(name.visibility_txn)


def repr_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(map(repr, row.values()))


def up_to(valid: ValidWriteIdList, write_id: int) -> ValidWriteIdList:
    return ValidWriteIdList.of(
        valid.table,
        hwm=write_id,
        open=(one for one in valid.open if one <= write_id),
        aborted=(one for one in valid.aborted if one <= write_id),
    )


def changed(root: Path, table: Table, versions: Versions, txns: ValidTxnList) -> Rows:
    """How many more of each row there are after them."""
    files = Files()
    partitions = [Partition(one.values, one.path) for one in discover_partitions(FS, str(root))]
    units = change_units(table, partitions, versions, txns, files=files, floors=dict)
    names = frozenset(column.name for column in table.columns)
    reader = ChangeReader(TableReader(files, table, names, versions.high))
    found: Rows = Counter()
    for unit in units:
        for batch in reader.rows(unit):
            kinds = batch.column("_change_type").to_pylist()
            rows = batch.select(sorted(names)).to_pylist()
            for kind, row in zip(kinds, rows, strict=True):
                found[repr_of(row)] += 1 if kind == "insert" else -1
    return found


SOME = (
    "a02_update_delete",
    "a03_merge",
    "a11_qb_minor_clean",
    "d06_bucketed",
    "f09_parquet_major_preclean",
    "i02_truncate",
)


@pytest.mark.parametrize("name", SOME)
def test_a_state_and_the_changes_since_are_the_last_one(name: str) -> None:
    check(name)


@pytest.mark.long("layout", "storage")
@pytest.mark.parametrize("name", [name for name in golden_names() if name not in SOME])
def test_so_it_is_of_every_table_of_hive(name: str) -> None:
    check(name)


def check(name: str) -> None:
    root, table, now, txns = told(name)
    if table.acid_mode is AcidMode.NONE:
        pytest.skip("not transactional")
    last = now.hwm
    told_from = [since for since in range(max(last - 4, 0), last) if since not in now.open]
    for since in told_from:
        low = up_to(now, since)
        versions = Versions(low, now, now)
        try:
            before = state(root, table, low, txns)
            changes = changed(root, table, versions, txns)
        except SnapshotExpiredError:
            continue
        after = state(root, table, now, txns)
        before.update(changes)
        assert {row: n for row, n in before.items() if n} == dict(after), since
