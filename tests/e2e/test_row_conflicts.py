"""Concurrent writers of one unpartitioned table whose rows are different: no Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

import hiveacid
from hiveacid.errors import ConflictError
from hiveacid.settings import Settings

ROWS = Settings(conflict_retries=0, lock_poll_max_s=0.1)


def _session(url: str, warehouse: Path, settings: Settings) -> hiveacid.Session:
    return hiveacid.connect(None, url, warehouse=str(warehouse), settings=settings)


def _make(url: str, warehouse: Path, settings: Settings, rows: int) -> hiveacid.Session:
    acid = _session(url, warehouse, settings)
    acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
    acid.table("t").write_arrow(pa.table({"id": pa.array(range(rows), pa.int32())}))
    return acid


def _ids(acid: hiveacid.Session) -> list[int]:
    found = hiveacid.read_arrow(acid.table("t").definition.location)
    return sorted(found.read_all().column("id").to_pylist())


def _at_once(work: Callable[[int], None]) -> list[Exception]:
    """What four threads fail with."""
    failures: list[Exception] = []

    def run(own: int) -> None:
        try:
            work(own)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(own,)) for own in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=300)
    return failures


def test_deletes_of_different_rows_at_once_all_commit_without_a_retry(
    metastore_url: str, tmp_path: Path
) -> None:
    def delete(own: int) -> None:
        with _session(metastore_url, tmp_path, ROWS) as mine:
            for n in range(5):
                assert mine.table("t").delete_arrow(f"id = {own * 20 + n}").rows == 1

    with _make(metastore_url, tmp_path, ROWS, 80) as acid:
        assert _at_once(delete) == []
        assert _ids(acid) == [n for n in range(80) if n % 20 >= 5]
        # Nor was one opened anew because its snapshot was outdated.
        assert acid.client.metastore.show_txns() == ()


def test_deletes_of_the_same_rows_at_once_delete_each_once(
    metastore_url: str, tmp_path: Path
) -> None:
    deleted: list[int] = []

    def delete(own: int) -> None:
        with _session(metastore_url, tmp_path, ROWS) as mine:
            for n in range(5):
                with suppress(ConflictError):
                    deleted.extend([n] * (mine.table("t").delete_arrow(f"id = {n}").rows or 0))

    with _make(metastore_url, tmp_path, ROWS, 10) as acid:
        assert _at_once(delete) == []
        assert sorted(deleted) == [0, 1, 2, 3, 4]
        assert _ids(acid) == [5, 6, 7, 8, 9]
