"""What a run found: figures by system, a verdict for each goal, bars as text and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.goals import Unit, Verdict
from benchmarks.meter import OURS, Figures

_BAR: Final = 48
_COLOURS: Final = {
    OURS: "#d9480f",
    "orc": "#868e96",
    "delta_dv": "#1c7ed6",
    "iceberg_v3": "#0ca678",
}


def print_report(figures: Figures, verdicts: list[Verdict]) -> None:
    """Tables and bars; what was not measured beside a peer is said, too."""
    console = Console()
    tables = [_figures(figures), _goals(verdicts)]
    if not console.is_terminal:
        wide = Console(width=10_000)
        console = Console(width=max(wide.measure(one).maximum for one in tables), soft_wrap=True)
    for one in tables:
        console.print(one)
    for metric, systems in _shown(figures).items():
        print_bars(metric, systems)
    for failure in figures.failures:
        console.print("FAILED", failure, markup=False, highlight=False)


def _figures(figures: Figures) -> Table:
    systems = figures.systems()
    about = figures.about
    table = Table(
        title=f"TPC-H SF {about['scale']:g}, PySpark {about['spark']}, local[{about['cores']}],"
        f" zstd; medians: wall s (CPU s)",
        caption="CPU seconds of driver, JVM and Python workers; jobs: Spark jobs of a statement of"
        " ours; MiB: peak resident memory of all processes while ours ran",
    )
    table.add_column("metric")
    for name in (*systems, "jobs", "MiB"):
        table.add_column(name, justify="right")
    for metric in figures.metrics():
        cells = []
        for system in systems:
            wall, cpu = (figures.median(metric, system, name) for name in ("wall_s", "cpu_s"))
            cells.append("" if wall is None else f"{wall:.3f} ({cpu:.2f})")
        ours = figures.samples.get((metric, OURS), [])
        jobs = str(max(one.jobs for one in ours)) if ours else ""
        table.add_row(metric, *cells, jobs, f"{(figures.peak_bytes(metric, OURS) or 0) >> 20:,}")
    return table


def _kind(metric: str) -> str:
    """In which row of the picture it stands."""
    first, _, last = metric.partition(".")
    if first == "few":
        return "one row"
    is_query = last in ("q1", "full", "count") or first in ("q3", "q6", "q14", "q18")
    return "queries" if is_query else "writes"


def _goals(verdicts: list[Verdict]) -> Table:
    table = Table(title="Goals: ours by the other's, or ours alone")
    for name in ("goal", "against", "wall", "CPU", "at most", "met"):
        table.add_column(name, justify="left" if name in ("goal", "against") else "right")
    for one in verdicts:
        goal = one.goal
        against = f"{goal.over} {goal.of if goal.of != goal.metric else ''}".strip()
        met = {None: "not measured", True: "yes", False: "NO"}[one.met]
        cells = ["" if value is None else f"{value:.3f}" for value in (one.wall, one.cpu)]
        if goal.unit is Unit.MIB:
            cells = ["", f"{one.figure:,.0f} MiB"]
        per_row = " a stored row" if goal.per_row else ""
        table.add_row(
            goal.title, against, *cells, f"{goal.at_most:g} {goal.unit.value}{per_row}", met
        )
    return table


def _shown(figures: Figures) -> dict[str, dict[str, float]]:
    """CPU seconds by metric and system, where two systems can be compared."""
    shown = {}
    for metric in figures.metrics():
        found = {one: figures.median(metric, one, "cpu_s") for one in figures.systems()}
        values = {one: value for one, value in found.items() if value is not None}
        if len(values) > 1:
            shown[metric] = values
    return shown


def print_bars(title: str, values: dict[str, float]) -> None:
    """A bar for each, of one scale."""
    longest = max(values.values()) or 1.0
    print(f"\n{title}, CPU s")
    for name, value in values.items():
        mark = "#" if name == OURS else "="
        print(f"  {name:12s} {mark * max(1, round(_BAR * value / longest))} {value:.2f}")


def draw_bars(figures: Figures, path: Path) -> None:
    """The same as a picture, a row for each kind of work; needs matplotlib (``pip install
    'hiveacid[bench]'``).
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rows: dict[str, dict[str, dict[str, float]]] = {}
    for metric, found in _shown(figures).items():
        rows.setdefault(_kind(metric), {})[metric] = found
    if not rows:
        return
    systems = figures.systems()
    picture, panels = pyplot.subplots(len(rows), figsize=(10, 2.6 * len(rows)), squeeze=False)
    width = 0.8 / len(systems)
    for (title, row), axes in zip(rows.items(), panels[:, 0], strict=True):
        for at, system in enumerate(systems):
            places = [x + at * width for x, found in enumerate(row.values()) if system in found]
            heights = [found[system] for found in row.values() if system in found]
            axes.bar(places, heights, width, label=system, color=_COLOURS.get(system))
        names = [metric.replace(".", "\n") for metric in row]
        axes.set_xticks([x + 0.4 - width / 2 for x in range(len(row))], names, fontsize=6)
        axes.set_title(title, fontsize=9)
        axes.set_ylabel("CPU s")
    picture.legend(*panels[0, 0].get_legend_handles_labels(), loc="upper right", ncols=len(systems))
    picture.suptitle(f"TPC-H SF {figures.about['scale']:g}, medians; lower is better", x=0.2)
    picture.tight_layout()
    picture.savefig(path, dpi=100)
    pyplot.close(picture)
    print(f"bars: {path}")
