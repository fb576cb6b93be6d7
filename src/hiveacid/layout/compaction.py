"""What a compaction reads and what it makes (format.md 10.1, 10.2). Pure: no row is touched here.

Inputs come from ``resolve`` with the compactor's valid list, which hides whatever holds an open id.
The result counts from the compactor's commit on, by its visibility suffix; without one (tables that
Hive 3 reads) readers must be kept away while it is published (format.md 11.27).
"""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.layout.names import NO_TXN, BaseName, DeltaName
from hiveacid.layout.snapshot import AcidDirectory, BaseDirectory, DataFile, DeltaDirectory
from hiveacid.model.compactions import CompactionType
from hiveacid.model.ids import LONG_MIN, NO_STATEMENT, TxnId, WriteId
from hiveacid.model.tables import Table
from hiveacid.model.valid import ValidWriteIdList


@dataclass(frozen=True, slots=True)
class MinorCompaction:
    """Deltas into one delta, delete deltas into one delete delta; ``base`` and originals stay.

    ``delta`` or ``delete_delta`` is None where there is nothing of its kind to put in.
    """

    inputs: tuple[DeltaDirectory, ...]
    delta: DeltaName | None
    delete_delta: DeltaName | None


@dataclass(frozen=True, slots=True)
class MajorCompaction:
    """Everything into one base."""

    base: BaseDirectory | None
    originals: tuple[DataFile, ...]
    inputs: tuple[DeltaDirectory, ...]
    output: BaseName


def plan_minor(directory: AcidDirectory, *, txn: TxnId = NO_TXN) -> MinorCompaction | None:
    """The minor compaction of what ``resolve`` chose, None where there is not enough to do.

    ``txn`` is the compactor's transaction, 0 for a result without visibility suffix. One delta and
    one delete delta are left alone: as many directories would come out.
    """
    inputs = directory.deltas
    inserts, deletes = directory.insert_deltas, directory.delete_deltas
    if len(inserts) < 2 and len(deletes) < 2:
        return None
    first = min(delta.name.min_write_id for delta in inputs)
    last = max(delta.name.max_write_id for delta in inputs)
    return MinorCompaction(
        inputs,
        DeltaName(first, last, NO_STATEMENT, txn) if inserts else None,
        DeltaName(first, last, NO_STATEMENT, txn, is_delete=True) if deletes else None,
    )


def plan_major(directory: AcidDirectory, *, txn: TxnId = NO_TXN) -> MajorCompaction | None:
    """The major compaction of what ``resolve`` chose, None where there is not enough to do.

    ``txn`` as in ``plan_minor``. Originals alone become ``base_-9223372036854775808``.
    """
    directories = len(directory.deltas) + (directory.base is not None)
    if not directory.originals and directories < 2:
        return None
    return MajorCompaction(
        directory.base, directory.originals, directory.deltas, _output(directory, txn)
    )


def _output(directory: AcidDirectory, txn: TxnId) -> BaseName:
    highest = [delta.name.max_write_id for delta in directory.deltas]
    if directory.base is not None:
        highest.append(directory.base.name.write_id)
    return BaseName(max(highest, default=WriteId(LONG_MIN)), txn)


@dataclass(frozen=True, slots=True)
class Rebalance(MajorCompaction):
    """Everything into one base whose files hold as many rows each; row ids are new.

    ``order_by`` is the text of sort items, each with its null order; None keeps the order of the
    old row ids. Fewer rows than ``buckets`` make fewer files.
    """

    buckets: int
    order_by: str | None


def plan_rebalance(
    directory: AcidDirectory,
    *,
    txn: TxnId = NO_TXN,
    buckets: int | None = None,
    order_by: str | None = None,
) -> Rebalance | None:
    """The rebalance of what ``resolve`` chose, None where there are no rows' files at all.

    ``buckets`` None keeps as many as there are numbers among the files.
    """
    numbers = {file.bucket for file in directory.row_files}
    if not numbers:
        return None
    return Rebalance(
        directory.base,
        directory.originals,
        directory.deltas,
        _output(directory, txn),
        buckets or len(numbers),
        order_by,
    )


def has_work(directory: AcidDirectory, kind: CompactionType) -> bool:
    """Whether a compaction of this kind would rewrite anything of what ``resolve`` chose."""
    if kind is CompactionType.MINOR:
        return plan_minor(directory) is not None
    if kind is CompactionType.REBALANCE:
        return plan_rebalance(directory) is not None
    return plan_major(directory) is not None


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """One partition's compaction, as the rewrites get it; picklable, needs no service.

    ``location`` is the partition's directory, ``directory`` and ``valid`` what the compactor sees
    of it (its valid list has no open ids below its watermark; events of aborted ones go).
    ``staging`` is a hidden directory below the table's root in which the result waits for
    publication, unique to the compaction.
    """

    table: Table
    location: str
    directory: AcidDirectory
    valid: ValidWriteIdList
    compaction: MinorCompaction | MajorCompaction
    staging: str


def input_bytes(plan: RewritePlan) -> int:
    """How much a plan's rewrite reads."""
    return sum(file.size_bytes for file in input_files(plan))


def bucket_bytes(plan: RewritePlan) -> dict[int, int]:
    """How much of it is in files of each bucket number."""
    sizes: dict[int, int] = {}
    for file in input_files(plan):
        sizes[file.bucket] = sizes.get(file.bucket, 0) + file.size_bytes
    return sizes


def input_files(plan: RewritePlan) -> tuple[DataFile, ...]:
    """The files that a plan's rewrite reads; of an insert-only table, copies."""
    directory = plan.directory
    files = [file for delta in directory.deltas for file in delta.files]
    if isinstance(plan.compaction, MajorCompaction):
        files += directory.originals
        files += directory.base.files if directory.base is not None else ()
    return tuple(files)


@dataclass(frozen=True, slots=True)
class RewrittenFile:
    """A staged file of the result: ``directory`` and ``name`` as they shall be, below the
    partition; ``staged_path`` is a path within the file system. ``rows`` counts events, None in
    files that were copied unread.
    """

    directory: str
    name: str
    staged_path: str
    rows: int | None
    size_bytes: int
