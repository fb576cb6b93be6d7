"""The past of a table: its commits in their order, and what was there just after one of them; the
last micro-batches of streams that were written to it.

A version is the state just after a write id committed. Write ids may commit in another order than
that of their numbers, so a version is told by the place (``sequence``) of its commit among all
commits of the metastore, and seen by a list of valid write ids like any other snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timezone
from enum import Enum
from typing import Final

from hiveacid.errors import InvalidInputError
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.readable import moment as shown
from hiveacid.model.tables import Column, Table, TableName, TxnId, WriteId


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What a transaction did to one table, as far as its statements counted; rows are None where
    they did not.
    """

    table: TableName
    write_id: WriteId
    kind: str = ""
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    files: int = 0
    size_bytes: int = 0

    def together(self, later: CommitFacts) -> CommitFacts:
        """This and what the same transaction did to the table after it."""
        kinds = [one for one in (*self.kind.split(", "), later.kind) if one]
        return CommitFacts(
            self.table,
            self.write_id,
            ", ".join(dict.fromkeys(kinds)),
            _sum(self.inserted, later.inserted),
            _sum(self.updated, later.updated),
            _sum(self.deleted, later.deleted),
            self.files + later.files,
            self.size_bytes + later.size_bytes,
        )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What a commit is to keep of itself: the tables it wrote to, who it was, and the statement."""

    facts: tuple[CommitFacts, ...] = ()
    application: str = ""
    statement: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """One table's part of a commit. ``sequence`` is its place among all commits of the metastore;
    ``committed_ms`` never goes back from one to the next.
    """

    sequence: int
    txn: TxnId
    write_id: WriteId
    started_ms: int
    committed_ms: int
    facts: CommitFacts
    user: str
    host: str
    application: str
    statement: str | None


@dataclass(frozen=True, slots=True)
class UnrecordedCommit:
    """A commit of Hive's own to a table, as far as its tables tell; None is what nobody knows."""

    txn: TxnId
    write_id: WriteId
    started_ms: int | None
    facts: CommitFacts
    user: str | None
    host: str | None
    sequence: None = None
    committed_ms: None = None
    application: None = None
    statement: None = None


@dataclass(frozen=True, slots=True)
class AsOf:
    """Which version is asked for: by write id, time (epoch ms), name of a tag, or place among the
    commits; one of them. ``time_of`` gives the time, of that of a statement.

    ``in_todays_columns``: its rows are read as files of then are read today.
    """

    write_id: int | None = None
    time_ms: int | None = None
    tag: str | None = None
    sequence: int | None = None
    time_of: Callable[[int], int] | None = None
    in_todays_columns: bool = False

    def at(self, now_ms: int) -> AsOf:
        """The same, as of a statement's time."""
        return self if self.time_of is None else AsOf(time_ms=self.time_of(now_ms))

    def __str__(self) -> str:
        if self.time_ms is not None:
            return f"TIMESTAMP AS OF '{shown(self.time_ms, unit='milliseconds')}'"
        return f"VERSION AS OF {self.write_id if self.tag is None else repr(self.tag)}"


def version_or_time(name: str, given: object) -> int | AsOf | None:
    """One end of a range of changes, as a user gives it: a write id or a time; None is none.

    Raises:
        InvalidInputError: it is neither.
    """
    if given is None:
        return None
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    if isinstance(given, (str, date)):
        return AsOf(time_ms=moment_ms(given))
    raise InvalidInputError(f"{name} is a version, a whole number, or a time, not {given!r}")


def as_of(write_id: object, moment: object, tag: object) -> AsOf | None:
    """What a user asks for; None where for nothing.

    Raises:
        InvalidInputError: for two things, or a value that is none of its kind.
    """
    given = {"write id": write_id, "time": moment, "tag": tag}
    names = [name for name, value in given.items() if value is not None]
    if not names:
        return None
    if len(names) > 1:
        raise InvalidInputError(f"A version is told by one thing, not by {' and '.join(names)}")
    if moment is not None:
        return AsOf(time_ms=moment_ms(moment))
    if tag is not None:
        if not isinstance(tag, str) or not tag:
            raise InvalidInputError(f"A tag is a name, not {tag!r}")
        return AsOf(tag=tag.lower())
    if isinstance(write_id, bool) or not isinstance(write_id, int):
        raise InvalidInputError(f"A version is a write id, a whole number, not {write_id!r}")
    return AsOf(write_id=int(write_id))


