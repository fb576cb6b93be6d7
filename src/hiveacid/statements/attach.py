"""CREATE TABLE over a directory that has a table's files already: Hive's, or those of another
metastore.

The lists of valid ids say what counts; open ids count as aborted. Without lists a history is taken
only where its names decide (``layout.takeover.doubts``), or where the caller accepts every write
id. What is declared is checked against the files, what is not comes from them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hiveacid.errors import FormatError, InvalidInputError, NotFoundError
from hiveacid.layout.directories import (
    BUCKET_PREFIX,
    PUBLISHING_FILE,
    VERSION_FILE,
    AcidDirectory,
    is_hidden,
    looks_acid,
)
from hiveacid.layout.resolve import resolve
from hiveacid.layout.takeover import (
    FoundDirectory,
    Listings,
    Takeover,
    aborted_in,
    directories_of,
    doubts,
    has_originals,
)
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import (
    FIRST_WRITE_ID_AFTER_CONVERSION,
    LONG_MAX,
    AcidMode,
    Column,
    FileFormat,
    Partition,
    Table,
)
from hiveacid.model.types import PrimitiveType
from hiveacid.statements.attached_files import (
    FoundFile,
    check_files,
    check_plain_files,
    files_of,
)
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.ddl.conversion import note_hashes
from hiveacid.statements.partition_values import normal_text, partitions_found
from hiveacid.storage.filesystem import FileInfo, Files, FileSystem
from hiveacid.storage.listing import (
    FoundPartition,
    discover_partitions,
    list_partition,
    with_logical_lengths,
)

VALID_WRITE_IDS: Final = "hiveacid.valid_write_ids"
VALID_TXNS: Final = "hiveacid.valid_txns"
ACCEPT_ALL: Final = "hiveacid.accept_all_write_ids"
_LARGEST_HWM: Final = LONG_MAX // 2
_HOW: Final = (
    "Give the lists of valid ids of the Hive that wrote it (valid_write_ids, valid_txns; "
    "docs/takeover.md says how to get them), or accept_all_write_ids=True to read every row; in "
    f"SQL the table properties '{VALID_WRITE_IDS}', '{VALID_TXNS}', '{ACCEPT_ALL}'='true'."
)


@dataclass(frozen=True, slots=True)
class Lists:
    """What the caller says of the history; ``write_ids`` and ``txns`` None where nothing."""

    write_ids: ValidWriteIdList | None = None
    txns: ValidTxnList | None = None
    accept_all: bool = False
    are_given: bool = False
    """whether any of it was said, be it that not every write id is accepted"""

    @property
    def readable(self) -> tuple[ValidWriteIdList, ValidTxnList]:
        """What a reader sees by them; what is open counts as aborted."""
        write_ids, txns = ValidWriteIdList.everything(), ValidTxnList.everything()
        if self.write_ids is not None:
            aborted = self.write_ids.exceptions
            write_ids = ValidWriteIdList.of(None, hwm=self.write_ids.hwm, aborted=aborted)
        if self.txns is not None:
            txns = ValidTxnList.of(hwm=self.txns.hwm, aborted=self.txns.exceptions)
        return write_ids, txns


@dataclass(frozen=True, slots=True)
class Attached:
    """A table as it will be entered; ``dead`` are directories of compactions that do not count."""

    table: Table
    partitions: tuple[Partition, ...]
    takeover: Takeover | None
    dead: tuple[str, ...] = ()


def take_lists(table: Table) -> tuple[Table, Lists]:
    """The table without the properties that steer a takeover, and what they say.

    Raises:
        InvalidInputError: a list that is not one, or lists and the acceptance of every write id.
    """
    given = {key.lower(): value for key, value in table.properties.items()}
    kept = {
        key: value
        for key, value in table.properties.items()
        if key.lower() not in (VALID_WRITE_IDS, VALID_TXNS, ACCEPT_ALL)
    }
    text = given.get(ACCEPT_ALL, "false").lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"'{ACCEPT_ALL}' is 'true' or 'false', not '{text}'")
    lists = Lists(
        _write_ids(given[VALID_WRITE_IDS], table) if VALID_WRITE_IDS in given else None,
        _txns(given[VALID_TXNS]) if VALID_TXNS in given else None,
        accept_all=text == "true",
        are_given=len(kept) < len(table.properties),
    )
    if lists.accept_all and (lists.write_ids, lists.txns) != (None, None):
        raise InvalidInputError("Lists of valid ids, and that every write id is accepted: not both")
    return replace(table, properties=kept), lists


def _write_ids(text: str, table: Table) -> ValidWriteIdList:
    """The table's list; of several, as a query's configuration has them, that of its name."""
    text = text.strip()
    lists = [part for part in text.split("$")[1:] if part] if "$" in text else [text]
    try:
        found = [ValidWriteIdList.parse(part) for part in lists]
    except FormatError as error:
        raise _no_list("write ids", "db.table:highest:lowest open:open:aborted", text) from error
    if len(found) > 1:
        names = [one.table for one in found]
        found = [one for one in found if one.table == str(table.name)]
        if not found:
            raise InvalidInputError(
                f"None of the lists is that of {table.name}: {', '.join(map(str, names))}",
                note="Give the one list that is meant.",
            )
    if not found or not 0 <= found[0].hwm <= _LARGEST_HWM or (found[0].table or "").isdigit():
        raise _no_list("write ids", "db.table:highest:lowest open:open:aborted", text)
    return found[0]


def _txns(text: str) -> ValidTxnList:
    try:
        found = ValidTxnList.parse(text.strip())
        if 0 <= found.hwm <= _LARGEST_HWM:
            return found
    except FormatError as error:
        raise _no_list("transactions", "highest:lowest open:open:aborted", text) from error
    raise _no_list("transactions", "highest:lowest open:open:aborted", text)


def _no_list(what: str, form: str, text: str) -> InvalidInputError:
    return InvalidInputError(
        f"Not a list of valid {what}: '{text[:200]}'", expected=form, note=f"It has the form {form}"
    )


# -------------------------------------------------------------------- what is there


def examine(table: Table, lists: Lists, *, format: FileFormat | None, files: Files) -> Attached:
    """The table as it will be entered, by what lies at its location; nothing is changed.

    What ``table`` does not say comes from the files: columns, partition columns, and, where there
    are ``lists`` and no property ``transactional``, which kind of transactional table it is;
    ``format`` is None where it is not declared.

    Raises:
        InvalidInputError: the directory does not say which rows count, what the lists say cannot
            be of it, or what is declared is not what the files hold.
        FormatError: a damaged file; partition directories of other columns.
        NotFoundError, StorageError: the directory could not be listed.
    """
    fs, path = files.at(table.location)
    root = path.rstrip("/")
    if fs.exists(path) and not fs.is_directory(path):
        raise InvalidInputError(f"{table.location} is a file, not the directory of a table")
    if not fs.exists(path):
        if lists.are_given and "transactional" not in table.properties:
            raise NotFoundError(f"There is no directory {table.location}", path=table.location)
        return Attached(check_files(fs, table, (), format=format), (), None)
    found = discover_partitions(fs, path)
    table = _with_partition_columns(table, found)
    if table.partition_columns:
        found = _of_partitions(fs, root, table, found)
    listings = {part.path[len(root) + 1 :]: list_partition(fs, part.path) for part in found}
    directories = directories_of(listings)
    table = _with_kind(table, listings, directories, lists)
    base = table.location.rstrip("/")
    partitions = partitions_found(
        table, {base + part.path[len(root) :]: part.values for part in found if part.names}
    )
    if table.acid_mode is AcidMode.NONE:
        if not table.columns:
            raise InvalidInputError(f"No columns are declared for {table.name}, which is not ACID")
        return Attached(table, partitions, None)
    check_plain_files(table, listings)
    _check_history(table, listings, directories, lists)
    write_ids, txns = lists.readable
    dead = {one.path for one in directories if one.txn and not txns.is_valid(one.txn)}
    read: dict[str, AcidDirectory] = {}
    for below, entries in listings.items():
        place = f"{root}/{below}".rstrip("/")
        alive = [one for one in entries if not _is_within(f"{below}/{one.path}".lstrip("/"), dead)]
        directory = resolve(alive, write_ids, txns, mode=table.acid_mode)
        _check_kind(table, directory, resolve(alive, write_ids, txns, mode=AcidMode.INSERT_ONLY))
        read[place] = with_logical_lengths(fs, place, directory, entries=alive)
    data = files_of(fs, read)
    table = check_files(fs, table, data, format=format)
    takeover = _takeover(listings, directories, lists, data)
    return Attached(table, partitions, takeover, tuple(f"{root}/{one}" for one in sorted(dead)))


def admit(
    context: ExecutionContext,
    table: Table,
    parts: Sequence[Partition],
    *,
    instead_of: str | None = None,
) -> None:
    """What lies where the table, or partitions of it, are from now on can be theirs: no history
    where the table is not transactional; else write ids that it has given out, or, of a table that
    has given out none, a history that says what counts. ``instead_of`` is where the files were: of
    another history than the one there, nobody knows what counts.

    Raises:
        InvalidInputError: it cannot.
    """
    if table.acid_mode is AcidMode.NONE:
        for part in parts:
            refuse_history(replace(table, location=part.location), context.files)
        return
    metastore, listings = context.client.metastore, {}
    note_hashes(metastore, table, parts, files=context.files)
    for part in parts:
        fs, path = context.files.at(part.location)
        if fs.is_directory(path):
            listings[path.rstrip("/")] = list_partition(fs, path)
    if not any(listings.values()):
        return
    check_plain_files(table, listings)
    directories, last = directories_of(listings), metastore.last_write_id(table.name)
    if not last:
        there = table if instead_of is None else replace(table, location=parts[0].location)
        _check_history(there, listings, directories, Lists())
        takeover = _takeover(listings, directories, Lists(), ())
        if takeover is not None:
            metastore.seed_write_id(table.name, takeover.highest_write_id)
        return
    before = () if instead_of is None else _entries(*context.files.at(instead_of))
    known = set(filter(looks_acid, (entry.name for entry in before)))
    for directory in directories:
        if directory.write_ids[1] > last:
            raise InvalidInputError(
                f"{directory.path} is of write id {directory.write_ids[1]}, the table {table.name} "
                f"has given out {last}: it is not this table's",
                table=str(table.name),
                path=directory.path,
            )
        if known and directory.path.rpartition("/")[2] not in known:
            raise _unknown_history(
                table, parts[0].location, (f"{directory.path} is none of {instead_of}",)
            )


def _entries(fs: FileSystem, path: str) -> Sequence[FileInfo]:
    return tuple(fs.list_directory(path)) if fs.is_directory(path) else ()


def refuse_history(table: Table, files: Files) -> None:
    """No transactional table's files lie where a table without transactions is to be. Of partition
    directories the first that holds something tells.

    Raises:
        InvalidInputError: they do.
    """
    history = _first_of_history(*files.at(table.location))
    if history:
        raise _holds_a_table(table, table.location, history)


def _first_of_history(fs: FileSystem, path: str) -> str | None:
    """The first base or delta; '' where there are other files, None where there is nothing."""
    entries = _entries(fs, path)
    names = {entry.name: entry for entry in entries}
    acid = [entry.path for name, entry in names.items() if entry.is_directory and looks_acid(name)]
    if acid:
        return min(acid)
    for name, entry in sorted(names.items()):
        if entry.is_directory and "=" in name:
            below = _first_of_history(fs, entry.path)
            if below is not None:
                return below
    return "" if any(not is_hidden(name) for name in names) else None


def _holds_a_table(table: Table, location: str, path: str) -> InvalidInputError:
    return InvalidInputError(
        f"{location} holds a transactional table: {path}",
        table=str(table.name),
        note="Say TBLPROPERTIES ('transactional'='true'), or call acid.attach.",
    )


def _unknown_history(table: Table, location: str, reasons: Sequence[str]) -> InvalidInputError:
    return InvalidInputError(
        f"{location} does not say which of its rows count: {'; '.join(reasons)}",
        table=str(table.name),
        seen=tuple(reasons),
        note=_HOW,
    )


def mark_dead(attached: Attached, fs: FileSystem) -> None:
    """Let readers pass over what a compaction left that did not commit, whatever its transaction's
    number means here: as if it had died while it published (``storage.target.publishing``).

    Raises:
        StorageError: the file system failed.
    """
    for path in attached.dead:
        fs.write_bytes(f"{path}/{PUBLISHING_FILE}", data=b"")


def _is_within(path: str, directories: Collection[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:at]) in directories for at in range(1, len(parts) + 1))


def _with_partition_columns(table: Table, found: Sequence[FoundPartition]) -> Table:
    """Texts of the directories' names where nothing at all is declared."""
    names = tuple(name.lower() for name in found[0].names)
    declared = table.partition_keys
    if not table.columns and not declared:
        text = PrimitiveType("string")
        return replace(table, partition_columns=tuple(Column(name, text) for name in names))
    if names and names != declared:
        raise FormatError(
            f"{found[0].path} is not a partition of {table.name}",
            path=found[0].path,
            expected="/".join(declared) or "no partitions",
            found="/".join(names),
        )
    return table


