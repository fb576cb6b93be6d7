"""When a table or partition is worth compacting, and how: a decision with its reasons.

Hive's rules (metastore.md 4.3 step 3, format.md 10.1), in this order: deltas that hold too large a
fraction of the base's bytes, or a base that only waits to be cleaned: major. Too many deltas:
minor, or major where there is no base. Pure: sizes in, a decision out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hiveacid.layout.directories import AcidDirectory, BaseName, parse_directory
from hiveacid.model.compactions import CompactionType
from hiveacid.model.tables import (
    DELTA_NUM,
    DELTA_PCT,
    NO_AUTO_COMPACTION,
    AcidMode,
    Table,
    is_true,
    threshold,
)
from hiveacid.settings import Settings


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours of a day from ``first`` to before ``end``; over midnight where it is lower."""

    first: int
    end: int

    @classmethod
    def parse(cls, text: str) -> Hours | None:
        """Read ``22-6``; None for an empty text. The setting's pattern has been checked."""
        if not text:
            return None
        first, _, end = text.partition("-")
        return cls(int(first), int(end))

    def __contains__(self, hour: int) -> bool:
        if self.first < self.end:
            return self.first <= hour < self.end
        return hour >= self.first or hour < self.end

    def __str__(self) -> str:
        return f"{self.first}-{self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """More than ``deltas`` deltas or ``fraction`` of the base's bytes call for a compaction; major
    ones begin in the hours ``major`` (None: always)."""

    deltas: int = 10
    fraction: float = 0.1
    major: Hours | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """What a partition holds, as a compactor sees it: counts and bytes.

    ``base_bytes`` are those of the originals where there is no base; ``deltas`` counts delete
    deltas, too. ``has_old_base``: one lies there that is not needed and nobody is about to clean.
    """

    base_bytes: int
    deltas: int
    delta_bytes: int
    has_old_base: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, None for nothing, and why: one sentence with the numbers."""

    type: CompactionType | None
    reason: str


def thresholds_of(table: Table, settings: Settings) -> Thresholds:
    """The session's thresholds with what the table says of its own.

    Raises:
        InvalidInputError: a table property is no such number.
    """
    deltas = threshold(table.properties, DELTA_NUM)
    fraction = threshold(table.properties, DELTA_PCT)
    return Thresholds(
        deltas=settings.compactor_delta_num_threshold if deltas is None else int(deltas),
        fraction=settings.compactor_delta_pct_threshold if fraction is None else fraction,
        major=Hours.parse(settings.compactor_offpeak),
    )


def measure(directory: AcidDirectory, *, cleaning_waits: bool) -> Contents:
    """Count what ``resolve`` found with a compactor's list.

    ``cleaning_waits``: the cleaner has an entry of this directory already.
    """
    base = directory.originals if directory.base is None else directory.base.files
    old = (parse_directory(path.rpartition("/")[2]) for path in directory.obsolete)
    return Contents(
        base_bytes=sum(file.size_bytes for file in base),
        deltas=len(directory.deltas),
        delta_bytes=sum(file.size_bytes for delta in directory.deltas for file in delta.files),
        has_old_base=not cleaning_waits and any(isinstance(name, BaseName) for name in old),
    )


def reason_against(
    table: Table, database_properties: Mapping[str, str], settings: Settings
) -> str | None:
    """Why this table is not compacted without being asked, None where it is.

    The database's ``no_auto_compaction`` goes before the table's, whatever it says.
    """
    if table.acid_mode is AcidMode.NONE:
        return "it is not transactional"
    if table.has_hive_3_names or table.sort_columns:
        return "its files are named for Hive 3.1" if table.has_hive_3_names else "it is sorted"
    if NO_AUTO_COMPACTION in map(str.lower, database_properties):
        if is_true(database_properties, NO_AUTO_COMPACTION):
            return f"its database has {NO_AUTO_COMPACTION}"
    elif is_true(table.properties, NO_AUTO_COMPACTION):
        return f"it has {NO_AUTO_COMPACTION}"
    if table.acid_mode is AcidMode.INSERT_ONLY and not settings.compactor_insert_only:
        return "it is insert-only, and hiveacid.compactor.insert_only is false"
    return None


def decide(contents: Contents, thresholds: Thresholds, *, hour: int) -> Decision:
    """What to do with a partition at this hour of the day."""
    decision = _decide(contents, thresholds)
    if decision.type is not CompactionType.MAJOR or thresholds.major is None:
        return decision
    if contents.has_old_base and not contents.deltas:  # there is nothing to write
        return decision
    if hour in thresholds.major:
        return decision
    waits = f"major compactions wait for the hours {thresholds.major}"
    if contents.deltas > thresholds.deltas:
        return Decision(CompactionType.MINOR, f"{decision.reason}; {waits}")
    return Decision(None, f"{decision.reason}; {waits}")


def _decide(contents: Contents, thresholds: Thresholds) -> Decision:
    has_base = contents.base_bytes > 0 or contents.delta_bytes == 0
    many = contents.deltas > thresholds.deltas
    deltas = "1 delta" if contents.deltas == 1 else f"{contents.deltas} deltas"
    counted = f"{deltas}, {'' if many else 'not '}more than {thresholds.deltas}"
    if not has_base:
        if many:
            return Decision(CompactionType.MAJOR, f"{counted}, and no base")
        return Decision(None, f"{counted}; no base to compare their bytes with")
    if not contents.delta_bytes and contents.has_old_base:
        return Decision(CompactionType.MAJOR, "a base that nobody needs waits to be cleaned")
    limit = f"more than {thresholds.fraction:.4g} of the base's {contents.base_bytes} bytes"
    sized = f"{contents.delta_bytes} bytes in deltas"
    if contents.delta_bytes > thresholds.fraction * contents.base_bytes:
        return Decision(CompactionType.MAJOR, f"{sized}, {limit}")
    if many:
        return Decision(CompactionType.MINOR, counted)
    return Decision(None, f"{counted}; {sized}, not {limit}")
