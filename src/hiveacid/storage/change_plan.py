"""Which directories and buckets are read for the changes of a table, and whether all are there.

Rows of insert-only tables have no write ids, their directories have. So a stream that a compaction
overtook reads what was replaced, if all of it is there: it has as many rows as what replaced it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hiveacid.errors import SnapshotExpiredError
from hiveacid.layout.changes import Proof, Step, Versions, WrittenFiles, changes_of, write_ids_of
from hiveacid.layout.directories import (
    AcidDirectory,
    BaseDirectory,
    BaseName,
    DataFile,
    DeltaDirectory,
    DeltaName,
    SnapshotPart,
    bucket_of_file,
    format_base,
    is_hidden,
    is_marker,
    name_of_partition,
    parse_directory,
)
from hiveacid.layout.resolve import Entry
from hiveacid.model.history import Floor
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import AcidMode, FileFormat, Partition, Table
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import (
    is_marked_compacted,
    list_partition,
    with_logical_lengths,
)
from hiveacid.storage.merge.merge_read import merge_read
from hiveacid.storage.merge.sources import DirectorySources, key_bounds
from hiveacid.storage.orc.tails import tail_of


@dataclass(frozen=True, slots=True)
class ChangeUnit:
    """A bucket of a step of a partition; None stands for all of them."""

    partition: Partition
    step: Step
    bucket: int | None = None

    @property
    def size_bytes(self) -> int:
        """How much may be read for it at most."""
        before, changed = self.step.before, self.step.changed
        files = (*before.row_files, *changed.row_files, *changed.delete_files)
        return sum(file.length_bytes for file in files if self.bucket in (None, file.bucket))


def change_units(
    table: Table,
    partitions: Sequence[Partition],
    versions: Versions,
    txns: ValidTxnList,
    *,
    files: Files,
    floors: Callable[[], Mapping[str, Floor]],
    written: WrittenFiles | None = None,
) -> list[ChangeUnit]:
    """What is to be read for the changes of some partitions, in the order in which they happened to
    each. ``floors`` is asked after the listing: pins may have kept a part of what was to go,
    which proves nothing of the rest. ``written`` counts what is read.

    Raises:
        SnapshotExpiredError: a directory that is needed was cleaned; ``write_id`` is the oldest
        from which on changes can be told.
    """
    units: list[ChangeUnit] = []
    oldest = 0
    if not versions.count(1, versions.high.hwm):
        return units
    for partition in partitions:
        fs, path = files.at(partition.location)
        entries = list_partition(fs, path)
        found = changes_of(entries, versions, txns, mode=table.acid_mode)
        lost = [one for one in found.proofs if not is_complete(fs, path, table, one)]
        if lost:
            oldest = max([oldest, *(one.write_id for one in lost)])
            continue
        for step in found.steps:
            whole = _with_lengths(fs, path, step, entries)
            if written is not None:
                written.add(whole.changed)
            units += _by_bucket(fs, path, table, partition, whole)
    cleaned = floors()
    for partition in partitions if cleaned else ():
        floor = cleaned.get(name_of_partition(table, partition) or "")
        if floor is not None and versions.count(max(1, floor.first), floor.base):
            oldest = max(oldest, floor.base)
    if oldest:
        since = versions.last_up_to(oldest)
        raise SnapshotExpiredError(
            f"Changes of {table.name} up to write id {oldest} are compacted, and the files that"
            f" told them are cleaned: they can be told since {since}",
            table=str(table.name),
            write_id=since,
        )
    return units


def is_complete(fs: FileSystem, path: str, table: Table, proof: Proof) -> bool:
    """Whether all directories that a base was made of are there: they have as many rows.

    Raises:
        FormatError, MissingFileError, StorageError: reading failed.
    """
    if table.acid_mode is AcidMode.INSERT_ONLY:
        before, after = proof.inputs.row_files, proof.compacted
        if sum(one.length_bytes for one in before) == sum(one.length_bytes for one in after):
            return True  # they were copied
        if table.format is not FileFormat.ORC:
            return False
    rows = sum(tail_of(fs, path, file).rows for file in proof.compacted if file.length_bytes)
    files = [file for file in proof.inputs.row_files if file.length_bytes]
    if not files:
        return rows == 0
    deleted = sum(
        tail_of(fs, path, file).rows for file in proof.inputs.delete_files if file.length_bytes
    )
    written = sum(tail_of(fs, path, file).rows for file in files)
    if rows == written - deleted:
        return True
    if table.acid_mode is AcidMode.INSERT_ONLY:
        return False

    def valid_rows(directory: AcidDirectory) -> int:
        read = merge_read(
            fs, path, directory, table_columns=table.columns, columns=(), valid=proof.valid
        )
        return sum(batch.num_rows for batch in read)

    if rows == valid_rows(proof.inputs):
        return True
    # after a rebalance deletes name rows by other ids than they have in these files
    return rows == valid_rows(replace(proof.inputs, deltas=proof.inputs.insert_deltas)) - deleted


def _with_lengths(fs: FileSystem, path: str, step: Step, entries: Sequence[Entry]) -> Step:
    def whole(directory: AcidDirectory) -> AcidDirectory:
        return with_logical_lengths(fs, path, directory, entries=entries)

    step = replace(step, before=whole(step.before), changed=whole(step.changed))
    if not step.changed.delete_deltas:
        return replace(step, rebalanced=())
    rebalanced = (base for base in step.rebalanced if _may_have_new_ids(fs, path, base, step))
    return replace(step, rebalanced=tuple(rebalanced))


def _may_have_new_ids(fs: FileSystem, path: str, base: BaseDirectory, step: Step) -> bool:
    """Whether a rebalance may have given the rows of a base other ids: they count its rows through
    (format.md 10.3), and are not those of the one file that was there before.
    """
    alone = replace(step.before, base=base, originals=(), deltas=())
    sources = DirectorySources(fs, path, alone, valid=step.versions.high)
    rows = 0
    bounds = []
    for file in sorted(base.files, key=lambda file: file.bucket):
        with sources.open(file) as reader:
            if not reader.rows:
                continue
            first, last = key_bounds(reader)
            end = rows + reader.rows
            if (first[2], last[2]) != (rows, end - 1):
                return False
            row_ids = np.concatenate([ids.numbers()[2] for ids in reader.identities()])
            if not np.array_equal(row_ids, np.arange(rows, end)):
                return False
            rows = end
            bounds.append((first, last, reader.rows))
    changed = [d for d in step.changed.insert_deltas if d.name.min_write_id <= base.name.write_id]
    before = replace(step.before, deltas=(*step.before.insert_deltas, *changed))
    older = DirectorySources(fs, path, before, valid=step.versions.high)
    files = [source for source, _ in older.sources() if source.file.length_bytes]
    if len(bounds) != 1 or len(files) != 1:
        return bool(bounds)
    with older.open(files[0].file) as reader:
        if not reader.rows:
            return True
        raw = None if reader.is_acid else older.raw_rows(files[0])
        return bounds != [(*key_bounds(reader, raw), reader.rows)]


def _by_bucket(
    fs: FileSystem, path: str, table: Table, partition: Partition, step: Step
) -> list[ChangeUnit]:
    """One unit for each bucket; files without events are counted together, so they stay so."""
    named = (*step.changed.row_files, *step.before.row_files)
    if table.acid_mode is not AcidMode.FULL or not all(file.is_bucket_file for file in named):
        return [ChangeUnit(partition, step)]
    deletes = DirectorySources(fs, path, step.changed, valid=step.versions.high).delete_buckets()
    buckets = {file.bucket for file in step.changed.row_files} | deletes
    if step.overwrite:
        buckets |= {file.bucket for file in step.before.row_files}
    return [ChangeUnit(partition, step, bucket) for bucket in sorted(buckets)]


def uncompacted(
    fs: FileSystem,
    root: str,
    table: Table,
    part: SnapshotPart,
    compacted: BaseDirectory | DeltaDirectory,
    *,
    valid: ValidWriteIdList,
) -> list[DeltaDirectory] | None:
    """The directories that ``compacted`` took the place of; None where some are gone, or that
    cannot be told.
    """
    if table.format is not FileFormat.ORC:
        return None
    first, last = write_ids_of(compacted.name)
    inputs = []
    begun, beginning = 0, ""  # an overwrite: nothing before it is a part
    for path in part.directory.obsolete:
        name = parse_directory(path)
        if name is None or (isinstance(name, DeltaName) and name.is_delete):
            continue
        low, high = write_ids_of(name)
        if first <= low and high <= last and not (low == high and not valid.is_valid(low)):
            inputs.append((path, name))
            if high > begun and is_overwrite(name, fs, root):
                begun, beginning = high, path
    inputs = [one for one in inputs if one[0] == beginning or write_ids_of(one[1])[1] > begun]
    smallest = [
        (path, name) for path, name in inputs if not any(_is_within(one, name) for _, one in inputs)
    ]
    found = []
    for path, name in smallest:
        low, high = write_ids_of(name)
        as_delta = DeltaName(min_write_id=low, max_write_id=high)  # type: ignore[arg-type]
        found.append(DeltaDirectory(path, as_delta, _files(fs, root, path), all_valid=True))
    if _rows(fs, root, found) != _rows(fs, root, [compacted]):
        return None
    return found


def is_overwrite(name: BaseName | DeltaName, fs: FileSystem, root: str) -> bool:
    """Whether a directory is one that replaced all before it, which no compaction wrote; that of
    Hive 3 is told by a file in it.
    """
    return (
        isinstance(name, BaseName)
        and not name.visibility_txn
        and not is_marked_compacted(fs, f"{root}/{format_base(name)}")
    )


def _is_within(inner: BaseName | DeltaName, outer: BaseName | DeltaName) -> bool:
    """Whether one directory has a part of the other's write ids."""
    (low, high), (first, last) = write_ids_of(inner), write_ids_of(outer)
    return (first, last) != (low, high) and first <= low and high <= last


def _files(fs: FileSystem, root: str, path: str) -> tuple[DataFile, ...]:
    entries = fs.list_directory(f"{root.rstrip('/')}/{path}")
    named = [(entry, entry.name) for entry in entries if not entry.is_directory]
    return tuple(
        DataFile(
            f"{path}/{name}",
            entry.size_bytes,
            bucket_of_file(name),
            modified_ns=entry.modified_ns,
        )
        for entry, name in named
        if not (is_hidden(name) or is_marker(name))
    )


def _rows(fs: FileSystem, root: str, directories: Sequence[BaseDirectory | DeltaDirectory]) -> int:
    files = [file for one in directories for file in one.files]
    return sum(tail_of(fs, root, file).rows for file in files if file.size_bytes)
