"""Where a thread comes from: handed in, so that a simulation can run the work itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


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
            while not stopped.wait(seconds):
                work()

        # This is the door that the ban leaves open.
        threading.Thread(target=run, name=name, daemon=True).start()  # noqa: TID251
        return stopped.set


class NoThreads:
    """No background work: whoever made this does it."""

    def every(self, seconds: float, work: Callable[[], None], *, name: str) -> Callable[[], None]:
        """Nothing is started."""
        del seconds, work, name
        return lambda: None
