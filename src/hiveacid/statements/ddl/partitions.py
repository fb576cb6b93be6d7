"""ALTER TABLE ADD, DROP and RENAME PARTITION, and MSCK REPAIR TABLE: the catalog's partitions
become those whose directories are there.

ADD shares the table, DROP holds the partitions, RENAME the table (real-hive.md 5). DROP and RENAME
use up a write id of a transactional table. MSCK looks only at directories below the table's own; a
partition with a location of its own is dropped only where that is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from hiveacid.errors import AcidError, AlreadyExistsError, InvalidInputError
from hiveacid.layout.directories import partition_name
from hiveacid.model.commits import initial_statistics
from hiveacid.model.predicates import Predicate
from hiveacid.model.tables import DROPPING, Partition, Table, TableKind, TableName, TxnId
from hiveacid.model.types import HiveType
from hiveacid.statements.attach import admit
from hiveacid.statements.context import DdlPlan, ExecutionContext, table_to_alter, use_write_id
from hiveacid.statements.ddl.definitions import check_names_of_partitions, checked
from hiveacid.statements.locations import (
    check_deletable,
    check_free,
    delete_location,
    drop_note,
    goes_to_trash,
    hide,
    move_location,
    noted,
    owns_files,
    partitions_claim,
    put_back,
    undo_killed_rename,
    without_note,
)
from hiveacid.statements.partition_values import (
    PartitionText,
    chosen_partitions,
    full_values,
    normal_text,
    partition_column,
    partitions_found,
)
from hiveacid.statements.placement import default_location, new_location
from hiveacid.statements.values import Command, Listing
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import discover_partitions
from hiveacid.txn import footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look


@dataclass(frozen=True, slots=True)
class PartitionToAdd:
    """PARTITION (...) [LOCATION ...] of ADD PARTITION."""

    spec: PartitionText
    location: str | None = None


@dataclass(frozen=True, slots=True)
class AddPartitions(Command):
    """ALTER TABLE name ADD [IF NOT EXISTS] PARTITION (...) ..."""

    name: TableName
    partitions: tuple[PartitionToAdd, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitions(Command):
    """ALTER TABLE name DROP [IF EXISTS] PARTITION (filters), ..."""

    name: TableName
    where: Predicate
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True)
class RenamePartition(Command):
    """ALTER TABLE name PARTITION (...) RENAME TO PARTITION (...)."""

    name: TableName
    spec: PartitionText
    new_spec: PartitionText


@dataclass(frozen=True, slots=True)
class ChangePartitionColumn(Command):
    """ALTER TABLE name PARTITION COLUMN (column type [COMMENT 'text'])."""

    name: TableName
    column: str
    type: HiveType
    comment: str | None = None


def add_partitions(context: ExecutionContext, statement: AddPartitions, look: Look) -> DdlPlan:
    """ALTER TABLE ADD PARTITION: all of them, or none.

    Raises:
        NotFoundError: no such table.
        AlreadyExistsError: one exists and no IF NOT EXISTS.
        InvalidInputError: a specification that does not name one partition; as ``attach.admit`` and
            ``partitions_claim``.
    """
    table = table_to_alter(look, statement.name)
    wanted = [(full_values(table, one.spec), one.location) for one in statement.partitions]

    def run(_: Transaction) -> None:
        new = [_new(context.files, table, texts, location) for texts, location in wanted]
        metastore = context.client.metastore
        known = look.partitions(table)
        there = {one.values for one in known}
        admit(context, table, [one for one in new if one.values not in there])
        claim = partitions_claim(table, known, new)
        if any(location for _, location in wanted):
            claim(context.client.own.places())  # no directory is made in another table's place
        for partition in new:
            if partition.values not in there:
                fs, path = context.files.at(partition.location)
                fs.create_directory(path)
        metastore.add_partitions(
            table.name,
            new,
            if_not_exists=statement.if_not_exists,
            have_rows=any(not one.properties for one in new),
            claim=claim,
        )

    return DdlPlan(footprint.use_table(table.name), run)


def _new(
    files: Files, table: Table, texts: tuple[str | None, ...], location: str | None
) -> Partition:
    location = location or new_location(table, texts)
    if location[0] != "/" and ":" not in location:
        location = f"{table.location.rstrip('/')}/{location}"
    fs, path = files.at(location)
    known: dict[str, str] = {}
    # An empty directory may be there: of somebody who is adding the same partition.
    if owns_files(table) and not fs.list_directory(path):
        known = initial_statistics(column.name for column in table.columns)
    return Partition(texts, location, known)


def drop_partitions(context: ExecutionContext, statement: DropPartitions, look: Look) -> DdlPlan:
    """ALTER TABLE DROP PARTITION; Hive does not mind where none meets the conditions.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: a condition that names no partition column, or no value of one.
    """
    table = table_to_alter(look, statement.name)
    doomed = chosen_partitions(table, look.partitions(table), statement.where)

    def run(transaction: Transaction) -> None:
        use_write_id(transaction, table)
        below = f"{table.location.rstrip('/')}/"
        owned = doomed if owns_files(table) else ()
        inside = [one for one in owned if one.location.startswith(below)]
        elsewhere = [one.location for one in owned if not one.location.startswith(below)]
        check_deletable(context.files, elsewhere)
        if inside:
            _drop_hidden(context, table, doomed, inside, transaction.id, to_trash=to_trash)
        else:
            context.client.metastore.drop_partitions(table.name, [one.values for one in doomed])
        for location in elsewhere:
            delete_location(context.files, location, to_trash=to_trash)

    to_trash = goes_to_trash(table, purge=statement.purge)
    names = [partition_name(table.partition_keys, one.values) for one in doomed]
    return DdlPlan(footprint.drop_partitions(table.name, names), run)


def _drop_hidden(
    context: ExecutionContext,
    table: Table,
    doomed: Sequence[Partition],
    inside: Sequence[Partition],
    txn: TxnId,
    *,
    to_trash: bool,
) -> None:
    """Notes in the table's properties what it does, hides the directories that are below the
    table's, forgets the partitions, deletes. Killed before the catalog has forgotten them it is
    undone by whoever locks the table next; killed after that, what is hidden comes back with no new
    partition of that name.
    """
    metastore = context.client.metastore
    hidden, key = f"{table.location.rstrip('/')}/.dropped_{txn}", f"{DROPPING}{txn}"
    metastore.alter_table(
        table.name, lambda now: replace(now, properties={**now.properties, key: hidden})
    )
    try:
        hide(table, inside, hidden, context.files)
        metastore.drop_partitions(table.name, [one.values for one in doomed])
    except AcidError:
        put_back(metastore, table, hidden, context.files)
        metastore.alter_table(table.name, partial(Table.without_properties, keys=(key,)))
        raise
    delete_location(context.files, hidden, to_trash=to_trash)
    drop_note(metastore, table, partial(Table.without_properties, keys=(key,)))


def rename_partition(context: ExecutionContext, statement: RenamePartition, look: Look) -> DdlPlan:
    """ALTER TABLE PARTITION RENAME TO PARTITION: what lies at the default place moves.

    Raises:
        NotFoundError: no such table, or 10006 no such partition.
        AlreadyExistsError: the new name, or its directory, exists.
        InvalidInputError: a specification that does not name one partition.
    """
    table = table_to_alter(look, statement.name)
    metastore = context.client.metastore
    old = metastore.get_partition(table.name, full_values(table, statement.spec))
    texts = full_values(table, statement.new_spec)
    if any(one.values == texts for one in look.partitions(table)):
        raise AlreadyExistsError(
            f"Partition already exists: {statement.new_spec}", table=str(table.name)
        )
    location = old.location
    if location.rstrip("/") == default_location(table, old.values):
        location = new_location(table, texts)

    def run(transaction: Transaction) -> None:
        use_write_id(transaction, table)
        if location != old.location:
            check_free(context.files, location)
            metastore.alter_table(table.name, lambda now: noted(now, old.location, location))
        try:
            move_location(context.files, old.location, location)
            metastore.alter_partition(
                table.name, old.values, lambda now: replace(now, values=texts, location=location)
            )
        except AcidError:
            undo_killed_rename(metastore, noted(table, old.location, location), context.files)
            raise
        if location != old.location:
            drop_note(metastore, table, without_note)

    return DdlPlan(footprint.alter_table(table.name), run)


def change_partition_column(
    context: ExecutionContext, statement: ChangePartitionColumn, look: Look
) -> DdlPlan:
    """ALTER TABLE PARTITION COLUMN: another type, in which each partition is called as it is.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: 10098 no such column; a partition that would be called otherwise.
    """
    table = table_to_alter(look, statement.name)
    old = partition_column(table, statement.column)
    new = replace(old, type=statement.type, comment=statement.comment)
    for part in look.partitions(table):
        text = part.values[table.partition_columns.index(old)]
        if normal_text(text, new) != text:
            raise InvalidInputError(
                f"Partition value {text!r} is written otherwise in type {new.type}",
                table=str(table.name),
                column=new.name,
            )

    def changed(now: Table) -> Table:
        keys = (new if one.name == new.name else one for one in now.partition_columns)
        changed = checked(replace(now, partition_columns=tuple(keys)))
        check_names_of_partitions(changed)
        return changed

    def run(transaction: Transaction) -> None:
        use_write_id(transaction, table)
        context.client.metastore.alter_table(table.name, changed)

    return DdlPlan(footprint.alter_table(table.name), run)


@dataclass(frozen=True, slots=True)
class RepairTable(Command):
    """MSCK [REPAIR] TABLE name [ADD | DROP | SYNC PARTITIONS [(filters)]]; ``repair`` False: only
    tell.
    """

    name: TableName
    repair: bool = True
    add: bool = True
    drop: bool = False
    where: Predicate | None = None


def repair(context: ExecutionContext, statement: RepairTable, look: Look) -> DdlPlan:
    """MSCK [REPAIR] TABLE; its answer says what differed, as Hive's does.

    Raises:
        NotFoundError: 10001 no such table.
        InvalidInputError: a view; directories of write ids that the table has not given out.
        FormatError: directories that are partitions by other columns, unless settings say "skip".
    """
    table = look.definition(statement.name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError("MSCK is not supported for views", view=str(table.name))
    locks = footprint.alter_table if statement.repair and statement.drop else footprint.use_table
    return DdlPlan(
        locks(table.name),
        lambda transaction: _repaired(context, statement, table, transaction),
    )


def _repaired(
    context: ExecutionContext, statement: RepairTable, table: Table, transaction: Transaction
) -> Listing:
    if not table.partition_columns:
        return Listing(("msck",), ())
    metastore = context.client.metastore
    there, known = _on_disk(context, table), metastore.list_partitions(table.name)
    gone = tuple(
        part
        for part in known
        if statement.drop
        and part.location.rstrip("/") not in there
        and not _is_there(part, context.files)
    )
    if statement.where is not None:
        gone = chosen_partitions(table, gone, statement.where)
    lost = {part.values for part in gone}
    left = {part.values: part.location.rstrip("/") for part in known if part.values not in lost}
    places = set(left.values())
    missing = partitions_found(
        table,
        {
            location: values
            for location, values in there.items()
            if statement.add and location not in places and values not in left
        },
        known=left,
    )
    if statement.where is not None:
        missing = chosen_partitions(table, missing, statement.where)
    if statement.repair and missing:
        admit(context, table, missing)
    if statement.repair and gone:
        use_write_id(transaction, table)
        metastore.drop_partitions(table.name, [part.values for part in gone])
    if statement.repair and missing:
        metastore.add_partitions(table.name, missing, have_rows=True)
    titles = ("Partitions not in metastore:", "Partitions missing from filesystem:")
    rows = tuple(
        (title + "".join(f"\t{_shown(table, part)}" for part in parts),)
        for title, parts in zip(titles, (missing, gone), strict=True)
        if parts
    )
    return Listing(("msck",), rows)


def _shown(table: Table, partition: Partition) -> str:
    return f"{table.name.table}:{partition_name(table.partition_keys, partition.values)}"


def _on_disk(context: ExecutionContext, table: Table) -> dict[str, tuple[str | None, ...]]:
    """The directories that are partitions of the table by their names, with the values there."""
    fs, root = context.files.at(table.location)
    base = table.location.rstrip("/")
    passes_over = context.settings.msck_path_validation != "throw"
    found = discover_partitions(fs, root, columns=table.partition_keys, passes_over=passes_over)
    return {base + part.path[len(root.rstrip("/")) :]: part.values for part in found if part.names}


def _is_there(partition: Partition, files: Files) -> bool:
    fs, path = files.at(partition.location)
    return fs.exists(path)
