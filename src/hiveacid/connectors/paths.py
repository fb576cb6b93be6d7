"""What a name in Spark's code means: a table of ours by its name, or by where it lies
(``save(path)``, ``load(path)``, ``hiveacid.`/path```).

A table at a path is one of the metastore like another: the first write registers it, under the name
of its directory.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from hiveacid.connectors.names import relation_places
from hiveacid.errors import NotFoundError
from hiveacid.model.tables import TableName
from hiveacid.spark.jobs import own_calls
from hiveacid.spark.text import literal, quoted
from hiveacid.storage.filesystem import one_name

if TYPE_CHECKING:
    from hiveacid.session import Session
    from hiveacid.table import AcidTable
    from hiveacid.txn.view import Look

FORMAT = "hiveacid"
_USING = re.compile(r"\bUSING\s+`?hiveacid`?(?!\w)", re.IGNORECASE)


def table_at(acid: Session, path: str) -> AcidTable | None:
    """The table that lies there; else, where the path is one word, the table of that name, which is
    what ``format("hiveacid")`` takes it for in a session that is not enabled.
    """
    wanted = one_name(location_of(path))
    for place in acid.client.own.places():
        if place.partition is None and one_name(place.location) == wanted:
            return acid.table(str(place.table))
    parts = path.split(".")
    if not all(part.isidentifier() for part in parts) or len(parts) > 2:
        return None
    name = TableName(parts[0] if len(parts) == 2 else "", parts[-1])
    return acid.table(path) if is_table_of_ours(acid.look(), name) else None


def required_at(acid: Session, path: str) -> AcidTable:
    """The table that lies there.

    Raises:
        NotFoundError: there is none.
    """
    table = table_at(acid, path)
    if table is None:
        raise NotFoundError(
            f"No table of {acid.client.metastore.url} lies at {path}",
            path=path,
            note="A table is named by .table(name) or .option('table', name);"
            " acid.attach(path, name=...) takes over what another client wrote.",
        )
    return table


def location_of(path: str) -> str:
    """The path as a location of a table."""
    return path if ":" in path.partition("/")[0] else os.path.abspath(path)


def name_for(acid: Session, path: str) -> str:
    """A name for a new table at a path: that of its directory, with a number if it is taken."""
    stem = re.sub(r"\W+", "_", path.rstrip("/").rpartition("/")[2]).strip("_").lower() or "table"
    taken = set(acid.client.metastore.list_tables(acid.database))
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def with_names(acid: Session, text: str) -> str:
    """The statement with the names of tables in the place of ``hiveacid.`/path```; one that makes a
    table there says so by LOCATION.
    """
    edited = text
    for start, end, parts in reversed(list(relation_places(text))):
        if len(parts) != 2 or parts[0].lower() != FORMAT or "/" not in parts[1]:
            continue
        table = table_at(acid, parts[1])
        if table is not None:
            name = quoted(table.name.database, table.name.table)
        elif _USING.search(edited, end):
            name = quoted(name_for(acid, parts[1]))
            clause = f"USING hiveacid LOCATION {literal(location_of(parts[1]))}"
            edited = _USING.sub(clause.replace("\\", r"\\"), edited, count=1)
        else:
            required_at(acid, parts[1])
            continue
        edited = f"{edited[:start]}{name}{edited[end:]}"
    return edited


def is_table_of_ours(look: Look, name: TableName) -> bool:
    """Whether a name as written means a table or view of ours; a temporary view comes first."""
    known = name if name.database else TableName(look.current_database, name.table)
    if look.table(known) is None:
        return False
    return bool(name.database) or not look.is_temporary_view(name.table)


def ensure_database(acid: Session, name: TableName) -> None:
    """A new table may go to a database that only Spark has: then ours gets one of this name."""
    database = name.database or acid.database
    if database in acid.client.metastore.list_databases():
        return
    with own_calls():
        is_there = acid.spark.catalog.databaseExists(database)
    if is_there:  # else the error that follows says it
        acid.sql(f"create database if not exists {quoted(database)}")
