"""Work that is done again and again in a thread, and can be ended between two pieces of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from hiveacid.clock import Clock, Threads

_LOG = logging.getLogger(__name__)
_TICK_S: Final = 0.25


class Loop:
    """Calls ``work`` now, and again ``pause_s`` after it has ended, until it is closed.

    Whatever ``work`` raises is logged: the next call may succeed. ``wake`` ends a pause.
    """

    def __init__(
        self,
        work: Callable[[], object],
        *,
        pause_s: float,
        name: str,
        clock: Clock,
        threads: Threads,
    ) -> None:
        self._work = work
        self._pause_s = pause_s
        self._name = name
        self._clock = clock
        self._due_s = clock.monotonic_s()
        self._closed = False
        self._busy = threading.Lock()
        self._stop = threads.every(min(_TICK_S, pause_s), self.turn, name=name)

    @property
    def is_idle(self) -> bool:
        """Whether no work is under way."""
        return not self._busy.locked()

    def wake(self) -> None:
        """Let the next turn work."""
        self._due_s = self._clock.monotonic_s()

    def turn(self) -> None:
        """Work, if it is due; a thread calls this, or a simulation."""
        with self._busy:
            if self._closed or self._clock.monotonic_s() < self._due_s:
                return
            # Before the work: what wakes it meanwhile must count.
            self._due_s = self._clock.monotonic_s() + self._pause_s
            try:
                self._work()
            except Exception:
                _LOG.exception("%s failed", self._name)

    def end(self) -> None:
        """Begin no further work."""
        self._closed = True
        self._stop()

    def wait(self, *, timeout_s: float) -> bool:
        """Wait until the work under way has ended; False where it has not in time."""
        if not self._busy.acquire(timeout=max(0.0, timeout_s)):
            return False
        self._busy.release()
        return True
