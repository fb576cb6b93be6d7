"""``Session.attach`` and ``Session.detach``: tables change the metastore, their files stay, with
what another metastore has to know of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hiveacid.errors import CompactionError, InvalidInputError, StorageError
from hiveacid.layout.directories import DETACHED_FILE, partition_name
from hiveacid.metastore.api import Catalog
from hiveacid.model.commits import STATISTICS_KEYS
from hiveacid.model.compactions import CompactionState
from hiveacid.model.tables import Table, TableKind, TableName
from hiveacid.sql import parse_columns
from hiveacid.statements.arguments import checked
from hiveacid.statements.attach import ACCEPT_ALL, VALID_TXNS, VALID_WRITE_IDS
from hiveacid.statements.context import (
    Bound,
    DdlPlan,
    ExecutionContext,
    OpenSession,
    define,
    fixed,
)
from hiveacid.statements.ddl.definitions import bucket_spec
from hiveacid.statements.ddl.tables import CreateTable, DropTable, make_table
from hiveacid.statements.show import create_table_text
from hiveacid.statements.values import shortened
from hiveacid.storage.locations import one_name
from hiveacid.txn import footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
    from hiveacid.table import AcidTable


@dataclass(frozen=True, slots=True)
class Detached:
    """What is left of a table in the metastore that it was detached from.

    ``valid_write_ids`` and ``valid_txns`` are the lists in Hive's text form, None of a table that
    is not transactional.
    """

    table: Table
    valid_write_ids: str | None = None
    valid_txns: str | None = None

    @property
    def location(self) -> str:
        """Where the files are."""
        return self.table.location

    @property
    def create_table(self) -> str:
        """The statement that attaches the table again, in this or another metastore of ours."""
        lists = {VALID_WRITE_IDS: self.valid_write_ids, VALID_TXNS: self.valid_txns}
        given = {key: text for key, text in lists.items() if text is not None}
        return create_table_text(replace(self.table, properties={**self.table.properties, **given}))

    def __repr__(self) -> str:
        return f"<Detached {shortened(str(self.table.name))} at {shortened(self.location)}>"


def detach(context: ExecutionContext, name: TableName) -> Detached:
    """Let the metastore forget a table and keep its files; DROP TABLE's locks are taken.

    From before the table is forgotten until this has its answer a hidden file in the table's
    directory says how to attach it: nobody else knows which of its rows count.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: a view; a partition that is not where its name says.
        CompactionError: the table is being compacted.
        LockError: not granted before the deadline.
    """
    detached: Detached = define(context, Bound.to(context.look(), fixed(name)), _plan)
    fs, root = context.client.files.at(detached.location)
    with suppress(StorageError):
        fs.delete_file(f"{root}/{DETACHED_FILE}")
    return detached


def _plan(context: ExecutionContext, name: TableName, look: Look) -> DdlPlan:
    metastore = context.client.metastore
    table = look.definition(name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(f"{name} is a view: it has no files", view=str(name))
    fs, root = context.client.files.at(table.location)
    left = table.without_properties(STATISTICS_KEYS)

    def run(transaction: Transaction) -> Detached:
        _check_partitions(metastore, table)
        working = [
            one
            for one in metastore.show_compactions(table=name)
            if one.state is CompactionState.WORKING
        ]
        if working:
            raise CompactionError(
                f"{name} is being compacted by {working[0].worker}",
                table=str(name),
                partition=working[0].partition,
                note="Wait for its end, or ABORT COMPACTIONS.",
            )
        told: ValidWriteIdList | None = None
        while True:
            valid, txns = context.client.own.detach_table(name, but=transaction.id, told=told)
            lists = (str(valid), str(txns)) if left.is_transactional else ()
            detached = Detached(left, *lists)
            if valid == told:
                return detached
            text = f"{detached.create_table};\n"
            with suppress(StorageError):  # a place of which others only read
                fs.write_bytes(f"{root}/{DETACHED_FILE}", data=text.encode())
            told = valid

    return DdlPlan(footprint.drop_table(name), run)


def _check_partitions(catalog: Catalog, table: Table) -> None:
    root = one_name(table.location)
    for one in catalog.list_partitions(table.name) if table.partition_keys else ():
        named = partition_name(table.partition_keys, one.values)
        if one_name(one.location) != f"{root}/{named}":
            raise InvalidInputError(
                f"Partition {named} of {table.name} is at {one.location}: who attaches the table "
                "would not find it",
                table=str(table.name),
                partition=named,
                note="Move it below the table's directory (SET LOCATION), or drop it.",
            )


_NOTHING: Mapping[str, str] = {}


@checked
class TakeoverMethods:
    """What a session has of it."""

    def attach(
        self: OpenSession,
        path: str | Path,
        *,
        name: str,
        valid_write_ids: str | ValidWriteIdList | None = None,
        valid_txns: str | ValidTxnList | None = None,
        accept_all_write_ids: bool = False,
        schema: str | None = None,
        partitioned_by: Sequence[str] = (),
        bucketed_by: Sequence[str] = (),
        buckets: int | None = None,
        properties: Mapping[str, str] = _NOTHING,
    ) -> AcidTable:
        """Makes a directory that holds a transactional table a table of this metastore.

        ``valid_write_ids`` (``db.t:hwm:minOpen:open:aborted``) and ``valid_txns``
        (``hwm:minOpen:open:aborted``) are the lists of the Hive that wrote it; open ids count as
        aborted. Without them a history is taken only where the names of its directories decide what
        counts, or, with ``accept_all_write_ids``, as if everything had been committed.

        ``schema`` (Hive's text, partition columns included) is checked against the files; without
        it the columns come from them, and partition columns are strings. The files do not say
        whether a table is bucketed. ``properties`` may say ``transactional_properties``.

        Raises:
            InvalidInputError: what counts cannot be told, or is said of another table; what is
                declared is not what the files hold; the place belongs to another table.
            AlreadyExistsError: there is a table of that name.
            NotFoundError: no such directory.
            FormatError, StorageError: the files cannot be read.
        """
        context = self.definition_context(CreateTable)
        given = {VALID_WRITE_IDS: valid_write_ids, VALID_TXNS: valid_txns}
        lists = {key: str(value) for key, value in given.items() if value is not None}
        if "transactional_properties" in properties:
            lists["transactional"] = "true"
        columns = None if schema is None else parse_columns(schema)
        if columns is None and partitioned_by:
            raise InvalidInputError("partitioned_by goes with a schema, which has these columns")
        is_local = "://" not in str(path) and not str(path).startswith("file:")
        value = CreateTable(
            name=self.table_name(name),
            partition_names=tuple(column.lower() for column in partitioned_by),
            bucket=bucket_spec(bucketed_by, buckets),
            location=str(Path(path).absolute()) if is_local else str(path),
            properties={**properties, **lists, ACCEPT_ALL: str(accept_all_write_ids).lower()},
        )
        make_table(context, value, columns=columns)
        table: AcidTable = self.table(name)
        return table

    def detach(self: OpenSession, name: str | TableName) -> Detached:
        """Lets the metastore forget a table and keeps its files; the answer has the lists of valid
        ids, for ``attach`` elsewhere, and the statement that does it.

        Raises:
            NotFoundError: no such table.
            InvalidInputError: a view; a partition that is not below the table's directory.
            CompactionError: the table is being compacted.
            LockError: somebody uses the table.
        """
        context = self.definition_context(DropTable)
        return detach(context, self.table_name(name) if isinstance(name, str) else name)
