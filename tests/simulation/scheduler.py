"""Actors that take turns: each is a thread, and only the one whose turn it is runs.

Turns change where an actor pauses (each operation on a file, each unit of the database) or
sleeps, and who is next is drawn from the seed's random numbers. So a seed gives the same
interleaving again, and any code can be an actor, however deep it pauses.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from random import Random
from typing import Any

from hiveacid.testing import ManualClock

STEPS_MAX = 100_000


class Killed(BaseException):
    """The actor's process is gone: nothing that it still does has any effect."""


class Stopped(BaseException):
    """The history is over, because something broke."""


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Actor:
    def __init__(self, name: str, *, background: bool) -> None:
        self.name = name
        self.background = background
        self.turn = _taken()
        self.wakes_ms = 0
        self.owner: Any = None


class Scheduler:
    """Runs actors until all that are not in the background have ended."""

    def __init__(self, random: Random, clock: ManualClock) -> None:
        self._random = random
        self._clock = clock
        self._actors: list[_Actor] = []
        self._threads: list[threading.Thread] = []
        self._current: _Actor | None = None
        self._main = _taken()
        self._error: BaseException | None = None
        self._switches = random.choice([0.05, 0.2, 0.6, 1.0])
        self._steps = 0
        self.trace: list[str] = []

    @property
    def is_ending(self) -> bool:
        """Whether only actors in the background are left."""
        return all(one.background for one in self._actors)

    @property
    def is_running(self) -> bool:
        """Whether an actor has its turn."""
        return self._current is not None

    @property
    def owner(self) -> Any:
        """Whatever the actor who has its turn belongs to."""
        return None if self._current is None else self._current.owner

    @owner.setter
    def owner(self, owner: Any) -> None:
        assert self._current is not None
        self._current.owner = owner

    def note(self, what: str) -> None:
        """A line of the trace."""
        who = "-" if self._current is None else self._current.name
        self.trace.append(f"{who}: {what}")

    def digest(self) -> str:
        """Equal for equal histories."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def spawn(self, name: str, work: Callable[[], None], *, background: bool = False) -> None:
        """Add an actor, also while others run."""
        actor = _Actor(name, background=background)
        thread = threading.Thread(target=self._life, args=(actor, work), name=name, daemon=True)
        self._actors.append(actor)
        self._threads.append(thread)
        thread.start()

    def run(self) -> None:
        """Let all take turns to the end; raises what an actor raised."""
        if self._actors:
            self._hand_on()
            self._main.acquire()
        for thread in self._threads:
            thread.join()
        self._current = None
        if self._error is not None:
            raise self._error

    def pause(self) -> None:
        """Perhaps it is another's turn now."""
        if self._current is None:
            return
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise AssertionError(f"no end after {STEPS_MAX} steps")
        self._clock.advance_ms(self._random.choice((0, 0, 1, 5, 40)))
        if self._random.random() < self._switches:
            self._switch()
        elif self._error is not None:
            raise Stopped

    def sleep_s(self, seconds: float) -> None:
        """Others go on until the time has come."""
        if self._current is None:
            self._clock.sleep_s(seconds)
            return
        self._current.wakes_ms = self._clock.now_ms() + int(seconds * 1000) + 1
        self._switch()

    def _switch(self) -> None:
        me = self._current
        assert me is not None
        following = self._next()
        if following is not me:
            self._current = following
            following.turn.release()
            me.turn.acquire()
        if self._error is not None:
            raise Stopped

    def _next(self) -> _Actor:
        now_ms = self._clock.now_ms()
        awake = [one for one in self._actors if one.wakes_ms <= now_ms]
        if not awake:
            first = min(self._actors, key=lambda one: one.wakes_ms)
            self._clock.advance_ms(first.wakes_ms - self._clock.now_ms())
            return first
        return self._random.choice(awake)

    def _hand_on(self) -> None:
        self._current = self._next()
        self._current.turn.release()

    def _life(self, actor: _Actor, work: Callable[[], None]) -> None:
        actor.turn.acquire()
        try:
            if self._error is None:
                work()
        except (Killed, Stopped):
            pass
        except BaseException as error:
            self._error = self._error or error
        self._actors.remove(actor)
        if self._error is not None:
            for one in self._actors:
                one.wakes_ms = 0
        if self._actors:
            self._hand_on()
        else:
            self._main.release()
