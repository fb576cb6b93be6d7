"""The health of a table, and erasure from it, as statements: DESCRIBE DETAIL, PURGE."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.tables import TableName
from hiveacid.statements.values import Command


@dataclass(frozen=True, slots=True)
class DescribeDetail(Command):
    """DESCRIBE DETAIL name."""

    name: TableName


@dataclass(frozen=True, slots=True)
class Purge(Command):
    """PURGE TABLE name [[AS] alias] [WHERE condition] [WAIT seconds] [DROP PINS].

    ``where`` from SQL is a part of its text, that means what it means in a DELETE.
    """

    name: TableName
    where: object = None
    alias: str | None = None
    wait_s: float | None = None
    drop_pins: bool = False
