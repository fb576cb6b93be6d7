"""Transactions and their locks: states, types, operations, components; what may follow and what is
compatible as data (metastore.md 1.1, 2 and 3).

A request for locks is a list of components that are granted together or not at all. Only requests
with a smaller id stand in a request's way, and waiting ones do too: the queue is first come, first
served per conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from hiveacid.model.tables import LockId, TxnId


class TxnState(Enum):
    """State of a transaction; the value is the letter in TXN_STATE."""

    OPEN = "o"
    ABORTED = "a"
    COMMITTED = "c"


class TxnType(IntEnum):
    """Type of a transaction; the value is Hive's number in TXN_TYPE."""

    DEFAULT = 0
    REPL_CREATED = 1
    READ_ONLY = 2
    COMPACTION = 3
    MATER_VIEW_REBUILD = 4
    SOFT_DELETE = 5
    REBALANCE_COMPACTION = 6


COMPACTIONS: Final = frozenset({TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION})
"""The types of a compactor's own transactions."""


class OperationType(Enum):
    """What a transaction does to a table; the value is the letter in TC_OPERATION_TYPE."""

    SELECT = "s"
    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"
    COMPACT = "c"
    NO_TXN = "-"
    """never stored"""

    @property
    def is_write(self) -> bool:
        """Whether a lock request records it: INSERT, UPDATE and DELETE."""
        return self in (OperationType.INSERT, OperationType.UPDATE, OperationType.DELETE)


class AbortReason(Enum):
    """Why a transaction was aborted; the value is the text Hive keeps in TXN_META_INFO."""

    NONE = "none"
    ABORT_QUERY = "abort by query command"
    CONCURRENT = "concurrent committed transaction"
    WRITE_CONFLICT = "write conflicts"
    TIMEOUT = "heartbeat time-out"
    ROLLBACK = "rollback"
    COMPACTION = "compaction transaction abort"
    DEADLOCK = "deadlock"
    """followed by the transactions that waited for each other"""


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The transactions of a range that are not open."""

    aborted: tuple[TxnId, ...]
    missing: tuple[TxnId, ...]
    """committed or unknown"""


@dataclass(frozen=True, slots=True)
class TxnInfo:
    """One stored transaction; ``reason`` is why it was aborted, ``agent`` whom it is for."""

    id: TxnId
    state: TxnState
    type: TxnType
    started_ms: int
    last_heartbeat_ms: int
    user: str
    host: str
    reason: str | None = None
    agent: str = ""


class LockType(Enum):
    """Hive's lock types; the value is the letter in HL_LOCK_TYPE. Declared from weak to strong."""

    SHARED_READ = "r"
    SHARED_WRITE = "w"
    EXCL_WRITE = "x"
    EXCLUSIVE = "e"

    @property
    def strength(self) -> int:
        """0 (SHARED_READ) to 3 (EXCLUSIVE)."""
        return list(LockType).index(self)


class LockState(Enum):
    """State of a lock request; the value is the letter in HL_LOCK_STATE where it is stored."""

    ACQUIRED = "a"
    WAITING = "w"
    NOT_ACQUIRED = "n"
    """refused at once; never stored"""


class LockSemantics(Enum):
    """Which Hive's compatibility table holds."""

    HIVE_4 = "4.1"
    HIVE_3 = "3.1"


SESSION_PREFIX: Final = "hiveacid-session-"
"""What the agent info (HL_AGENT_INFO) of a session's requests begins with."""


CLAIMS: Final = "load data"
"""What SHOW LOCKS has as the database of a file that a LOAD keeps others from."""


CLEANER: Final = "hiveacid-cleaner"
"""The agent info of a cleaner's locks, which are no session's."""


@dataclass(frozen=True, slots=True)
class LockComponent:
    """What one component of a request locks: a database, a table of it, a partition by its name.

    ``operation`` says what the transaction will do there, which the lock request records;
    ``dynamic`` that the partitions written are not known yet; ``transactional`` is False for tables
    whose writes are not recorded, None where the client did not say (counts as True).
    """

    type: LockType
    database: str
    table: str | None = None
    partition: str | None = None
    operation: OperationType | None = None
    dynamic: bool = False
    transactional: bool | None = None

    def __post_init__(self) -> None:
        if self.partition is not None:  # as Hive: names in lower case, values as they are
            pairs = (part.partition("=") for part in self.partition.split("/"))
            text = "/".join(f"{name.lower()}{equals}{value}" for name, equals, value in pairs)
            object.__setattr__(self, "partition", text)


