"""Values of the statements that begin and end transactions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Begin:
    """START TRANSACTION, BEGIN [TRANSACTION | WORK]."""


@dataclass(frozen=True, slots=True)
class Commit:
    """COMMIT [TRANSACTION | WORK]."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """ROLLBACK [TRANSACTION | WORK] [TO [SAVEPOINT] name]; ``savepoint`` None: all of it."""

    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class Savepoint:
    """SAVEPOINT name."""

    name: str


@dataclass(frozen=True, slots=True)
class ReleaseSavepoint:
    """RELEASE [SAVEPOINT] name."""

    name: str


@dataclass(frozen=True, slots=True)
class SetAutocommit:
    """SET autocommit = true | false; ``on`` None asks for it."""

    on: bool | None = None


TransactionStatement = Begin | Commit | Rollback | Savepoint | ReleaseSavepoint | SetAutocommit
