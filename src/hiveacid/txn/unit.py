"""Several statements in one transaction: what each leaves to take back, savepoints, the end.

Visibility is per write id: what a statement published counts with the commit, whichever statement
it was. So a statement that fails, or is rolled back to a savepoint, takes its files back at once,
last step first; if that fails the transaction is aborted. Its statement ids are not used again.

Files are told by their paths, and taken back under the locks of the transaction alone: where it was
aborted by somebody else, as after a sleep, the paths may be those of another table by now. What is
left then is removed with the old table, or by the cleaner.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Concatenate, Final, ParamSpec, TypeVar

from hiveacid.errors import (
    AcidError,
    CommitOutcomeUnknownError,
    LockError,
    NotFoundError,
    TransactionError,
    tolerated,
)
from hiveacid.model.commits import Written
from hiveacid.model.tables import TxnId
from hiveacid.model.transactions import SESSION_PREFIX, TxnState
from hiveacid.txn.conflicts import Overlap, Pending
from hiveacid.txn.footprint import claims
from hiveacid.txn.transaction import Transaction

_LOG = logging.getLogger(__name__)
_COMMITTED: Final = "committed"
Action = Callable[[], None]
_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def _in_turn(
    method: Callable[Concatenate[UnitOfWork, _Given], _Answer],
) -> Callable[Concatenate[UnitOfWork, _Given], _Answer]:
    """One thread at a time: what a statement takes back is what came after it began."""

    @functools.wraps(method)
    def call(self: UnitOfWork, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        with self._turn:
            return method(self, *args, **kwargs)

    return call


@dataclass(frozen=True, slots=True)
class _Mark:
    undo: int
    at_commit: int
    pending: tuple[int, ...]
    records: frozenset[Written]


class UnitOfWork(AbstractContextManager["UnitOfWork"]):
    """A transaction and what its statements did so far; those of several threads take turns.

    It is begun when ``txn`` is first asked for, by its first statement: a transaction sees nothing
    of those begun after it.
    """

    def __init__(self, begin: Callable[[], Transaction]) -> None:
        self._begin = begin
        self._turn = threading.RLock()
        self._process = os.getpid()
        self._txn: Transaction | None = None
        self._undo: list[Action] = []
        self._at_commit: list[Action] = []
        self._at_end: list[Action] = []
        self._savepoints: list[tuple[str, _Mark]] = []
        self._claimed: set[str] = set()
        self._ended = ""
        self._unknown: CommitOutcomeUnknownError | None = None

    @classmethod
    def of(cls, txn: Transaction) -> UnitOfWork:
        """That of a transaction that is begun; it is the unit's to end from now on."""
        unit = cls(lambda: txn)
        unit._txn = txn
        return unit

    @property
    def is_ended(self) -> bool:
        """Whether it was told to commit or to roll back, whatever came of it."""
        return bool(self._ended)

    @property
    def is_open(self) -> bool:
        """Whether statements may follow, as far as is known here."""
        return not self._ended and (self._txn is None or self._txn.is_open)

    @property
    def id(self) -> TxnId | None:
        """The transaction's id; None before its first statement."""
        return None if self._txn is None else self._txn.id

    @property
    def txn(self) -> Transaction:
        """The transaction.

        Raises:
            TransactionError: it has ended before it was begun.
            MetastoreError: it could not be begun.
        """
        with self._turn:
            if self._txn is None:
                self.require_open()
                self._txn = self._begin()
            return self._txn

    @property
    def pending(self) -> Pending | None:
        """What its commit is to do besides; None before its first statement."""
        return None if self._txn is None else self._txn.pending

    def require_open(self) -> None:
        """Raise where no statement may follow.

        Raises:
            TransactionError: it was ended.
        """
        if self._txn is not None:
            self._txn.require_open()
        # one whose commit failed may still be open, one that was given up is not: what it wrote was
        # taken back, though the metastore may not know yet
        if self._ended and (self._txn is None or self._ended != _COMMITTED):
            raise TransactionError(f"The transaction is not open any more: {self._ended}")

    def on_undo(self, action: Action) -> None:
        """How to take back the step that comes next, done in whole, in part or not at all."""
        self._undo.append(action)

    def on_commit(self, action: Action) -> None:
        """What to do once it is committed; a failure is logged."""
        self._at_commit.append(action)

    def on_end(self, action: Action) -> None:
        """What to do once it has ended, one way or the other; a failure is logged."""
        self._at_end.append(action)

    def claim(self, places: Iterable[str]) -> None:
        """Wait until no other transaction has a claim to the places, and keep others from them
        until what is to be done at the end of this one is done: longer than its own locks last.

        Raises:
            LockError: somebody else has one for too long.
        """
        wanted = set(places) - self._claimed
        if not wanted:
            return
        txn = self.txn
        agent_info = f"{SESSION_PREFIX}claim-{txn.id}"
        lock = txn.manager.claim(claims(sorted(wanted)), agent_info=agent_info)
        self.on_end(functools.partial(txn.manager.unlock, lock))
        self._claimed |= wanted

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Runs a block as one statement: it is done as a whole, or not at all.

        Whatever ends it, Ctrl-C too, takes back what it did; the transaction goes on. Where that
        fails, or the transaction turns out to be ended, it is aborted.

        Raises:
            TransactionError: the transaction is not open.
        """
        with self._turn:
            self.require_open()
            mark = self._mark()
            try:
                yield
            except BaseException as error:
                try:
                    self._back_to(mark)
                    if self._txn is not None and isinstance(error, (LockError, TransactionError)):
                        self._txn.look_up()
                except BaseException as failure:
                    self._abort(f"a statement could not be taken back: {failure}")
                    if not isinstance(failure, AcidError):
                        raise
                raise

    @_in_turn
    def savepoint(self, name: str) -> None:
        """Set a savepoint; one of the same name is hidden until this one is released.

        Raises:
            TransactionError: the transaction is not open.
        """
        self.require_open()
        self._savepoints.append((name.lower(), self._mark()))

    @_in_turn
    def rollback_to(self, name: str) -> None:
        """Take back what was done since the savepoint, which stays; later ones are gone.

        Raises:
            NotFoundError: no such savepoint; nothing happened.
            TransactionError: not open, or aborted because something could not be taken back.
        """
        at = self._find(name)
        del self._savepoints[at + 1 :]
        try:
            self._back_to(self._savepoints[at][1])
        except BaseException as error:
            self._abort(f"savepoint {name} could not be gone back to: {error}")
            if not isinstance(error, AcidError):
                raise
            raise TransactionError(
                f"Transaction {self.id} is aborted: what was written since savepoint {name} "
                f"could not be taken back: {error}",
                txn=self.id,
                savepoint=name,
            ) from error

    @_in_turn
    def release(self, name: str) -> None:
        """Forget a savepoint and later ones; what was done since stays.

        Raises:
            NotFoundError: no such savepoint.
            TransactionError: the transaction is not open.
        """
        del self._savepoints[self._find(name) :]

    @_in_turn
    def commit(self, *, overlap: Overlap | None) -> None:
        """Make everything visible; where another transaction won, everything is taken back.

        Raises:
            ConflictError, TransactionError, CommitOutcomeUnknownError, MetastoreError: as
            ``Transaction.commit``.
        """
        self.require_open()
        self._ended = _COMMITTED
        if self._txn is None:
            return
        try:
            self._txn.commit(overlap=overlap)
        except CommitOutcomeUnknownError as error:
            self._unknown = error
            self._undo.clear()
            raise
        except BaseException as error:
            if isinstance(error, TransactionError):
                self._leave_all()
            elif self._is_known_aborted(self._txn, error):
                self._take_all_back()
            elif not isinstance(error, AcidError):
                self._undo.clear()
            raise
        self._undo.clear()
        _run_all(self._at_commit)
        _run_all(self._at_end)

    @_in_turn
    def rollback(self, *, reason: str = "rolled back") -> None:
        """Give everything up; nothing happens where it is aborted already.

        Raises:
            TransactionError: it is committed, or may be: its commit got no answer.
            MetastoreError: the metastore could not be told; the transaction will time out.
        """
        if self._unknown is not None:
            raise self._unknown
        if self._txn is None:
            self._ended = self._ended or reason
            return
        if self._txn.is_committed:
            self._txn.require_open()
        if self._ended in ("", _COMMITTED):
            self._ended = reason
        was_mine = self._has_its_locks()
        try:
            self._txn.abort(reason)
        finally:
            if was_mine:
                self._take_all_back()
            else:
                self._leave_all()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        committed = self._txn is not None and self._txn.is_committed
        if exc is not None and exc is not self._unknown and not committed:
            _quietly(lambda: self.rollback(reason=f"{type(exc).__name__}: {exc}"))

    def _mark(self) -> _Mark:
        undo, at_commit = len(self._undo), len(self._at_commit)
        if self._txn is None:
            return _Mark(undo, at_commit, (), frozenset())
        return _Mark(undo, at_commit, self._txn.pending.mark(), self._txn.records)

    def _back_to(self, mark: _Mark) -> None:
        if self._txn is not None:
            self._txn.pending.back_to(mark.pending)
        del self._at_commit[mark.at_commit :]
        if len(self._undo) > mark.undo and self._txn is not None:
            self._txn.look_up()
            self._txn.require_open()
        while len(self._undo) > mark.undo:
            self._undo[-1]()
            del self._undo[-1]
        if self._txn is not None:
            self._txn.forget_records(but=mark.records)

    def _find(self, name: str) -> int:
        self.require_open()
        for at in reversed(range(len(self._savepoints))):
            if self._savepoints[at][0] == name.lower():
                return at
        raise NotFoundError(f"The transaction has no savepoint {name}", txn=self.id, savepoint=name)

    def _abort(self, reason: str) -> None:
        _LOG.warning("Transaction is aborted: %s", reason, extra={"txn": self.id})
        _quietly(lambda: self.rollback(reason=reason))

    @staticmethod
    def _is_known_aborted(txn: Transaction, error: BaseException) -> bool:
        """Whether nobody will ever see it; interrupted in the middle, only the metastore knows."""
        if isinstance(error, AcidError):
            return not txn.is_open
        state: list[TxnState | None] = []
        _quietly(lambda: state.append(txn.look_up()))
        if state == [TxnState.OPEN]:
            _quietly(lambda: txn.abort("interrupted in its commit"))
            _quietly(lambda: state.append(txn.look_up()))
        return state[-1:] == [TxnState.ABORTED]

    def _has_its_locks(self) -> bool:
        """Whether what it wrote is its own to remove: nobody has aborted it yet."""
        txn = self._txn
        if self._process != os.getpid():  # a fork of the process that it is of
            return False
        if txn is not None and txn.is_open and self._undo:
            _quietly(lambda: txn.look_up() and None)
        return txn is not None and txn.is_open

    def _leave_all(self) -> None:
        """Touch none of its files: somebody else has aborted it, so its locks are gone and others
        may write there; the cleaner removes them.
        """
        if self._undo:
            _LOG.info("Files are left to the cleaner", extra={"txn": self.id})
        self._undo.clear()
        _run_all(self._at_end)

    def _take_all_back(self) -> None:
        """Remove all that it wrote, last step first. Nobody can have seen it; what cannot be
        removed now the cleaner finds.
        """
        while self._undo:
            _quietly(self._undo.pop())
        _run_all(self._at_end)


def _run_all(actions: list[Action]) -> None:
    while actions:
        _quietly(actions.pop(0))


def _quietly(action: Action) -> None:
    with tolerated(_LOG, "Left undone at the end of a transaction: %s"):
        action()