def _of_partitions(
    fs: FileSystem, root: str, table: Table, found: Sequence[FoundPartition]
) -> tuple[FoundPartition, ...]:
    """The partitions, whose names fit their columns; beside them is nothing.

    Raises:
        InvalidInputError: files of the table are outside of all partitions; a name that is no value
            of its column's type.
    """
    for entry in fs.list_directory(root or "/"):
        if looks_acid(entry.name) or not (entry.is_directory or is_hidden(entry.name)):
            raise InvalidInputError(
                f"{entry.path} is outside of all partitions of {table.name}",
                table=str(table.name),
                path=entry.path,
            )
    parts = tuple(part for part in found if part.names)
    for part in parts:
        for value, column in zip(part.values, table.partition_columns, strict=True):
            normal_text(value, column)
    return parts


def _with_kind(
    table: Table, listings: Listings, directories: Sequence[FoundDirectory], lists: Lists
) -> Table:
    """Which kind of transactional table it is, where only lists say that it is one.

    Raises:
        InvalidInputError: a plain table over write ids, or lists for files without any.
    """
    if table.acid_mode is not AcidMode.NONE:
        return table
    if not lists.are_given:
        if directories:
            raise _holds_a_table(table, table.location, directories[0].path)
        return table
    if not directories:
        raise InvalidInputError(
            f"{table.location} holds no transactional table: there are no bases and no deltas",
            table=str(table.name),
            note="To read files where they are: CREATE EXTERNAL TABLE ... LOCATION. To make a "
            "transactional table of them: CREATE TABLE ... LOCATION ... "
            "TBLPROPERTIES ('transactional'='true').",
        )
    names = [
        entry.name for entries in listings.values() for entry in entries if not entry.is_directory
    ]
    is_full = has_originals(listings) or any(
        name.startswith((BUCKET_PREFIX, VERSION_FILE)) for name in names
    )
    kind = AcidMode.FULL if is_full else AcidMode.INSERT_ONLY
    stored = "default" if is_full else kind.value
    properties = {"transactional": "true", "transactional_properties": stored}
    return replace(table, properties={**table.properties, **properties})


