"""What the files of a table that is taken over hold, against what is declared of it.

Columns of ORC and text files go by position, those of Parquet files by name (real-hive.md 3, j05).
A column that an ALTER TABLE of Hive could have made of the files' one is read as Hive reads it; the
newest file has the last word on what the column is. Directories that are newer than the metastore
are told, as after a restore of an older one: from the commit on to which their write ids and
transactions are given out again they would count as a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from hiveacid.errors import FormatError, InvalidInputError
from hiveacid.layout.directories import (
    AcidDirectory,
    DataFile,
    bucket_of_file,
)
from hiveacid.layout.events import VERSION_KEY, VERSION_TEXT
from hiveacid.layout.takeover import Listings, plain_files
from hiveacid.metastore.api import Metastore
from hiveacid.model.tables import (
    HASHED_OTHERWISE,
    AcidMode,
    Column,
    FileFormat,
    Table,
)
from hiveacid.model.types import HiveType, ListType, MapType, StructType, UnionType
from hiveacid.statements.ddl.columns import check_type_change
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.evolution import evolve_column
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import numbered_directories
from hiveacid.storage.merge.column_hashing import bucket_ids
from hiveacid.storage.orc.bucket_reader import BucketFileReader
from hiveacid.storage.plain.readers import ParquetFileReader, open_any_reader
from hiveacid.storage.plan.planning import hashes_alike, is_of_old_hive

_NESTED: Final = (StructType, ListType, MapType, UnionType)
_TEXTS: Final = ("string", "varchar", "char")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that is read: ``write_id`` is the highest that its directory's name says, 0 of an
    original; ``fields`` are the user columns, empty where the file has no names of them.
    """

    path: str
    write_id: int
    format: FileFormat
    has_events: bool
    fields: tuple[tuple[str, HiveType], ...]
    has_names: bool
    highest_write_id: int
    logical_bytes: int | None
    is_of_old_hive: bool = False


def files_of(fs: FileSystem, directories: Mapping[str, AcidDirectory]) -> tuple[FoundFile, ...]:
    """The files that hold rows, oldest write id first; ``directories`` by the partition's path.

    Raises:
        FormatError: a damaged file, or one that a later Hive may have written in another way.
        StorageError: reading failed.
    """
    found: list[FoundFile] = []
    for root, directory in directories.items():
        for write_id, files in directory.rows_by_write_id:
            found += [
                _read(fs, f"{root}/{file.path}", file, write_id)
                for file in files
                if file.size_bytes and file.logical_bytes != 0
            ]
    return tuple(sorted(found, key=lambda one: (one.write_id, one.path)))


def _read(fs: FileSystem, path: str, file: DataFile, write_id: int) -> FoundFile:
    with open_any_reader(fs, path, logical_bytes=file.logical_bytes) as reader:
        if not isinstance(reader, BucketFileReader):
            is_parquet = isinstance(reader, ParquetFileReader)
            kind = FileFormat.PARQUET if is_parquet else FileFormat.TEXT
            return FoundFile(path, write_id, kind, False, reader.fields, is_parquet, 0, None)
        metadata = {} if reader.tail is None else reader.tail.user_metadata
        version = metadata.get(VERSION_KEY, VERSION_TEXT.encode()).decode("utf-8", "replace")
        if version not in ("0", "1", VERSION_TEXT):
            raise FormatError(
                f"{path} is of version {version[:20]!r}, known are versions up to {VERSION_TEXT}",
                path=path,
                expected=VERSION_TEXT,
                found=version[:200],
            )
        highest = reader.statistics_range("currentTransaction") if reader.is_acid else None
        return FoundFile(
            path,
            write_id,
            FileFormat.ORC,
            reader.is_acid,
            reader.fields,
            not reader.has_positional_names,
            highest[1] if highest else 0,
            file.logical_bytes,
            reader.tail is not None and is_of_old_hive(reader.tail),
        )


# -------------------------------------------------------------------- columns


