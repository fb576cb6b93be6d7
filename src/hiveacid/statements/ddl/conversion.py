"""ALTER TABLE that makes a table transactional, or transactional in another way, as Hive 4.1 does.

    plain -> full ACID          files stay where they are: originals with row ids of write id 0
    plain -> insert-only        files move into ``delta_0000001_0000001_0000``
    insert-only -> full ACID    files stay in their deltas and bases, and get row ids

What Hive refuses is refused in ``definitions``, and here what depends on files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from hiveacid.errors import FormatError, InvalidInputError
from hiveacid.layout.directories import (
    DeltaName,
    SnapshotPart,
    bucket_of_file,
    format_delta,
    is_hidden,
    is_marker,
    looks_acid,
    parse_original_file,
)
from hiveacid.metastore.api import Catalog
from hiveacid.model.tables import (
    FIRST_WRITE_ID_AFTER_CONVERSION,
    HASHED_OTHERWISE,
    AcidMode,
    FileFormat,
    Partition,
    StatementId,
    Table,
    WriteId,
)
from hiveacid.statements.context import ExecutionContext
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import read_snapshot
from hiveacid.storage.orc.tail import read_tail
from hiveacid.storage.plan.planning import is_of_old_hive
from hiveacid.txn.view import Look

_FIRST: Final = WriteId(1)
_DELTA: Final = format_delta(DeltaName(_FIRST, _FIRST, StatementId(0)))


@contextmanager
def converted(
    context: ExecutionContext, table: Table, look: Look, *, to: AcidMode
) -> Iterator[None]:
    """The files are as a table of this kind needs them, while the block runs, which changes the
    definition, and after it; they are where they were where it fails.

    Raises:
        InvalidInputError: files, or directories, whose names give their rows no ids.
        StorageError: a file could not be moved, or a directory not be listed.
    """
    metastore, parts = context.client.metastore, look.partitions(table)
    note_hashes(metastore, table, parts, files=context.files)
    if to is AcidMode.INSERT_ONLY and table.acid_mode is AcidMode.NONE:
        with _moved(context, table, look):
            yield
        return
    _check_names(context, table, look)
    if table.acid_mode is AcidMode.NONE:
        _seed(context, table, FIRST_WRITE_ID_AFTER_CONVERSION - 1)
    elif to is AcidMode.FULL:
        (valid,) = metastore.valid_write_ids((table.name,))
        txns = metastore.valid_txns()  # of now: a compaction may have committed before the locks
        snapshot = read_snapshot(table, parts, files=context.files, valid=valid, valid_txns=txns)
        _check_write_ids(table, snapshot.parts)
    yield


def _seed(context: ExecutionContext, table: Table, write_id: int) -> None:
    """Let write ids up to this one count as committed; a conversion that died may have done so."""
    if context.client.metastore.last_write_id(table.name) == 0:
        context.client.metastore.seed_write_id(table.name, write_id)


@contextmanager
def _moved(context: ExecutionContext, table: Table, look: Look) -> Iterator[None]:
    """The files of a plain table are those of write id 1, which counts as committed, while the
    block runs and after it; they are where they were where it fails.

    A conversion that died half way left some of them there: the next one moves the rest.
    """
    done: list[tuple[FileSystem, str, str]] = []
    try:
        for part in look.partitions(table):
            fs, root = context.files.at(part.location)
            for path, rest in _files(fs, root):
                if rest.startswith(f"{_DELTA}/"):
                    continue
                target = f"{root}/{_DELTA}/{rest}"
                fs.create_directory(target.rpartition("/")[0])
                fs.rename(path, target=target)
                done.append((fs, path, target))
        _seed(context, table, _FIRST)
        yield
    except BaseException:
        for fs, path, target in reversed(done):
            fs.rename(target, target=path)
        raise


def _files(fs: FileSystem, root: str) -> Iterator[tuple[str, str]]:
    """Path and path below ``root`` of each data file."""
    for info in fs.list_recursive(root):
        below = info.path[len(root.rstrip("/")) + 1 :]
        names = below.split("/")
        if not info.is_directory and not any(is_hidden(one) or is_marker(one) for one in names):
            yield info.path, below


def _check_write_ids(table: Table, parts: Sequence[SnapshotPart]) -> None:
    """Each directory must be of one write: as full ACID nobody can tell the ids of rows without
    events that a compaction put together. Hive 4.1 takes such tables and fails when it reads them.
    """
    for part in parts:
        base = (part.directory.base,) if part.directory.base else ()
        for place in (*base, *part.directory.insert_deltas):
            name = place.name
            of_several = isinstance(name, DeltaName) and name.min_write_id != name.max_write_id
            if place.files and (of_several or name.visibility_txn):
                raise InvalidInputError(
                    f"Cannot convert {table.name} to full ACID: {place.path} was made by a "
                    "compaction, and would not tell which write its rows are of",
                    table=str(table.name),
                    note=f"INSERT OVERWRITE TABLE {table.name} SELECT * FROM {table.name} first.",
                )


def _check_names(context: ExecutionContext, table: Table, look: Look) -> None:
    """Every file must be named as Hive names its files: the number in it is part of row ids."""
    for part in look.partitions(table):
        fs, root = context.files.at(part.location)
        for path, _ in _files(fs, root):
            if parse_original_file(path.rpartition("/")[2]) is None:
                raise InvalidInputError(
                    f"Unexpected data file name format.  Cannot convert {table.name} to "
                    f"transactional table.  File: {path}",
                    table=str(table.name),
                    path=path,
                )


def note_hashes(
    catalog: Catalog, table: Table, parts: Iterable[Partition], *, files: Files
) -> None:
    """Let a table's definition say so where a Hive before 4 wrote what lies in these partitions: it
    hashed rows by version 1 whatever the table says, a compaction leaves them in their buckets, in
    files that do not tell who wrote the rows.

    Raises:
        StorageError: the file system failed.
    """
    if table.bucket is None or table.bucket.version == 1 or table.format is not FileFormat.ORC:
        return
    if any(_is_of_old_hive(*files.at(part.location)) for part in parts):
        note = {HASHED_OTHERWISE: "true"}
        catalog.alter_table(
            table.name, lambda now: replace(now, properties={**now.properties, **note})
        )


def _is_of_old_hive(fs: FileSystem, root: str) -> bool:
    asked = set()
    for info in fs.list_recursive(root):
        directory, _, name = info.path.rpartition("/")
        if bucket_of_file(name) < 0 or not info.size_bytes or directory in asked:
            continue
        if looks_acid(directory.rpartition("/")[2]):
            asked.add(directory)  # a delta, or a base, has one writer
        try:
            if is_of_old_hive(read_tail(fs, info.path)):
                return True
        except FormatError:  # it is still open, or damaged, and may be
            return True
    return False
