"""Reading the past: the version of a table that is asked for, its definition, its snapshot, and
whether its files are still there.

A cleaner writes down below which base it removes files before it removes one, and a reader looks
there after it has listed: so a state of which something may be missing is an error, never fewer
rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from hiveacid.errors import (
    InvalidInputError,
    MissingFileError,
    NotFoundError,
    SnapshotExpiredError,
)
from hiveacid.layout.changes import WrittenFiles, without_mixed
from hiveacid.layout.directories import (
    AcidDirectory,
    BaseName,
    Snapshot,
    parse_directory,
    parse_partition_name,
    partition_name,
)
from hiveacid.layout.resolve import Entry
from hiveacid.metastore.api import Catalog, Metastore, OwnDatabase, own
from hiveacid.model.history import AsOf, Commit, Floor, Pin, PinKind, Version
from hiveacid.model.ids import RangeValidity, ValidTxnList
from hiveacid.model.readable import at
from hiveacid.model.tables import LONG_MAX, AcidMode, Partition, Table
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import OfThen, read_snapshot


def find_version(catalog: Catalog, table: Table, wanted: AsOf) -> Version:
    """The version that is asked for.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: the table has no versions.
    """
    if table.acid_mode is AcidMode.NONE:
        raise InvalidInputError(
            f"{table.name} is not transactional: nothing is known of its past",
            table=str(table.name),
        )
    store: OwnDatabase = own(catalog)  # type: ignore[arg-type]
    if wanted.tag is not None:
        pin = _tag(store, table, wanted.tag)
        found = store.version(table.name, write_id=pin.write_id)
        return replace(found, valid=replace(pin.valid, table=found.valid.table))
    if wanted.time_ms is not None and wanted.time_ms < _first_ms(store, table):
        raise NotFoundError(
            f"{table.name} was made later than that, at {_shown(table.created_at_ms)}",
            table=str(table.name),
        )
    return store.version(
        table.name,
        write_id=wanted.write_id,
        time_ms=wanted.time_ms,
        sequence=wanted.sequence,
    )


def _first_ms(store: OwnDatabase, table: Table) -> int:
    """When it was made, or had its first commit, by a clock that was set back since."""
    commits = store.commits(table.name, limit=1)
    return min([table.created_at_ms, *(one.committed_ms for one in commits)])


def _tag(store: OwnDatabase, table: Table, name: str) -> Pin:
    tags = [one for one in store.pins(table.name) if one.kind is PinKind.TAG]
    for one in tags:
        if one.name == name:
            return one
    known = f"its tags are {', '.join(one.name for one in tags[:10])}" if tags else "it has none"
    raise NotFoundError(f"{table.name} has no tag {name}: {known}", table=str(table.name), tag=name)


def as_it_was(table: Table, version: Version | None) -> Table:
    """The table with the columns of a version."""
    if version is None or version.columns is None:
        return table
    return replace(table, columns=version.columns)


def partitions_then(
    table: Table, version: Version, partitions: Sequence[Partition]
) -> tuple[Partition, ...]:
    """Of today's partitions those that a version may have rows of, with their values of then."""
    keys = table.partition_keys
    if not keys or not version.came:
        return tuple(partitions)
    today = {partition_name(keys, one.values): one for one in partitions}
    found = []
    for name, then in version.names_of_then(today).items():
        partition = today[name]
        if name != then:
            values = tuple(value for _, value in parse_partition_name(then) or ())
            partition = replace(partition, values=values)
        found.append(partition)
    return tuple(found)


def first_with_all_partitions(
    store: OwnDatabase, table: Table, version: Version, *, since_all: bool = False
) -> int | None:
    """The first version after this one since which no partition was dropped or moved; with
    ``since_all`` none came with its files, either. None: there is none yet.
    """

    def has_all(commit: Commit) -> bool:
        found = store.version(table.name, write_id=int(commit.write_id))
        return not (found.dropped or (since_all and any(one.name for one in found.came)))

    commits = store.commits(table.name, after=version.sequence or 0)
    place = bisect_left(commits, True, key=has_all)
    return int(commits[place].write_id) if place < len(commits) else None


