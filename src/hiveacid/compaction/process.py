"""A rewrite in processes of its own: at low priority the application hardly notices it.

In a thread it would share the interpreter with the application's statements and its turn on the
processors. A small one is done by the thread nevertheless: it is over before a process has started.
What is exchanged is a plan and the staged files; the metastore is the caller's alone.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from hiveacid.clock import DaemonThreads, SystemClock
from hiveacid.compaction.rewrites import (
    Method,
    Share,
    choose_method,
    rewrite,
    rewrite_share,
    share_count_max,
    whole_result,
)
from hiveacid.errors import AcidError, CompactionError
from hiveacid.layout.compaction import RewritePlan, input_bytes
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.target import WrittenFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NICENESS: Final = "10"
_TRIES: Final = 30
"""Linux takes one change of a session's niceness in 0.1 s, of all users' together but root's."""
_MODULE: Final = "hiveacid.compaction.process"
_LOOK_S: Final = 1.0
_ERROR_CHARACTERS: Final = 500
_SHARE_BYTES: Final = 64 * 1024 * 1024
"""What is worth a process more."""


class ProcessRewrite:
    """The rewrites as an application's or a service's workers call them: by Spark, in processes of
    its own, or in the calling thread, by size. Safe to share between threads.

    The processes are as many as half of the processors, at low priority; where somebody is
    ``awaiting`` the result they are as many as there are, at the caller's priority.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        *,
        spark: Callable[[], SparkSession | None],
        awaiting: bool = False,
    ) -> None:
        self._settings = settings
        self._spark = spark
        self._awaiting = awaiting
        self._mutex = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def __call__(self, fs: FileSystem, plan: RewritePlan) -> tuple[WrittenFile, ...]:
        """Stage the result of a compaction.

        Raises:
            FormatError, MissingFileError, StorageError, UnsupportedError: as ``rewrite``.
            CompactionError: it was stopped, or a process has died.
        """
        settings, spark = self._settings(), self._spark()
        method = choose_method(plan, spark=spark is not None, settings=settings)
        if method is Method.SPARK or input_bytes(plan) <= settings.compactor_process_bytes:
            files = rewrite(fs, plan, settings=settings, spark=spark, method=method)
            if self._stopped:  # what was staged is for nobody, and not to be published
                raise CompactionError(
                    f"The rewrite of {plan.table.name} has ended after its session",
                    table=str(plan.table.name),
                    location=plan.location,
                )
            return files
        return whole_result(fs, plan, self._in_processes(fs, plan, method, settings))

    def stop(self) -> None:
        """End the processes; what they have staged counts for nobody. What is rewritten in a thread
        ends by itself, and is not published.
        """
        with self._mutex:
            self._stopped = True
            running = tuple(self._running)
        for process in running:
            process.terminate()

    def _in_processes(
        self, fs: FileSystem, plan: RewritePlan, method: Method, settings: Settings
    ) -> tuple[WrittenFile, ...]:
        worth = -(-input_bytes(plan) // _SHARE_BYTES)
        processors = (os.cpu_count() or 1) // (1 if self._awaiting else 2)
        count = max(1, min(worth, share_count_max(plan), processors))
        orders = [pickle.dumps((fs, plan, Share(i, count), settings, method)) for i in range(count)]
        with ExitStack() as stack:
            processes = [stack.enter_context(self._started(one)) for one in orders]
            return tuple(file for process in processes for file in _answer_of(process, plan))

    @contextmanager
    def _started(self, order: bytes) -> Iterator[subprocess.Popen[bytes]]:
        """A process at its work; it does not outlive the block."""
        path = os.pathsep.join(filter(None, sys.path))
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(os.getpid()), "0" if self._awaiting else _NICENESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the application's statement
        )
        try:
            with self._mutex:
                self._running.add(process)
                if self._stopped:
                    process.terminate()
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin:  # it was ended already
                process.stdin.write(order)
            process.stdin = None  # communicate would close it again
            yield process
        finally:
            process.terminate()
            process.communicate()
            with self._mutex:
                self._running.discard(process)


def _answer_of(process: subprocess.Popen[bytes], plan: RewritePlan) -> tuple[WrittenFile, ...]:
    answer, errors = process.communicate()
    if process.returncode:
        text = errors.decode("utf-8", "replace").strip()[-_ERROR_CHARACTERS:]
        raise CompactionError(
            f"The process of a rewrite of {plan.table.name} has ended with status "
            f"{process.returncode}",
            note=text or None,
            table=str(plan.table.name),
            location=plan.location,
        )
    found: tuple[WrittenFile, ...] | AcidError = pickle.loads(answer)
    if isinstance(found, AcidError):
        raise found
    return found


def main(parent: int, niceness: int) -> None:
    """Do the rewrite that the standard input describes, answer on the standard output; ``parent``
    is the process that asked.
    """
    if niceness:
        _give_way(niceness)
    DaemonThreads().every(_LOOK_S, partial(_end_with, parent), name="hiveacid-parent")
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # whatever a library prints is no answer
        out.write(pickle.dumps(_answer(*pickle.load(sys.stdin.buffer))))


def _give_way(niceness: int) -> None:
    if not hasattr(os, "nice"):
        return
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            _lower_session(niceness)
    os.nice(niceness)


def _lower_session(niceness: int) -> None:
    """Linux may share the processors among sessions first, and this process leads one of its own:
    its niceness counts within its session, the session's among all.
    """
    with open("/proc/self/autogroup", "wb", buffering=0) as session:
        for _ in range(_TRIES):
            if session.write(str(niceness).encode()) is not None:
                return
            SystemClock().sleep_s(0.1)


def _end_with(parent: int) -> None:
    """Whoever asked was killed: nobody waits for the answer, and another worker begins anew."""
    if os.getppid() != parent:
        os._exit(1)


def _answer(
    fs: FileSystem, plan: RewritePlan, share: Share, settings: Settings, method: Method
) -> tuple[WrittenFile, ...] | AcidError:
    try:
        return rewrite_share(fs, plan, share, settings=settings, method=method)
    except AcidError as error:
        return error


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
