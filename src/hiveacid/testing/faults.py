"""What goes wrong between a client and its files or its database, decided from outside.

``FaultyFileSystem`` and the faulty dialects ask a ``Faults`` before each operation and tell it
after; what it answers is what happens.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Fault(Enum):
    """How an operation fails. Slowness is none: ``Faults.before`` simply takes its time."""

    REFUSED = "refused"
    """an error, and nothing happened"""
    LOST = "lost"
    """it happened, and the answer is an error"""
    TORN = "torn"
    """of what takes several steps a part happened, then an error; else as REFUSED"""


class Faults(Protocol):
    """Decides what goes wrong. What it raises itself goes to the caller: a client that dies."""

    def before(self, operation: str, subject: str) -> Fault | None:
        """What becomes of an operation that is about to begin; None where all goes well."""

    def after(self, operation: str, subject: str) -> None:
        """The operation has taken effect, and nobody knows yet."""


class NoFaults:
    """All goes well."""

    def before(self, operation: str, subject: str) -> Fault | None:
        """Nothing fails."""
        del operation, subject
        return None

    def after(self, operation: str, subject: str) -> None:
        """Nothing to do."""
        del operation, subject


class ScriptedFaults:
    """One operation goes wrong, by its number from 0 on; ``seen`` are those asked about so far.

    A test runs its work once to learn the operations, then once for each of them.
    """

    def __init__(self, *, at: int | None = None, fault: Fault = Fault.REFUSED) -> None:
        self._at = at
        self._fault = fault
        self.seen: list[str] = []

    def before(self, operation: str, subject: str) -> Fault | None:
        """The fault, where this is the operation."""
        self.seen.append(f"{operation} {subject}")
        return self._fault if len(self.seen) - 1 == self._at else None

    def after(self, operation: str, subject: str) -> None:
        """Nothing to do."""
        del operation, subject
