"""Samples of one run: wall and CPU seconds, Spark jobs, peak memory; both sides of a workload."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from benchmarks.processes import PeakMemory, cpu_s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS: Final = "hiveacid"
OTHER: Final = "other"
_GROUP: Final = "benchmark"
_EVENTS_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.1
_LOOK_SELDOM_S: Final = 3.0
"""where calls of milliseconds are measured, and looking at processes would disturb them"""
Answer = TypeVar("Answer")


class WrongResultError(Exception):
    """A workload's result is not what it must be; its figures are worth nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured run; ``jobs`` are those of every thread, -1 where they were not counted."""

    wall_s: float
    cpu_s: float
    jobs: int
    peak_bytes: int
    jvm_bytes: int
    python_bytes: int


@dataclass(slots=True)
class Series:
    """The samples of one side of one workload; the warm-up is not among them."""

    rows: int = 0
    samples: list[Sample] = field(default_factory=list)

    def median(self, figure: str) -> float:
        """Median of a field of ``Sample``."""
        return float(statistics.median(getattr(sample, figure) for sample in self.samples))

    def highest(self, figure: str) -> int:
        """Largest value of a field of ``Sample``."""
        return int(max(getattr(sample, figure) for sample in self.samples))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"rows": self.rows, "samples": [asdict(sample) for sample in self.samples]}


class Meter:
    """Measures calls and keeps their samples by workload and side."""

    def __init__(self, spark: SparkSession, *, told: Callable[[str], None]) -> None:
        """``told`` gets one line per sample."""
        self._spark = spark
        self._told = told
        self._runs = 0
        self.series: dict[tuple[str, str], Series] = {}

    def measure(
        self,
        workload: str,
        side: str,
        work: Callable[[], Answer],
        *,
        rows: int,
        kept: bool = True,
    ) -> Answer:
        """Run ``work`` and keep its figures unless this is the warm-up; ``rows`` it touches."""
        answer, sample = self._observe(workload, work, every_s=_LOOK_EVERY_S)
        if kept:
            self.keep(workload, side, rows, [sample])
        self._told(
            f"{workload:13s} {side:9s} {sample.wall_s:8.3f} s  {sample.cpu_s:8.2f} CPU s"
            f"  {sample.jobs:3d} jobs  {sample.peak_bytes >> 20:6,d} MiB"
            f"{'' if kept else '  (warm-up)'}"
        )
        return answer

    def measure_each(
        self, workload: str, works: list[Callable[[], object]], *, rows: int, kept: bool = True
    ) -> None:
        """Run calls of ours one after the other, each a sample with ``rows`` of its own.

        Jobs and memory are those of all together, CPU seconds their mean.
        """
        walls: list[float] = []

        def all_of_them() -> None:
            for work in works:
                begin = time.perf_counter()
                work()
                walls.append(time.perf_counter() - begin)

        _, whole = self._observe(workload, all_of_them, every_s=_LOOK_SELDOM_S)
        cpu = whole.cpu_s / len(works)
        if kept:
            samples = [replace(whole, wall_s=wall, cpu_s=cpu) for wall in walls]
            self.keep(workload, OURS, rows, samples)
        self._told(
            f"{workload:13s} {OURS:9s} {len(walls)} calls, p50 {statistics.median(walls):.4f} s,"
            f" highest {max(walls):.4f} s, {whole.jobs} jobs{'' if kept else '  (warm-up)'}"
        )

    def _observe(
        self, workload: str, work: Callable[[], Answer], *, every_s: float
    ) -> tuple[Answer, Sample]:
        self._runs += 1
        group = f"{_GROUP} {self._runs}"
        self._spark.sparkContext.setJobGroup(group, workload)
        strangers = self._jobs(None)
        with PeakMemory(every_s=every_s) as memory:
            cpu, begin = cpu_s(), time.perf_counter()
            answer = work()
            wall = time.perf_counter() - begin
            cpu = cpu_s() - cpu
        self._settle()
        jobs = len(self._jobs(group)) + len(self._jobs(None) - strangers)
        sample = Sample(wall, cpu, jobs, memory.total_bytes, memory.jvm_bytes, memory.python_bytes)
        return answer, sample

    def keep(self, workload: str, side: str, rows: int, samples: list[Sample]) -> None:
        """Add samples, also such as were taken elsewhere."""
        series = self.series.setdefault((workload, side), Series())
        series.rows = rows
        series.samples.extend(samples)

    def _jobs(self, group: str | None) -> set[int]:
        return set(self._spark.sparkContext.statusTracker().getJobIdsForGroup(group))

    def _settle(self) -> None:
        """Job starts reach the status store through a queue; wait until all have got there."""
        bus = self._spark.sparkContext._jsc.sc().listenerBus()
        bus.waitUntilEmpty(int(_EVENTS_S * 1000))