def moment_ms(value: object) -> int:
    """A time as epoch milliseconds: a datetime or a date, a text of one; UTC where it has no zone.

    Raises:
        InvalidInputError: it is none.
    """
    found: object = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            found = None
    if isinstance(found, date) and not isinstance(found, datetime):
        found = datetime.combine(found, time.min)
    if not isinstance(found, datetime) or found != found:  # NaT of pandas
        raise InvalidInputError(
            f"{value!r} is no time",
            note="A time is a datetime, or a text such as '2026-11-22 18:30:00' or "
            "'2026-11-22T18:30:00+01:00'; UTC where it names no zone.",
        )
    aware = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
    return int(aware.timestamp() * 1000)


WHOLE_TABLE: Final = ""
"""The name that stands for all files that a table had when it became transactional."""


@dataclass(frozen=True, slots=True)
class PartitionSince:
    """A partition that came with its rows: under the name ``before`` until then, or not at all."""

    name: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """A table as it was just after a commit.

    ``sequence`` and ``committed_ms`` are None where the commit was not recorded (one of Hive, or of
    a hiveacid that kept no history): its place is then told from its number alone. ``columns`` are
    those of then, None where they are today's; ``dropped`` names partitions that were dropped
    since, ``came`` are those that came since with their rows, in order.
    """

    write_id: WriteId
    valid: ValidWriteIdList
    sequence: int | None
    committed_ms: int | None
    columns: tuple[Column, ...] | None = None
    dropped: tuple[str, ...] = ()
    came: tuple[PartitionSince, ...] = ()

    @property
    def was_converted(self) -> bool:
        """Whether the table had rows before its first commit, as far as it is known."""
        return any(one.name == WHOLE_TABLE for one in self.came)

    def name_today(self, then: str) -> str:
        """Today's name of a partition, by its name of then."""
        for one in self.came:
            if one.before == then:
                then = one.name
        return then

    def names_of_then(self, names: Iterable[str]) -> dict[str, str]:
        """By today's name of each partition that was there (or that a later commit made) its name
        of then.
        """
        found = {name: name for name in names}
        for one in reversed(self.came):
            today = found.pop(one.name, None)
            if one.before is not None and today is not None:
                found[one.before] = today
        return {today: then for then, today in found.items()}


def state_after(
    now: ValidWriteIdList, *, highest: int, later: Iterable[int] = ()
) -> ValidWriteIdList:
    """What was valid when ``highest`` was the highest committed write id.

    ``now`` names all exceptions of today; ``later`` are write ids that committed since then. Of
    what follows, aborted write ids belong to it: a compaction may have put its number there.
    """
    end = highest
    while now.is_aborted(end + 1):
        end += 1
    since = {one for one in later if one <= highest}
    return ValidWriteIdList.of(
        now.table,
        hwm=end,
        open=sorted(since.union(one for one in now.open if one <= highest)),
        aborted=(one for one in now.aborted if one <= end),
    )


@dataclass(frozen=True, slots=True)
class Floor:
    """What a cleaner has begun to remove of a partition: files of the write ids from ``first`` (0:
    from the beginning) to ``base``, whose rows of then the base of that write id does not tell.
    """

    first: int
    base: int


class PinKind(Enum):
    """Whose files a pin keeps."""

    TAG = "tag"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Pin:
    """Keeps from the cleaner what a reader of ``valid`` needs of a table, until ``expires_ms``
    (None: for ever).

    A tag is made once, and shows the version ``write_id``. A consumer of changes pins the state of
    its offset, ``write_id``: it replaces its pin, under the same name, in the transaction or after
    the commit that moves the offset; where the pin expires the consumer has to begin anew.
    ``made_ms`` is 0 until its maker has seen that the files are there: till then no reader relies
    on it.
    """

    kind: PinKind
    name: str
    table: TableName
    write_id: WriteId
    valid: ValidWriteIdList = field(repr=False)
    made_ms: int = 0
    expires_ms: int | None = None

    def shows(self, valid: ValidWriteIdList) -> bool:
        """Whether what it keeps is what a reader of this list needs."""
        return self.valid.covers(valid) and valid.covers(self.valid)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


