"""The only door to time and to threads: who reads a clock, sleeps or works in the background is
handed a ``Clock`` or ``Threads``, so that a simulation can do all of it itself. And what Ctrl-C
must not come into the middle of (``held_back``).
"""

from __future__ import annotations

import atexit
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar, Final, Protocol


class Clock(Protocol):
    """Wall clock in epoch milliseconds, a monotonic clock in seconds, and sleep."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start; never goes back."""

    def sleep_s(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        return time.monotonic()

    def sleep_s(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


_LOG = logging.getLogger(__name__)
_TURN_S: Final = 0.25
_AT_EXIT_S: Final = 10.0
"""how long the end of the process waits for what a thread is doing"""
_running: Final[dict[threading.Event, Callable[[float], None]]] = {}
"""Of each thread what stops it, and its ``join``."""


class Threads(Protocol):
    """Runs work in the background."""

    def every(self, seconds: float, work: Callable[[], None], *, name: str) -> Callable[[], None]:
        """Call ``work`` every so many seconds until the returned function is called."""


class DaemonThreads:
    """Real threads that do not keep the process alive."""

    def every(self, seconds: float, work: Callable[[], None], *, name: str) -> Callable[[], None]:
        """One daemon thread for this work."""
        stopped = threading.Event()

        def run() -> None:
            try:
                while not stopped.wait(seconds):
                    work()
            finally:
                _running.pop(stopped, None)

        # This is the door that the ban leaves open.
        thread = threading.Thread(target=run, name=name, daemon=True)
        _running[stopped] = thread.join
        thread.start()
        return stopped.set


@atexit.register
def _stop_all() -> None:
    """A thread that is inside Arrow when the interpreter ends aborts the whole process."""
    threads = dict(_running)
    for stopped in threads:
        stopped.set()
    for join in threads.values():
        join(_AT_EXIT_S)


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
        self._stop = threads.every(min(_TURN_S, pause_s), self.turn, name=name)

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


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Ctrl-C in the block takes effect at its end, or where it calls what is yielded.

    For C++ code that calls back into Python: ORC's writer keeps no more than the text of what a
    file object of ours raises, and where it is just cleaning up, the process ends
    (``std::terminate``). And for what others wait for: an exception between a lock and the block
    that gives it back keeps it for as long as its traceback is kept, which a prompt does.
    """
    outer, handler = _Came.now, signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or outer is not None or not callable(handler):
        yield outer.take_effect if is_main and outer is not None else lambda: None
        return
    came = _Came(handler)
    try:
        signal.signal(signal.SIGINT, came)
        _Came.now = came
        yield came.take_effect
    finally:
        _Came.now = None
        signal.signal(signal.SIGINT, handler)
        came.take_effect()


class _Came:
    """Keeps what the handler is to be called with."""

    now: ClassVar[_Came | None] = None
    """SIGINT's handler now; only the main thread sets one"""

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None:
        self._handler = handler
        self._first: tuple[int, FrameType | None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._first = self._first or (number, frame)

    def take_effect(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            self._handler(*first)
