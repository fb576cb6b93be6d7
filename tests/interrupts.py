"""Ctrl-C at a place that a test counts."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType


@contextmanager
def pressed_after(at: int, *, within: Callable[[str], bool]) -> Iterator[None]:
    """Ctrl-C arrives during the call number ``at`` into C of the files that are ``within``."""
    calls = count(1)

    def after(frame: FrameType, event: str, called: object) -> None:
        if event == "c_return" and within(frame.f_code.co_filename) and next(calls) == at:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

    sys.setprofile(after)
    try:
        yield
    finally:
        sys.setprofile(None)
