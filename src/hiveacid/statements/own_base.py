"""Publishing into partitions that the same transaction has overwritten before.

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

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from hiveacid.layout.compaction import MajorCompaction, RewritePlan
from hiveacid.layout.events import DataFormat, format_marker
from hiveacid.layout.names import (
    METADATA_FILE,
    BaseName,
    BucketFileName,
    format_base,
    format_bucket_file,
    format_original_file,
    parse_bucket_file,
    parse_original_file,
    partition_name,
)
from hiveacid.layout.resolve import resolve
from hiveacid.layout.snapshot import AcidDirectory
from hiveacid.model.statistics import StatisticsChange
from hiveacid.model.tables import AcidMode, Partition
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.statements.job import Job
from hiveacid.statements.placement import Placement
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import list_partition
from hiveacid.storage.merge.bucket_rewrite import BucketRewriter
from hiveacid.storage.orc.tails import unit_of_rewrite
from hiveacid.storage.target import FileKind, WriteResult, WrittenFile
from hiveacid.storage.target import publish as publish_files
from hiveacid.txn.unit import UnitOfWork

_Values = tuple[str | None, ...]


def publish(
    job: Job, unit: UnitOfWork, placement: Placement, written: WriteResult
) -> tuple[StatisticsChange, ...]:
    """Move a statement's staged files to their places, ready to be taken back.

    Returns the statistics of partitions whose base was made anew; those of the others follow from
    what was written.

    Raises:
        StorageError: the file system failed; the statement is to be taken back.
        FormatError: a file that was just written cannot be read.
    """
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
    placement.publish(published, staging=job.staging)
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
    return name if original is None else format_original_file(replace(original, task=statement))


def _bucket_file(job: Job, bucket: int) -> str:
    attempt = None if job.table.has_hive_3_names else int(job.statement_ids[0])
    return format_bucket_file(BucketFileName(bucket, attempt))


def _take_back(placement: Placement, written: WriteResult, joined: Iterable[WrittenFile]) -> None:
    placement.retract(written)
    for file in joined:
        fs, root = placement.files.at(placement.location(file.partition))
        path = f"{root}/{file.directory}/{file.name}"
        if fs.exists(path):
            fs.delete_file(path)


# -------------------------------------------------------------------- the base set aside


@dataclass(frozen=True, slots=True)
class _Aside:
    """Where a base's files wait: file by file, not every file system moves directories."""

    fs: FileSystem
    base: str
    place: str

    def move_out(self) -> None:
        """The base's files go to the hidden place; the base is gone."""
        _move_all(self.fs, self.base, self.place)
        self.fs.delete_directory(self.base)

    def move_back(self) -> None:
        """What is in the hidden place is the base again."""
        _move_all(self.fs, self.place, self.base)
        self.drop()

    def drop(self) -> None:
        """The hidden place goes."""
        self.fs.delete_directory(self.place)


def _set_aside(job: Job, unit: UnitOfWork, location: str) -> None:
    fs, root = job.files.at(location)
    base = f"{root}/{format_base(BaseName(job.write_id))}"
    aside = _Aside(fs, base, f"{root}/{_hidden(job)}_aside")
    unit.on_undo(aside.move_back)
    aside.move_out()
    unit.on_end(aside.drop)


def _move_all(fs: FileSystem, source: str, target: str) -> None:
    for entry in fs.list_recursive(source):
        if not entry.is_directory:
            path = f"{target}{entry.path[len(source) :]}"
            fs.make_room(path.rpartition("/")[0])
            fs.rename(entry.path, target=path)


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
    staging = f"{root}/{_hidden(job)}_base"
    fs.make_room(staging)
    try:
        files = _merged(job, partition, directory, valid, staging)
        _set_aside(job, unit, partition.location)
        unit.on_undo(partial(fs.delete_directory, f"{root}/{base}"))
        if files:
            publish_files(fs, root, files, staging=staging)
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
    major = MajorCompaction(directory.base, (), directory.deltas, BaseName(job.write_id))
    plan = RewritePlan(job.table, partition.location, directory, valid, major, staging)
    rewriter = BucketRewriter(fs, plan, unit=unit_of_rewrite(fs, plan), stripe_bytes_min=None)
    return [
        WrittenFile(
            (),
            file.directory,
            _bucket_file(job, bucket),
            file.staged_path,
            FileKind.BASE,
            file.rows or 0,
            file.size_bytes,
        )
        for bucket in rewriter.works()
        for file in rewriter.rewrite(bucket)
    ]
