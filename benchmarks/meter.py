"""Samples of one run: wall and CPU seconds, Spark jobs, peak memory; kept by metric and system."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from benchmarks.processes import PeakMemory, cpu_s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS: Final = "hiveacid"
_GROUP: Final = "benchmark"
_EVENTS_S: Final = 5.0
OFTEN_S: Final = 0.1
SELDOM_S: Final = 3.0
"""where calls of milliseconds are measured, and looking at processes would disturb them"""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured call; ``jobs`` are those of every thread, -1 without a Spark."""

    wall_s: float
    cpu_s: float
    jobs: int
    peak_bytes: int


class Meter:
    """Measures calls in one process and all below it."""

    def __init__(self, spark: SparkSession | None = None) -> None:
        self._spark = spark
        self._runs = 0

    def measure(
        self, work: Callable[[], Answer], *, look_every_s: float = OFTEN_S
    ) -> tuple[Answer, Sample]:
        """What ``work`` answers, and what it took."""
        self._runs += 1
        group = f"{_GROUP} {self._runs}"
        if self._spark is not None:
            self._spark.sparkContext.setJobGroup(group, group)
        strangers = self._jobs(None)
        with PeakMemory(every_s=look_every_s) as memory:
            cpu, begin = cpu_s(), time.perf_counter()
            answer = work()
            wall = time.perf_counter() - begin
            cpu = cpu_s() - cpu
        jobs = -1
        if self._spark is not None:
            self._settle(self._spark)
            jobs = len(self._jobs(group)) + len(self._jobs(None) - strangers)
        return answer, Sample(wall, cpu, jobs, memory.total_bytes)

    def _jobs(self, group: str | None) -> set[int]:
        if self._spark is None:
            return set()
        return set(self._spark.sparkContext.statusTracker().getJobIdsForGroup(group))

    def _settle(self, spark: SparkSession) -> None:
        """Job starts reach the status store through a queue; wait until all have got there."""
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(int(_EVENTS_S * 1000))


@dataclass(slots=True)
class Figures:
    """All samples of a run, and what failed; ``save`` writes them as JSON."""

    about: dict[str, Any] = field(default_factory=dict)
    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)
    notes: dict[tuple[str, str], str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def keep(self, metric: str, system: str, sample: Sample, *, told: bool = True) -> None:
        """Add a sample, and print it."""
        self.samples.setdefault((metric, system), []).append(sample)
        if told:
            print(
                f"{time.strftime('%H:%M:%S')} {metric:18s} {system:12s} {sample.wall_s:8.3f} s"
                f" {sample.cpu_s:8.2f} CPU s {sample.jobs:3d} jobs"
                f" {sample.peak_bytes >> 20:6,d} MiB",
                flush=True,
            )

    def note(self, what: str, system: str, text: str) -> None:
        """A fact that is no time."""
        self.notes[what, system] = text
        print(f"{what} {system} {text}", flush=True)

    def fail(self, what: str) -> None:
        """A wrong result or an error of ours; the exit code tells of it."""
        self.failures.append(what)
        print(f"FAILED {what}", flush=True)

    def median(self, metric: str, system: str, figure: str) -> float | None:
        """Median of a field of ``Sample``; None where nothing was measured."""
        found = self.samples.get((metric, system))
        return float(statistics.median(getattr(one, figure) for one in found)) if found else None

    def peak_bytes(self, metric: str, system: str) -> int | None:
        """The highest of all samples."""
        found = self.samples.get((metric, system))
        return max(one.peak_bytes for one in found) if found else None

    def metrics(self) -> list[str]:
        """In the order in which they were measured."""
        return list(dict.fromkeys(metric for metric, _ in self.samples))

    def systems(self) -> list[str]:
        """Likewise."""
        return list(dict.fromkeys(system for _, system in self.samples))

    def save(self, path: Path) -> None:
        """Write what there is."""
        samples = [
            {"metric": metric, "system": system, "samples": [asdict(one) for one in found]}
            for (metric, system), found in self.samples.items()
        ]
        notes = [[*key, text] for key, text in self.notes.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {**self.about, "figures": samples, "notes": notes, "failures": self.failures}
        path.write_text(json.dumps(whole, indent=1) + "\n")
