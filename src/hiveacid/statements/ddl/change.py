"""How a definition is changed: planned, locked, planned again under the locks, done, committed.

Only the locks of the first plan count; the one that is carried out comes from the catalog as it is
under them (``statements.locked``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hiveacid.errors import InvalidInputError
from hiveacid.model.locks import LockComponent
from hiveacid.model.tables import AcidMode, Table, TableKind, TableName
from hiveacid.statements.context import Bound, ExecutionContext
from hiveacid.statements.locked import locked
from hiveacid.txn.footprint import Footprint
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look

Locks = tuple[LockComponent, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """The plan of a statement: ``locks``, and what ``run`` does in a transaction that holds them.

    ``guards`` are locked, too, and not told by EXPLAIN LOCKS: names that are to be taken, which
    nobody else may take, or be about to leave, at the same time.
    """

    locks: Locks
    run: Callable[[Transaction], Any]
    guards: Locks = ()


Plan = Callable[[ExecutionContext, Any, Look], Change | None]
"""What a statement changes, given the definitions of a look or of a view; None where all is as it
wants it (IF EXISTS, IF NOT EXISTS).
"""


def define(context: ExecutionContext, bound: Bound, plan: Plan) -> Any:
    """Carries out what ``plan`` says under its locks; its answer, None where there was nothing to
    do.

    Raises:
        LockError: a lock could not be had in time.
        ConflictError: the definitions changed again and again.
        AcidError: as ``plan`` and what it runs.
    """
    change, planned_from = plan(context, bound.value, bound.look), bound.look
    if change is None:
        return None

    def needs(_: ExecutionContext, value: Any, look: Look) -> Footprint:
        nonlocal change, planned_from
        if look is not planned_from:
            change, planned_from = plan(context, value, look), look
        return Footprint(definitions=() if change is None else change.locks + change.guards)

    held = locked(context, bound, needs)  # the plan is now that of its view
    with held.txn as txn:
        if change is None:
            txn.abort("somebody else has done it")
            return None
        answer = change.run(txn)
        txn.commit()
    return answer


def table_to_alter(look: Look, name: TableName) -> Table:
    """The table of this name, for ALTER TABLE.

    Raises:
        NotFoundError: 10001 no such table.
        InvalidInputError: 10131 it is a view.
    """
    table = look.definition(name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(
            "To alter a view you need to use the ALTER VIEW command.", code=10131, view=str(name)
        )
    return table


def use_write_id(transaction: Transaction, table: Table) -> None:
    """Lets a change of the definition use up a write id, as Hive does (real-hive.md 9)."""
    if table.acid_mode is not AcidMode.NONE:
        transaction.write_id(table.name)
