"""What changed in a partition between two states of its table, told by directories alone.

A state is a list of valid write ids, and every state of the past is resolved from the same listing:
what a compaction replaced is in it as long as the retention keeps it. So bases that a compaction
made after the first state are passed over, and what is left is a log:

    state before  +  deltas and delete deltas of the write ids in between  =  state after

Directories that have none of those write ids are in both states, and nobody opens them. A base that
INSERT OVERWRITE or TRUNCATE wrote in between ends a log, takes what was there away, and begins
another one. Whether all is there that commits wrote is told by the same names: ``WrittenFiles``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hiveacid.layout.directories import (
    METADATA_FILE,
    AcidDirectory,
    BaseDirectory,
    BaseName,
    DataFile,
    DeltaDirectory,
    DeltaName,
    parse_directory,
)
from hiveacid.layout.events import DataFormat, parse_marker
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.history import CommitFacts
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import LONG_MAX, AcidMode


@dataclass(frozen=True, slots=True)
class Versions:
    """The write ids that ``high`` sees and ``low`` does not; ``low`` sees nothing that ``high``
    does not see; ``now`` is what is seen today.

    ``positions`` are the places of write ids in the order of commits, from 1 on; those that it does
    not have come before them. None where that order is the write ids' own. ``times_ms`` are the
    times of the commits that are known. Not all write ids are gone through: those of a converted
    table begin with 10,000,001.
    """

    low: ValidWriteIdList
    high: ValidWriteIdList
    now: ValidWriteIdList
    positions: Mapping[int, int] | None = None
    times_ms: Mapping[int, int] | None = None

    def has(self, write_id: int) -> bool:
        """Whether the write id is one of them."""
        return self.high.is_valid(write_id) and not self.low.is_valid(write_id)

    def count(self, first: int, last: int) -> int:
        """How many of ``first..last`` (both inclusive) are among them."""
        return _valid_between(self.high, first, last) - _valid_between(self.low, first, last)

    def position(self, write_id: int) -> int:
        """The place in the order of commits."""
        if self.positions is None:
            return write_id
        return self.positions.get(write_id, write_id - LONG_MAX)

    def last_up_to(self, write_id: int) -> int:
        """The last in the order of commits of those up to a write id: whoever begins after it needs
        none of them. The write id itself where there are none.
        """
        known = [one for one in self.positions or () if one <= write_id and self.has(one)]
        if known:
            return max(known, key=self.position)
        below = range(min(write_id, self.high.hwm), 0, -1)
        return next((one for one in below if self.has(one)), write_id)

    def within(self, write_id: int, *, included: bool) -> ValidWriteIdList:
        """The state just before a write id of them committed, or just after (``included``)."""
        end, known = self.position(write_id) + included, self.positions or ()
        first = min(known) if write_id in known else write_id
        later = (one for one in self._all(first) if self.position(one) >= end)
        high = self.high
        return ValidWriteIdList.of(
            high.table, hwm=high.hwm, open=(*high.open, *later), aborted=high.aborted
        )

    def between(self, low: ValidWriteIdList, high: ValidWriteIdList) -> Versions:
        """Those between two states within."""
        return replace(self, low=low, high=high)

    def _all(self, first: int) -> Iterable[int]:
        """Those from a write id on, ascending."""
        held = (one for one in self.low.exceptions if one >= first)
        above = range(max(first, self.low.hwm + 1), self.high.hwm + 1)
        return filter(self.high.is_valid, (*held, *above))


@dataclass(frozen=True, slots=True)
class Step:
    """A part of what happened to a partition.

    A log (``overwrite`` is 0): ``before`` is the state before, ``changed`` has the deltas and
    delete deltas of ``versions``; ``rebalanced`` are bases that compactions made meanwhile and
    that may have given their rows other ids, by which later events delete them (a listing does not
    tell a rebalance from other compactions: who reads files may leave bases out).

    An overwrite, by the write id ``overwrite``: ``before`` has the directories whose rows it took
    away (and all delete deltas), ``changed`` the base that it wrote.
    """

    versions: Versions
    before: AcidDirectory
    changed: AcidDirectory
    overwrite: int = 0
    rebalanced: tuple[BaseDirectory, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """What happened to a partition, in order; ``proofs`` tell whether what was compacted since the
    first state is there.
    """

    steps: tuple[Step, ...]
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """Files that compactions made after the first state, and the directories that they were made of
    as far as they are there: where these have as many rows, nothing is missing.
    """

    compacted: tuple[DataFile, ...]
    inputs: AcidDirectory
    valid: ValidWriteIdList
    write_id: int


def changes_of(
    entries: Sequence[Entry],
    versions: Versions,
    txns: ValidTxnList,
    *,
    mode: AcidMode = AcidMode.FULL,
) -> PartitionChanges:
    """What happened between two states to the partition with this listing; ``txns`` is what counts
    as committed today.

    Raises:
        FormatError: a ``_metadata_acid`` that decides is not one.
        SnapshotExpiredError: the only bases left hold more than the first state.
    """
    bases = _bases(entries)
    later = {
        path: name
        for path, (name, is_compacted) in bases.items()
        if is_compacted and not versions.low.is_valid_base(name.write_id)
    }
    mixed = _mixed_deltas(entries, versions, txns) if mode is AcidMode.INSERT_ONLY else frozenset()
    unmixed = [one for one in entries if one.path.partition("/")[0] not in mixed]
    listing = [one for one in unmixed if one.path.partition("/")[0] not in later]
    overwrites = sorted(
        (
            name.write_id
            for name, is_compacted in bases.values()
            if not is_compacted and versions.has(name.write_id)
        ),
        key=versions.position,
    )

    def state(valid: ValidWriteIdList) -> AcidDirectory:
        return resolve(listing, valid, txns, mode=mode)

    visible = {path: name for path, name in later.items() if txns.is_valid(name.visibility_txn)}
    compacted = {path: _base_of(entries, path, name, txns, mode) for path, name in visible.items()}
    ordered = sorted(compacted.values(), key=lambda base: _order(base.name))
    rebalanced = tuple(base for base in ordered if base.name.write_id <= versions.high.hwm)
    steps: list[Step] = []
    low = versions.low
    for write_id in overwrites:
        before = versions.within(write_id, included=False)
        after = versions.within(write_id, included=True)
        steps.append(_log(state(low), state(before), versions.between(low, before), rebalanced))
        # With the bases: an event after a rebalance names its row by the id that it has there.
        replaced, new = resolve(unmixed, before, txns, mode=mode), state(after)
        if new.base is not None and new.base.name.write_id == write_id:
            between = versions.between(before, after)
            written = replace(new, originals=(), deltas=())
            steps.append(Step(between, _gone(replaced, new), written, write_id))
        low = after
    last = versions.between(low, versions.high)
    steps.append(_log(state(low), state(versions.high), last, rebalanced))
    kept = tuple(step for step in steps if step.overwrite or step.changed.deltas)
    proofs = _proofs(visible, compacted, versions, state)
    proofs += [_proof_of_delta(entries, path, versions, txns, state) for path in sorted(mixed)]
    return PartitionChanges(kept, tuple(proofs))


def _bases(entries: Sequence[Entry]) -> dict[str, tuple[BaseName, bool]]:
    """The bases of a listing, and whether a compaction made each."""
    found: dict[str, tuple[BaseName, bool]] = {}
    for entry in entries:
        path, _, rest = entry.path.partition("/")
        name = parse_directory(path)
        if not isinstance(name, BaseName):
            continue
        is_compacted = found.get(path, (name, False))[1] or bool(name.visibility_txn)
        if rest == METADATA_FILE and entry.marker is not None:
            marker = parse_marker(entry.marker, path=entry.path)
            is_compacted |= marker is DataFormat.COMPACTED
        found[path] = (name, is_compacted)
    return found


def without_mixed(
    entries: Sequence[Entry], valid: ValidWriteIdList, now: ValidWriteIdList, txns: ValidTxnList
) -> tuple[tuple[Entry, ...], tuple[Proof, ...]]:
    """The entries that a state of the past of a table without row ids is read from, and proofs that
    they are complete: what is left out are compacted deltas that hold rows of later versions too.
    """
    versions = Versions(valid, valid, now)
    mixed = {
        path
        for path in _mixed_deltas(entries, versions, txns)
        if isinstance(name := parse_directory(path), DeltaName)
        and _valid_between(valid, name.min_write_id, name.max_write_id)
    }
    left = tuple(one for one in entries if one.path.partition("/")[0] not in mixed)

    def state(seen: ValidWriteIdList) -> AcidDirectory:
        return resolve(left, seen, txns, mode=AcidMode.INSERT_ONLY, is_kept=True)

    replaced = state(valid).base
    proofs = [
        _proof_of_delta(entries, path, versions, txns, state)
        for path in sorted(mixed)
        if replaced is None or write_ids_of(_delta(path))[1] > replaced.name.write_id
    ]
    return left, tuple(proofs)


def _delta(path: str) -> DeltaName:
    name = parse_directory(path)
    assert isinstance(name, DeltaName)
    return name


def _mixed_deltas(
    entries: Sequence[Entry], versions: Versions, txns: ValidTxnList
) -> frozenset[str]:
    """Compacted deltas of a table without row ids that hold rows after the first state: what they
    were made of tells rows apart.
    """
    found: set[str] = set()
    for path in {one.path.partition("/")[0] for one in entries}:
        name = parse_directory(path)
        if not isinstance(name, DeltaName) or not name.visibility_txn:
            continue
        if txns.is_valid(name.visibility_txn) and not _is_old(name, versions):
            found.add(path)
    return frozenset(found)


def _is_old(name: DeltaName, versions: Versions) -> bool:
    """Whether the first state sees all of a delta that anybody sees. What it knows to be aborted is
    in no delta: today's list may have forgotten that.
    """
    low, now = versions.low, versions.now
    first, last = name.min_write_id, name.max_write_id
    came = any(first <= one <= last and now.is_valid(one) for one in low.open)
    return not came and not _valid_between(now, max(first, low.hwm + 1), last)


def _base_of(
    entries: Sequence[Entry],
    path: str,
    name: BaseName,
    txns: ValidTxnList,
    mode: AcidMode,
) -> BaseDirectory:
    """A base that a compaction made, with its files."""
    own = [one for one in entries if one.path.partition("/")[0] == path]
    valid = ValidWriteIdList.of(None, hwm=name.write_id)
    base = resolve(own, valid, txns, mode=mode).base
    assert base is not None
    return base


def _log(
    before: AcidDirectory,
    after: AcidDirectory,
    versions: Versions,
    rebalanced: tuple[BaseDirectory, ...],
) -> Step:
    changed = tuple(
        one
        for one in after.deltas
        if versions.count(one.name.min_write_id, one.name.max_write_id) > 0
    )
    log = replace(after, base=None, originals=(), deltas=changed)
    return Step(versions, before, log, rebalanced=rebalanced)


def _gone(before: AcidDirectory, after: AcidDirectory) -> AcidDirectory:
    """The directories whose rows an overwrite took away, and what deletes rows of them."""
    stay = {one.path for one in after.deltas}

    def is_gone(delta: DeltaDirectory) -> bool:
        return delta.name.is_delete or delta.path not in stay

    return replace(before, deltas=tuple(filter(is_gone, before.deltas)))


def _proofs(
    seen: Mapping[str, BaseName],
    bases: Mapping[str, BaseDirectory],
    versions: Versions,
    state: Callable[[ValidWriteIdList], AcidDirectory],
) -> list[Proof]:
    """By the lowest base beyond the last state where there is one, else by the highest below."""
    beyond = [path for path, name in seen.items() if versions.high.hwm <= name.write_id]
    order = {path: _order(name) for path, name in seen.items()}
    if not seen:
        return []
    path = min(beyond, key=order.__getitem__) if beyond else max(seen, key=order.__getitem__)
    valid = _up_to(versions.now, int(seen[path].write_id))
    return [Proof(bases[path].files, state(valid), valid, int(seen[path].write_id))]


def _proof_of_delta(
    entries: Sequence[Entry],
    path: str,
    versions: Versions,
    txns: ValidTxnList,
    state: Callable[[ValidWriteIdList], AcidDirectory],
) -> Proof:
    name = _delta(path)
    own = [one for one in entries if one.path.partition("/")[0] == path]
    valid = _up_to(versions.now, int(name.max_write_id))
    files = resolve(own, valid, txns, mode=AcidMode.INSERT_ONLY).row_files
    before = state(valid)
    within = tuple(one for one in before.deltas if one.name.min_write_id >= name.min_write_id)
    inputs = replace(before, base=None, originals=(), deltas=within)
    return Proof(files, inputs, valid, int(name.max_write_id))


def _up_to(now: ValidWriteIdList, write_id: int) -> ValidWriteIdList:
    return ValidWriteIdList.of(
        now.table,
        hwm=min(write_id, now.hwm),
        open=now.open[: bisect_right(now.open, write_id)],
        aborted=now.aborted[: bisect_right(now.aborted, write_id)],
    )


def _order(name: BaseName) -> tuple[int, int]:
    return int(name.write_id), int(name.visibility_txn)


def _valid_between(valid: ValidWriteIdList, first: int, last: int) -> int:
    end = min(last, valid.hwm)
    holes = bisect_right(valid.exceptions, end) - bisect_left(valid.exceptions, first)
    return max(0, end - first + 1 - max(0, holes))


def write_ids_of(name: BaseName | DeltaName) -> tuple[int, int]:
    """The first and the last write id of which a directory may have rows."""
    if isinstance(name, BaseName):
        return 0, int(name.write_id)
    return int(name.min_write_id), int(name.max_write_id)


# -------------------------------------------------------------------- written
# Whether all is there that commits wrote: files by write id, as far as directories tell.


class WrittenFiles:
    """Counts the files of what is read of a table's partitions, which are added one by one."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._together: set[tuple[int, int]] = set()
        self.base = 0
        """Up to this write id a base has the rows of some partition, and files tell nothing."""

    def add(self, directory: AcidDirectory) -> None:
        """What is read of a partition."""
        if directory.base is not None:
            self.base = max(self.base, int(directory.base.name.write_id))
        for delta in directory.deltas:
            name = delta.name
            if name.min_write_id == name.max_write_id and not name.visibility_txn:
                self._counts[name.min_write_id] += len(delta.files)
            else:
                self._together.add((name.min_write_id, name.max_write_id))

    def missing(self, wrote: Iterable[CommitFacts]) -> Iterator[tuple[CommitFacts, int]]:
        """Of what commits wrote that of which fewer files are there, with how many are. Not what a
        compaction has put together in any partition, nor where rows were not counted: LOAD takes
        files as they are, empty ones, too.
        """
        for one in wrote:
            write_id = int(one.write_id)
            there = self._counts[write_id]
            is_told = write_id > self.base and not any(
                low <= write_id <= high for low, high in self._together
            )
            if is_told and one.inserted is not None and there < one.files:
                yield one, there
