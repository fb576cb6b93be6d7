"""A writer of the soak that streams: transactions of a few rows until it is killed."""

from __future__ import annotations

import random
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.soak.writer import open_session

from hiveacid import read_arrow
from hiveacid.errors import ConflictError, LockError, TransactionError
from hiveacid.session import Session

ROWS = 5
"""Rows of each transaction, over the partitions."""
PARTITIONS = 3
_IDS_A_STREAM = 1_000_000


def make_events(session: Session) -> None:
    """The table that streams go to."""
    session.sql(
        "create table events (id bigint, row int) partitioned by (k int)"
        " clustered by (row) into 2 buckets stored as orc tblproperties ('transactional'='true')"
    )


def streamer(url: str, directory: str, number: int) -> None:
    """Stream until killed; the id of each transaction is noted once its commit is known."""
    sys.stderr = (Path(directory) / "errors").open("a", buffering=1)
    told = (Path(directory) / f"streamed{number}").open("a", buffering=1)
    chance = random.Random(number)
    session = open_session(url, directory)
    stream = session.stream("events", transactions_per_batch=chance.choice((1, 3, 20)))
    for id in range(number * _IDS_A_STREAM, (number + 1) * _IDS_A_STREAM):
        with suppress(ConflictError, LockError, TransactionError):
            stream.begin()
            for row in range(ROWS):
                stream.write({"id": id, "row": row, "k": (id + row) % PARTITIONS})
            if chance.random() < 0.1:
                stream.abort()
                continue
            stream.commit()
            print(id, file=told)
        if stream.state.value == "open":
            stream.abort()


def told_of(directory: Path, what: str) -> set[int]:
    """All commits that a writer knew of; a line may be cut where it was killed."""
    found = set()
    for file in directory.glob(f"{what}*"):
        lines = file.read_text().splitlines(keepends=True)
        found |= {int(line) for line in lines if line.endswith("\n")}
    return found


def check_events(session: Session, told: set[int]) -> int:
    """Each transaction is there with all of its rows, once, or not at all: how many are."""
    rows = read_arrow(session.table("events"), columns=["id", "row"]).read_all()
    found = Counter(zip(rows["id"].to_pylist(), rows["row"].to_pylist(), strict=True))
    twice = [one for one, times in found.items() if times > 1]
    assert not twice, f"streamed twice: {twice[:9]}"
    ids = Counter(id for id, _ in found)
    torn = [id for id, times in ids.items() if times != ROWS]
    assert not torn, f"a part of a transaction is there: {torn[:9]}"
    lost = sorted(told - set(ids))
    assert not lost, f"lost of the stream: {lost[:9]}"
    return len(ids)