def check_files(
    fs: FileSystem, table: Table, files: Sequence[FoundFile], *, format: FileFormat | None
) -> Table:
    """The table, with the columns of the files where it has none, and their format where ``format``
    is None.

    Raises:
        InvalidInputError: what is declared is not what the files hold; names file, column, types.
    """
    if not files:
        if not table.columns:
            raise InvalidInputError(
                f"No file of {table.location} says what columns there are: declare them"
            )
        return table
    table = replace(table, format=format or files[-1].format)
    for file in files:
        if file.format is not table.format:
            raise _differs(table, file, "format", file.format.value, table.format.value)
        if file.has_events and table.acid_mode is AcidMode.INSERT_ONLY:
            raise _differs(table, file, "kind", "full ACID", "insert-only")
        _check_bucket(table, file)
    known = _columns_of(table, files)
    if not table.columns:
        if not known or any(not column.name for column in known):
            raise InvalidInputError(
                f"The files of {table.location} have no names of columns: declare the columns"
            )
        table = replace(table, columns=known)
    _check_declared(table, files[-1], known)
    for file in files:
        for column, name, kind in _matched(table, file):
            if column is None:
                raise InvalidInputError(
                    f"{file.path} has a column {name} {kind} that is not declared for {table.name}",
                    table=str(table.name),
                    path=file.path,
                )
            if not _may_become(Column(name, kind), column):
                raise _differs(table, file, f"column {column.name}", kind, column.type)
    _check_hashes(fs, table, files)
    return _with_hashes_noted(table, files)


def check_plain_files(table: Table, listings: Listings) -> None:
    """No rows lie where an insert-only table, which reads bases and deltas alone, passes them over;
    a full ACID one reads them.

    Raises:
        InvalidInputError: some do.
    """
    missed = [entry.path for entry in plain_files(listings) if entry.size_bytes]
    if table.acid_mode is AcidMode.INSERT_ONLY and missed:
        raise InvalidInputError(
            f"{table.name} is insert-only and would not read {min(missed)}, which is in no delta",
            table=str(table.name),
            note="INSERT its rows, LOAD it, or make a table without transactions of it, which "
            "ALTER TABLE ... SET TBLPROPERTIES converts.",
        )


def _with_hashes_noted(table: Table, files: Sequence[FoundFile]) -> Table:
    """The table, and whether its definition does not tell the buckets of its rows: a Hive before 4
    hashed them by version 1 whatever it says, and a compaction leaves them in their buckets, in
    files that do not tell who wrote the rows.
    """
    if table.bucket is None or table.bucket.version == 1:
        return table
    if not any(file.is_of_old_hive for file in files):
        return table
    return replace(table, properties={**table.properties, HASHED_OTHERWISE: "true"})


def _columns_of(table: Table, files: Sequence[FoundFile]) -> tuple[Column, ...]:
    """The columns that the files have together: of the newest file that has each."""
    if table.format is FileFormat.TEXT:
        return ()
    if table.format is FileFormat.PARQUET:
        by_name = {name.lower(): kind for file in files for name, kind in file.fields}
        return tuple(Column(name, kind) for name, kind in by_name.items())
    columns: list[Column] = []
    for file in files:
        for at, (name, kind) in enumerate(file.fields):
            known = columns[at].name if at < len(columns) else ""
            columns[at : at + 1] = [Column(name.lower() if file.has_names else known, kind)]
    return tuple(columns)


def _matched(table: Table, file: FoundFile) -> list[tuple[Column | None, str, HiveType]]:
    """Each column of the file with the table's column that it is read as, None for none."""
    if table.format is FileFormat.TEXT:
        return []
    if table.format is FileFormat.PARQUET:
        named = {column.name: column for column in table.all_columns}
        return [(named.get(name.lower()), name.lower(), kind) for name, kind in file.fields]
    columns = [*table.columns, *[None] * len(file.fields)]
    return [(columns[at], name.lower(), kind) for at, (name, kind) in enumerate(file.fields)]


def _check_declared(table: Table, newest: FoundFile, known: Sequence[Column]) -> None:
    """The declared columns are those of the files, by place; later ones may be missing there."""
    if table.format is not FileFormat.ORC:
        return
    places = {column.name: at for at, column in enumerate(known) if column.name}
    if len(known) > len(table.columns):
        extra = known[len(table.columns)]
        raise InvalidInputError(
            f"The files of {table.location} have {len(known)} columns, {len(table.columns)} are "
            f"declared: nothing is said of {extra.name or 'the last'} {extra.type}",
            table=str(table.name),
        )
    for at, (declared, found) in enumerate(zip(table.columns, known, strict=False)):
        if places.get(declared.name, at) != at:
            raise InvalidInputError(
                f"Column {declared.name} is declared as column {at + 1}, and it is column "
                f"{places[declared.name] + 1} of the files of {table.location}; columns go by "
                "place",
                table=str(table.name),
                column=declared.name,
            )
        families = [str(one.type).partition("(")[0] for one in (found, declared)]
        becomes_text = families[1] in _TEXTS and families[0] not in _TEXTS
        if becomes_text or not _may_become(found, declared):
            raise _differs(table, newest, f"column {declared.name}", found.type, declared.type)


