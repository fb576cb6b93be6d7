"""Which directories count: ``resolve(entries, valid, valid_txns) -> AcidDirectory`` (format.md 2).

Flow: group the entries by base or delta directory; drop what is hidden or not visible yet; choose
the best base; choose the deltas above it; the rest is obsolete, aborted or ignored. Total: every
entry ends in exactly one place, in whatever order the listing came.

Two answers differ from Hive 4.1, which loses or repeats rows there (HIVE quirks of format.md 2): an
uncommitted overwrite is never read, and of one range's compactions only the newest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from hiveacid.errors import InternalError, SnapshotExpiredError
from hiveacid.layout.directories import (
    FLUSH_LENGTH_SUFFIX,
    HIDDEN_PREFIXES,
    METADATA_FILE,
    NAMES_MAX,
    NO_TXN,
    PUBLISHING_FILE,
    AcidDirectory,
    BaseDirectory,
    BaseName,
    DataFile,
    DeltaDirectory,
    DeltaName,
    DirectoryName,
    bucket_of_file,
    is_hidden,
    is_marker,
    looks_acid,
    parse_directory,
    parse_original_file,
    path_order,
)
from hiveacid.layout.events import DataFormat, parse_marker
from hiveacid.model.ids import ListKind, RangeValidity, ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import LONG_MIN, AcidMode, TxnId


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a recursive listing; ``path`` is relative to the partition, ``/`` separated.

    ``marker`` is the text of a file called ``_metadata_acid``, None for every other file;
    ``modified_ns`` as in ``DataFile``.
    """

    path: str
    size_bytes: int
    is_directory: bool = False
    marker: str | None = None
    modified_ns: int = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(slots=True)
class _Group:
    """A directory whose name begins like a base's or delta's, and what lies in it."""

    path: str
    name: DirectoryName | None
    entries: list[Entry] = field(default_factory=list)
    exists: bool = False
    """Whether Hive sees it: hidden files alone do not make a directory (format.md 1.6)."""

    @property
    def published_by(self) -> TxnId:
        """The compaction that is publishing it, or died then; 0 where it is complete."""
        if self.name is None or not self.name.visibility_txn:
            return NO_TXN
        mark = f"{self.path}/{PUBLISHING_FILE}"
        marked = any(entry.path == mark for entry in self.entries)
        return self.name.visibility_txn if marked else NO_TXN


@dataclass(frozen=True, slots=True)
class _Base:
    path: str
    name: BaseName
    compacted: bool
    group: _Group


@dataclass(frozen=True, slots=True)
class _Delta:
    path: str
    name: DeltaName
    group: _Group


@dataclass(slots=True)
class _Places:
    """Where everything goes that is not chosen."""

    obsolete: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def resolve(
    entries: Iterable[Entry],
    valid: ValidWriteIdList,
    valid_txns: ValidTxnList | None,
    *,
    ignore_empty_files: bool = True,
    mode: AcidMode = AcidMode.FULL,
    is_kept: bool = False,
) -> AcidDirectory:
    """What a reader with these valid ids reads of one partition directory.

    ``valid_txns`` None counts every transaction as committed. ``mode`` INSERT_ONLY reads all files
    of a delta, whatever their names, and no files outside (format.md 1.9). ``is_kept``: the caller
    knows whether what a base above these ids replaced is there.

    Raises:
        FormatError: a ``_metadata_acid`` that decides is not one.
        SnapshotExpiredError: the only bases left hold more than these ids allow to see.
    """
    listing = sorted(entries, key=lambda entry: entry.path)
    txns = ValidTxnList.everything() if valid_txns is None else valid_txns
    places = _Places()
    groups, loose = _group(listing, places)
    bases, deltas = _visible(groups, txns, places)
    base = _choose_base(bases, valid, places)
    # Who cleans reads nothing.
    if base is None and valid.kind is not ListKind.CLEANER and not is_kept:
        _check_history(bases, valid)
    chosen = _choose_deltas(_working_deltas(deltas, valid, places), base, valid, places)
    originals = _originals(loose, base, places, ignore_empty=ignore_empty_files, mode=mode)
    result = AcidDirectory(
        base=None
        if base is None
        else BaseDirectory(
            base.path,
            base.name,
            _sorted_files(_candidates(base.group), ignore_empty=ignore_empty_files),
        ),
        originals=originals,
        deltas=tuple(
            DeltaDirectory(
                delta.path,
                delta.name,
                _delta_files(delta, ignore_empty=ignore_empty_files, mode=mode),
                all_valid=valid.all_valid(delta.name.min_write_id, delta.name.max_write_id),
            )
            for delta in chosen
        ),
        obsolete=tuple(sorted(places.obsolete)),
        aborted=tuple(sorted(places.aborted)),
        ignored=tuple(sorted(places.ignored)),
    )
    _check_total(result, groups, loose)
    return result


