"""Values of LOCK and UNLOCK."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.tables import TableName


@dataclass(frozen=True, slots=True)
class LockTable:
    """LOCK TABLE name [PARTITION (...)] SHARED | EXCLUSIVE."""

    name: TableName
    partition: tuple[tuple[str, str | None], ...] = ()
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class UnlockTable:
    """UNLOCK TABLE name [PARTITION (...)]."""

    name: TableName
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class LockDatabase:
    """LOCK DATABASE schema SHARED | EXCLUSIVE."""

    schema: str
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class UnlockDatabase:
    """UNLOCK DATABASE schema."""

    schema: str


LockStatement = LockTable | UnlockTable | LockDatabase | UnlockDatabase