def past_snapshot(
    metastore: Metastore,
    table: Table,
    version: Version,
    partitions: Sequence[Partition],
    *,
    files: Files,
    valid_txns: ValidTxnList,
    hive_cleans: bool,
    is_whole: bool,
) -> Snapshot:
    """The files of a version, in partitions of the table with their values of then;
    ``valid_txns`` are those of now: whatever compactions have made since shows the rows of then.
    ``is_whole``: these are all of its partitions.

    Raises:
        SnapshotExpiredError: files of it were cleaned.
        MissingFileError: somebody else removed some; StorageError: a directory was not listed.
    """
    if version.dropped and (version.write_id or version.was_converted):
        what = f"partition {version.dropped[0]}, which may have had rows then, was dropped or moved"
        oldest = _oldest(own(metastore), table, version)
        since = "It can be read by no version yet" if oldest is None else f"From {oldest} on it can"
        raise SnapshotExpiredError(
            f"Version {version.write_id} of {table.name} is not there any more: "
            f"{what if version.dropped[0] else 'the table got another location'} since. {since}",
            table=str(table.name),
            version=int(version.write_id),
            oldest=oldest,
            partitions=version.dropped,
        )
    snapshot = read_snapshot(
        table,
        partitions,
        files=files,
        valid=version.valid,
        valid_txns=valid_txns,
        of_then=_of_then(metastore, table, version, valid_txns, hive_cleans=hive_cleans),
    )
    floors = own(metastore).floors(table.name)
    has_noted = _noting(metastore, table, version, valid_txns, hive_cleans=hive_cleans)
    keys = table.partition_keys
    pinned: bool | None = None
    for part in snapshot.parts:
        name = version.name_today(partition_name(keys, part.partition.values)) if keys else ""
        floor = floors.get(name)
        if not (_is_kept(version, floor, part.directory) and has_noted(part.directory)):
            if pinned is None:
                pinned = not hive_cleans and _is_pinned(own(metastore), table, version)
            if pinned:
                continue
            raise _expired(metastore, table, version, name)
    if is_whole and (hive_cleans or version.sequence is not None):
        written = WrittenFiles()
        for part in snapshot.parts:
            written.add(part.directory)
        commits = own(metastore).commits(table.name, until=version.sequence, above=written.base)
        seen = (one for one in commits if version.valid.is_valid(one.write_id))
        check_all_there(own(metastore), table, written, seen, hive_cleans=hive_cleans)
    return snapshot


def check_all_there(
    store: OwnDatabase,
    table: Table,
    written: WrittenFiles,
    commits: Iterable[Commit],
    *,
    hive_cleans: bool,
) -> None:
    """No file of these commits was removed by somebody who is no cleaner.

    Raises:
        MissingFileError: some were; it names the commit.
    """
    for one, there in written.missing(commit.facts for commit in commits):
        write_id = int(one.write_id)
        if store.version(table.name, write_id=write_id).dropped:  # a partition took files along
            continue
        why = "no cleaner removed them"
        why += ", unless Hive dropped or renamed a partition" if hive_cleans else ""
        directory = f"delta_{write_id:07d}_{write_id:07d}"
        raise MissingFileError(
            f"Files of version {write_id} of {table.name} are missing, and {why}:"
            f" {there} of {one.files} are there, in directories ...{directory}...",
            table=str(table.name),
            version=write_id,
            path=table.location,
            note="Bring them back, or restore a version from before or after them.",
        )


def _is_pinned(store: OwnDatabase, table: Table, version: Version) -> bool:
    """Whether a pin has kept the version's files; to be asked after they were listed."""
    pins = store.pins(table.name, in_force=True)
    return any(one.made_ms and one.shows(version.valid) for one in pins)