@dataclass(frozen=True, slots=True)
class LockInfo:
    """One component of a stored request: a row of HIVE_LOCKS; times are epoch ms."""

    lock_id: LockId
    component_id: int
    txn_id: TxnId
    database: str
    table: str | None
    partition: str | None
    state: LockState
    type: LockType
    last_heartbeat_ms: int
    acquired_at_ms: int | None
    user: str
    host: str
    agent_info: str | None = None
    blocked_by_lock_id: LockId | None = None
    blocked_by_component_id: int | None = None

    @property
    def holder(self) -> str:
        """Whose it is, as messages name it: the transaction's, or that of a LOCK TABLE, a LOAD
        DATA, a cleaner.
        """
        if self.txn_id:
            return f"txnid:{self.txn_id}"
        kind = "LOAD DATA" if self.database == CLAIMS else "LOCK TABLE"
        kind = "a cleaner" if self.agent_info == CLEANER else kind
        return f"lockid:{self.lock_id} ({kind})"

    @property
    def session(self) -> str | None:
        """The session of ours that it belongs to; None where another client made the request."""
        found = self.agent_info or ""
        return found if found.startswith(SESSION_PREFIX) else None

    def __str__(self) -> str:
        return (
            f"{{lockid:{self.lock_id} intLockId:{self.component_id} txnid:{self.txn_id} "
            f"db:{self.database} table:{self.table or 'null'} partition:{self.partition or 'null'} "
            f"state:{self.state.name} type:{self.type.name}}}"
        )


_R, _W, _X, _E = LockType

WAITS: Final[Mapping[LockSemantics, Mapping[LockType, frozenset[LockType]]]] = {
    LockSemantics.HIVE_4: {
        _R: frozenset({_E}),
        _W: frozenset({_X, _E}),
        _X: frozenset({_W, _X, _E}),
        _E: frozenset({_R, _W, _X, _E}),
    },
    LockSemantics.HIVE_3: {
        _R: frozenset({_E}),
        _W: frozenset({_W, _X, _E}),
        _X: frozenset({_W, _X, _E}),
        _E: frozenset({_R, _W, _X, _E}),
    },
}
"""Requested type -> types of earlier requests that it waits for."""


_CHECK_ORDER: Final = (
    LockType.SHARED_READ,
    LockType.EXCLUSIVE,
    LockType.SHARED_WRITE,
    LockType.EXCL_WRITE,
)


def overlaps(requested: LockInfo, existing: LockInfo) -> bool:
    """Whether both name a common object: a database covers its tables, a table its partitions."""
    if requested.database != existing.database:
        return False
    if requested.table is None or existing.table is None:
        return True
    if requested.table != existing.table:
        return False
    return (
        requested.partition is None
        or existing.partition is None
        or requested.partition == existing.partition
    )


def find_deadlock(
    blocked: Iterable[tuple[LockInfo, LockInfo]], *, busy: Collection[str] = ()
) -> tuple[LockInfo, ...]:
    """Of (waiting request, what is in its way), requests that wait for each other: that of the
    youngest transaction (where none has one, the latest), then for which it waits, and so on;
    empty where none do.

    A request is waited for until it is granted, a transaction's lock while a request of the
    transaction waits, a lock without one (LOCK TABLE) while a request of its session does, unless
    that is ``busy``: for that long nobody commits, and nobody unlocks.
    """
    pairs = tuple(blocked)
    waiting = {one.lock_id: one for one, _ in pairs}
    by_owner: dict[TxnId | str, list[LockId]] = {}
    for one in waiting.values():
        by_owner.setdefault(one.txn_id, []).append(one.lock_id)
        if one.session is not None and one.session not in busy:
            by_owner.setdefault(one.session, []).append(one.lock_id)
    cycle = find_cycle(
        (one.lock_id, held_up)
        for one, by in pairs
        for held_up in (
            (by.lock_id,)
            if by.state is LockState.WAITING
            else by_owner.get(by.txn_id or by.session or "", ())
        )
    )
    if not cycle:
        return ()
    victim = max(cycle, key=lambda lock: (waiting[lock].txn_id, lock))
    at = cycle.index(victim)
    return tuple(waiting[lock] for lock in (*cycle[at:], *cycle[:at]))


def deadlock_text(cycle: Sequence[LockInfo]) -> str:
    """Who waits for whom, in a few words."""
    return " waits for ".join(one.holder for one in (*cycle, cycle[0]))


