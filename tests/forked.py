"""Processes of their own for tests that kill them: forked off one that has imported what they need,
so that each costs its work and no start of Python.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.compaction.dying", "tests.compaction.dying_purge"])


def exit_status(work: Callable[..., None], *arguments: object) -> int | None:
    """Let a process do the work, of a module that can be imported; how it ended."""
    process = _CONTEXT.Process(target=work, args=arguments)
    process.start()
    process.join()
    ended = process.exitcode
    process.close()
    return ended
