"""Two who write into one table without transactions at the same time: neither loses the other's
files, whether they come between the choice of a name and the move, or between that and a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hiveacid
from hiveacid.client import open_client
from hiveacid.errors import AcidError
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.testing import Fault, FaultyFiles

SETTINGS = {"hiveacid.compactor.auto": "off"}


class Between:
    """Before one of the operations on files the others have a turn; a later one may be refused."""

    def __init__(self, at: int, others: Callable[[], object], refused_at: int | None) -> None:
        self._at, self._others, self._refused_at = at, others, refused_at
        self.count = -1

    def before(self, operation: str, subject: str) -> Fault | None:
        del operation, subject
        self.count += 1
        if self.count == self._at:
            self._others()
        return Fault.REFUSED if self.count == self._refused_at else None

    def after(self, operation: str, subject: str) -> None:
        del operation, subject


def session(root: Path, faults: Between | None = None) -> Session:
    files = faults and FaultyFiles(faults)
    url = f"sqlite:///{root}/m.db"
    settings = Settings.of(SETTINGS)
    return Session(open_client(url, warehouse=f"{root}/wh", settings=settings, files=files))


def names(root: Path, table: str) -> list[str]:
    with session(root) as acid:
        rows = hiveacid.read_arrow(acid.table(table)).read_all().to_pylist()
        return sorted(row["who"] for row in rows)


def written_beside(
    root: Path, table: str, *, at: int, refused_at: int | None
) -> tuple[int, list[str], bool]:
    """How many operations it took, who is in the table, whether the first writer succeeded."""
    with session(root) as other:
        other.sql(f"create table {table} (who string) stored as orc")
        other.sql(f"insert into {table} values ('before')")
        turn = Between(at, lambda: other.sql(f"insert into {table} values ('other')"), refused_at)
        with session(root, turn) as acid:
            try:
                acid.sql(f"insert into {table} values ('first')")
            except AcidError:
                return turn.count, names(root, table), False
            return turn.count, names(root, table), True


def test_who_inserts_beside_another_loses_neither_rows(tmp_path: Path) -> None:
    operations, *_ = written_beside(tmp_path, "alone", at=-1, refused_at=None)
    assert operations > 3
    for at in range(operations + 1):
        _, found, done = written_beside(tmp_path, f"t{at}", at=at, refused_at=None)
        assert (found, done) == (["before", "first", "other"], True), at


@pytest.mark.long("statements", "storage")
def test_who_fails_takes_back_only_what_is_its_own(tmp_path: Path) -> None:
    operations, *_ = written_beside(tmp_path, "alone", at=-1, refused_at=None)
    failed = 0
    for at in range(operations + 1):
        for later in range(at, operations + 1):
            table = f"t{at}_{later}"
            _, found, done = written_beside(tmp_path, table, at=at, refused_at=later)
            failed += not done
            assert found == (["before", "first", "other"] if done else ["before", "other"]), table
    assert failed > 10


@pytest.mark.slow
def test_a_disk_without_links_is_renamed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    for at in range(8):
        assert written_beside(tmp_path, f"t{at}", at=at, refused_at=None)[2]


@pytest.mark.slow
@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize(
    "statement", ["insert overwrite table t{} values ('new')", "truncate table t{}"]
)
def test_rows_in_directories_below_go_with_the_others_or_stay(
    tmp_path: Path, statement: str, is_partitioned: bool
) -> None:
    """Hive's UNION ALL writes there, under names that are taken above."""
    keys, part = ("partitioned by (p int)", " partition (p=1)") if is_partitioned else ("", "")
    new, refused_at = ["new"] if "insert" in statement else [], 0
    while True:
        root = tmp_path / str(refused_at)
        with session(root) as acid:
            acid.sql(f"create table t (who string) {keys} stored as orc")
            acid.sql(f"insert into t{part} values ('below')")
            (file,) = (root / "wh").rglob("0*")
            for name in ("HIVE_UNION_SUBDIR_1", "_hidden"):
                (file.parent / name).mkdir()
                shutil.copy(file, file.parent / name)
            acid.sql(f"insert into t{part} values ('above')")
            assert names(root, "t") == ["above", "below", "below"]
        turn = Between(-1, list, refused_at)
        with session(root, turn) as acid:
            try:
                acid.sql(statement.format(part))
            except AcidError:
                assert names(root, "t") == ["above", "below", "below"]
            else:
                assert names(root, "t") == new
        assert (file.parent / "_hidden" / file.name).exists()
        if turn.count < refused_at:
            break
        refused_at += 1
    assert refused_at > 5
