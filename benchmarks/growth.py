"""How cost grows: ``make bench-growth`` (`BENCH='--only rows,deltas --large --spark'`).

Along each axis (rows, partitions, deltas, delete events, tables, transactions kept, writers) a
table or metastore is made in several sizes, and each operation (plan, point read, scan, MERGE,
commit, compaction ...) is measured in a process of its own: wall and CPU seconds, peak memory. The
slope is the exponent between the two largest sizes: 0 is flat, 1 is linear in what grows. Text
tables are printed, pictures go beside the JSON file.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.axes import AXES, Axis
from benchmarks.meter import Meter, Sample

ROOT: Final = Path(__file__).resolve().parents[1]
_REPEATED_S: Final = 0.5
_TIMES_MAX: Final = 5
"""what takes less than this is measured until it does, at most so often"""
_NEAR_LINEAR: Final = 1.15
_SMALLEST_S: Final = 0.0002
"""less than this is noise of the clock"""
Cell = dict[str, Sample]


def main() -> int:
    """Measure the axes, print and draw; 1 where a slope is steeper than near linear."""
    options = _parser().parse_args()
    work = Path(options.data).resolve() / "growth"
    out = Path(options.out).resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[int, Cell]] = {}
    for name in options.only.split(",") if options.only else AXES:
        axis = AXES[name]
        sizes = [int(one) for one in options.sizes.split(",")] if options.sizes else axis.sizes
        if options.large and not options.sizes:
            sizes = [*sizes, *axis.larger]
        cells = found.setdefault(name, {})
        for size in sizes:
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            cells[size] = _cell(axis, size, work, spark=options.spark)
            out.write_text(json.dumps(_plain(found), indent=1) + "\n")
        print_axis(name, cells)
    shutil.rmtree(work, ignore_errors=True)
    try:
        draw(found, out)
    except ImportError:
        print("no pictures: matplotlib is not installed (pip install 'hiveacid[bench]')")
    steep = {name: steeper for name, cells in found.items() if (steeper := _steep(cells))}
    print(f"steeper than near linear: {steep or 'nothing'}")
    return 1 if steep else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help=f"axes: {','.join(AXES)}")
    parser.add_argument("--sizes", default="", help="in the place of an axis' own")
    parser.add_argument("--large", action="store_true", help="the larger sizes, too: hours")
    parser.add_argument("--spark", action="store_true", help="scan and MERGE through Spark, too")
    parser.add_argument("--data", default=str(ROOT / "bench-data"))
    parser.add_argument("--out", default=str(ROOT / "bench-data" / "growth.json"))
    return parser


def _cell(axis: Axis, size: int, work: Path, *, spark: bool) -> Cell:
    """All operations at one size."""
    cell = {}
    cell["make"] = _in_process(_made, axis.name, size, work)
    operations = {**axis.operations, **(axis.by_spark if spark else {})}
    for name in operations:
        cell[name] = _in_process(_measured, axis.name, size, work, name)
        one = cell[name]
        print(
            f"{axis.name} {size:,} {name}: {one.wall_s:.4f} s, {one.cpu_s:.3f} CPU s,"
            f" {one.peak_bytes >> 20:,} MiB",
            flush=True,
        )
    return cell


def _in_process(work: Callable[..., Sample], *arguments: object) -> Sample:
    """Memory and caches are those of one operation."""
    context = multiprocessing.get_context("spawn")
    answers: Any = context.SimpleQueue()
    process = context.Process(target=_answer, args=(answers, work, arguments))
    process.start()
    answer = answers.get()
    process.join()
    if isinstance(answer, str):
        raise RuntimeError(answer)
    assert isinstance(answer, Sample)
    return answer


def _answer(answers: Any, work: Callable[..., Sample], arguments: tuple[object, ...]) -> None:
    try:
        answers.put(work(*arguments))
    except BaseException:
        answers.put(traceback.format_exc())


def _made(axis: str, size: int, work: Path) -> Sample:
    _, sample = Meter().measure(lambda: AXES[axis].make(work, size))
    return sample


def _measured(axis: str, size: int, work: Path, operation: str) -> Sample:
    """A first call warms up where calls are short; then the mean of many."""
    chosen = AXES[axis]
    place = chosen.opened(work, size, spark=operation in chosen.by_spark)
    run = {**chosen.operations, **chosen.by_spark}[operation]
    meter = Meter()
    answer, first = meter.measure(lambda: run(place), look_every_s=0.05)
    if isinstance(answer, float):  # it tells its own time
        return replace(first, wall_s=answer)
    if first.cpu_s > _REPEATED_S:
        return first
    times = min(_TIMES_MAX, math.ceil(_REPEATED_S / max(first.cpu_s, 0.01)))
    _, all_ = meter.measure(lambda: [run(place) for _ in range(times)], look_every_s=0.05)
    return Sample(all_.wall_s / times, all_.cpu_s / times, -1, all_.peak_bytes)


def _plain(found: dict[str, dict[int, Cell]]) -> dict[str, Any]:
    axes = {
        axis: {size: {name: asdict(one) for name, one in cell.items()} for size, cell in of.items()}
        for axis, of in found.items()
    }
    return {"cores": os.cpu_count(), "load_average": os.getloadavg(), "axes": axes}


def slope(cells: dict[int, Cell], operation: str) -> float | None:
    """Exponent of growth of CPU seconds between the two largest sizes; of wall seconds where
    processes beside are measured.
    """
    sizes = [size for size in sorted(cells) if operation in cells[size]][-2:]
    if len(sizes) < 2:
        return None
    figure = "wall_s" if operation.startswith("a commit") else "cpu_s"
    low, high = (max(getattr(cells[size][operation], figure), _SMALLEST_S) for size in sizes)
    return math.log(high / low) / math.log(sizes[1] / sizes[0])


def _steep(cells: dict[int, Cell]) -> list[str]:
    names = next(iter(cells.values()))
    return [name for name in names if (slope(cells, name) or 0.0) > _NEAR_LINEAR]


def print_axis(axis: str, cells: dict[int, Cell]) -> None:
    """A line for each operation: wall s (CPU s, MiB) by size; the slope."""
    print(f"\n{axis}: wall s (CPU s, peak MiB)")
    print(f"| operation | {' | '.join(f'{size:,}' for size in cells)} | slope |")
    print("|---" * (len(cells) + 2) + "|")
    for name in next(iter(cells.values())):
        columns = [
            f"{one.wall_s:.3f} ({one.cpu_s:.2f}, {one.peak_bytes >> 20:,})"
            for one in (cell[name] for cell in cells.values())
        ]
        found = slope(cells, name)
        shown = "" if found is None else f"{found:.2f}"
        print(f"| {name} | {' | '.join(columns)} | {shown} |")


def draw(found: dict[str, dict[int, Cell]], out: Path) -> None:
    """Time and memory by size, a picture for each axis; needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    for axis, cells in found.items():
        sizes = sorted(cells)
        picture, (times, memory) = pyplot.subplots(1, 2, figsize=(11, 4.2))
        for name in cells[sizes[0]]:
            samples = [cells[size][name] for size in sizes]
            times.plot(sizes, [one.wall_s for one in samples], marker="o", label=name)
            mib = [one.peak_bytes / (1 << 20) for one in samples]
            memory.plot(sizes, mib, marker="o", label=name)
        for axes, unit in ((times, "wall seconds"), (memory, "peak MiB of the process")):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(axis)
            axes.set_ylabel(unit)
            axes.grid(visible=True, alpha=0.3)
        times.legend(fontsize="small")
        picture.tight_layout()
        path = out.with_name(f"{out.stem}-{axis}.png")
        picture.savefig(path, dpi=110)
        pyplot.close(picture)
        print(f"picture: {path}")


if __name__ == "__main__":
    sys.exit(main())
