"""Listings of tables that real Hive wrote: what resolve chooses holds the rows Hive returned."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recorded import golden_names, golden_path

from hiveacid.layout.directories import METADATA_FILE, AcidDirectory, parse_partition_name
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.ids import BucketCodec, ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import AcidMode

pytestmark = pytest.mark.slow

NAMES = golden_names()


def mode_of(meta: dict[str, Any]) -> AcidMode:
    kind = meta["parameters"].get("transactional_properties", "default")
    return AcidMode.INSERT_ONLY if kind == "insert_only" else AcidMode.FULL


def entry_of(file: Path, root: Path) -> Entry:
    text = file.read_text() if file.name == METADATA_FILE else None
    return Entry(file.relative_to(root).as_posix(), file.stat().st_size, marker=text)


def resolved(name: str) -> Iterator[AcidDirectory]:
    meta = json.loads((golden_path(name) / "meta.json").read_text())
    data = golden_path(name) / "data"
    depth = len(meta["partition_columns"])
    partitions = [data]
    for _ in range(depth):
        partitions = [child for parent in partitions for child in parent.iterdir()]
    for partition in partitions:
        if depth:
            pairs = parse_partition_name(partition.relative_to(data).as_posix())
            assert pairs is not None
            assert [column for column, _ in pairs] == [c[0] for c in meta["partition_columns"]]
        yield resolve(
            [entry_of(file, partition) for file in partition.rglob("*") if file.is_file()],
            ValidWriteIdList.parse(meta["valid_write_id_list"]),
            ValidTxnList.parse(meta["valid_txn_list"]),
            mode=mode_of(meta),
        )


def write_ids_of(name: str) -> set[tuple[int, int]]:
    """(write id, bucket id) of the rows Hive returned."""
    path = golden_path(name) / "query.tsv"
    with path.open() if path.exists() else gzip.open(f"{path}.gz", "rt") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        if next(rows)[0] != "writeid":
            return set()
        return {(int(row[0]), BucketCodec.decode(int(row[1])).bucket_id) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_chosen_directories_hold_the_rows_hive_returned(name: str) -> None:
    meta = json.loads((golden_path(name) / "meta.json").read_text())
    valid = ValidWriteIdList.parse(meta["valid_write_id_list"])
    assert str(valid) == meta["valid_write_id_list"]
    assert str(ValidTxnList.parse(meta["valid_txn_list"])) == meta["valid_txn_list"]
    directories = list(resolved(name))
    for write_id, bucket in write_ids_of(name):
        assert valid.is_valid(write_id)
        assert any(holds(directory, write_id, bucket) for directory in directories)


def holds(directory: AcidDirectory, write_id: int, bucket: int) -> bool:
    places = [(directory.originals, 0, 0)]
    if directory.base is not None:
        places.append((directory.base.files, 0, max(directory.base.name.write_id, 0)))
    places += [
        (delta.files, delta.name.min_write_id, delta.name.max_write_id)
        for delta in directory.insert_deltas
    ]
    return any(
        first <= write_id <= last and any(file.bucket == bucket for file in files)
        for files, first, last in places
    )


@pytest.mark.parametrize(
    ("name", "base", "deltas", "aborted"),
    [
        (
            "h01_aborted",
            None,
            ["delta_0000001_0000001_0000", "delta_0000005_0000005_0000"],
            ["base_0000004", "delete_delta_0000003_0000003_0000", "delta_0000002_0000002_0000"],
        ),
        ("k01_closed", None, ["delta_0000001_0000003"], []),
        ("v3_08_converted_major", "base_10000003", [], []),
    ],
)
def test_choice(name: str, base: str | None, deltas: list[str], aborted: list[str]) -> None:
    (found,) = resolved(name)
    assert (found.base.path if found.base else None) == base
    assert [delta.path for delta in found.deltas] == deltas
    assert list(found.aborted) == aborted


def test_open_overwrite_does_not_hide_the_partition() -> None:
    chosen = [[delta.path for delta in d.deltas] for d in resolved("h04_open_overwrite")]
    bases = [d.base.path for d in resolved("h04_open_overwrite") if d.base]
    assert "base_0000003" not in bases
    assert chosen.count(["delta_0000001_0000001_0000"]) == 2
