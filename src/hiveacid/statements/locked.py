"""From the first look to the locks, and the look under them that everything else comes from.

Between the two somebody else may have renamed, dropped, altered or converted a table, or changed
its partitions. Then the statement is bound anew, to the definitions as they are, and takes the
locks that it needs now: a table of the same name that still fits is the one it goes to, a name that
is gone ends in NotFoundError.

So a definition is changed (``define``): planned, locked, planned again under the locks, done,
committed. Only the locks of the first plan count.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from hiveacid.errors import ConflictError, InvalidInputError
from hiveacid.layout.names import partition_name
from hiveacid.model.predicates import Predicate, columns_of
from hiveacid.model.tables import AcidMode, Table, TableKind, TableName
from hiveacid.model.transactions import LockComponent
from hiveacid.statements.context import Bound, ExecutionContext
from hiveacid.statements.locations import undo_killed
from hiveacid.txn.footprint import PARTITIONS_MAX, Footprint, lock_components
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look, View, is_another

_LOG = logging.getLogger(__name__)
_LOOKS_MAX: Final = 20
"""So often a definition may change between the look and the locks before the statement gives up."""

Needs = Callable[[ExecutionContext, Any, Look], Footprint]
"""What a statement reads, writes and defines, for its locks; it refuses what can be refused
before.
"""


@dataclass(frozen=True, slots=True)
class Locked:
    """A statement's value with its locks taken, and the definitions under them."""

    txn: Transaction
    value: Any
    view: View


def locked(
    context: ExecutionContext,
    bound: Bound,
    needs: Needs,
    *,
    within: Transaction | None = None,
    read_only: bool = False,
) -> Locked:
    """Take the locks of a statement, in a transaction of its own, which whoever calls this ends,
    or ``within`` one of several statements, which keeps them whatever comes.

    Where a definition was changed before they were had, a transaction of its own is given up with
    all its locks and another begun.

    Raises:
        NotFoundError: a table is gone.
        LockError: the locks were not granted before the deadline.
        ConflictError: the definitions changed again and again.
        AcidError: the statement does not fit the table that there is now.
    """
    transactions = context.client.transactions
    for _ in range(_LOOKS_MAX):
        txn = within or transactions.begin(read_only=read_only, isolation=context.isolation)
        try:
            found = _lock_and_look(context, txn, bound, needs)
            if isinstance(found, Locked):
                return found
            bound = found
        except BaseException as error:
            if within is None:
                _give_up(txn, error)
            raise
        if within is None:
            _give_up(txn, ConflictError("a definition changed before the locks were had"))
    names = ", ".join(map(str, sorted(bound.look.names)))
    raise ConflictError(
        f"The definitions of {names} changed {_LOOKS_MAX} times while the statement waited for its "
        "locks",
        tables=names,
    )


def _give_up(txn: Transaction, error: BaseException) -> None:
    """End a transaction that has done nothing yet; what fails in that is left to the time-out."""
    if txn.is_read_only:
        txn.close(because=error)
    else:
        txn.__exit__(type(error), error, error.__traceback__)


def _lock_and_look(
    context: ExecutionContext, txn: Transaction, bound: Bound, needs: Needs
) -> Locked | Bound:
    """The statement with its locks, or bound anew because of what was changed before them."""
    footprint = needs(context, bound.value, bound.look)
    txn.lock(footprint)
    view = bound.look.under_locks(lambda: txn.pending)
    held = {(lock.database, lock.table) for lock in lock_components(footprint)}
    mine = [view.table(name) for name in view.names if (name.database, name.table) in held]
    catalog, files = context.client.metastore, context.files
    if [table for table in mine if table and undo_killed(catalog, table, files)]:
        view = view.under_locks(lambda: txn.pending)
    changed = view.changed_since(bound.look)
    if changed:
        names = ", ".join(map(str, sorted(changed)))
        _LOG.info("Definitions changed before the locks were had: %s", names, extra={"txn": txn.id})
        for name in changed:
            if is_another(bound.look.table(name), view.table(name)):
                txn.forget_table(name)
        return bound.again(view)
    wanted = lock_components(needs(context, bound.value, view))
    if not set(wanted).issubset(lock_components(footprint)):
        _LOG.info("Partitions changed before the locks were had", extra={"txn": txn.id})
        return replace(bound, look=view)
    return Locked(txn, bound.value, view)


# -------------------------------------------------------------------- partitions


def locked_partitions(
    look: Look, table: Table, predicates: Iterable[Predicate]
) -> tuple[str, ...] | None:
    """Names of the partitions that may meet one of ``predicates``; None (the whole table) where
    those say nothing of partitions, and where all partitions, none or very many are left.
    """
    from hiveacid.storage.plan.planning import partitions_that_match

    wanted = tuple(predicates)
    keys = table.partition_keys
    if not keys or any(columns_of(one).isdisjoint(keys) for one in wanted):
        return None
    known = look.partitions(table)
    found = {part.values for one in wanted for part in partitions_that_match(table, known, one)}
    if len(found) in (0, len(known)) or len(found) > PARTITIONS_MAX:
        return None
    return tuple(partition_name(keys, part.values) for part in known if part.values in found)


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
        txn.pending.kind = kind_of(bound.value)
        txn.pending.note_statement(context.statement)
        answer = change.run(txn)
        txn.commit()
    return answer


def kind_of(value: object) -> str:
    """What kind of statement or work a value is: ``DROP PARTITIONS``."""
    name = type(value).__name__.removesuffix("Work")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).upper()


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