def find_cycle(waits: Iterable[tuple[LockId, LockId]]) -> tuple[LockId, ...]:
    """A cycle among (who waits, for whom), each followed by whom it waits for; empty where there
    is none.

    >>> find_cycle([(1, 2), (4, 3), (2, 3), (3, 2)])
    (2, 3)
    """
    follows: dict[LockId, list[LockId]] = {}
    for waiting, holder in waits:
        follows.setdefault(waiting, []).append(holder)
    finished: set[LockId] = set()
    for start in sorted(follows):
        path: list[LockId] = []
        branches = [iter((start,))]
        while branches:
            following = next(branches[-1], None)
            if following is None:
                branches.pop()
                if path:
                    finished.add(path.pop())
            elif following in path:
                return tuple(path[path.index(following) :])
            elif following not in finished:
                path.append(following)
                branches.append(iter(follows.get(following, ())))
    return ()


def must_wait(requested: LockInfo, existing: LockInfo, *, semantics: LockSemantics) -> bool:
    """Whether ``requested`` waits for the earlier ``existing`` (waiting or acquired alike)."""
    if requested.txn_id != 0 and requested.txn_id == existing.txn_id:
        return False
    if not overlaps(requested, existing):
        return False
    if existing.type not in WAITS[semantics][requested.type]:
        return False
    # CREATE TABLE (database, SHARED_READ) and DROP of another table (EXCLUSIVE) do not fight.
    if requested.type is _R and existing.type is _E:
        return not (existing.table is not None and requested.table is None)
    if requested.type is _E and existing.type is _R:
        return not (existing.table is None and requested.table is not None)
    return True


def first_blocked(
    request: Sequence[LockInfo], others: Sequence[LockInfo], *, semantics: LockSemantics
) -> tuple[LockInfo, LockInfo] | None:
    """The component of a request that Hive finds blocked first, and what is in its way."""
    for wanted in sorted(request, key=lambda one: _CHECK_ORDER.index(one.type)):
        for other in others:
            if must_wait(wanted, other, semantics=semantics):
                return wanted, other
    return None


def blocked_now(
    locks: Sequence[LockInfo], *, semantics: LockSemantics
) -> list[tuple[LockInfo, LockInfo]]:
    """Of all there are, (waiting request, what is in its way): where the request is of a session of
    ours as it would find it now, else as noted when it looked last. What the session, or the
    transaction, has got since is in its way no more, nor who waits for that.
    """
    by_id = {(one.lock_id, one.component_id): one for one in locks}
    waiting: dict[LockId, list[LockInfo]] = {}
    for one in locks:
        if one.state is LockState.WAITING:
            waiting.setdefault(one.lock_id, []).append(one)
    blocked: list[tuple[LockInfo, LockInfo] | None] = []
    for lock, request in waiting.items():
        session, txn = request[0].session, request[0].txn_id
        if session is None:
            for one in request:
                blocker = by_id.get(
                    (one.blocked_by_lock_id or LockId(0), one.blocked_by_component_id or 0)
                )
                blocked.append(None if blocker is None else (one, blocker))
            continue
        own = {
            one.lock_id
            for one in locks
            if one.state is LockState.ACQUIRED
            and (one.txn_id == txn if one.txn_id else one.session == session)
        }
        counting = [one for one in locks if one.lock_id < lock or one.state is LockState.ACQUIRED]
        passed = passed_by(counting, own, semantics=semantics)
        others = [one for one in counting if one.lock_id not in passed]
        blocked.append(first_blocked(request, others, semantics=semantics))
    return [one for one in blocked if one is not None]


def busy_sessions(locks: Sequence[LockInfo]) -> frozenset[str]:
    """Those with a transaction that holds locks and waits for none: it may commit, and unlock."""
    waiting = {one.txn_id for one in locks if one.state is LockState.WAITING}
    return frozenset(
        one.session for one in locks if one.session and one.txn_id and one.txn_id not in waiting
    )


def passed_by(
    requests: Iterable[LockInfo], held: Collection[LockId], *, semantics: LockSemantics
) -> frozenset[LockId]:
    """The locks ``held`` by a client or its transaction, and the requests that cannot be granted
    before it gives them back: none of them stands in the way of its own statements.
    """
    passed = set(held)
    earlier: list[LockInfo] = []
    for one in sorted(requests, key=lambda request: request.lock_id):
        if one.state is LockState.WAITING and any(
            other.lock_id in passed and must_wait(one, other, semantics=semantics)
            for other in earlier
        ):
            passed.add(one.lock_id)
        earlier.append(one)
    return frozenset(passed)
