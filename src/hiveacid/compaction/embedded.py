"""The compactor inside a writing application: one background thread, one thing at a time.

    commit -> note(tables) -> thresholds -> one compaction after the other -> cleaner

``note`` is all that a commit pays for: it remembers names. The thread starts with the first of
them. A table is looked at again only some time after its last look, however often it is written to;
what is replaced is cleaned when its last reader has gone, so the cleaner comes again, ever more
seldom, while there is something for it to do. A session that lives long takes turns with others in
looking at everything, and cleans then; one that ends soon looks at what it has written before it
ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from hiveacid.clock import Clock, Loop, Threads
from hiveacid.model.tables import TableName
from hiveacid.settings import Settings

if TYPE_CHECKING:
    from hiveacid.compaction.compactor import Compactor
    from hiveacid.compaction.worker import Worker

_LOG = logging.getLogger(__name__)
_TICK_S: Final = 0.25
_CLEANING_PAUSE_MAX_S: Final = 60.0


class EmbeddedCompactor:
    """Compacts what a session writes to, and what it was asked to compact, while ``is_on``.

    ``compactor`` makes that of the process when it is first needed.
    """

    def __init__(
        self,
        compactor: Callable[[], Compactor],
        *,
        is_on: Callable[[], bool],
        clock: Clock,
        settings: Callable[[], Settings],
        threads: Threads,
    ) -> None:
        self._compactor = compactor
        self._is_on = is_on
        self._clock = clock
        self._settings = settings
        self._threads = threads
        self._mutex = threading.Lock()
        self._noted: set[TableName] = set()
        self._looked_s: dict[TableName, float] = {}
        self._requested: set[str | None] = set()
        self._cycled_s = clock.monotonic_s()
        self._cleaning_due_s: float | None = None
        self._cleaning_pause_s = settings().compactor_cleaner_interval_s
        self._worker: Worker | None = None
        self._loop: Loop | None = None
        self._ends = False
        """Whether this is the last step."""
        self._ended = threading.Event()
        self._is_over = False
        """Whether nobody waits any more for what is done here."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is noted, asked for or under way."""
        with self._mutex:
            waits = self._noted or self._requested
            return not waits and (self._loop is None or self._loop.is_idle)

    def note(self, tables: Collection[TableName]) -> None:
        """Tables were written to: look at them soon."""
        with self._mutex:
            if self._is_on():
                self._noted.update(tables)
                self._start()

    def request(self, pool: str | None) -> None:
        """There is a request of this pool in the queue."""
        with self._mutex:
            if self._is_on():
                self._requested.add(pool)
                self._start()

    def step(self) -> None:
        """Do what is due; the thread calls this, or a simulation."""
        if self._is_on():
            self._do_what_is_due()
        if self._ends:
            self._ended.set()

    def _do_what_is_due(self) -> None:
        now_s, settings = self._clock.monotonic_s(), self._settings()
        tables, pools = self._take_due(now_s)
        if tables:
            # The default pool also without a new request: an earlier session may have left one.
            pools |= {None} | self._compactor().initiate(tables)
        if now_s >= self._cycled_s + settings.compactor_check_interval_s:
            self._cycled_s = now_s
            pools |= self._compactor().initiate()
            self._compactor().sweep()
            self._cleaning_due_s = now_s  # of aborted transactions no compaction need tell
        for pool in pools:
            self._work(pool)
        if pools:
            self._cleaning_pause_s = settings.compactor_cleaner_interval_s
            self._cleaning_due_s = now_s
        self._clean_if_due()

    def close(self) -> None:
        """Look at what was noted, and end; a compaction that does not end in time is given back to
        the queue.
        """
        with self._mutex:
            loop, self._loop = self._loop, None
            has_work = bool(self._noted or self._requested)
            self._ends = True
        if loop is None:
            return
        timeout_s = self._settings().compactor_drain_s
        if has_work:
            loop.wake()
            self._ended.wait(timeout_s)
            timeout_s = 0.0
        self._is_over = True
        loop.end()
        if not loop.wait(timeout_s=timeout_s):
            count = self._compactor().give_back()
            _LOG.info(
                "%s compactions were given back to the queue; what is rewritten of them still"
                " ends by itself, and is published nowhere",
                count,
            )

    def _start(self) -> None:
        if self._loop is None and not self._ends:
            self._loop = Loop(
                self.step,
                pause_s=_TICK_S,
                name="hiveacid-compactor",
                clock=self._clock,
                threads=self._threads,
            )

    def _take_due(self, now_s: float) -> tuple[set[TableName], set[str | None]]:
        pause_s = 0.0 if self._ends else self._settings().compactor_embedded_pause_s
        with self._mutex:
            due = {
                table
                for table in self._noted
                if now_s - self._looked_s.get(table, -pause_s) >= pause_s
            }
            self._noted -= due
            self._looked_s.update(dict.fromkeys(due, now_s))
            pools, self._requested = self._requested, set()
        return due, pools

    def _work(self, pool: str | None) -> None:
        if self._worker is None:
            self._worker = self._compactor().worker(beside=True)
        while not self._is_over and self._compactor().work(self._worker, pool=pool) is not None:
            pass

    def _clean_if_due(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._is_over or self._cleaning_due_s is None or now_s < self._cleaning_due_s:
            return
        if self._compactor().clean():
            self._cleaning_due_s = now_s + self._cleaning_pause_s
            self._cleaning_pause_s = min(2 * self._cleaning_pause_s, _CLEANING_PAUSE_MAX_S)
        else:
            self._cleaning_due_s = None
