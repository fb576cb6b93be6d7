"""Compact a table that lies in a directory, by path: what a worker does, without a metastore."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hiveacid.layout.compaction import (
    MajorCompaction,
    MinorCompaction,
    RewritePlan,
    plan_major,
    plan_minor,
)
from hiveacid.layout.directories import VERSION_FILE
from hiveacid.layout.events import VERSION_TEXT
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import AcidMode, BucketSpec, Column, FileFormat, Table, TableName, TxnId
from hiveacid.model.types import parse_type
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import discover_partitions, list_partition, with_logical_lengths
from hiveacid.storage.target import WrittenFile

FS = FileSystem("/")
PLANS = {"minor": plan_minor, "major": plan_major}
Plan = Callable[..., MinorCompaction | MajorCompaction | None]
Rewrite = Callable[[RewritePlan], tuple[WrittenFile, ...]]


@dataclass(frozen=True)
class Compacted:
    """What a compaction did: the transaction it counts from, and the files by partition."""

    txn: TxnId
    files: tuple[WrittenFile, ...]
    plans: tuple[RewritePlan, ...]


def table_of(root: Path, meta: dict[str, Any]) -> Table:
    """A golden table's definition."""
    formats = {"orc": FileFormat.ORC, "parquet": FileFormat.PARQUET, "text": FileFormat.TEXT}
    name = meta.get("input_format", "orc").lower()
    found = next((kind for word, kind in formats.items() if word in name), FileFormat.ORC)

    def columns(pairs: list[list[str]]) -> tuple[Column, ...]:
        return tuple(Column(name.lower(), parse_type(kind)) for name, kind in pairs)

    buckets = int(meta.get("num_buckets", -1))
    return Table(
        TableName("default", meta["table"].rpartition(".")[2]),
        columns(meta["columns"]),
        str(root),
        partition_columns=columns(meta["partition_columns"]),
        bucket=BucketSpec(tuple(meta["bucket_columns"]), buckets) if buckets > 0 else None,
        format=found,
        properties=meta["parameters"],
    )


def compact(
    table: Table,
    *,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    plan: Plan,
    rewrite: Rewrite,
) -> Compacted:
    """Compact every partition and publish the results, inputs stay."""
    txn = TxnId(txns.hwm + 1)
    valid = write_ids.for_compactor()
    files: list[WrittenFile] = []
    plans = []
    for place in discover_partitions(FS, table.location):
        entries = list_partition(FS, place.path)
        directory = resolve(entries, valid, txns, mode=table.acid_mode)
        directory = with_logical_lengths(FS, place.path, directory, entries=entries)
        compaction = plan(directory, txn=txn)
        if compaction is None:
            continue
        staging = f"{table.location}/_staging_{len(plans)}"
        found = RewritePlan(table, place.path, directory, valid, compaction, staging)
        plans.append(found)
        staged = rewrite(found)
        files += staged
        publish(found, staged)
    return Compacted(txn, tuple(files), tuple(plans))


def publish(plan: RewritePlan, staged: tuple[WrittenFile, ...]) -> None:
    """Move staged files to their places."""
    for file in staged:
        target = Path(plan.location) / file.directory
        target.mkdir(exist_ok=True)
        assert Path(file.staged_path).stat().st_size == file.size_bytes
        Path(file.staged_path).rename(target / file.name)
        if plan.table.acid_mode is AcidMode.FULL:
            (target / VERSION_FILE).write_text(VERSION_TEXT)
    left = list(Path(plan.staging).iterdir())
    assert not left, f"left in staging: {left}"
    Path(plan.staging).rmdir()


def seen_after(txns: ValidTxnList, txn: TxnId) -> ValidTxnList:
    """The list of valid transactions of somebody who sees the compaction."""
    return ValidTxnList.of(hwm=txn, open=txns.open, aborted=txns.aborted)
