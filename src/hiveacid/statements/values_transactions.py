"""Values of the statements that begin and end transactions."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.transactions import Isolation


@dataclass(frozen=True, slots=True)
class Begin:
    """START TRANSACTION [ISOLATION LEVEL level], BEGIN [TRANSACTION | WORK]; ``isolation`` None:
    what SET TRANSACTION or the settings say.
    """

    isolation: Isolation | None = None


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """SET TRANSACTION ISOLATION LEVEL level: of the open transaction, or of the next."""

    isolation: Isolation


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


TransactionStatement = (
    Begin | SetTransaction | Commit | Rollback | Savepoint | ReleaseSavepoint | SetAutocommit
)
