"""The changes of a table outside a statement: a read transaction of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from hiveacid.model.history import ChangeRange, Version
from hiveacid.model.tables import Table
from hiveacid.statements.changes import ChangeScan, plan_changes
from hiveacid.statements.context import Bound, ExecutionContext, Locked, fixed
from hiveacid.statements.select import read_in_transaction, reads_all


def open_changes(
    context: ExecutionContext,
    expected: Table,
    wanted: ChangeRange,
    columns: Sequence[str] | None,
    *,
    between: tuple[Version, Version] | None = None,
) -> ChangeScan:
    """What there is to read of a table's changes, in a read transaction of its own; ``between`` two
    states, where they are given.

    Raises:
        NotFoundError: no such table, or column.
        InvalidInputError: a version that the table does not have yet.
        SnapshotExpiredError: files that tell the changes are cleaned; ``write_id`` is the oldest
            version from which they can be told.
    """
    look = context.look()
    look.expect(expected)
    bound = Bound.to(look, fixed(expected.name))
    use = partial(_opened, wanted, columns, between, context)
    scan, close = read_in_transaction(context, bound, reads_all, use)
    return replace(scan, close=close)


def _opened(
    wanted: ChangeRange,
    columns: Sequence[str] | None,
    between: tuple[Version, Version] | None,
    context: ExecutionContext,
    held: Locked,
) -> tuple[ChangeScan, Iterable[Table]]:
    table = held.view.definition(held.value)
    own, files = context.client.own, context.files
    scan = plan_changes(
        held.txn, table, wanted, own=own, columns=columns, files=files, between=between
    )
    return scan, (table,)
