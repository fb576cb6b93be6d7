"""EXPLAIN LOCKS: the locks that a statement would take, in Hive 4.1's layout; none is taken.

What is told is what would be requested. Hive lists locks more than once, and read locks on what DML
writes, that it does not request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hiveacid.model.locks import LockComponent
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.ddl_context import DdlContext
from hiveacid.statements.listing import Listing
from hiveacid.statements.locked import Needs
from hiveacid.txn.footprint import Footprint, lock_components
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look


def locks_listing(footprint: Footprint) -> Listing:
    """The locks, a line each, below Hive's title."""
    lines = [_line(one) for one in lock_components(footprint)]
    return Listing(("Explain",), (("LOCK INFORMATION:",), *((line,) for line in lines)))


def _line(one: LockComponent) -> str:
    place = one.database if one.table is None else f"{one.database}.{one.table}"
    if one.partition is not None:
        place += "." + one.partition.replace("/", ".")
    return f"{place} -> {one.type.name}"


class _Told(Exception):
    """Ends a definition where it asks for its locks."""

    def __init__(self, components: Sequence[LockComponent]) -> None:
        super().__init__()
        self.components = tuple(components)


@dataclass(frozen=True, slots=True)
class _Teller(DdlContext):
    @contextmanager
    def locked(self, components: Sequence[LockComponent]) -> Iterator[Transaction]:
        """Nothing below it runs."""
        raise _Told(components)
        yield


def locks_of_definition(execute: Callable[[DdlContext, Any], object]) -> Needs:
    """The first request of the code that carries a definition out, which then goes no further."""

    def needs(context: ExecutionContext, statement: Any, look: Look) -> Footprint:
        del look
        try:
            execute(_Teller(context.client, context.settings), statement)
        except _Told as told:
            return Footprint(definitions=told.components)
        return Footprint()

    return needs
