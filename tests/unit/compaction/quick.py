"""A session without Spark that compacts soon, and a table of one delta for each row."""

from __future__ import annotations

from pathlib import Path

import hiveacid
from hiveacid.session import Session, connect
from hiveacid.settings import Settings

ACID = "stored as orc tblproperties ('transactional'='true', 'hiveacid.retention'='0')"
DELTAS = 12
"""more than the threshold"""


def settings_of(**more: object) -> Settings:
    """Quick ones; only ``more`` makes it compact by itself."""
    quick = {
        "compactor_auto": "off",
        "compactor_embedded_pause_s": 0.0,
        "compactor_cleaner_interval_s": 0.1,
        "compactor_worker_pause_s": 0.1,
        "compactor_check_interval_s": 0.2,
    }
    return Settings(**{**quick, **more})  # type: ignore[arg-type]


def session_of(url: str, path: Path, **settings: object) -> Session:
    """A session without Spark; its settings are quick."""
    return connect(None, url, warehouse=str(path / "wh"), settings=settings_of(**settings))


def write(acid: Session, table: str = "t", *, deltas: int = DELTAS) -> None:
    """Make the table and insert into it, one row and one delta each."""
    acid.sql(f"create table if not exists {table} (id int) {ACID}")
    for number in range(deltas):
        acid.sql(f"insert into {table} values ({number})")


def names_of(acid: Session, table: str = "t") -> list[str]:
    """The directories of the table."""
    location = Path(acid.table(table).definition.location)
    return sorted(one.name for one in location.iterdir() if one.name[0] not in "._")


def rows_of(acid: Session, table: str = "t") -> list[int]:
    """The ids in the table."""
    found = hiveacid.read_arrow(acid.table(table)).read_all().to_pylist()
    return sorted(row["id"] for row in found)
