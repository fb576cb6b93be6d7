"""The only door to time: everything that reads a clock or sleeps is handed a ``Clock``."""

from __future__ import annotations

import time
from typing import Protocol


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