@dataclass(frozen=True, slots=True)
class ConsumerMove:
    """What a consumer of changes has read: from the state that its pin ``before`` shows to that of
    ``after``; the new pin is kept for ``keep_ms``. Where the pin is another one by then, somebody
    else has read under that name.
    """

    before: Pin
    after: Pin
    keep_ms: int


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A micro-batch of the stream ``app_id`` that a transaction wrote to a table; numbers rise.

    ``table_id`` is the table's own number: a name may stand for another table later. None for those
    that were written before it was kept.
    """

    app_id: str
    table: TableName
    number: int
    table_id: int | None

    def is_in(self, table: Table) -> bool:
        """Whether it is in this very table."""
        return self.table == table.name and self.table_id in (None, table.id)


class Deduplication(Enum):
    """Which changes of one row are left out; the names are Spark's ``deduplicationMode``."""

    NONE = "none"
    """none: also a row that one transaction both inserted and deleted"""
    DROP_CARRYOVERS = "dropCarryovers"
    """the net change of each transaction"""
    NET_CHANGES = "netChanges"
    """the net change from the first version to the last"""

    @staticmethod
    def parse(text: str) -> Deduplication:
        """The mode of this name, whatever its case.

        Raises:
            InvalidInputError: there is none.
        """
        for mode in Deduplication:
            if mode.value.lower() == text.lower():
                return mode
        names = ", ".join(mode.value for mode in Deduplication)
        raise InvalidInputError(f"deduplicationMode is one of {names}, not {text!r}")


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The changes after ``since`` (with it, where ``includes_since``), up to ``until`` and with it,
    unless ``includes_until`` is False; None is what is committed now. Both are write ids, or times:
    those of commits.

    ``key`` pairs deletes and inserts into updates: None takes the table's PRIMARY KEY, if any, and
    no names pair nothing; nor does anything without ``computes_updates``.

    A ``consumer`` goes on from where it has read to. Then ``since`` is where a new one begins
    (None: there is to be one), and ``keep_ms`` how long it may stay away before its files go.
    """

    since: int | AsOf | None
    until: int | AsOf | None = None
    key: tuple[str, ...] | None = None
    deduplication: Deduplication = Deduplication.DROP_CARRYOVERS
    computes_updates: bool = True
    includes_since: bool = False
    includes_until: bool = True
    consumer: str | None = None
    keep_ms: int | None = None

    def __post_init__(self) -> None:
        for one in (self.since, self.until):
            if isinstance(one, int) and one < 0:
                raise InvalidInputError(
                    f"There is no version {one}: versions begin with 1, and before is 0",
                    version=one,
                )
        times = [one.time_ms for one in (self.since, self.until) if isinstance(one, AsOf)]
        if len(times) == 2 and None not in times and times[0] > times[1]:  # type: ignore[operator]
            raise InvalidInputError("Changes end at a time before that at which they begin")

    def in_form(self, options: Mapping[str, str]) -> ChangeRange:
        """The same in the form that options tell, whose names are in lower case.

        Raises:
            InvalidInputError: an option is wrong.
        """
        updates = options.get("computeupdates", "true").lower()
        if updates not in ("true", "false"):
            raise InvalidInputError(
                f"computeUpdates is true or false, not {updates!r}", option="computeUpdates"
            )
        key = options.get("key")
        return replace(
            self,
            key=None if key is None else tuple(filter(None, map(str.strip, key.split(",")))),
            deduplication=Deduplication.parse(
                options.get("deduplicationmode", self.deduplication.value)
            ),
            computes_updates=updates == "true",
        )

    def at(self, now_ms: int) -> ChangeRange:
        """The same, as of a statement's time."""
        ends = (
            one.at(now_ms) if isinstance(one, AsOf) else one for one in (self.since, self.until)
        )
        since, until = ends
        return replace(self, since=since, until=until)
