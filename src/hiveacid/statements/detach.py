"""A table leaves the metastore, its files stay: with what another metastore has to know of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hiveacid.errors import CompactionError, InvalidInputError
from hiveacid.layout.names import partition_name
from hiveacid.metastore.api import Catalog
from hiveacid.model.compactions import CompactionState
from hiveacid.model.statistics import STATISTICS_KEYS
from hiveacid.model.tables import AcidMode, Table, TableKind, TableName
from hiveacid.statements.answers import shortened
from hiveacid.statements.attach import VALID_TXNS, VALID_WRITE_IDS
from hiveacid.statements.context import Bound, ExecutionContext, fixed
from hiveacid.statements.locked import Change, define
from hiveacid.statements.show import create_table_text
from hiveacid.storage.filesystem import one_name
from hiveacid.txn import footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look


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

    Raises:
        NotFoundError: no such table.
        InvalidInputError: a view; a partition that is not where its name says.
        CompactionError: the table is being compacted.
        LockError: not granted before the deadline.
    """
    detached: Detached = define(context, Bound.to(context.look(), fixed(name)), _plan)
    return detached


def _plan(context: ExecutionContext, name: TableName, look: Look) -> Change:
    metastore = context.client.metastore
    table = look.definition(name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(f"{name} is a view: it has no files", view=str(name))

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
        valid, txns = context.client.own.detach_table(name, but=transaction.id)
        kept = {key: text for key, text in table.properties.items() if key not in STATISTICS_KEYS}
        if table.acid_mode is AcidMode.NONE:
            return Detached(replace(table, properties=kept))
        return Detached(replace(table, properties=kept), str(valid), str(txns))

    return Change(footprint.drop_table(name), run)


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
