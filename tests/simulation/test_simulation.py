"""A few seeds of the simulation, and bugs that it has to find; ``make sim`` runs many seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import literal, select
from tests.postgres import PostgresServer
from tests.sampling import sampled
from tests.simulation import bank
from tests.simulation.run import Place, place

from hiveacid.metastore.sql import cleaning, conflicts
from hiveacid.metastore.sql.engine import Database
from hiveacid.model.ids import ListKind, ValidWriteIdList
from hiveacid.model.tables import LONG_MAX, TxnId
from hiveacid.statements import placement
from hiveacid.txn import conflicts as txn_conflicts
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.unit import UnitOfWork

ROOMS = ("txn", "metastore", "statements", "compaction", "storage", "layout")


@pytest.mark.parametrize("seed", sampled(range(1, 13), *ROOMS, group=lambda seed: seed % 4))
def test_the_invariants_hold(seed: int, here: Place) -> None:
    here.history(seed).run()


@pytest.mark.long(*ROOMS)
def test_the_invariants_hold_on_postgres(postgres: PostgresServer) -> None:
    with place(postgres) as here:
        for seed in (1, 2):
            here.history(seed).run()


def test_a_seed_gives_the_same_history_again(here: Place) -> None:
    first = here.history(7)
    digest = first.run()
    assert len(first.trace) > 100
    assert here.history(7).run() == digest
    assert here.history(8).run() != digest


@pytest.mark.long(*ROOMS)
def test_a_seed_gives_the_same_history_in_another_process(project: Path) -> None:
    command = [sys.executable, "-m", "tests.simulation.run", "--seed", "3", "--runs", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), *sys.path])}
    outputs = [
        subprocess.run(
            [*command, "--digests"],
            cwd=project,
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()[:2]
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) == 2


# -------------------------------------------------------------------- bugs that it finds


def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit without a look at what others changed."""
    monkeypatch.setattr(txn_conflicts, "_check", lambda *_: None)


def _fresh_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read sees what is committed by then."""

    def valid_txns(self: Transaction) -> object:
        self._valid_txns = self._store.valid_txns(self._id)
        return self._valid_txns

    monkeypatch.setattr(Transaction, "valid_txns", property(valid_txns))


def _checked_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who commits between the check and the commit is not looked at."""
    real = conflicts._unchecked

    def unchecked(unit: Any, txn: TxnId, checked: Any) -> Any:
        return () if isinstance(checked, frozenset) else real(unit, txn, checked)

    monkeypatch.setattr(conflicts, "_unchecked", unchecked)
    monkeypatch.setattr(bank, "CALM", 1)
    monkeypatch.setattr(bank, "HOT", (2,))


def _commit_taken_for_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit without an answer is believed."""
    monkeypatch.setattr(Database, "_look_up", lambda *_: None)
    monkeypatch.setattr(bank, "CALM", 0)


def _files_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is rolled back to a savepoint leaves its files."""

    def back_to(self: UnitOfWork, mark: object) -> None:
        del self._undo[mark.undo :]  # type: ignore[attr-defined]

    monkeypatch.setattr(UnitOfWork, "_back_to", back_to)


def _deltas_beside_own_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement after an overwrite of the same transaction writes a delta that is obsolete."""
    monkeypatch.setattr(placement, "_own_bases", lambda *_: frozenset())


def _write_skew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serializable is not."""
    monkeypatch.setattr(bank, "ISOLATION", "snapshot")


def _readers_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner does not wait for who may still read."""
    monkeypatch.setattr(cleaning, "min_open_txn", lambda *_: LONG_MAX)
    monkeypatch.setattr(cleaning, "MIN_SEEN_OPEN", select(literal(LONG_MAX)))
    monkeypatch.setattr(bank, "CALM", 1)
    monkeypatch.setattr(bank, "COMPACTORS", (2,))


def _aborted_rows_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compactor takes the rows of aborted transactions for committed."""
    real = ValidWriteIdList.for_compactor
    monkeypatch.setattr(
        ValidWriteIdList, "for_compactor", lambda self: replace(real(self), aborted=())
    )
    monkeypatch.setattr(bank, "CALM", 0)
    monkeypatch.setattr(bank, "COMPACTORS", (2,))


def _open_write_ids_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compactor goes on above the write id of an open transaction."""

    def for_compactor(self: ValidWriteIdList) -> ValidWriteIdList:
        return replace(self, kind=ListKind.COMPACTOR)

    monkeypatch.setattr(ValidWriteIdList, "for_compactor", for_compactor)
    monkeypatch.setattr(bank, "CALM", 1)
    monkeypatch.setattr(bank, "COMPACTORS", (2,))
    monkeypatch.setattr(bank, "COMPACTIONS", (4,))
    monkeypatch.setattr(bank, "WRITERS", (3,))
    monkeypatch.setattr(bank, "ROUNDS", (2,))


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (_unchecked, 19),
        (_fresh_snapshots, 24),
        (_checked_too_early, 9),
        (_commit_taken_for_done, 200),
        (_files_left, 15),
        (_deltas_beside_own_base, 46),
        (_write_skew, 15),
        (_readers_ignored, 24),
        (_aborted_rows_compacted, 116),
        (_open_write_ids_crossed, 135),
    ],
)
@pytest.mark.long(*ROOMS)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    first: int,
    here: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within 200 seeds; ``first`` is the one that did it last, to save time."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(first, first + 200):
            here.history(seed).run()
