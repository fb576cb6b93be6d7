"""Processes of their own for tests, forked off one that has imported what they need: each costs its
work, and no start of Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing import get_context

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "tests.compaction.dying",
        "tests.compaction.dying_purge",
        "tests.conformance.allocating",
        "pandas",  # of PyArrow, once it gets lists
    ]
)


def exit_status(work: Callable[..., None], *arguments: object) -> int | None:
    """Let a process do the work, of a module that can be imported; how it ended."""
    (ended,) = exit_statuses(work, arguments)
    return ended


def exit_status_of(text: str, *argv: str) -> int | None:
    """Let a process run a Python text, with these as ``sys.argv[1:]``; how it ended."""
    return exit_status(_run, text, argv)


def _run(text: str, argv: tuple[str, ...]) -> None:
    sys.argv[1:] = argv
    exec(compile(text, "<forked>", "exec"), {"__name__": "__main__"})


def exit_statuses(work: Callable[..., None], *each: tuple[object, ...]) -> list[int | None]:
    """The same of several at once, with the arguments of each."""
    processes = [_CONTEXT.Process(target=work, args=arguments) for arguments in each]
    for process in processes:
        process.start()
    ended = []
    for process in processes:
        process.join()
        ended.append(process.exitcode)
        process.close()
    return ended
