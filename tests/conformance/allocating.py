"""What processes at once do with a metastore that may not be there yet."""

from __future__ import annotations

from pathlib import Path

from hiveacid.clock import SystemClock
from hiveacid.metastore.connect import connect
from hiveacid.model.tables import TableName


def main(url: str, found: Path) -> None:
    """Take 25 write ids of one table, and write them down."""
    taken = []
    with connect(url, clock=SystemClock()) as metastore:
        for _ in range(25):
            (txn,) = metastore.open_txns(1, user="u", host="h")
            (write_id,) = metastore.allocate_write_ids([txn], TableName("default", "t")).values()
            metastore.commit_txn(txn)
            taken.append(write_id)
    found.write_text("\n".join(map(str, taken)))
