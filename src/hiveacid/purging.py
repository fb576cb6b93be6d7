"""PURGE: deleted rows are erased, and what is left is decoded to prove it.

    refuse where readers need the files
    -> DELETE what WHERE names -> which partitions hold deleted rows -> digests, row ids
    -> major compaction of those -> end of the retention of what it replaced -> removal, once no
       open transaction needs it
    -> the DELETE again where others wrote meanwhile: it finds nothing, else another round
    -> decode the files that are left -> report

Each step is one that is there already: a DELETE, a compaction by the queue, a cleaning. None goes
by what an earlier call has noted, so a call that was killed anywhere is followed by another.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, cast

from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.purge import (
    Holding,
    PurgedFile,
    PurgeReport,
    View,
    listed_again,
    still_there,
)
from hiveacid.errors import AcidError, ConflictError, LockError, UnsupportedError, spark_needed
from hiveacid.model.compactions import CompactionState
from hiveacid.model.history import Pin
from hiveacid.model.predicates import ANYTHING, Predicate
from hiveacid.model.readable import moment
from hiveacid.model.tables import NO_CLEANUP, AcidMode, Partition, Table, TxnId, WriteId, is_true
from hiveacid.model.transactions import TxnInfo, TxnState
from hiveacid.reading.rows import condition_of
from hiveacid.spark.session import quoted
from hiveacid.sql import ParsedStatement
from hiveacid.sql.cursor import TokenKind, tokenize
from hiveacid.sql.expressions import Fragment
from hiveacid.sql.parameters import condition_given
from hiveacid.statements.compact import Compact, plan_compaction
from hiveacid.statements.context import OpenSession
from hiveacid.statements.values import Delete, DeleteResult, Purge
from hiveacid.storage.merge.delete_set import DeleteSet
from hiveacid.storage.merge.sources import DeleteKeys
from hiveacid.storage.plan.planning import partitions_that_match
from hiveacid.txn.view import is_another
from hiveacid.writing import deleted

Holders = Callable[[], list[TxnInfo] | None]

_LOG = logging.getLogger(__name__)
_ROUNDS_MAX: Final = 3
"""So often rows that others insert meanwhile are deleted, too."""
_UNSEEN_READERS_S: Final = 2.5
"""What is waited for in any case: for a second after a commit there may be a reader whose
transaction cannot be seen yet, and what was begun lately ends."""
_PAUSE_MIN_S: Final = 0.5
_PAUSE_MAX_S: Final = 2.0
_UNPROVED: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("rows_sought", "rows_decoded", "rows_found"), 0),
    **dict.fromkeys(("cleaned", "named"), ()),
    "ended_ms": None,
}
"""What a report says before the proof."""
_SPARK_STATISTICS: Final = "spark.sql.statistics.colStats."


def purge(session: OpenSession, value: Purge, *, has_spark: bool) -> PurgeReport:
    """Carry out PURGE TABLE; WHERE is carried out by Spark where the session has one.

    Raises:
        NotFoundError, InvalidInputError: no such table, or one that is not compacted.
        LockError: readers or writers need its files, and did not end in time; the context names
        them and the files.
        ConflictError: others insert rows again and again that WHERE names.
        CompactionError: a rewrite failed.
        SparkNeededError: WHERE needs Spark.
    """
    return _Purge(session, value, has_spark=has_spark).run()


@dataclass(slots=True)
class _Touched:
    """A partition that held deleted rows, and their ids."""

    partition: Partition
    name: str | None
    keys: list[DeleteKeys]


class _Purge:
    """One call."""

    def __init__(self, session: OpenSession, value: Purge, *, has_spark: bool) -> None:
        self._session = session
        self._value = value
        self._has_spark = has_spark
        self._client = session.client
        compact = Compact(value.name, "major")
        metastore = self._client.metastore
        self._order = plan_compaction(metastore, compact, host=self._client.transactions.host)
        self._table: Table = self._order.table
        self._before: dict[str, PurgedFile] = {}
        self._touched: dict[str, _Touched] = {}
        self._where = _without_literals(value.where)
        self._begun_ms = self._client.clock.now_ms()
        self._deleted = 0
        self._swept: tuple[str, ...] = ()
        self._pins: Sequence[Pin] = ()
        self._dropped: tuple[str, ...] = ()

    def run(self) -> PurgeReport:
        """See ``purge``."""
        self._refuse_what_keeps_files()
        for number in range(_ROUNDS_MAX):
            before = self._last_write_id()
            deleted = self._delete()
            self._drop_pins()  # not before it is known that WHERE can be carried out
            rows = 0 if deleted is None else deleted.rows or 0
            self._deleted += rows
            if number and not rows:
                return self._proof()
            self._erase()
            if deleted is None or self._wrote_alone(before, deleted):
                return self._proof()
        raise ConflictError(
            f"Rows that WHERE names were inserted into {self._table.name} again and again, while "
            f"they were erased",
            table=str(self._table.name),
            note="Keep their writers away, and run it again.",
        )

    # ---------------------------------------------------------------- who needs the files

    def _refuse_what_keeps_files(self) -> None:
        """Nothing is done where it would have to wait, and shall not, or while pins need files."""
        if is_true(self._table.properties, NO_CLEANUP):
            raise LockError(
                f"{self._table.name} cannot be purged: its property {NO_CLEANUP} keeps all files",
                table=str(self._table.name),
                note=f"ALTER TABLE {self._table.name} UNSET TBLPROPERTIES ('{NO_CLEANUP}')",
            )
        self._pins = self._client.own.pins(self._table.name, in_force=True)
        if self._pins and not self._value.drop_pins:
            raise self._needed((), "is refused", ())
        if not self._value.wait_s:
            self._wait(lambda: self._open() or None, "is refused", ())

    def _drop_pins(self) -> None:
        """Those that were there when it began."""
        if self._pins:
            self._client.own.drop_pins(self._pins)
            self._dropped = tuple(f"{one}, which kept version {one.write_id}" for one in self._pins)
        self._pins = ()

    def _open(self, last: TxnId | None = None) -> list[TxnInfo]:
        """The open transactions, or those up to ``last``: a cleaner waits for each of them."""
        return [
            one
            for one in self._client.metastore.show_txns()
            if one.state is TxnState.OPEN and (last is None or one.id <= last)
        ]

    def _wait(self, holders: Holders, outcome: str, files: Sequence[str]) -> None:
        """Until ``holders`` is None; else it tells who is in the way, as far as they are known.

        Raises:
            LockError: somebody is, at the end of the time.
        """
        until_s = self._client.clock.monotonic_s() + max(
            self._value.wait_s or 0.0, _UNSEEN_READERS_S
        )
        pause_s = _PAUSE_MIN_S
        while (found := holders()) is not None:
            if self._client.clock.monotonic_s() >= until_s:
                raise self._needed(found, outcome, files)
            self._client.clock.sleep_s(pause_s)
            self._session.compacting.compactor().relieve()
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _needed(self, holders: Sequence[TxnInfo], outcome: str, files: Sequence[str]) -> LockError:
        pins = self._client.own.pins(self._table.name, in_force=True)
        needed_by = [
            f"{one.type.name.lower()} transaction {one.id} of {one.user}@{one.host} "
            f"(open since {moment(one.started_ms)} UTC)"
            for one in holders
        ]
        needed_by += [f"{one} (version {one.write_id})" for one in pins]
        names = ", ".join(needed_by[:5])
        more = f" and {len(needed_by) - 5} more" if len(needed_by) > 5 else ""
        error = LockError(
            f"PURGE of {self._table.name} {outcome}: its files may be needed by "
            f"{names or 'somebody'}{more}",
            table=str(self._table.name),
            transactions=tuple(one.id for one in holders),
            pins=tuple(map(str, pins)),
            files=tuple(files),
        )
        if pins:
            error.add_note("DROP PINS (drop_pins=True) drops tags and consumers for good.")
        if holders or not pins:
            error.add_note("WAIT n (wait=) waits n seconds for them.")
        if holders:
            error.add_note(f"ABORT TRANSACTIONS {' '.join(str(one.id) for one in holders)}")
        return error

    # ---------------------------------------------------------------- a round

    def _last_write_id(self) -> WriteId | None:
        """The last one that was given out, None where one is open."""
        (valid,) = self._client.metastore.valid_write_ids((self._table.name,))
        last = self._client.metastore.last_write_id(self._table.name)
        return None if valid.open or valid.hwm < last else last

    def _wrote_alone(self, before: WriteId | None, deleted: DeleteResult) -> bool:
        """Whether nobody else got a write id since: then no row can have come that WHERE names."""
        if before is None or deleted.write_id != before + 1:
            return False
        return self._client.metastore.last_write_id(self._table.name) == deleted.write_id

    def _delete(self) -> DeleteResult | None:
        """The DELETE of what WHERE names, None without."""
        value, session = self._value, self._session
        if value.where is None:
            return None
        if isinstance(value.where, Fragment) and self._has_spark:
            body = Delete(self._table.name, cast("Any", value.where), value.alias, purges=True)
            found = session.run(ParsedStatement(value.where.text, 1, body))
        elif self._has_spark:
            found = session.execute(
                Delete(self._table.name, condition_given(value.where), purges=True)
            )
        else:
            found = self._delete_here()
        return cast("DeleteResult", found)

    def _delete_here(self) -> DeleteResult:
        """Without Spark."""
        where = self._value.where
        text: Any = where.text if isinstance(where, Fragment) else where
        if self._value.alias is not None:
            raise spark_needed("An alias in PURGE")
        try:
            name = quoted(self._table.name.database, self._table.name.table)
            return deleted(self._session.table(name), text, purges=True)
        except UnsupportedError as error:
            raise spark_needed("This condition of PURGE") from error

    def _erase(self) -> None:
        """Rewrite and remove what holds deleted rows now."""
        self._wait_for_writers()
        self._check_same()
        holdings = listed_again(self._noted)
        self._write_report(self._report(()))
        self._compact(holdings)
        view = View.now(self._client, self._table)
        replaced = view.holdings(one.partition for one in holdings)
        places = [(one.partition, one.unread) for one in replaced]
        files = still_there(self._client, places)
        names = {(self._table.name, one.name) for one in replaced}
        self._wait(lambda: self._clean(names, places), "waits for readers", files)
        cleaner = Cleaner(self._client)
        # Those of a compaction that was killed are orphans since its transaction timed out.
        self._swept += cleaner.sweep((self._table,))
        if (
            self._table.partition_columns
        ):  # an aborted write may have been the first to its partition
            root = Partition((), self._table.location)
            self._swept += cleaner.remove_aborted(self._table, root)

    def _check_same(self) -> None:
        """Raises: ConflictError: another table has the name by now, of which nothing is erased."""
        name = self._table.name
        if is_another(self._table, self._client.metastore.get_tables((name,)).get(name)):
            raise ConflictError(
                f"{name} was dropped or renamed while it was purged",
                table=str(name),
                note="Run it again on the table that is meant.",
            )

    def _partitions(self) -> Sequence[Partition]:
        """Those that WHERE may name, by their values."""
        table, where = self._table, self._value.where
        if not table.partition_columns:
            return (Partition((), table.location),)
        partitions = self._client.metastore.list_partitions(table.name)
        text = where.text if isinstance(where, Fragment) else where
        predicate: Predicate = ANYTHING
        if isinstance(text, str) and any(key in text.lower() for key in table.partition_keys):
            try:
                predicate = condition_of(text, table.all_columns, table=table.name).predicate
            except AcidError:  # it is a condition of Spark's
                _LOG.debug("All partitions are looked at: %s", text)
        return partitions_that_match(table, partitions, predicate)

    def _noted(self) -> Sequence[Holding]:
        """What holds deleted rows now; noted with the files and the rows when all are read."""
        view = View.now(self._client, self._table)
        holdings = view.holdings(self._partitions())
        read = [(one, [*view.deleted(one)], view.files(one.partition)) for one in holdings]
        for one, keys, files in read:
            new = _Touched(one.partition, one.name, [])
            self._touched.setdefault(one.partition.location, new).keys.extend(keys)
            for file in files:
                self._before.setdefault(file.path, file)
        return holdings

    def _wait_for_writers(self) -> None:
        """A compaction ends below the first write id that is open."""
        name = self._table.name

        def writers() -> list[TxnInfo] | None:
            (valid,) = self._client.metastore.valid_write_ids((name,))
            return self._open() if valid.open else None

        self._wait(writers, "has deleted and cannot rewrite yet", ())

    def _compact(self, holdings: Sequence[Holding]) -> None:
        """By requests for the queue, as COMPACT AND WAIT."""
        queue = self._client.metastore.show_compactions(table=self._table.name)
        ready = {one.partition for one in queue if one.state is CompactionState.READY_FOR_CLEANING}
        chosen = [
            one.partition
            for one in holdings
            if one.rewrite or (one.directory.obsolete and one.name not in ready)
        ]
        self._session.compacting.compact_now(self._order, chosen)

    def _clean(
        self,
        names: set[tuple[Any, str | None]],
        places: Sequence[tuple[Partition, tuple[str, ...]]],
    ) -> list[TxnInfo] | None:
        """Clean; None where nothing is left, else who may need it."""
        if not still_there(self._client, places):
            return None
        cleaner = Cleaner(self._client, unretained=names)
        cleaner.run_all(self._table.name)
        for partition, _ in places:
            cleaner.remove_aborted(self._table, partition)
        if not still_there(self._client, places):
            return None
        # What was replaced after a compaction that waited to be cleaned is not its to clean.
        view = View.now(self._client, self._table)
        self._compact(view.holdings(partition for partition, _ in places))
        cleaner.run_all(self._table.name)
        if not still_there(self._client, places):
            return None
        queue = self._client.metastore.show_compactions(table=self._table.name)
        last = max((one.next_txn or TxnId(0) for one in queue), default=TxnId(0))
        return self._open(last)

    # ---------------------------------------------------------------- the proof

    def _proof(self) -> PurgeReport:
        self._check_same()
        view = View.now(self._client, self._table)
        after: list[PurgedFile] = []
        rows_sought = rows_decoded = rows_found = 0
        named = []
        for one in self._touched.values():
            ids = DeleteSet(one.keys)
            rows, of_them = listed_again(partial(view.count, one.partition, ids))
            after += listed_again(partial(view.files, one.partition))
            rows_sought, rows_decoded, rows_found = (
                rows_sought + len(ids),
                rows_decoded + rows,
                rows_found + of_them,
            )
            name = one.name
            if not rows and name is not None and self._table.acid_mode is AcidMode.FULL:
                named.append(f"the name of partition {name}, which is empty: DROP PARTITION")
        texts = sum(one.statement is not None for one in self._client.own.commits(self._table.name))
        if texts:
            named.append(f"the texts of {texts} statements in the table's history")
        side = self._table.name.rejected
        if self._client.metastore.get_tables((side,)):
            named.append(f"{side}, where streams put records that do not fit: a PURGE of its own")
        cleaned = (*self._dropped, *self._forget_statistics())
        report = self._report(
            after,
            rows_sought=rows_sought,
            rows_decoded=rows_decoded,
            rows_found=rows_found,
            cleaned=cleaned,
            named=tuple(named),
            ended_ms=self._client.clock.now_ms(),
        )
        self._write_report(report)
        if rows_found:
            raise LockError(
                f"{rows_found} deleted rows are still in files of {self._table.name}: somebody"
                " wrote to it meanwhile",
                table=str(self._table.name),
                report=report.report,
                note="Run it again.",
            )
        return report

    def _forget_statistics(self) -> tuple[str, ...]:
        """Least and greatest values of columns may be those of rows that are gone."""
        cleaned = []
        count = self._client.own.forget_column_statistics(self._table.name)
        if count:
            cleaned.append(f"statistics of {count} columns: ANALYZE TABLE takes them again")
        keys = [key for key in self._table.properties if key.startswith(_SPARK_STATISTICS)]
        if keys:
            self._client.metastore.alter_table(
                self._table.name, lambda now: now.without_properties(keys)
            )
            cleaned.append(f"table properties {', '.join(sorted(keys))}")
        return tuple(cleaned)

    def _report(self, after: Iterable[PurgedFile], **facts: Any) -> PurgeReport:
        database = self._client.metastore.get_database(self._table.name.database)
        name = f"{self._table.name.table}-{self._begun_ms}"
        left = tuple(after)
        paths = {one.path for one in left}
        return PurgeReport(
            table=self._table.name,
            where=self._where,
            rows_deleted=self._deleted,
            partitions=tuple(one.name or "" for one in self._touched.values()),
            files_before=tuple(self._before.values()),
            files_after=left,
            removed=(*(one for one in self._before if one not in paths), *self._swept)
            if facts
            else (),
            begun_ms=self._begun_ms,
            report=f"{database.location.rstrip('/')}/_hiveacid_purges/{name}.json",
            **{**_UNPROVED, **facts},
        )

    def _write_report(self, report: PurgeReport) -> None:
        fs, path = self._client.files.at(report.report)
        fs.make_room(path.rpartition("/")[0])
        facts = {**asdict(report), "table": str(report.table)}
        fs.write_bytes(path, data=json.dumps(facts, indent=1).encode())


def _without_literals(where: object) -> str | None:
    """The text of a condition with ``?`` for numbers and texts, which may be those to be erased."""
    if where is None:
        return None
    text = where.text if isinstance(where, Fragment) else where
    if not isinstance(text, str):
        return "a Column"
    literals = (TokenKind.STRING, TokenKind.NUMBER)
    words = [("?" if one.kind in literals else one.text) for one in tokenize(text)[:-1]]
    return re.sub(r"\?( , \?)+", "?, ...", " ".join(words))
