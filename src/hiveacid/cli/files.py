"""``ls`` and ``dump``: a table's directories and one file's row events, without a JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiveacid.cli.output import to_json
from hiveacid.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from hiveacid.layout.snapshot import AcidDirectory, DataFile
    from hiveacid.model.tables import AcidMode
    from hiveacid.model.valid import ValidTxnList, ValidWriteIdList

_TABLE_NAME = re.compile(r"(?:(?P<database>\w+)\.)?(?P<table>\w+)")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Whose eyes: the location of a table and what its reader may see."""

    location: str
    valid: ValidWriteIdList
    valid_txns: ValidTxnList | None
    mode: AcidMode


def ls(
    target: str,
    *,
    valid_write_ids: str | None,
    valid_txns: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Print what ``layout.resolve`` chose for each partition of a path or table.

    Raises:
        NotFoundError: no such path or table.
        FormatError: a list of valid ids that is not one.
        SnapshotExpiredError: the directories hold no state as old as the lists say.
    """
    from hiveacid.model.valid import ValidTxnList, ValidWriteIdList

    reader = _reader(
        target,
        url=url,
        valid=None if valid_write_ids is None else ValidWriteIdList.parse(valid_write_ids),
        valid_txns=None if valid_txns is None else ValidTxnList.parse(valid_txns),
    )
    found = tuple(_resolved(reader))
    if as_json:
        objects = [
            ({"partition": name} if name else {}) | _to_object(directory)
            for name, directory in found
        ]
        partitioned = len(found) != 1 or bool(found[0][0])
        print(to_json(objects if partitioned else objects[0], indent=1))
    else:
        _print_tree(reader.location, found)


def dump(file: str) -> None:
    """Print each row event of an ORC file as a line of JSON; a file without events, its rows.

    Raises:
        MissingFileError: no such file.
        FormatError: not an ORC file, or a truncated one.
    """
    from hiveacid.reading.events import dump

    for event in dump(_location(file)):
        print(to_json(event))


def _reader(
    target: str,
    *,
    url: str | None,
    valid: ValidWriteIdList | None,
    valid_txns: ValidTxnList | None,
) -> _Reader:
    from hiveacid.model.tables import AcidMode
    from hiveacid.model.valid import ValidWriteIdList

    name = _TABLE_NAME.fullmatch(target)
    if name is not None and url and not Path(target).exists():
        return _table_reader(name, url=url, valid=valid, valid_txns=valid_txns)
    if "://" not in target and not Path(target).is_dir():
        if Path(target).is_file():
            raise InvalidInputError(f"{target} is a file", note="`hiveacid dump` shows a file")
        note = "to look at a table by name, give --metastore" if name is not None else None
        raise NotFoundError(f"there is no directory {target}", note=note, path=target)
    everything = ValidWriteIdList.everything()
    return _Reader(_location(target), valid or everything, valid_txns, AcidMode.FULL)


def _table_reader(
    match: re.Match[str],
    *,
    url: str,
    valid: ValidWriteIdList | None,
    valid_txns: ValidTxnList | None,
) -> _Reader:
    from hiveacid.cli.service import open_metastore
    from hiveacid.model.tables import TableName

    name = TableName(match["database"] or "default", match["table"])
    with open_metastore(url) as metastore:
        table = metastore.get_table(name)
        seen = metastore.valid_txns() if valid_txns is None else valid_txns
        if valid is None:
            (valid,) = metastore.valid_write_ids((name,), seen)
    return _Reader(table.location, valid, seen, table.acid_mode)


def _location(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())


def _resolved(reader: _Reader) -> Iterator[tuple[str, AcidDirectory]]:
    from hiveacid.layout.resolve import resolve
    from hiveacid.storage.filesystem import Files
    from hiveacid.storage.listing import discover_partitions, list_partition

    fs, root = Files().at(reader.location)
    for partition in discover_partitions(fs, root):
        entries = list_partition(fs, partition.path)
        directory = resolve(entries, reader.valid, reader.valid_txns, mode=reader.mode)
        yield partition.path[len(root) :].strip("/"), directory


def _to_object(directory: AcidDirectory) -> dict[str, object]:
    return {
        "base": None if directory.base is None else directory.base.path,
        "originals": [file.path for file in directory.originals],
        "deltas": [delta.path for delta in directory.deltas],
        "obsolete": list(directory.obsolete),
        "aborted": list(directory.aborted),
    }


def _print_tree(location: str, found: tuple[tuple[str, AcidDirectory], ...]) -> None:
    from rich.console import Console
    from rich.tree import Tree

    root = Tree(location, highlight=False)
    for name, directory in found:
        branch = root.add(name) if name else root
        if directory.base is not None:
            _add_files(branch.add(f"{directory.base.path}  [green]base"), directory.base.files)
        if directory.originals:
            _add_files(branch.add("[green]original files"), directory.originals)
        for delta in directory.deltas:
            some = "" if delta.all_valid else ", some of its write ids"
            _add_files(branch.add(f"{delta.path}  [green]read{some}"), delta.files)
        for label, names in (
            ("obsolete", directory.obsolete),
            ("aborted", directory.aborted),
            ("ignored", directory.ignored),
        ):
            for path in names:
                branch.add(f"{path}  [dim]{label}")
    console = Console(soft_wrap=True, highlight=False)
    console.print(root)


def _add_files(branch: Any, files: tuple[DataFile, ...]) -> None:
    for file in files:
        branch.add(f"{file.path.rpartition('/')[2]}  [dim]{file.size_bytes:,} bytes")
