"""A few seeds of the simulation; ``make sim`` runs many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.simulation.bank import History, new_metastore

from hiveacid.model.bucket import RowId
from hiveacid.testing.clock import ManualClock
from hiveacid.testing.key_values import KeyValues
from hiveacid.txn.transaction import Transaction


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "template.db"
    new_metastore(path, ManualClock()).close()
    return path


def _history(seed: int, template: Path) -> History:
    return History(seed, template.with_name(f"{seed}.db"), template=template)


@pytest.mark.parametrize("seed", range(1, 16))
def test_the_invariants_hold(seed: int, template: Path) -> None:
    _history(seed, template).run()


def test_a_seed_gives_the_same_history_again(template: Path) -> None:
    one = _history(7, template)
    one.run()
    again = History(7, template.with_name("again.db"), template=template)
    again.run()
    assert one.trace == again.trace
    assert len(one.trace) > 100


def test_without_the_check_of_rows_an_update_is_lost(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulation can fail."""

    def commit_unchecked(self: KeyValues, txn: Transaction) -> None:
        def nothing(*of: object) -> Sequence[RowId]:
            return ()

        txn.commit(overlap=nothing)

    monkeypatch.setattr(KeyValues, "commit", commit_unchecked)
    with pytest.raises(AssertionError, match=r"an update is lost|a part of a transfer is seen"):
        for seed in range(1, 30):
            _history(seed, template).run()