def _group(listing: Sequence[Entry], places: _Places) -> tuple[list[_Group], list[Entry]]:
    """Credit each entry to its outermost base or delta directory, or to none (loose)."""
    groups: dict[str, _Group] = {}
    loose: list[Entry] = []
    for entry in listing:
        path = _outermost(entry.path, is_directory=entry.is_directory)
        if path is None:
            loose.append(entry)
            continue
        group = groups.get(path)
        if group is None:
            group = groups[path] = _Group(path, parse_directory(path.rpartition("/")[2]))
        group.entries.append(entry)
        if not (group.exists or entry.is_directory or _hidden_within(path, entry.path)):
            group.exists = True
    unseen = (one.path for one in groups.values() if one.name is None or not one.exists)
    places.ignored.extend(unseen)
    return list(groups.values()), loose


@lru_cache(NAMES_MAX)
def _outermost(path: str, *, is_directory: bool) -> str | None:
    """The outermost base or delta directory of a path, which may be itself."""
    parts = [part for part in path.split("/") if part]
    directories = parts if is_directory else parts[:-1]
    stops = (looks_acid(part) or part.startswith(HIDDEN_PREFIXES) for part in directories)
    at = next((place for place, is_stop in enumerate(stops) if is_stop), None)
    if at is None or is_hidden(directories[at]) or is_marker(directories[at]):
        return None
    return "/".join(directories[: at + 1])


def _visible(
    groups: Sequence[_Group], txns: ValidTxnList, places: _Places
) -> tuple[list[_Base], list[_Delta]]:
    """Step 2: leave out what a compaction that is not committed for this reader made, nor completed
    for one to whom all count as committed.
    """
    bases: list[_Base] = []
    deltas: list[_Delta] = []
    unfinished = {txn for group in groups if (txn := group.published_by)}
    for group in groups:
        name = group.name
        if name is None or not group.exists:
            continue
        txn = name.visibility_txn
        if txn and (txn in unfinished or not txns.is_valid(txn)):
            (places.aborted if txns.is_aborted(txn) else places.ignored).append(group.path)
        elif isinstance(name, BaseName):
            bases.append(_Base(group.path, name, _is_compacted(group, name), group))
        else:
            deltas.append(_Delta(group.path, name, group))
    bases.sort(key=lambda base: (base.name.write_id, base.name.visibility_txn, base.path))
    return bases, deltas


def _is_compacted(group: _Group, name: BaseName) -> bool:
    if name.visibility_txn:
        return True
    for entry in group.entries:
        if entry.path == f"{group.path}/{METADATA_FILE}" and not entry.is_directory:
            if entry.marker is None:
                raise InternalError("Listing has a marker without its text", path=entry.path)
            return parse_marker(entry.marker, path=entry.path) is DataFormat.COMPACTED
    return False


def _choose_base(bases: Sequence[_Base], valid: ValidWriteIdList, places: _Places) -> _Base | None:
    """Steps 3 and 4, over bases in ascending order."""
    best: _Base | None = None
    for base in bases:
        if not base.compacted and valid.is_aborted(base.name.write_id):
            places.aborted.append(base.path)
        elif best is not None and best.name.write_id == base.name.write_id and not base.compacted:
            places.obsolete.append(base.path)
        elif _is_valid_base(base, valid):
            if best is not None:
                places.obsolete.append(best.path)
            best = base
        else:
            places.ignored.append(base.path)
    return best


def _is_valid_base(base: _Base, valid: ValidWriteIdList) -> bool:
    counts = valid.is_valid_base if base.compacted else valid.is_valid
    return base.name.write_id == LONG_MIN or counts(base.name.write_id)


def _check_history(bases: Sequence[_Base], valid: ValidWriteIdList) -> None:
    """Step 8: what this reader needs may have been compacted away."""
    if not bases or not bases[0].compacted:
        return
    first = str(valid.exceptions[0]) if valid.exceptions else "x"
    raise SnapshotExpiredError(
        f"Not enough history available for ({valid.hwm},{first}).  "
        f"Oldest available base: {bases[0].path}",
        table=valid.table,
        path=bases[0].path,
        valid_write_ids=str(valid)[:1000],
    )


def _working_deltas(
    deltas: Sequence[_Delta], valid: ValidWriteIdList, places: _Places
) -> list[_Delta]:
    """Step 5, then the order of step 7."""
    working: list[_Delta] = []
    for delta in deltas:
        first, last = delta.name.min_write_id, delta.name.max_write_id
        if valid.range_aborted(first, last) is RangeValidity.ALL:
            places.aborted.append(delta.path)
        elif valid.range_validity(first, last) is RangeValidity.NONE:
            places.ignored.append(delta.path)
        else:
            working.append(delta)
    working.sort(
        key=lambda delta: (
            delta.name.min_write_id,
            -delta.name.max_write_id,
            delta.name.statement_id,
            -delta.name.visibility_txn,
            delta.path,
        )
    )
    return working


