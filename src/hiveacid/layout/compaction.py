"""What a compaction rewrites, and what a cleaner may remove: the latter first.

What a cleaner may remove from a partition, and why each other entry stays (format.md 10.4).

The lists decide: their watermarks must lie below every reader that could still need the state
before the compaction. Then whatever ``resolve`` calls obsolete or aborted is needed by nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from hiveacid.errors import SnapshotExpiredError
from hiveacid.layout.changes import Versions, changes_of, without_mixed, write_ids_of
from hiveacid.layout.directories import (
    NO_TXN,
    AcidDirectory,
    BaseName,
    DataFile,
    DeltaName,
    DirectoryName,
    is_hidden,
    is_marker,
    parse_directory,
)
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.compactions import CompactionType
from hiveacid.model.history import Floor, Pin, PinKind
from hiveacid.model.ids import RangeValidity, ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import LONG_MIN, NO_STATEMENT, AcidMode, Table, TxnId, WriteId


class Kept(Enum):
    """Why an entry stays."""

    CURRENT = "current"
    """read by whoever comes now"""
    OBSOLETE = "obsolete"
    """replaced, but no compaction has been asked to clean it"""
    ABORTED_LATELY = "aborted-lately"
    """left by aborted transactions, too few and too young to be worth a cleaning"""
    READERS = "readers"
    """replaced, and a transaction that is open may still need it"""
    RETENTION = "retention"
    """replaced, and kept for some time"""
    PINNED = "pinned"
    """replaced, and a tag or a consumer of changes needs it"""
    NO_CLEANUP = "no-cleanup"
    """not needed, but the property ``no_cleanup`` keeps all"""
    COMPACTION_NOT_SEEN = "compaction-not-seen"
    """made by a compaction that is open, or later than the oldest reader"""
    NOT_DECIDED = "not-decided"
    """holds open write ids or such above the watermark"""
    NOT_OURS = "not-ours"
    """hidden, empty or with a name that says nothing"""


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """``remove`` and ``keep`` hold paths relative to the partition, each entry in one of them.

    ``aborted`` are those of ``remove`` that nobody ever sees. ``aborts_remain``: a directory that
    stays holds rows of aborted transactions beside others, so their metadata must outlive this
    cleaning (HIVE-24481).
    """

    remove: tuple[str, ...]
    keep: tuple[tuple[str, Kept], ...]
    aborts_remain: bool
    aborted: tuple[str, ...] = ()


def plan_cleaning(
    entries: Iterable[Entry],
    valid: ValidWriteIdList,
    valid_txns: ValidTxnList,
    *,
    aborted_only: bool,
    mode: AcidMode = AcidMode.FULL,
) -> CleaningPlan:
    """What goes and what stays, by the cleaner's lists (``ValidWriteIdList.for_cleaner``).

    ``aborted_only`` is for what an aborted dynamic-partition write left: at a table's root
    "obsolete" would not mean what it says.

    Raises:
        FormatError: a ``_metadata_acid`` that decides is not one.
    """
    listing = tuple(entries)
    directory = resolve(listing, valid, valid_txns, mode=mode)
    left_empty = _left_empty(listing, directory.ignored, valid, valid_txns)
    keep = [(path, Kept.CURRENT) for path in _current(directory)]
    keep += [
        (path, _why_ignored(path, valid_txns))
        for path in directory.ignored
        if path not in left_empty
    ]
    remove = [*directory.aborted, *left_empty]
    if aborted_only:
        keep += [(path, Kept.OBSOLETE) for path in directory.obsolete]
    else:
        remove += directory.obsolete
    return CleaningPlan(
        remove=tuple(sorted(remove)),
        keep=tuple(sorted(keep, key=lambda pair: pair[0])),
        aborts_remain=any(
            valid.range_aborted(delta.name.min_write_id, delta.name.max_write_id)
            is not RangeValidity.NONE
            for delta in directory.deltas
        ),
        aborted=directory.aborted,
    )


def keep_pinned(
    plan: CleaningPlan,
    entries: Iterable[Entry],
    pinned: Iterable[Pin],
    valid: ValidWriteIdList,
    valid_txns: ValidTxnList,
    *,
    mode: AcidMode = AcidMode.FULL,
) -> CleaningPlan:
    """The plan without what readers of these states would read, and consumers of the changes since.
    Of an insert-only table that is what a compacted delta was made of, where it has rows of later
    versions, too.

    Raises:
        FormatError: a ``_metadata_acid`` that decides is not one.
    """
    listing = tuple(entries)
    needed: set[str] = set()
    for one in pinned:
        seen = listing
        if mode is AcidMode.INSERT_ONLY:
            seen, _ = without_mixed(listing, one.valid, valid, valid_txns)
        needed.update(_current(resolve(seen, one.valid, valid_txns, mode=mode, is_kept=True)))
        if one.kind is PinKind.CONSUMER:
            needed.update(_telling_changes(listing, one.valid, valid, valid_txns, mode))
    held = needed.intersection(plan.remove).difference(plan.aborted)
    if not held:
        return plan
    deltas = [name for path in held if isinstance(name := _named(path), DeltaName)]
    keep = (*plan.keep, *((path, Kept.PINNED) for path in held))
    return CleaningPlan(
        remove=tuple(path for path in plan.remove if path not in held),
        keep=tuple(sorted(keep, key=lambda pair: pair[0])),
        aborts_remain=plan.aborts_remain
        or any(
            valid.range_aborted(name.min_write_id, name.max_write_id) is not RangeValidity.NONE
            for name in deltas
        ),
        aborted=plan.aborted,
    )


def _telling_changes(
    listing: tuple[Entry, ...],
    since: ValidWriteIdList,
    valid: ValidWriteIdList,
    valid_txns: ValidTxnList,
    mode: AcidMode,
) -> list[str]:
    """What is read for all changes since a state; nothing where they cannot be told any more."""
    names = (_named(entry.path) for entry in listing)
    last = max((write_ids_of(one)[1] for one in names if one is not None), default=0)
    top = ValidWriteIdList.of(since.table, hwm=max(since.hwm, last), aborted=valid.aborted)
    try:
        found = changes_of(listing, Versions(since, top, top), valid_txns, mode=mode)
    except SnapshotExpiredError:
        return []
    read = [each for step in found.steps for each in (step.before, step.changed)]
    read += [one.inputs for one in found.proofs]
    bases = [base.path for step in found.steps for base in step.rebalanced]
    return [*bases, *(path for each in read for path in _current(each))]


def floor_of(plan: CleaningPlan) -> Floor | None:
    """What is lost to readers of the past once the plan is carried out: what the base that counts
    has replaced. A compaction without a base loses nothing, its rows have their write ids.
    """
    current = [path for path, why in plan.keep if why is Kept.CURRENT]
    bases = [name for path in current if isinstance(name := _named(path), BaseName)]
    if not bases:
        return None
    base = bases[0].write_id
    aborted = frozenset(plan.aborted)
    firsts = [
        name.min_write_id if isinstance(name, DeltaName) else 0
        for path in plan.remove
        if path not in aborted
        and not (isinstance(name := _named(path), DeltaName) and name.min_write_id > base)
    ]
    return Floor(min(firsts), base) if firsts else None


def _named(path: str) -> DirectoryName | None:
    return parse_directory(path.partition("/")[0])


def settled_aborts(plan: CleaningPlan, valid: ValidWriteIdList) -> tuple[WriteId, ...]:
    """The aborted write ids of which no directory is left once the plan is carried out."""
    names = (parse_directory(path.rpartition("/")[2]) for path, _ in plan.keep)
    ranges = [
        (name.min_write_id, name.max_write_id) for name in names if isinstance(name, DeltaName)
    ]
    return tuple(
        WriteId(one)
        for one in valid.aborted
        if not any(first <= one <= last for first, last in ranges)
    )


def is_replaced(directory: str | None, there: Collection[str]) -> bool:
    """Whether a base or delta that a reader chose from its listing is not what counts any more.

    ``there`` are the names beside it now; None asks for the files outside all of them.
    """
    if directory is not None and directory not in there:
        return True
    mine = None if directory is None else parse_directory(directory)
    first, last = (0, 0) if mine is None else write_ids_of(mine)
    return any(
        write_ids_of(other)[0] <= first and last <= write_ids_of(other)[1]
        for name in there
        if name != directory
        and (other := parse_directory(name)) is not None
        and _may_stand_for(other, mine)
    )


def _may_stand_for(other: DirectoryName, mine: DirectoryName | None) -> bool:
    if isinstance(other, BaseName):
        return True
    if not isinstance(mine, DeltaName):
        return False
    return other.is_delete == mine.is_delete and other.statement_id == NO_STATEMENT


def _current(found: AcidDirectory) -> list[str]:
    paths = [file.path for file in found.originals]
    paths += [delta.path for delta in found.deltas]
    return paths if found.base is None else [found.base.path, *paths]


def _left_empty(
    entries: Iterable[Entry],
    ignored: Iterable[str],
    valid: ValidWriteIdList,
    valid_txns: ValidTxnList,
) -> frozenset[str]:
    """Directories without files that nobody fills any more: left by a writer or a cleaner that was
    killed. No reader sees them.
    """
    named = {path: parse_directory(path.rpartition("/")[2]) for path in ignored}
    empty = {path for path, name in named.items() if name is not None}
    for entry in entries:
        parts = entry.path.split("/")
        if entry.is_directory or any(is_hidden(part) for part in parts):
            continue
        empty -= {"/".join(parts[:at]) for at in range(1, len(parts))}
    return frozenset(
        path
        for path in empty
        if not any(is_hidden(part) for part in path.split("/"))
        and (name := named[path]) is not None
        and has_ended(name, valid, valid_txns)
    )


def has_ended(name: DirectoryName, valid: ValidWriteIdList, valid_txns: ValidTxnList) -> bool:
    """Whether whoever makes a directory of this name has committed or aborted."""
    if name.visibility_txn:
        txn = name.visibility_txn
        return valid_txns.is_valid(txn) or valid_txns.is_aborted(txn)
    if isinstance(name, DeltaName):
        first, last = name.min_write_id, name.max_write_id
    else:
        first = last = name.write_id
    return last <= valid.hwm and not any(first <= one <= last for one in valid.open)


def _why_ignored(path: str, valid_txns: ValidTxnList) -> Kept:
    parts = path.split("/")
    name = parse_directory(parts[-1])
    if name is None or any(is_hidden(part) or is_marker(part) for part in parts):
        return Kept.NOT_OURS
    if not valid_txns.is_valid(name.visibility_txn):
        return Kept.COMPACTION_NOT_SEEN
    return Kept.NOT_DECIDED


# -------------------------------------------------------------------- the plan of a rewrite
# What a compaction reads and what it makes (format.md 10.1, 10.2). Pure: no row is touched here.
#
# Inputs come from ``resolve`` with the compactor's valid list, which hides whatever holds an open
# id. The result counts from the compactor's commit on, by its visibility suffix; without one
# (tables that Hive 3 reads) readers must be kept away while it is published (format.md 11.27).


@dataclass(frozen=True, slots=True)
class MinorCompaction:
    """Deltas into one delta, delete deltas into one delete delta; ``base`` and originals stay.

    ``delta`` or ``delete_delta`` is None where there is nothing of its kind to put in.
    """

    delta: DeltaName | None
    delete_delta: DeltaName | None


@dataclass(frozen=True, slots=True)
class MajorCompaction:
    """Everything into one base."""

    output: BaseName


def plan_minor(directory: AcidDirectory, *, txn: TxnId = NO_TXN) -> MinorCompaction | None:
    """The minor compaction of what ``resolve`` chose, None where there is not enough to do.

    ``txn`` is the compactor's transaction, 0 for a result without visibility suffix. One delta and
    one delete delta are left alone: as many directories would come out.
    """
    inserts, deletes = directory.insert_deltas, directory.delete_deltas
    if len(inserts) < 2 and len(deletes) < 2:
        return None
    first = min(delta.name.min_write_id for delta in directory.deltas)
    last = max(delta.name.max_write_id for delta in directory.deltas)
    return MinorCompaction(
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
    return MajorCompaction(_output(directory, txn))


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
    return Rebalance(_output(directory, txn), buckets or len(numbers), order_by)


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
    publication, unique to the compaction; ``in_place`` where files may be written where they stay,
    whose directories are the compaction's own.
    """

    table: Table
    location: str
    directory: AcidDirectory
    valid: ValidWriteIdList
    compaction: MinorCompaction | MajorCompaction
    staging: str
    in_place: bool = False


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
