"""What real Hive wrote and answered: golden tables, SQL cases; newer ones lie in ``../shared``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).parent / "data"
NEWER = Path(__file__).parents[2] / "shared"


def golden_names(*groups: str) -> list[str]:
    """Golden tables, sorted; those whose names begin with one of ``groups`` where any is given."""
    found = {path.parent.name for root in _golden_roots() for path in root.glob("*/meta.json")}
    return sorted(name for name in found if name.startswith(groups or ("",)))


def golden_path(name: str) -> Path:
    """The folder of a golden table: ``data``, ``meta.json``, ``query.tsv`` or ``query.tsv.gz``."""
    return next((root / name for root in _golden_roots() if (root / name).is_dir()), DATA / name)


def sql_cases() -> list[Path]:
    """The scripts ``AREA/NAME.sql``, each with Hive's answers in ``NAME.out`` beside it."""
    found: dict[str, Path] = {}
    for root in (DATA / "hive_sql", NEWER / "hive-sql" / "cases"):
        for path in root.glob("*/*.sql"):
            found.setdefault(case_name(path), path)
    return [found[name] for name in sorted(found)]


def case_name(script: Path) -> str:
    """``AREA/NAME``."""
    return f"{script.parent.name}/{script.stem}"


def _golden_roots() -> Iterator[Path]:
    yield DATA / "golden"
    yield NEWER / "golden"
