"""Where a statement's files go: below the table, into a partition with a LOCATION of its own, into
one whose name spells the same values differently; and into one that the same transaction has
overwritten before.

A delta of write id W beside ``base_W`` is obsolete (format.md 2 step 7), so what a later statement
of the transaction writes to such a partition becomes part of the base:

* it overwrites again: the old base is set aside, the new one takes its place;
* of an insert-only table: its files go into the base;
* else its deltas are published, the base and they are read as a major compaction reads them, and
  what is left, with the same row identities, takes the base's place.

Nobody else sees any of it before the commit. Until then what is replaced lies in a hidden
directory, from where it comes back if the statement is taken back. New files have names of their
own (where names have an attempt): a DataFrame made before misses its files rather than find other
rows in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hiveacid.errors import InvalidInputError, StorageError, UnsupportedError
from hiveacid.layout.compaction import MajorCompaction, RewritePlan
from hiveacid.layout.directories import (
    METADATA_FILE,
    AcidDirectory,
    BaseName,
    format_base,
    format_original_file,
    parse_bucket_file,
    parse_original_file,
    partition_name,
)
from hiveacid.layout.events import DataFormat, format_marker
from hiveacid.layout.resolve import resolve
from hiveacid.model.commits import StatisticsChange
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import AcidMode, Column, Partition, Table
from hiveacid.statements.job import Job
from hiveacid.statements.partition_values import normal_text
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import list_partition
from hiveacid.storage.merge.bucket_rewrite import BucketRewriter
from hiveacid.storage.orc.tails import unit_of_rewrite
from hiveacid.storage.plain.moves import PlainMoves, plain_files, with_free_names
from hiveacid.storage.target import (
    FileKind,
    WriteResult,
    WrittenFile,
    bucket_name,
    copy_across,
    publish,
    retract,
)
from hiveacid.txn.unit import UnitOfWork

_Values = tuple[str | None, ...]


def default_location(table: Table, values: _Values) -> str:
    """Where a partition lies that says nothing of it; the table's root where it has none."""
    root = table.location.rstrip("/")
    keys = table.partition_keys
    return f"{root}/{partition_name(keys, values)}" if keys else root


def new_location(table: Table, values: _Values) -> str:
    """Where a new partition goes: ``default_location``, which the file system can name.

    Raises:
        InvalidInputError: a file system has no directory of so long a name.
    """
    place = default_location(table, values)
    longest = max(place.split("/"), key=_size_bytes)
    if _size_bytes(longest) > _NAME_BYTES_MAX and not place.startswith(_WITHOUT_LIMIT):
        raise InvalidInputError(
            f"{longest} would be the name of a partition's directory of {table.name}:"
            f" it has {_size_bytes(longest)} bytes, {_NAME_BYTES_MAX} are possible",
            table=str(table.name),
            partition=longest,
        )
    return place


_NAME_BYTES_MAX: Final = 255
"""Of local file systems and of HDFS."""
_WITHOUT_LIMIT: Final = ("s3:", "s3a:", "s3n:", "gs:", "gcs:")
"""Stores whose objects have one long key, without directories."""


def _size_bytes(name: str) -> int:
    return len(name.encode("utf-8", "surrogateescape"))


def under_known_names(
    written: WriteResult, table: Table, known: Collection[_Values]
) -> WriteResult:
    """The files, each in the partition there is: ``x=1.50`` or ``n=007`` where older writers made
    it, though values are written as ``x=1.5`` and ``n=7``; ``n=junk`` for NULL.

    Raises:
        UnsupportedError: rows to delete may be in either of two partitions with the same values.
    """
    there = frozenset(known)
    if all(f.partition in there and f.kind is not FileKind.DELETE for f in written.files):
        return written
    spelled = spellings(table, known)
    files = []
    for file in written.files:
        found = spelled.get(file.partition, [file.partition])
        if len(found) > 1 and file.kind is FileKind.DELETE:
            keys = table.partition_keys
            names = " and ".join(sorted(partition_name(keys, values) for values in found))
            raise UnsupportedError(
                f"the partitions {names} of {table.name} have the same values",
                table=str(table.name),
                note="Insert the rows of one of them into the table again, and drop it.",
            )
        place = file.partition if file.partition in found else found[0]
        files.append(file if place == file.partition else replace(file, partition=place))
    return replace(written, files=tuple(files))


