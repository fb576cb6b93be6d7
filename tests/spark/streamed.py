"""What tests of streams share: kinds of tables, batches that are noted, a checkpoint set back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = (
    "stored as orc tblproperties ('transactional'='true','transactional_properties'='insert_only')"
)


def set_back(checkpoint: Path) -> None:
    """The checkpoint forgets that its last batch was done."""
    commits = checkpoint / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def noting(notes: Path, *columns: str) -> Callable[[Any, int], None]:
    """For ``foreachBatch``, which over Connect runs in another process: writes down each batch's
    rows, of these columns (of none: all).
    """

    def note(rows: Any, number: int) -> None:
        kept = [list(row) for row in rows.select(*columns or ["*"]).collect()]
        notes.mkdir(parents=True, exist_ok=True)
        (notes / str(number)).write_text(json.dumps(kept, default=str))

    return note


def noted(notes: Path) -> dict[int, list[tuple[Any, ...]]]:
    """The rows of each batch by number, sorted."""
    found = notes.iterdir() if notes.exists() else ()
    return {
        int(one.name): sorted(map(tuple, json.loads(one.read_text())))
        for one in found
        if one.name.isdigit()
    }