def _of_then(
    metastore: Metastore,
    table: Table,
    version: Version,
    txns: ValidTxnList,
    *,
    hive_cleans: bool,
) -> OfThen:
    """What chooses the entries of a listing. Rows of a full ACID table tell their write ids. Of an
    insert-only table directories alone do: what compactions put together with rows of later
    versions is passed over for what it was made of.
    """
    if table.acid_mode is not AcidMode.INSERT_ONLY:
        return lambda _fs, _path, entries: entries
    (now,) = metastore.valid_write_ids((table.name,), txns)

    def of_then(fs: FileSystem, path: str, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        from hiveacid.storage.change_plan import is_complete

        chosen, proofs = without_mixed(entries, version.valid, now, txns)
        lost = [one.write_id for one in proofs if not is_complete(fs, path, table, one)]
        if lost and (hive_cleans or not _is_pinned(own(metastore), table, version)):
            # below a base that was cleaned up to, none is there either
            oldest = max(*lost, _oldest(own(metastore), table, version) or 0)
            raise SnapshotExpiredError(
                f"Version {version.write_id} of {table.name} is not there any more: its rows were "
                f"compacted with later ones, and its own files were cleaned. From version "
                f"{oldest} on it can be read",
                table=str(table.name),
                path=path,
                version=int(version.write_id),
                oldest=oldest,
            )
        return chosen

    return of_then


def _noting(
    metastore: Metastore, table: Table, version: Version, txns: ValidTxnList, *, hive_cleans: bool
) -> Callable[[AcidDirectory], bool]:
    """Tells whether cleaners have noted what they removed of a directory. Of commits that nobody
    recorded, and where Hive cleans, a base that the version may not read is a reason that they may
    have removed something, unless it came after the first commit that was recorded, or is of a
    transaction that has not committed.
    """
    if version.sequence is not None and not hive_cleans:
        return lambda _: True
    commits = () if hive_cleans else own(metastore).commits(table.name)
    recorded = {int(one.write_id) for one in commits}
    first = min(recorded, default=LONG_MAX)
    (now,) = metastore.valid_write_ids((table.name,), txns)

    def is_harmless(base: BaseName) -> bool:
        if base.visibility_txn:
            return not txns.is_valid(base.visibility_txn) or first <= base.write_id
        return not now.is_valid(base.write_id) or base.write_id in recorded

    def has_noted(directory: AcidDirectory) -> bool:
        names = (parse_directory(path.rpartition("/")[2]) for path in directory.ignored)
        return all(is_harmless(one) for one in names if isinstance(one, BaseName))

    return has_noted


def _is_kept(version: Version, floor: Floor | None, directory: AcidDirectory) -> bool:
    """Whether nothing of what this version reads of a partition has been removed, as far as that
    was noted.
    """
    if floor is None:
        return True
    if directory.base is not None and directory.base.name.write_id >= floor.base:
        return True
    lost = version.valid.range_validity(max(1, floor.first), floor.base)
    return floor.first > 0 and lost is RangeValidity.NONE


def _expired(
    metastore: Metastore,
    table: Table,
    version: Version,
    partition: str,
) -> SnapshotExpiredError:
    store = own(metastore)
    number = _oldest(store, table, version)
    where = f" in partition {partition}" if partition else ""
    oldest = "Nobody knows the oldest that is there"
    if number is not None:
        moment = store.version(table.name, write_id=number).committed_ms
        oldest = f"The oldest version that is there is {number}"
        oldest += "" if moment is None else f", of {_shown(moment)}"
    return SnapshotExpiredError(
        f"Version {version.write_id} of {table.name} is not there any more: what it read{where} "
        f"was compacted or replaced, and its files were cleaned. {oldest}",
        table=str(table.name),
        version=int(version.write_id),
        oldest=number,
        note="The table property hiveacid.retention says how long they are kept.",
    )


def _oldest(store: OwnDatabase, table: Table, version: Version) -> int | None:
    """The oldest version that is there: no file of it was cleaned, and no partition dropped since.
    None: there is none yet, or nobody knows.
    """
    base = max((floor.base for floor in store.floors(table.name).values()), default=0)
    cleaned = [one for one in store.commits(table.name) if one.write_id <= base]
    found = int(cleaned[-1].write_id) if cleaned else None
    if not version.dropped:
        return found
    whole = first_with_all_partitions(store, table, version)
    if whole is None or found is None:
        return whole
    at = store.version(table.name, write_id=whole).sequence or 0
    return found if cleaned[-1].sequence > at else whole


def _shown(epoch_ms: int) -> str:
    return at(epoch_ms).isoformat(" ", "seconds")
