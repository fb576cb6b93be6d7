"""What a table was at each of its versions, as plain Python values: the model that a history of the
past is compared with.

A column is told by a number that it keeps for good, a row by its values that are not NULL: so a row
of then is one of today but for the columns that are no longer there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = frozenset[tuple[int, Any]]
Rows = Counter[Row]
Columns = tuple[tuple[int, str], ...]
"""The numbers and the names of a table's columns, those of partitions last."""


@dataclass(frozen=True)
class State:
    """A version: the table just after a write id committed."""

    write_id: int
    rows: Rows
    columns: Columns
    at_ms: int
    sequence: int = 0
    txn: int = 0


@dataclass
class Pinned:
    """A tag, or a consumer: the place of its version among the commits."""

    place: int
    expires_ms: int | None = None
    is_lost: bool = False
    """Nothing keeps its files any more."""


@dataclass(eq=False)
class TableModel:
    """One table, under whatever name; ``versions`` are in the order of commits."""

    name: str
    kind: str
    columns: Columns
    retention_ms: int
    made_ms: int
    made_after: int
    """The place of the last commit before it, of any table."""
    versions: list[State] = field(default_factory=list)
    replaced: list[tuple[int, int]] = field(default_factory=list)
    """When files were replaced, and the place of the last version then."""
    let_go: set[int] = field(default_factory=set)
    """The places of versions that nothing has to keep any more."""
    moved_up_to: int = -1
    """The place of the last version since which changes are not told."""
    tags: dict[str, Pinned] = field(default_factory=dict)
    consumers: dict[str, Pinned] = field(default_factory=dict)
    partitions: set[int] = field(default_factory=set)
    rebalanced: bool = False
    is_of_hive: bool = False
    """It was attached with rows, as the first version: nothing is known of its time."""

    def __post_init__(self) -> None:
        self.versions.append(State(0, Counter(), self.columns, 0))

    @property
    def rows(self) -> Rows:
        """What is there now."""
        return self.versions[-1].rows

    @property
    def last(self) -> int:
        """The place of the version of now."""
        return len(self.versions) - 1

    @property
    def has_ids(self) -> bool:
        """Whether its rows have ids."""
        return self.kind != "insert-only"

    @property
    def has_partitions(self) -> bool:
        """Whether its last column is that of its partitions."""
        return self.kind == "partitions"

    @property
    def names(self) -> dict[str, int]:
        """Today's columns by name."""
        return {name: number for number, name in self.columns}

    def has_to_be_there(self, place: int, now_ms: int) -> bool:
        """Whether the retention keeps a version, or it is that of now."""
        if place in self.let_go:
            return False
        kept = (
            at_ms + self.retention_ms > now_ms for at_ms, last in self.replaced if last >= place
        )
        return place == self.last or all(kept)

    def cleaned(self, now_ms: int) -> None:
        """A cleaner came by: what need not be there may be gone, also for an earlier clock."""
        for place in range(len(self.versions)):
            if not self.has_to_be_there(place, now_ms):
                self.let_go.add(place)
        for pin in (*self.tags.values(), *self.consumers.values()):
            pin.is_lost |= pin.expires_ms is not None and pin.expires_ms <= now_ms

    def has_pin(self, place: int, now_ms: int) -> bool:
        """Whether a tag keeps a version."""
        return any(
            one.place == place
            and not one.is_lost
            and (one.expires_ms is None or one.expires_ms > now_ms)
            for one in self.tags.values()
        )

    def place_of(self, write_id: int) -> int:
        """Where a version is among the commits."""
        return next(i for i, one in enumerate(self.versions) if one.write_id == write_id)

    def place_up_to(self, write_id: int) -> int:
        """The same of one that was aborted, up to which a compaction went: it stands for the
        version before it.
        """
        below = [one.write_id for one in self.versions if one.write_id <= write_id]
        return self.place_of(max(below))

    def row(self, values: Mapping[str, Any]) -> Row:
        """A row by today's names."""
        names = self.names
        return frozenset((names[key], one) for key, one in values.items() if one is not None)


def value_of(row: Row, number: int) -> Any:
    """A value of a row."""
    return dict(row).get(number)


def in_columns(columns: Columns, rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Rows that were read with the names of these columns."""
    numbers = {name: number for number, name in columns}
    found: Rows = Counter()
    for row in rows:
        assert set(row) == set(numbers), f"columns are {list(row)}, not {list(numbers)}"
        found[frozenset((numbers[key], one) for key, one in row.items() if one is not None)] += 1
    return found


def changed(rows: Rows, before: Rows, after: Rows) -> Rows:
    """The rows, with what was done to a snapshot done to them."""
    found = Counter(rows)
    found.subtract(before)
    found.update(after)
    assert min(found.values(), default=0) >= 0, "a row was taken twice: a lost update"
    return +found