def _may_become(found: Column, wanted: Column) -> bool:
    """Whether an ALTER TABLE of Hive could have made the one of the other, and it can be read."""
    if found.type == wanted.type:
        return True
    with suppress(InvalidInputError, FormatError):
        check_type_change(found, wanted)
        if isinstance(found.type, _NESTED):
            evolve_column(pa.array([], arrow_type(found.type)), found.type, wanted.type)
        return True
    return False


def _differs(
    table: Table, file: FoundFile, what: str, found: object, declared: object
) -> InvalidInputError:
    return InvalidInputError(
        f"{file.path} has {what} {found}, declared for {table.name} is {declared}",
        table=str(table.name),
        path=file.path,
        found=str(found),
        declared=str(declared),
        note="Declare what the files hold (or nothing), and ALTER TABLE afterwards.",
    )


def _check_bucket(table: Table, file: FoundFile) -> None:
    number = bucket_of_file(file.path.rpartition("/")[2])
    if number < 0 and file.write_id == 0 and table.acid_mode is AcidMode.FULL:
        raise InvalidInputError(
            f"Unexpected data file name format.  Cannot make {table.name} a transactional table.  "
            f"File: {file.path}",
            table=str(table.name),
            path=file.path,
        )
    if table.bucket is not None and number >= table.bucket.count:
        raise _differs(table, file, "bucket", number, f"{table.bucket.count} buckets")


def _check_hashes(fs: FileSystem, table: Table, files: Sequence[FoundFile]) -> None:
    """Rows of a bucketed table are where their hash says, or queries would pass files over: the
    first rows of the newest file of each number tell. Files of Hive 3 are never passed over, nor
    any for the values of types such as timestamps.
    """
    kinds = {column.name: column.type for column in table.columns}
    if table.bucket is None or not all(hashes_alike(kinds[one]) for one in table.bucket.columns):
        return
    names = [column.name for column in table.columns]
    places = [names.index(name) for name in table.bucket.columns]
    types = [table.columns[place].type for place in places]
    newest = {bucket_of_file(file.path.rpartition("/")[2]): file for file in files}
    for number, file in newest.items():
        if file.is_of_old_hive:
            continue
        with open_any_reader(fs, file.path, logical_bytes=file.logical_bytes) as reader:
            first = next(
                reader.batches(table_columns=table.columns, wanted=places, identities=False), None
            )
        if first is None or not first.rows:
            continue
        spec = table.bucket
        hashed = set(bucket_ids(first.columns, types, spec.count, version=spec.version).to_pylist())
        if hashed != {number}:
            raise InvalidInputError(
                f"{file.path} is of bucket {number}, and holds rows of bucket "
                f"{min(hashed - {number})} of {spec.count} by the hash of "
                f"{', '.join(spec.columns)}",
                table=str(table.name),
                path=file.path,
                note="Leave the buckets out, or say the 'bucketing_version' ('1' before Hive 3).",
            )


def unknown_directories(metastore: Metastore, files: Files, table: Table) -> Iterator[str]:
    """A line for each directory of a transactional table whose name has a write id, or the id of a
    transaction, that the metastore has not given out; none of another table.

    Raises:
        StorageError: a directory could not be listed.
    """
    if table.acid_mode is AcidMode.NONE:
        return
    locations = [table.location]
    if table.partition_columns:
        locations = [part.location for part in metastore.list_partitions(table.name)]
    found = tuple(numbered_directories(files, locations))
    # Asked afterwards: an id is given out before its directory is made.
    last, last_txn = metastore.last_write_id(table.name), metastore.valid_txns().hwm
    for path, write_id, txn in found:
        if write_id > last:
            yield f"{path} is of write id {write_id}, {table.name} has given out {last}"
        elif txn > last_txn:
            yield f"{path} is of transaction {txn}, the last one is {last_txn}"
