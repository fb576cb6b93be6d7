"""Threads that share sessions: whatever they do at once, each gets its due or a reason."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.e2e.tables import rows_of

import hiveacid
from hiveacid.errors import AcidError, ConflictError, LockError, NotFoundError
from hiveacid.session import Session

pytestmark = pytest.mark.timing
SECONDS, THREADS, TABLES = 3, 6, "tuv"
SETTINGS = {"hiveacid.lock.timeout_s": "60", "hiveacid.lock.poll_max_s": "0.02"}


@pytest.fixture
def sessions(metastore_url: str, tmp_path: Path) -> Iterator[list[Session]]:
    where = str(tmp_path / "wh")
    opened = [
        hiveacid.connect(None, metastore_url, warehouse=where, settings=SETTINGS) for _ in range(2)
    ]
    for table in TABLES:
        opened[0].sql(
            f"create table {table} (id int) stored as orc tblproperties ('transactional'='true')"
        )
    yield opened
    for session in opened:
        session.close()


@pytest.fixture
def hectic() -> Iterator[None]:
    """Threads take turns a thousand times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def _is_due(error: AcidError) -> bool:
    """Whether somebody else is the reason: a ring has at least two."""
    if isinstance(error, LockError):
        ring = set(re.findall(r"(?:txn|lock)id:\d+", str(error).rpartition("deadlock:")[2]))
        return len(ring) > 1
    return isinstance(error, ConflictError) or "is not locked by this session" in str(error)


@pytest.mark.usefixtures("hectic")
def test_locks_writes_and_reads_of_many_threads(sessions: list[Session]) -> None:
    until_s = time.monotonic() + SECONDS
    written: list[str] = []

    def locked(session: Session, table: str, chance: random.Random) -> None:
        session.sql(f"lock table {table} {chance.choice(['shared', 'exclusive'])}")
        time.sleep(chance.random() / 100)
        with suppress(NotFoundError):  # another thread gave it back
            session.sql(f"unlock table {table}")

    def inserted(session: Session, table: str, _: random.Random) -> None:
        session.sql(f"insert into {table} values (1)")
        written.append(table)

    def both(session: Session, table: str, chance: random.Random) -> None:
        with session.transaction() as txn:
            for one in (table, chance.choice(TABLES)):
                txn.sql(f"insert into {one} values (2)")
            txn.rollback()

    def unlocked(session: Session, table: str, _: random.Random) -> None:
        session.sql(f"unlock table {table}")

    def read(session: Session, table: str, _: random.Random) -> None:
        session.sql("show locks")
        rows_of(session, table)

    def run(seed: int) -> list[AcidError]:
        chance, errors = random.Random(seed), list[AcidError]()
        while time.monotonic() < until_s:
            act = chance.choice([locked, inserted, both, unlocked, read])
            try:
                act(chance.choice(sessions), chance.choice(TABLES), chance)
            except AcidError as error:
                errors.append(error)
        return errors

    with ThreadPoolExecutor(THREADS) as pool:
        errors = [error for found in pool.map(run, range(THREADS)) for error in found]
    assert [error for error in errors if not _is_due(error)] == []
    for table in TABLES:
        assert rows_of(sessions[0], table) == [(1,)] * written.count(table)
    assert written