def _check_kind(table: Table, found: AcidDirectory, all_files: AcidDirectory) -> None:
    """A full ACID table is not read as such where files of its deltas would be passed over."""
    missed = {file.path for delta in all_files.deltas for file in delta.files}
    missed -= {file.path for delta in found.deltas for file in delta.files}
    if missed:
        raise InvalidInputError(
            f"{table.location} is no full ACID table: {min(missed)} holds no row events",
            table=str(table.name),
            note="TBLPROPERTIES ('transactional_properties'='insert_only') reads such files.",
        )


def _check_history(
    table: Table, listings: Listings, directories: Sequence[FoundDirectory], lists: Lists
) -> None:
    """The lists, or the names, say what counts.

    Raises:
        InvalidInputError: they do not; or the lists end below what is there.
    """
    reasons = () if lists.accept_all else doubts(listings)
    if lists.write_ids is not None:
        made = [one for one in directories if one.txn and lists.txns is None]
        reasons = tuple(
            f"{one.path} counts if transaction {one.txn} committed, of which no list says"
            for one in made[:1]
        )
        for one in directories:
            if one.write_ids[1] > lists.write_ids.hwm:
                raise _beyond(table, one, "write id", one.write_ids[1], lists.write_ids.hwm)
    for one in directories:
        if lists.txns is not None and one.txn > lists.txns.hwm:
            raise _beyond(table, one, "transaction", one.txn, lists.txns.hwm)
    if reasons:
        raise _unknown_history(table, table.location, reasons)


