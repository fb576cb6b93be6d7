"""A clock that moves only when told."""

from __future__ import annotations


class ManualClock:
    """A ``Clock`` for tests and simulations; ``sleep_s`` moves it and returns at once.

    Example:
        >>> clock = ManualClock(now_ms=1_000)
        >>> clock.advance_ms(500)
        >>> clock.now_ms()
        1500
    """

    def __init__(self, *, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = float(now_ms)
        self._start_ms = float(now_ms)
        self._jump_ms = 0

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        now = int(self._now_ms)
        self._now_ms += self._jump_ms
        self._jump_ms = 0
        return now

    def monotonic_s(self) -> float:
        """Seconds since the clock was made."""
        return (self._now_ms - self._start_ms) / 1000

    def sleep_s(self, seconds: float) -> None:
        """Move the clock by ``seconds``."""
        self._now_ms += seconds * 1000

    def advance_ms(self, ms: int) -> None:
        """Move the clock by ``ms``."""
        self._now_ms += ms

    def jump_after_next_read(self, ms: int) -> None:
        """Move the clock by ``ms`` just after the next ``now_ms``: a call that takes that long."""
        self._jump_ms = ms
