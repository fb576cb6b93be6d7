"""Values of the statements on compactions: COMPACT, SHOW COMPACTIONS, ABORT COMPACTIONS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hiveacid.model.compactions import CompactionId
from hiveacid.model.tables import TableName

_Partition = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class SortItem:
    """A column in the order of a rebalance; Hive puts NULL last ascending and first descending."""

    column: str
    descending: bool
    nulls_first: bool

    def __str__(self) -> str:
        """As the queue keeps it."""
        name = self.column.replace("`", "``")
        order = "DESC" if self.descending else "ASC"
        return f"`{name}` {order} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@dataclass(frozen=True, slots=True)
class Compact:
    """ALTER TABLE name [PARTITION (...)] COMPACT 'kind' [CLUSTERED INTO n BUCKETS] [AND WAIT]
    [POOL 'pool'] [WITH OVERWRITE TBLPROPERTIES (...)] [ORDER BY ...].

    ``kind`` is in lower case.
    """

    name: TableName
    kind: str
    partition: _Partition = ()
    wait: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = None
    buckets: int | None = None
    order_by: tuple[SortItem, ...] = ()


@dataclass(frozen=True, slots=True)
class ShowCompactions:
    """SHOW COMPACTIONS [COMPACTIONID = n] | [DATABASE schema | name [PARTITION (...)]] [POOL 'p']
    [TYPE 't'] [STATUS 's'] [ORDER BY ...] [LIMIT n].

    ``order`` pairs a column of the answer with whether it is descending.
    """

    compaction: CompactionId | None = None
    schema: str | None = None
    name: TableName | None = None
    partition: _Partition = ()
    pool: str | None = None
    kind: str | None = None
    status: str | None = None
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class AbortCompactions:
    """ABORT COMPACTIONS id ..."""

    compactions: tuple[CompactionId, ...]


@dataclass(frozen=True, slots=True)
class Clean:
    """Clean a table, all of them where ``name`` is None; ``dry_run`` only tells what would go and
    why the rest stays. No SQL says this.
    """

    name: TableName | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class WhyCompact:
    """Which threshold a table's partitions meet, or what is missing. No SQL says this."""

    name: TableName


CompactionStatement = Compact | ShowCompactions | AbortCompactions | Clean | WhyCompact
