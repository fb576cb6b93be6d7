"""Again, where a server fails in passing: with growing pauses, until it has taken too long.

What is refused (no permission, no such file, no space) is not asked again. Whoever repeats what is
not the same done twice looks first what became of it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar
from zlib import crc32

from hiveacid.clock import Clock, SystemClock

_LOG = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
_PASSING: Final = re.compile(
    # servers of S3, by their names and by Arrow's
    "SLOW_DOWN|SlowDown|SERVICE_UNAVAILABLE|ServiceUnavailable|INTERNAL_FAILURE|InternalError"
    "|REQUEST_TIMEOUT|RequestTimeout|THROTTLING|OperationAborted|HTTP status (429|500|502|503|504)"
    "|NETWORK_CONNECTION"
    # the way there
    "|[Tt]imeout was reached|timed out|Connection (refused|reset)|Broken pipe|got no answer"
    # name nodes
    "|StandbyException|RetriableException|ObserverRetryOnActiveException|SafeModeException"
    "|RPC listener disconnected"
)
_FIRST_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 10.0


def is_passing(error: BaseException) -> bool:
    """Whether what failed may succeed when it is asked again, unchanged."""
    return bool(_PASSING.search(str(error))) or isinstance(error, ConnectionError | TimeoutError)


@dataclass(frozen=True, slots=True)
class Retries:
    """For how long a request is asked again, from the first time on."""

    deadline_s: float = 60.0
    clock: Clock = field(default=SystemClock(), repr=False, compare=False)

    def run(self, step: Callable[[], _Answer], *, subject: str = "") -> _Answer:
        """The answer of ``step``; ``subject`` is what it is about, and lets those who wait for one
        server not ask at once.

        Raises:
            OSError: as the last one of ``step``.
        """
        name = subject.rpartition("/")[2]
        pause_s, until_s = _FIRST_PAUSE_S, self.clock.monotonic_s() + self.deadline_s
        while True:
            try:
                return step()
            except OSError as error:
                if not is_passing(error) or self.clock.monotonic_s() + pause_s > until_s:
                    raise
                _LOG.warning("Asked again in %.1f s: %s: %s", pause_s, subject, error)
            self.clock.sleep_s(pause_s * (0.5 + crc32(f"{name}{pause_s}".encode()) / 2**33))
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