def _beyond(table: Table, one: FoundDirectory, what: str, seen: int, hwm: int) -> InvalidInputError:
    return InvalidInputError(
        f"{one.path} is of {what} {seen}, the list of {table.location} ends at {hwm}: it is the "
        "list of another table, or an older one",
        table=str(table.name),
        path=one.path,
        note="Hive cuts a list at its first id where none is committed that it remembers; "
        "docs/takeover.md has the queries that do not.",
    )


def _takeover(
    listings: Listings,
    directories: Sequence[FoundDirectory],
    lists: Lists,
    files: Sequence[FoundFile],
) -> Takeover | None:
    """What the metastore has to know, None where nothing."""
    write_ids, txns = lists.write_ids, lists.txns
    _, readable_txns = lists.readable
    alive = [one for one in directories if not one.txn or readable_txns.is_valid(one.txn)]
    seen = [one.write_ids[1] for one in directories] + [one.highest_write_id for one in files]
    aborted: tuple[tuple[int, str | None], ...] = ()
    if write_ids is not None:
        seen += [write_ids.hwm, *write_ids.exceptions[-1:]]
        aborted = aborted_in(alive, write_ids.exceptions, write_ids.open)
    if has_originals(listings):
        seen.append(FIRST_WRITE_ID_AFTER_CONVERSION - 1)
    highest_txns = [one.txn for one in directories]
    if txns is not None:
        highest_txns += [txns.hwm, *txns.exceptions[-1:]]
    if not any(seen):
        return None
    return Takeover(
        highest_write_id=max(seen),
        highest_txn=max(highest_txns, default=0),
        compactions=frozenset(one.txn for one in alive if one.txn),
        aborted=aborted,
    )