def spellings(table: Table, known: Iterable[_Values]) -> dict[_Values, list[_Values]]:
    """The partitions there are by their values in normal form."""
    found: dict[_Values, list[_Values]] = {}
    for values in known:
        found.setdefault(_normal(values, table), []).append(values)
    return found


def _normal(values: _Values, table: Table) -> _Values:
    return tuple(map(_as_read, values, table.partition_columns))


def _as_read(text: str | None, column: Column) -> str | None:
    try:
        return normal_text(text, column)
    except InvalidInputError:  # no value of the column's type: NULL to readers
        return None


def are_all_in_place(table: Table, known: Iterable[Partition]) -> bool:
    """Whether files of all partitions go where their values say."""
    return all(
        part.values == _normal(part.values, table)
        and part.location.rstrip("/") == default_location(table, part.values)
        for part in known
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """The partitions of a table that lie elsewhere, by their values."""

    files: Files
    table: Table
    elsewhere: Mapping[_Values, str]

    @staticmethod
    def of(
        table: Table,
        partitions: Collection[_Values],
        *,
        known: Iterable[Partition],
        files: Files,
    ) -> Placement:
        """The placement of some of the partitions that are known, by their values."""
        found = {}
        for part in known:
            if part.values in partitions:
                place = part.location.rstrip("/")
                if place != default_location(table, part.values):
                    found[part.values] = place
        return Placement(files, table, found)

    def location(self, values: _Values) -> str:
        """Where a partition lies.

        Raises:
            InvalidInputError: as ``new_location``.
        """
        return self.elsewhere.get(values) or new_location(self.table, values)

    def with_free_names(self, written: WriteResult) -> WriteResult:
        """The files under names that are not taken."""
        files: list[WrittenFile] = []
        for fs, root, keys, values, group in self._groups(written.files):
            free = with_free_names(fs, root, group, partition_columns=keys)
            files += free if values is None else [replace(f, partition=values) for f in free]
        return replace(written, files=tuple(files))

    def publish(
        self, written: WriteResult, *, staging: str, plain: PlainMoves | None = None
    ) -> None:
        """Move all staged files to their places; the staging directory goes. ``plain`` moves those
        of a table without transactions.

        Raises:
            MissingFileError, StorageError: as ``storage.target.publish``.
        """
        staging_fs, staging_path = self.files.at(staging)
        for fs, root, keys, _, group in self._groups(written.files):
            if fs is not staging_fs:
                group = _brought_over(group, staging_fs, fs, root)
            (plain.publish if plain else publish)(fs, root, group, partition_columns=keys)
        if not staging_fs.is_object_store or any(
            file.staged_path.startswith(f"{staging_path}/") for file in written.files
        ):
            staging_fs.delete_directory(staging_path)

    def retract(self, written: WriteResult) -> None:
        """Take back what ``publish`` moved.

        Raises:
            StorageError: the file system failed.
        """
        for fs, root, keys, _, group in self._groups(written.files):
            retract(fs, root, group, partition_columns=keys)

    def _groups(
        self, files: Sequence[WrittenFile]
    ) -> Iterator[tuple[FileSystem, str, Sequence[str], _Values | None, Sequence[WrittenFile]]]:
        """Files by root: those below the table, then for each partition elsewhere its own, as
        files of a table that lies there.
        """
        below = [file for file in files if file.partition not in self.elsewhere]
        yield (*self.files.at(self.table.location), self.table.partition_keys, None, below)
        for values, place in self.elsewhere.items():
            group = [replace(f, partition=()) for f in files if f.partition == values]
            yield (*self.files.at(place), (), values, group)


def _brought_over(
    files: Sequence[WrittenFile], source: FileSystem, target: FileSystem, root: str
) -> list[WrittenFile]:
    """Copies of staged files on the partition's own file system, hidden until they are moved."""
    moved = []
    for file in files:
        name = file.staged_path.rpartition("/")[2]
        copy = f"{root}/_hiveacid_staging_{file.directory}_{name}"
        target.make_room(root)
        copy_across(source, file.staged_path, target, copy)
        moved.append(replace(file, staged_path=copy))
    return moved


def publish_written(
    job: Job,
    unit: UnitOfWork,
    placement: Placement,
    written: WriteResult,
    *,
    replaced: Collection[_Values],
) -> tuple[StatisticsChange, ...]:
    """Move a statement's staged files to their places, ready to be taken back; then the old files
    go of the partitions ``replaced`` of a table without transactions.

    Returns the statistics of partitions whose base was made anew; those of the others follow from
    what was written.

    Raises:
        StorageError: the file system failed; the statement is to be taken back.
        FormatError: a file that was just written cannot be read.
    """
    if not job.table.is_transactional:
        plain = PlainMoves()
        unit.on_undo(plain.retract)
        places = [job.files.at(placement.location(values)) for values in replaced]
        old = [(fs, root, plain_files(fs, root)) for fs, root in places]
        placement.publish(written, staging=job.staging, plain=plain)
        unit.on_commit(plain.forget)
        for fs, root, files in old:
            plain.replace(fs, root, files, aside=f"{_hidden(job)}_aside")
        return ()
    own = _own_bases(job, placement, written)
    base = format_base(BaseName(job.write_id))
    overwritten = {f.partition for f in written.files if f.directory == base} & own
    joins = own if job.table.acid_mode is AcidMode.INSERT_ONLY else frozenset()
    fresh, joined = [], []
    for file in written.files:
        if file.partition in overwritten:
            fresh.append(replace(file, name=_own_name(file.name, job)))
        elif file.partition in joins:
            joined.append(replace(file, directory=base))
        else:
            fresh.append(file)
    for values in overwritten:
        _set_aside(job, unit, placement.location(values))
    if joined:
        joined = list(placement.with_free_names(replace(written, files=tuple(joined))).files)
    published = replace(written, files=(*fresh, *joined))
    kept = replace(written, files=tuple(fresh))
    unit.on_undo(partial(_take_back, placement, kept, joined))
    try:
        placement.publish(published, staging=job.staging)
    except StorageError as error:
        job.is_in_doubt = error.context.get("detail") == "exists" or any(
            file.upload for file in published.files
        )
        raise
    return tuple(
        _fold(job, unit, Partition(values, placement.location(values)), written)
        for values in own - overwritten - joins
    )


def _own_bases(job: Job, placement: Placement, written: WriteResult) -> frozenset[_Values]:
    """The partitions written to that have a base of the transaction's own."""
    if not job.statement_ids or job.statement_ids[0] == 0:
        return frozenset()  # its first statement on the table
    found = []
    for values in {file.partition for file in written.files}:
        fs, root = job.files.at(placement.location(values))
        if fs.exists(f"{root}/{format_base(BaseName(job.write_id))}"):
            found.append(values)
    return frozenset(found)


def _own_name(name: str, job: Job) -> str:
    """The file's name with the statement's id for the attempt, where names have one."""
    statement = int(job.statement_ids[0])
    bucket = parse_bucket_file(name)
    if bucket is not None:
        return name if bucket.attempt is None else _bucket_file(job, bucket.bucket)
    original = parse_original_file(name)
    if original is None:
        return name
    return format_original_file(replace(original, task=job.table.attempt(statement)))


def _bucket_file(job: Job, bucket: int) -> str:
    return bucket_name(job.table, bucket, statement=int(job.statement_ids[0]))


def _take_back(placement: Placement, written: WriteResult, joined: Iterable[WrittenFile]) -> None:
    placement.retract(written)
    for file in joined:
        fs, root = placement.files.at(placement.location(file.partition))
        path = f"{root}/{file.directory}/{file.name}"
        if fs.exists(path):
            fs.delete_file(path)


# -------------------------------------------------------------------- the base set aside


def _set_aside(job: Job, unit: UnitOfWork, location: str) -> None:
    """The base's files go to a hidden place, from which they come back, or go with it."""
    fs, root = job.files.at(location)
    base = f"{root}/{format_base(BaseName(job.write_id))}"
    aside = f"{root}/{_hidden(job)}_aside"
    unit.on_undo(partial(_move_all, fs, aside, base))
    _move_all(fs, base, aside)
    unit.on_end(partial(fs.delete_directory, aside))


def _move_all(fs: FileSystem, source: str, target: str) -> None:
    """File by file: not every file system moves directories; the source is gone then."""
    for entry in fs.list_recursive(source):
        if not entry.is_directory:
            path = f"{target}{entry.path[len(source) :]}"
            fs.make_room(path.rpartition("/")[0])
            fs.rename(entry.path, target=path)
    fs.delete_directory(source)


def _hidden(job: Job) -> str:
    """What directories of the statement begin with that nobody reads: as its staging directory."""
    return job.staging.rpartition("/")[2]


# -------------------------------------------------------------------- base and deltas in one


def _fold(
    job: Job, unit: UnitOfWork, partition: Partition, written: WriteResult
) -> StatisticsChange:
    """Make a new base of the base and the statement's deltas, and put it in the base's place."""
    fs, root = job.files.at(partition.location)
    base = format_base(BaseName(job.write_id))
    deltas = {file.directory for file in written.files if file.partition == partition.values}
    valid = job.txn.valid_write_ids(job.table)
    directory = _base_and_deltas(fs, root, base, deltas, valid)
    place = f"{partition.location.rstrip('/')}/{_hidden(job)}_base"
    staging = fs.path_of(place)
    fs.make_room(staging)
    try:
        files = _merged(job, partition, directory, valid, place)
        _set_aside(job, unit, partition.location)
        unit.on_undo(partial(fs.delete_directory, f"{root}/{base}"))
        if files:
            publish(fs, root, files, staging=staging)
        else:
            fs.make_room(f"{root}/{base}")
            text = format_marker(DataFormat.TRUNCATED).encode()
            fs.write_bytes(f"{root}/{base}/{METADATA_FILE}", data=text)
    finally:
        fs.delete_directory(staging)
    for delta in sorted(deltas):
        fs.delete_directory(f"{root}/{delta}")
    return StatisticsChange(
        job.table.name,
        partition_name(job.table.partition_keys, partition.values)
        if job.table.partition_keys
        else None,
        rows=sum(file.rows for file in files),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        replaces=True,
    )


def _base_and_deltas(
    fs: FileSystem, root: str, base: str, deltas: Iterable[str], valid: ValidWriteIdList
) -> AcidDirectory:
    """The base with deltas that count, whatever ``resolve`` says of them beside it."""
    entries = list_partition(fs, root)
    of_base = [entry for entry in entries if entry.path.partition("/")[0] == base]
    of_deltas = [entry for entry in entries if entry.path.partition("/")[0] in deltas]
    above = resolve(of_deltas, valid, None)
    return replace(resolve(of_base, valid, None), deltas=above.deltas)


def _merged(
    job: Job, partition: Partition, directory: AcidDirectory, valid: ValidWriteIdList, staging: str
) -> list[WrittenFile]:
    """The rows that are left, with their identities: one staged file for each bucket number."""
    fs, _ = job.files.at(partition.location)
    major = MajorCompaction(BaseName(job.write_id))
    plan = RewritePlan(job.table, partition.location, directory, valid, major, staging)
    rewriter = BucketRewriter(fs, plan, unit=unit_of_rewrite(fs, plan), stripe_bytes_min=None)
    return [
        replace(file, name=_bucket_file(job, bucket))
        for bucket in rewriter.works()
        for file in rewriter.rewrite(bucket)
    ]
