"""What a table holds: rows as readers see them, and directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import hiveacid
from hiveacid.session import Session

Rows = list[tuple[Any, ...]]


def rows_of(where: Any, table: str = "t") -> Rows:
    found = hiveacid.read_arrow(where.table(table)).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def data_of(*rows: tuple[int, str], **more: str) -> pa.Table:
    ids, values = zip(*rows, strict=True)
    columns = {"id": pa.array(ids, pa.int32()), "v": list(values)}
    return pa.table(columns | {name: [text] * len(rows) for name, text in more.items()})


def directories(acid: Session, table: str = "t") -> list[str]:
    root = Path(acid.table(table).definition.location)
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted({str(path.parent) for path in files})


def committed(acid: Session, table: str = "t") -> Rows:
    """What any reader of the committed write ids reads, told nothing of own transactions."""
    definition = acid.table(table).definition
    (valid,) = acid.client.metastore.valid_write_ids((definition.name,))
    found = hiveacid.read_arrow(definition.location, valid_write_ids=str(valid))
    return sorted(tuple(row.values()) for row in found.read_all().to_pylist())
