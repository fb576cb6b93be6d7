"""``ls``, ``read``, ``dump``, ``changes``: a table's directories, its rows, a file's row events,
what changed; without a JVM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hiveacid.cli.output import (
    Format,
    app,
    format_option,
    json_option,
    metastore_option,
    named,
    open_metastore,
    open_session,
    print_rows,
    print_whole,
    to_json,
)
from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.layout.directories import AcidDirectory, DataFile, partition_name
from hiveacid.layout.resolve import resolve
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import LONG_MAX, AcidMode, TableKind, TableName
from hiveacid.storage.python_values import python_rows, python_values

if TYPE_CHECKING:
    from hiveacid.table import AcidTable

_TABLE_NAME = re.compile(r"(?:(?P<database>\w+)\.)?(?P<table>\w+)")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Whose eyes: the location of a table and what its reader may see. ``partitions`` are the
    locations that the metastore has of them, by name; None where directories have to tell.
    """

    location: str
    valid: ValidWriteIdList
    valid_txns: ValidTxnList | None
    mode: AcidMode
    partitions: Mapping[str, str] | None = None


@app.command()
@click.argument("target", callback=named, metavar="PATH|TABLE")
@click.option(
    "--valid-write-ids", metavar="TEXT", help="Hive's list, table:hwm:minOpen:open:aborted."
)
@click.option("--valid-txns", metavar="TEXT", help="Hive's list, hwm:minOpen:open:aborted.")
@metastore_option
@json_option
def ls(
    target: str,
    valid_write_ids: str | None,
    valid_txns: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Show which directories and files of a table a reader reads.

    Of a PATH every write id counts as committed unless lists are given; of a TABLE the metastore's
    are taken.
    """
    reader = _reader(
        target,
        url=url,
        valid=None if valid_write_ids is None else ValidWriteIdList.parse(valid_write_ids),
        valid_txns=None if valid_txns is None else ValidTxnList.parse(valid_txns),
    )
    found = tuple(_resolved(reader))
    if as_json:
        objects = [
            {
                **({"partition": name} if name else {}),
                "base": None if directory.base is None else directory.base.path,
                "originals": [file.path for file in directory.originals],
                "deltas": [delta.path for delta in directory.deltas],
                "obsolete": list(directory.obsolete),
                "aborted": list(directory.aborted),
            }
            for name, directory in found
        ]
        partitioned = len(found) != 1 or bool(found[0][0])
        print(to_json(objects if partitioned else objects[0], indent=1))
    else:
        _print_tree(reader.location, found)


@app.command()
@click.argument("target", callback=named, metavar="PATH|TABLE")
@click.option("--columns", metavar="A,B", help="Only these columns.")
@click.option("--filter", "condition", metavar="TEXT", help="A condition, as in WHERE.")
@click.option("--partitions", metavar="TEXT", help="A condition on partition columns.")
@click.option("--limit", type=click.IntRange(0, LONG_MAX), help="At most so many rows.")
@click.option("--to", metavar="FILE", help="Write FILE.parquet, FILE.arrow or FILE.csv instead.")
@format_option
@metastore_option
def read(
    target: str,
    columns: str | None,
    condition: str | None,
    partitions: str | None,
    limit: int | None,
    to: str | None,
    form: str,
    url: str | None,
) -> None:
    """Print a table's rows, or write them to a file, without Spark.

    Of a PATH every write id counts as committed; a TABLE is read as of now.
    """
    if to is not None and limit is not None:
        raise click.UsageError("--limit is for rows that are printed")
    import hiveacid
    from hiveacid.reading.export import export

    with _opened(target, url=url) as table:
        reader = hiveacid.read_arrow(
            table,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            filter=condition,
            partitions=partitions,
        )
        if to is not None:
            _check_target(to)
            print(f"{export(reader, _location(to)):,} rows")
        else:
            print_rows(reader.schema.names, _rows(reader, limit), form=Format(form))


@app.command()
@click.argument("file", callback=named)
def dump(file: str) -> None:
    """Print the row events of one ORC FILE, a JSON object a line."""
    from hiveacid.reading.export import dump

    if "://" not in file and Path(file).is_dir():
        raise InvalidInputError(
            f"{file} is a directory", note="`hiveacid ls` shows what is in one, `read` its rows"
        )
    for event in dump(_location(file)):
        print(to_json(event))


def _check_target(to: str) -> None:
    """Raises: InvalidInputError: a file cannot be made there, and why."""
    path = Path(to)
    if "://" in to:
        return
    if to.endswith("/") or path.is_dir():
        raise InvalidInputError(f"--to {to} is a directory: name a file", path=to)
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(f"--to {to}: there is no directory {path.parent}", path=to)


@contextmanager
def _opened(target: str, *, url: str | None) -> Iterator[str | AcidTable]:
    is_name = _TABLE_NAME.fullmatch(target) is not None and not Path(target).exists()
    if is_name and not url:
        raise _no_directory(target, is_name=True)
    if not is_name:
        yield _location(target)
        return
    with open_session(url) as session:
        yield session.table(target)


def _reader(
    target: str,
    *,
    url: str | None,
    valid: ValidWriteIdList | None,
    valid_txns: ValidTxnList | None,
) -> _Reader:
    name = _TABLE_NAME.fullmatch(target)
    if name is not None and url and not Path(target).exists():
        return _table_reader(name, url=url, valid=valid, valid_txns=valid_txns)
    if "://" not in target and not Path(target).is_dir():
        if Path(target).is_file():
            raise InvalidInputError(f"{target} is a file", note="`hiveacid dump` shows a file")
        raise _no_directory(target, is_name=name is not None)
    everything = ValidWriteIdList.everything()
    return _Reader(_location(target), valid or everything, valid_txns, AcidMode.FULL)


def _no_directory(target: str, *, is_name: bool) -> NotFoundError:
    note = "to look at a table by name, give --metastore" if is_name else None
    return NotFoundError(f"there is no directory {target}", note=note, path=target)


def _table_reader(
    match: re.Match[str],
    *,
    url: str,
    valid: ValidWriteIdList | None,
    valid_txns: ValidTxnList | None,
) -> _Reader:
    name = TableName(match["database"] or "default", match["table"])
    with open_metastore(url) as metastore:
        table = metastore.get_table(name)
        if table.kind is TableKind.VIEW:
            raise InvalidInputError(f"{name} is a view: it has no files", view=str(name))
        seen = metastore.valid_txns() if valid_txns is None else valid_txns
        if valid is None:
            (valid,) = metastore.valid_write_ids((name,), seen)
        partitions = {"": table.location}
        if table.partition_columns:
            partitions = {
                partition_name(table.partition_keys, one.values): one.location
                for one in metastore.list_partitions(name)
            }
    return _Reader(table.location, valid, seen, table.acid_mode, partitions)


def _location(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())


def _resolved(reader: _Reader) -> Iterator[tuple[str, AcidDirectory]]:
    from hiveacid.storage.filesystem import Files
    from hiveacid.storage.listing import discover_partitions, list_partition

    files = Files()
    if reader.partitions is not None:
        places = [(name, files.at(location)) for name, location in reader.partitions.items()]
    else:
        fs, root = files.at(reader.location)
        paths = [one.path for one in discover_partitions(fs, root)]
        places = [(path[len(root) :].strip("/"), (fs, path)) for path in paths]
    for name, place in places:
        entries = list_partition(*place)
        yield name, resolve(entries, reader.valid, reader.valid_txns, mode=reader.mode)


def _print_tree(location: str, found: tuple[tuple[str, AcidDirectory], ...]) -> None:
    from rich.markup import escape
    from rich.tree import Tree

    root = Tree(escape(location), highlight=False)
    for name, directory in found:
        branch = root.add(escape(name)) if name else root
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
                branch.add(f"{escape(path)}  [dim]{label}")
    print_whole(root)


def _add_files(branch: Any, files: tuple[DataFile, ...]) -> None:
    from rich.markup import escape

    for file in files:
        name = escape(file.path.rpartition("/")[2])
        branch.add(f"{name}  [dim]{file.size_bytes:,} bytes")


def _rows(reader: object, limit: int | None) -> Iterator[tuple[object, ...]]:
    left = limit
    for batch in reader:  # type: ignore[attr-defined]
        rows = batch if left is None else batch.slice(0, left)
        yield from zip(*(python_values(column) for column in rows.columns), strict=True)
        if left is not None:
            left -= rows.num_rows
            if left <= 0:
                return


@app.command()
@click.argument("table", callback=named)
@click.option("--since", metavar="VERSION", help="After this version, or this time.")
@click.option("--until", metavar="VERSION", help="Up to this version, or this time; else all.")
@click.option("--key", metavar="COLUMNS", help="Pair updates by these, with commas between.")
@click.option("--deduplication", metavar="MODE", default="dropCarryovers", show_default=True)
@click.option("--consumer", metavar="NAME", help="Go on from where it has read to.")
@click.option("--retain", type=float, metavar="DAYS", help="How long it may stay away: 7.")
@metastore_option
@json_option
def changes(
    table: str,
    since: str | None,
    until: str | None,
    key: str | None,
    deduplication: str,
    consumer: str | None,
    retain: float | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Print what changed in TABLE between two versions (write ids), or two times ('2026-11-22
    18:30'; UTC where it has no zone). A consumer moves once all is printed; --since is where a new
    one begins.
    """
    ends = (int(one) if one and one.isdecimal() else one for one in (since, until))
    asked: dict[str, Any] = {
        **dict(zip(("since", "until"), ends, strict=True)),
        "key": None if key is None else key.split(","),
        "deduplication": deduplication,
        "consumer": consumer,
        "retain": retain,
    }
    form = Format.JSON if as_json else Format.TABLE
    with open_session(url) as session:
        if consumer is None:
            _print(session.table(table).changes(**asked), form)
            return
        with session.transaction() as txn:
            _print(txn.table(table).changes(**asked), form)


def _print(found: Any, form: Format) -> None:
    rows = (tuple(row.values()) for row in python_rows(found))
    print_rows(found.schema.names, rows, form=form)
