"""A few seeds of histories whose past is asked for, and bugs that they have to find; ``make sim``
runs many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.sampling import sampled
from tests.simulation.run import Place

from hiveacid.compaction import cleaning
from hiveacid.layout import changes
from hiveacid.metastore.sql import history as sql_history
from hiveacid.metastore.sql import housekeeping
from hiveacid.model.history import state_after
from hiveacid.purging import _Purge
from hiveacid.statements import select
from hiveacid.txn import view
from hiveacid.txn.unit import UnitOfWork

pytestmark = pytest.mark.long(
    "compaction", "layout", "metastore", "model", "past", "storage", "txn"
)

ROOMS = ("txn", "metastore", "statements", "compaction", "storage", "layout")


@pytest.mark.parametrize("seed", sampled(range(1, 25), *ROOMS, group=lambda seed: seed % 4))
def test_the_past_is_what_it_was(seed: int, here: Place) -> None:
    here.past(seed).run()


@pytest.mark.long(*ROOMS)
def test_a_seed_gives_the_same_history_again(here: Place) -> None:
    assert here.past(5).run() == here.past(5).run()


def _order_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version has all lower write ids, whenever they committed."""

    def by_number(now: Any, *, highest: int, **_: Any) -> Any:
        return state_after(now, highest=highest)

    monkeypatch.setattr(sql_history, "state_after", by_number)


def _columns_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of then are shown with the definition of now."""
    for module in (select, view):
        monkeypatch.setattr(module, "as_it_was", lambda table, _: table)


def _pins_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner knows of no tags and consumers."""
    monkeypatch.setattr(cleaning, "keep_pinned", lambda plan, *_, **__: plan)


def _overwrites_take_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change feed leaves out what an overwrite took away."""
    monkeypatch.setattr(changes, "_gone", lambda _, after: replace(after, originals=(), deltas=()))


def _sleepers_take_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wakes up in an aborted transaction removes files by their paths."""
    monkeypatch.setattr(UnitOfWork, "_leave_all", UnitOfWork._take_all_back)


def _holes_after_a_clock_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What housekeeping forgot counts as open where the clock was set back."""
    monkeypatch.setattr(housekeeping, "note_decided", lambda *_: None)


def _purge_leaves_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """PURGE rewrites and leaves what was replaced."""

    def clean(*_: Any) -> None:
        return None

    monkeypatch.setattr(_Purge, "_clean", clean)


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (_order_of_numbers, 4),
        (_columns_of_today, 3),
        (_pins_ignored, 34),
        (_overwrites_take_nothing, 1),
        (_sleepers_take_back, 46),
        (_holes_after_a_clock_set_back, 4),
        (_purge_leaves_files, 6),
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
    with pytest.raises((AssertionError, StopIteration)):
        for seed in range(first, first + 200):
            here.past(seed).run()
