"""The health of a table as a statement: DESCRIBE DETAIL."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.tables import TableName
from hiveacid.statements.values import Command


@dataclass(frozen=True, slots=True)
class DescribeDetail(Command):
    """DESCRIBE DETAIL name."""

    name: TableName
