"""What a database of ours keeps of the past, as a protocol: commits in their order, versions of a
table, the last micro-batches of streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hiveacid.model.history import (
    Commit,
    ConsumerMove,
    Floor,
    Pin,
    StreamBatch,
    UnrecordedCommit,
    Version,
)
from hiveacid.model.tables import TableName, TxnId


class Past(Protocol):
    """The part of ``OwnDatabase`` about the past."""

    def commits(
        self,
        table: TableName,
        *,
        after: int = 0,
        until: int | None = None,
        above: int = 0,
        limit: int | None = None,
        latest: bool = False,
    ) -> tuple[Commit, ...]:
        """The commits that wrote to the table, in their order, those whose place (``sequence``) is
        above ``after`` and not above ``until``, and whose write id is above ``above``; the last
        ones first where ``latest``. Commits of Hive's own are missing.

        Raises: NotFoundError: no such table.
        """

    def unrecorded(self, table: TableName) -> tuple[UnrecordedCommit, ...]:
        """The commits that wrote to the table and were not recorded (those of Hive), as far as
        Hive's tables know them still, the last first.

        Raises: NotFoundError: no such table.
        """

    def commits_of(self, txn: TxnId) -> tuple[Commit, ...]:
        """The parts of a transaction's commit, a table each; none where none was recorded.

        Raises: NotFoundError: a table that it wrote to was dropped.
        """

    def version(
        self,
        table: TableName,
        *,
        write_id: int | None = None,
        time_ms: int | None = None,
        sequence: int | None = None,
    ) -> Version:
        """The table just after the write id committed, or after the last commit to it up to a time
        or a place. Write id 0 is the table before its first commit. Whether the files are there
        still is another question.

        Raises: NotFoundError: no such table; the write id was not given out or not committed; the
        time is before the first commit that was recorded, and there was one before.
        """

    def latest(self, tables: Sequence[TableName]) -> tuple[Version, ...]:
        """The tables as they are, all at one moment.

        Raises: NotFoundError: no such table.
        """

    def pins(self, table: TableName | None = None, *, in_force: bool = False) -> tuple[Pin, ...]:
        """The pins of a table, or of all; with ``in_force`` those of it that have not expired."""

    def add_pins(self, pins: Sequence[Pin], *, keep_ms: int | None = None) -> tuple[Pin, ...]:
        """Make all of these pins or none, to expire after ``keep_ms``; one takes the place of an
        expired one of its name. Cleaners keep their files from now
        on; readers rely on them once they are confirmed.

        Raises: NotFoundError: no such table. AlreadyExistsError: there is one of that name.
        """

    def confirm_pins(self, pins: Sequence[Pin]) -> tuple[Pin, ...]:
        """Let readers rely on them: their files were there after the pins were made.

        Raises: NotFoundError: no such table.
        """

    def move_consumers(self, moves: Sequence[ConsumerMove]) -> None:
        """Let consumers go on, all of them or none. A pin that readers could rely on up to now is
        one that they can rely on afterwards, for its time begins anew; another is to be confirmed.

        Raises: ConflictError: a pin is gone, or not the one that was read from.
        """

    def drop_pins(self, pins: Sequence[Pin]) -> int:
        """Forget them; how many there were.

        Raises: NotFoundError: no such table.
        """

    def floors(self, table: TableName) -> Mapping[str, Floor]:
        """By the names of partitions (an empty one for a table without) what cleaners have begun to
        remove.

        Raises: NotFoundError: no such table.
        """

    def note_floor(self, table: TableName, partition: str | None, floor: Floor) -> None:
        """What a cleaner is about to remove besides; nothing happens where the table is gone."""

    def sequence_of(self, *, txn: TxnId | None = None, time_ms: int | None = None) -> int | None:
        """The place of a transaction's commit, or of the last commit up to a time; None where none
        was recorded.
        """

    def last_batches(self, app_id: str) -> tuple[StreamBatch, ...]:
        """The stream's last micro-batch in each table that has one, also in those dropped."""