def _choose_deltas(
    working: Sequence[_Delta], base: _Base | None, valid: ValidWriteIdList, places: _Places
) -> list[_Delta]:
    """Step 7: walk up the write ids, taking the widest delta that adds something."""
    current = 0 if base is None else base.name.write_id
    statement = -1
    chosen: list[_Delta] = []
    for delta in working:
        last = delta.name.max_write_id
        if last > current:
            if valid.range_validity(current + 1, last) is RangeValidity.NONE:
                places.ignored.append(delta.path)
                continue
            current, statement = last, delta.name.statement_id
        elif not _belongs_to(delta, chosen, current, statement):
            places.obsolete.append(delta.path)
            continue
        chosen.append(delta)
    return chosen


def _belongs_to(delta: _Delta, chosen: Sequence[_Delta], current: int, statement: int) -> bool:
    """Whether a delta that ends no higher than the last chosen one counts beside it."""
    if not chosen:
        return False
    name, previous = delta.name, chosen[-1].name
    if _identity(name) == _identity(previous):
        return name.visibility_txn == previous.visibility_txn
    return name.max_write_id == current and statement >= 0


def _identity(name: DeltaName) -> tuple[int, int, int]:
    return name.min_write_id, name.max_write_id, name.statement_id


def _originals(
    loose: Sequence[Entry],
    base: _Base | None,
    places: _Places,
    *,
    ignore_empty: bool,
    mode: AcidMode,
) -> tuple[DataFile, ...]:
    """Steps 6 and 9: files outside every base and delta, unless a base replaces them."""
    files: list[DataFile] = []
    for entry in loose:
        parts = [part for part in entry.path.split("/") if part]
        if (
            entry.is_directory
            or mode is AcidMode.INSERT_ONLY
            or (ignore_empty and entry.size_bytes == 0)
            or any(is_hidden(part) or is_marker(part) for part in parts)
        ):
            places.ignored.append(entry.path)
        elif base is not None:
            places.obsolete.append(entry.path)
        else:
            files.append(_data_file(entry))
    return tuple(sorted(files, key=lambda file: path_order(file.path)))


def _delta_files(delta: _Delta, *, ignore_empty: bool, mode: AcidMode) -> tuple[DataFile, ...]:
    """The files of a delta that hold rows or events.

    Of a full ACID delta those called ``bucket_...``; where there are none and the delta may be raw,
    all (format.md 1.3, 6.1).
    """
    files = _candidates(delta.group)
    if mode is AcidMode.FULL:
        events = [file for file in files if file.is_bucket_file]
        if events or not may_be_raw(delta.name, [file.path for file in files]):
            # A delta of a compaction of an insert-only table: nobody can tell which write its rows
            # are of, and who reads it says so; left out they would be lost without a word.
            lost = [] if events or delta.name.is_delete else files
            files = events + [file for file in lost if _is_original(file.path)]
    return _sorted_files(files, ignore_empty=ignore_empty)


def may_be_raw(name: DirectoryName, paths: Iterable[str]) -> bool:
    """Whether a directory with these files may hold rows without events, by names alone (6.1).

    A yes is settled by the schema of a file with the name of an original one.
    """
    if isinstance(name, DeltaName) and (name.is_delete or name.min_write_id != name.max_write_id):
        return False
    if name.visibility_txn:
        return False
    return any(map(_is_original, paths))


def _is_original(path: str) -> bool:
    return parse_original_file(_file_name(path)) is not None


def _candidates(group: _Group) -> list[DataFile]:
    """The files that hold rows or events: all but hidden and side files (format.md 1.3)."""
    return [
        _data_file(entry)
        for entry in group.entries
        if not entry.is_directory and _may_be_data(group.path, entry.path)
    ]


def _sorted_files(files: Iterable[DataFile], *, ignore_empty: bool) -> tuple[DataFile, ...]:
    """Without empty placeholders; an empty ``bucket_`` file stays, its side file may say more."""
    kept = [file for file in files if file.size_bytes or not ignore_empty or file.is_bucket_file]
    if len(kept) > 1:
        kept.sort(key=lambda file: path_order(file.path))
    return tuple(kept)


def _data_file(entry: Entry) -> DataFile:
    return DataFile(
        entry.path,
        entry.size_bytes,
        bucket_of_file(entry.name),
        modified_ns=entry.modified_ns,
    )


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


@lru_cache(NAMES_MAX)
def _may_be_data(directory: str, path: str) -> bool:
    return not (
        _hidden_within(directory, path)
        or is_marker(_file_name(path))
        or path.endswith(FLUSH_LENGTH_SUFFIX)
    )


@lru_cache(NAMES_MAX)
def _hidden_within(directory: str, path: str) -> bool:
    return any(is_hidden(part) for part in path[len(directory) + 1 :].split("/"))


def _check_total(result: AcidDirectory, groups: Sequence[_Group], loose: Sequence[Entry]) -> None:
    """Assert that every directory and loose entry is in exactly one place."""
    placed = [directory.path for directory in result.deltas]
    placed += [file.path for file in result.originals]
    placed += [*result.obsolete, *result.aborted, *result.ignored]
    if result.base is not None:
        placed.append(result.base.path)
    given = [group.path for group in groups] + [entry.path for entry in loose]
    if sorted(placed) != sorted(given):
        raise InternalError("Resolve did not place every entry once", given=given, placed=placed)
