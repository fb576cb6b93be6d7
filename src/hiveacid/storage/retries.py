"""Again, where a server fails in passing: with growing pauses, until it has taken too long.

What is refused (no permission, no such file, no space) is not asked again. Whoever repeats what is
not the same done twice looks first what became of it.

A server that was given up is asked once for each request from then on, for as long as it was waited
for: a statement that fails has some to tidy up, and does not wait for each. One that nobody has
reached yet is given up soon where nothing listens: its address may be wrong.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
_UNREACHED: Final = re.compile(
    "Connection refused|Couldn't (connect|resolve)|failed to lookup address|Name or service"
)
_FIRST_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 10.0
_UNREACHED_S: Final = 5.0


def is_passing(error: BaseException) -> bool:
    """Whether what failed may succeed when it is asked again, unchanged."""
    return bool(_PASSING.search(str(error))) or isinstance(error, ConnectionError | TimeoutError)


@dataclass(slots=True)
class _Server:
    """What is known of the one that is asked."""

    answers: bool = False
    given_up_s: float | None = None


@dataclass(frozen=True, slots=True)
class Retries:
    """For how long a request is asked again, from the first time on."""

    deadline_s: float = 60.0
    clock: Clock = field(default=SystemClock(), repr=False, compare=False)
    _server: _Server = field(default_factory=_Server, repr=False, compare=False)

    def of_a_server(self, *, answers: bool | None = None) -> Retries:
        """The same for another server; ``answers`` where it is known to be there."""
        known = self._server.answers if answers is None else answers
        return replace(self, _server=_Server(answers=known))

    def run(self, step: Callable[[], _Answer], *, subject: str = "") -> _Answer:
        """The answer of ``step``; ``subject`` is what it is about, and lets those who wait for one
        server not ask at once.

        Raises:
            OSError: as the last one of ``step``.
        """
        name, server = subject.rpartition("/")[2], self._server
        pause_s, began_s = _FIRST_PAUSE_S, self.clock.monotonic_s()
        patience_s = self._patience_s(began_s)
        while True:
            try:
                answer = step()
            except OSError as error:
                if not is_passing(error):
                    server.answers = server.answers or not _UNREACHED.search(str(error))
                    raise
                if not server.answers and _UNREACHED.search(str(error)):
                    patience_s = min(patience_s, _UNREACHED_S)
                if self.clock.monotonic_s() + pause_s > began_s + patience_s:
                    server.given_up_s = self.clock.monotonic_s()
                    raise
                _LOG.warning("Asked again in %.1f s: %s: %s", pause_s, subject, error)
            else:
                server.answers, server.given_up_s = True, None
                return answer
            self.clock.sleep_s(pause_s * (0.5 + crc32(f"{name}{pause_s}".encode()) / 2**33))
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _patience_s(self, now_s: float) -> float:
        given_up_s = self._server.given_up_s
        if given_up_s is not None and now_s < given_up_s + self.deadline_s:
            return 0
        return self.deadline_s
