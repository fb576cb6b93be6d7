"""The goals: which figure of ours is held against what, as data; and their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from benchmarks.meter import OURS, Figures

ORC: Final = "orc"
ICEBERG: Final = "iceberg_v3"
PYARROW: Final = "pyarrow"


class Unit(Enum):
    """What is limited."""

    RATIO = "x"
    """ours by the other's, of wall and of CPU seconds: the worse counts"""
    CPU = "x CPU"
    WALL = "x wall"
    SECONDS = "s"
    """our median alone"""
    MIB = "MiB"
    """our highest peak of resident memory"""


@dataclass(frozen=True, slots=True)
class Goal:
    """``metric`` of ours against ``of`` (the same where empty) of the system ``over``.

    ``per_row``: ours is divided by what our table stores more of than the other's.
    """

    title: str
    metric: str
    at_most: float
    over: str = ""
    of: str = ""
    unit: Unit = Unit.RATIO
    per_row: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was measured for a goal; ``met`` is None where a side is missing."""

    goal: Goal
    wall: float | None = None
    cpu: float | None = None
    figure: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is."""
        return None if self.figure is None else self.figure <= self.goal.at_most


_QUERIES = ("q3", "q6", "q14", "q18")
GOALS: Final = (
    Goal("load", "load", 0.95, ORC),
    Goal("load", "load", 1.0, ICEBERG),
    Goal("MERGE 500k, 70/30", "upsert", 0.8, ICEBERG),
    Goal("CDC MERGE 1 M, 60/30/10", "cdc", 0.8, ICEBERG),
    Goal("DELETE 100k scattered", "delete", 0.8, ICEBERG),
    Goal("q1, clean", "clean.q1", 1.0, ORC),
    Goal("full scan, clean", "clean.full", 1.0, ORC),
    Goal("q1, clean", "clean.q1", 1.1, ICEBERG),
    Goal("q1 after three MERGEs", "upsert.q1", 1.1, ORC, "clean.q1", per_row=True),
    Goal("full scan after three MERGEs", "upsert.full", 1.1, ORC, "clean.full", per_row=True),
    Goal("q1 after the DELETE", "delete.q1", 1.05, OURS, "clean.q1"),
    Goal("full scan after the DELETE", "delete.full", 1.05, OURS, "clean.full"),
    Goal("compaction, major", "appends.compact", 0.8, ICEBERG),
    *(Goal(f"TPC-H {name}", name, 1.05, ORC) for name in _QUERIES),
    Goal("point read, p50", "few.point", 0.015, unit=Unit.SECONDS),
    Goal("one-row INSERT, p50", "few.insert", 0.010, unit=Unit.SECONDS),
    Goal("UPDATE by key, p50", "few.update", 0.060, unit=Unit.SECONDS),
    Goal("DELETE by key, p50", "few.delete", 0.060, unit=Unit.SECONDS),
    Goal("read_arrow, one core", "arrow.read_1", 1.25, PYARROW, "arrow.read_1", Unit.CPU),
    Goal("read_arrow, two cores", "arrow.read_2", 0.59, PYARROW, "arrow.read_1", Unit.WALL),
    Goal("merge_arrow of 500k", "arrow.merge", 10.0, unit=Unit.SECONDS),
    Goal("merge_arrow of 500k", "arrow.merge", 1024.0, unit=Unit.MIB),
    Goal("DuckDB over dataset", "arrow.duckdb", 1.2, PYARROW),
    Goal("Polars over dataset", "arrow.polars", 1.2, PYARROW),
)


def judged(figures: Figures, stored: float) -> list[Verdict]:
    """A verdict for each goal of which our side was measured; ``stored`` rows a row of ours are
    there after the MERGEs.
    """
    return [
        _judge(goal, figures, stored) for goal in GOALS if (goal.metric, OURS) in figures.samples
    ]


def _judge(goal: Goal, figures: Figures, stored: float) -> Verdict:
    wall, cpu = (figures.median(goal.metric, OURS, name) for name in ("wall_s", "cpu_s"))
    assert wall is not None
    assert cpu is not None
    if goal.unit is Unit.SECONDS:
        return Verdict(goal, wall, cpu, wall)
    if goal.unit is Unit.MIB:
        return Verdict(goal, figure=(figures.peak_bytes(goal.metric, OURS) or 0) / (1 << 20))
    of = goal.of or goal.metric
    other_wall, other_cpu = (figures.median(of, goal.over, name) for name in ("wall_s", "cpu_s"))
    if other_wall is None or other_cpu is None:
        return Verdict(goal)
    rows = stored if goal.per_row else 1.0
    wall, cpu = wall / other_wall / rows, cpu / max(other_cpu, 0.01) / rows
    figure = {Unit.CPU: cpu, Unit.WALL: wall}.get(goal.unit, max(wall, cpu))
    return Verdict(goal, wall, cpu, figure)
