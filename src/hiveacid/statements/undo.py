"""UNDO TRANSACTION: the inverse of a transaction, over all its tables, as one statement.

The change feed tells what the transaction did. A row that it inserted goes: it is told by its row
id, which has the transaction's write id. One that it deleted comes back as a new row. An update is
both. Where such a row has changed since, nothing is done, and the error names the rows.

Rows of an insert-only table have no ids and are told by their values: the partitions that the
transaction changed are overwritten with the rows of now, without those that it inserted and with
those that it took away.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import ChangedSinceError, InvalidInputError, NotFoundError, UnsupportedError
from hiveacid.metastore.api import OwnDatabase
from hiveacid.model.history import ChangeRange, Commit, StreamBatch
from hiveacid.model.tables import AcidMode, Column, Partition, Table, TxnId, WriteId
from hiveacid.statements.arrow_rows import check_not_null
from hiveacid.statements.changes import ChangeScan, plan_changes
from hiveacid.statements.checks import check_row_changes
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.driver_merge import ROW_IDS, Gone, key_predicate, stored, target_rows
from hiveacid.statements.driver_write import write_arrow, write_deletes
from hiveacid.statements.history import UndoTransaction
from hiveacid.statements.insert import TruncateWork
from hiveacid.statements.job import Job, Work
from hiveacid.statements.matching import Keys
from hiveacid.statements.values import UndoResult
from hiveacid.storage.change_pairs import row_groups
from hiveacid.storage.changes import CHANGE_FIELDS, INSERT
from hiveacid.storage.orc.tails import unit_to_write
from hiveacid.storage.python_values import python_rows
from hiveacid.storage.read import TableReader
from hiveacid.storage.target import WriteResult, WrittenFile, write_result
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look

_LISTED_MAX: Final = 1000
_SHOWN: Final = 5
_UNDONE: Final = re.compile(r"\bUNDO (\d+)")
"""What the history calls a commit that took a transaction back."""
_Places = npt.NDArray[np.int64]
_NONE: Final[npt.NDArray[np.bool_]] = np.zeros(0, np.bool_)
_Row = Mapping[str, object] | None
_Parts = list[tuple[tuple[str | None, ...], pa.Table]]


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row that stands in the way of undo: as the transaction left it (None: it had deleted it),
    and as it is (None: it is gone, or nobody knows, for want of a key).
    """

    table: str
    left: Mapping[str, object] | None
    now: Mapping[str, object] | None


def plan(context: ExecutionContext, statement: UndoTransaction, look: Look) -> Sequence[UndoWork]:
    """A work for each table that the transaction wrote to.

    Raises:
        NotFoundError: no commit of it was recorded, or a table was dropped since.
        InvalidInputError: it was no change of rows.
    """
    commits = context.client.own.commits_of(statement.txn)
    if not commits:
        raise NotFoundError(
            f"No commit of transaction {statement.txn} was recorded: it is not committed, it wrote "
            "nothing, or it is older than the history",
            txn=int(statement.txn),
        )
    changed: list[ChangedRow] = []
    works = []
    for number, commit in enumerate(commits, 1):
        table = look.definition(commit.facts.table)
        work = UndoWork(table, commit, statement, changed, is_last=number == len(commits))
        if table.acid_mode is AcidMode.INSERT_ONLY:
            work = replace(work, does=frozenset({WriteKind.OVERWRITE}))
        else:
            check_row_changes(table)
        works.append(work)
    told = [one.facts for one in commits if one.facts.inserted is None and not one.facts.files]
    if len(told) == len(commits):
        raise _changed_definitions(look, context.client.own, statement.txn, commits)
    return works


def _changed_definitions(
    look: Look, own: OwnDatabase, txn: TxnId, commits: Sequence[Commit]
) -> InvalidInputError:
    """Says what a transaction without rows did instead."""
    done = []
    for one in commits:
        name, place = one.facts.table, one.sequence
        today = look.definition(name).columns
        before, after = (
            own.version(name, sequence=at).columns or today for at in (place - 1, place)
        )
        changed = ", ".join(columns_changed(before, after))
        done.append(f"{one.facts.kind} of {name}" + (f" ({changed})" if changed else ""))
    return InvalidInputError(
        f"Transaction {txn} wrote no rows, and a change of definitions is not undone: "
        f"{'; '.join(done)}",
        note="Another statement of that kind takes it back.",
        txn=int(txn),
    )


def columns_changed(before: Sequence[Column], after: Sequence[Column]) -> list[str]:
    """What was done to a table's columns, in words."""
    old, new = ({one.name: one.type for one in columns} for columns in (before, after))
    renamed = {
        one.name: two.name
        for one, two in zip(before, after, strict=False)
        if one.name not in new and two.name not in old
    }
    known = {*old, *renamed.values()}
    return [
        *(f"{one} was renamed to {two}" for one, two in renamed.items()),
        *(f"{one} {new[one]} was added" for one in new if one not in known),
        *(f"{one} was {old[one]}" for one in new if old.get(one, new[one]) != new[one]),
    ]


@dataclass(frozen=True, slots=True)
class UndoWork(Work):
    """What is taken back in one table. ``changed`` is shared by the works of a statement: the last
    of them raises where there are any.
    """

    table: Table
    commit: Commit
    statement: UndoTransaction
    changed: list[ChangedRow]
    is_last: bool
    does: frozenset[WriteKind] = frozenset({WriteKind.UPDATE})

    def write(self, job: Job) -> WriteResult:
        """Delete events of what was inserted and is there; the rows that were deleted, anew.

        Raises:
            ChangedSinceError: rows have changed since.
            SnapshotExpiredError: what the transaction did cannot be told any more.
        """
        scan = self._changes(job)
        if self.kind is WriteKind.OVERWRITE or not scan.key:
            self._once(job)
        if self.kind is WriteKind.OVERWRITE:
            return self._overwritten(job, scan)
        inserted, deleted = _sides(scan, scan.batches())
        live_rows = self._there(job, inserted, deleted, scan.key)
        mine = np.concatenate([_NONE, *(self._is_mine(one) for _, one in live_rows)])
        comparison = compared([one for _, one in live_rows], mine, inserted, deleted, scan.key)
        if comparison.renumbered:
            raise UnsupportedError(
                f"A rebalance gave rows of {self.table.name} other ids since transaction"
                f" {self.statement.txn}: which rows are its own only a key tells",
                note="undo(txn, key=...) names the columns.",
                table=str(self.table.name),
                txn=int(self.statement.txn),
            )
        self._refuse(comparison.changed)
        delete_id, insert_id = job.statement_ids
        target = job.target(delete_statement=delete_id, insert_statement=insert_id)
        files = list(write_deletes(_gone(live_rows, comparison.taken).keys(), target=target).files)
        if deleted.num_rows:
            arrays = stored(self.table, deleted)
            check_not_null(self.table, zip(self.table.column_names, arrays, strict=True))
            files += write_arrow(arrays, target=target).files
        return write_result(target, files)

    def result(self, written: WriteResult, write_id: WriteId) -> UndoResult:
        """Rows by what happened to them."""
        name = str(self.table.name)
        return UndoResult(name, written.rows_deleted, written.rows_inserted, write_id)

    def _refuse(self, changed: Iterable[tuple[_Row, _Row]]) -> None:
        """Raises: ChangedSinceError: rows of this table or of one before it have changed since."""
        name = str(self.table.name)
        self.changed.extend(ChangedRow(name, left, now) for left, now in changed)
        if self.is_last and self.changed:
            raise _changed_since(self.statement.txn, self.changed)

    def _once(self, job: Job) -> None:
        """What nothing tells from other rows is not brought back twice, also not by two who undo
        the same at once: one of the commits is the first.

        Raises:
            ChangedSinceError: it is taken back already.
        """
        name, txn = self.table.name, int(self.statement.txn)
        later = job.context.client.own.commits(name, after=self.commit.sequence)
        number, last = undone_by(txn, later)
        if last is not None:
            raise ChangedSinceError(
                f"Transaction {txn} is undone already, by transaction {last}",
                note=f"UNDO TRANSACTION {last} does again what it did. With the columns that tell a"
                " row, key=, rows are compared.",
                txn=txn,
                count=0,
                rows=(),
            )
        once = StreamBatch(f"undo {txn}", name, number, self.table.id)
        job.txn.pending.batches.append(once)

    def _overwritten(self, job: Job, scan: ChangeScan) -> WriteResult:
        """The rows of now of the partitions that the transaction changed, without those that it
        inserted and with those that it took away.
        """
        table, names = self.table, self.table.column_names
        plan = job.plan(table)
        reader = TableReader(job.files, table, frozenset(names), plan.snapshot.valid)
        parts = {one.part.partition.values: one.part for one in plan.parts}
        units = groupby(scan.units, key=lambda unit: unit.partition)
        changed: list[tuple[_Row, _Row]] = []
        kept_rows: list[pa.Table] = []
        emptied: list[Partition] = []
        came = went = 0
        for partition, of_it in units:
            events = (batch for unit in of_it for batch in scan.reader.rows(unit))
            inserted, deleted = without_equal(*_sides(scan, events))  # an overwrite has all rows
            now = inserted.schema.empty_table()
            if (part := parts.get(partition.values)) is not None:  # else it is empty
                now = pa.Table.from_batches(reader.rows(partition, part.directory), now.schema)
            stays, missing = without_equal(now, inserted)
            changed += ((row, None) for row in python_rows(missing))
            rows = pa.concat_tables([stays, deleted])
            came, went = came + deleted.num_rows, went + inserted.num_rows
            if rows.num_rows:
                kept_rows.append(rows)
            else:
                emptied.append(partition)
        self._refuse(changed)
        target = job.target(insert_statement=job.statement_ids[0], overwrite=True)
        files: tuple[WrittenFile, ...] = ()
        if kept_rows:
            files = write_arrow(stored(table, pa.concat_tables(kept_rows)), target=target).files
        if emptied:
            files += TruncateWork(table, tuple(emptied)).write(job).files
        return WriteResult(files, came, 0, went)

    def _changes(self, job: Job) -> ChangeScan:
        """What the transaction did, its timestamps in a unit that loses nothing."""
        write_id, key = int(self.commit.write_id), self.statement.key
        wanted = ChangeRange(write_id, write_id, key, includes_since=True)
        own, table = job.context.client.own, self.table
        scan = plan_changes(job.txn, table, wanted, own=own, files=job.files)
        if table.acid_mode is AcidMode.INSERT_ONLY:
            return scan
        files = (
            (job.files.at(unit.partition.location), file)
            for unit in scan.units
            for file in (*unit.step.before.row_files, *unit.step.changed.row_files)
        )
        unit = unit_to_write(files, (column.type for column in table.columns))
        reader = replace(scan.reader, reader=replace(scan.reader.reader, unit=unit))
        return replace(scan, reader=reader)

    def _there(self, job: Job, inserted: pa.Table, deleted: pa.Table, key: Sequence[str]) -> _Parts:
        """The live rows that the transaction inserted, and those that have the key of a row that it
        inserted or deleted, by partition.
        """
        sought = pa.concat_tables([inserted, deleted]).select(list(key)) if key else inserted
        if not sought.num_rows:
            return []
        told = [name for name in sought.schema.names if not sought[name].null_count]
        predicate = key_predicate(sought.select(told), self.table)
        found: _Parts = []
        index = Keys(sought, key) if key else None
        for values, rows in target_rows(
            job, self.table, predicate, columns=self.table.column_names
        ):
            wanted = self._is_mine(rows)
            if index is not None:
                at, _ = index.matches(rows)
                wanted[at] = True
            if wanted.any():
                found.append((values, rows.filter(pa.array(wanted))))
        return found

    def _is_mine(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Which rows have the transaction's write id."""
        ids = rows[ROW_IDS].combine_chunks().field("writeid")
        found: npt.NDArray[np.bool_] = ids.to_numpy() == int(self.commit.write_id)
        return found


def undone_by(txn: int, later: Sequence[Commit]) -> tuple[int, int | None]:
    """How often a transaction was undone by those that committed after it, and by which it still
    is: None where each of these was undone itself.
    """
    undoing: dict[int, list[int]] = defaultdict(list)
    for one in later:
        for undone in _UNDONE.findall(one.facts.kind):
            undoing[int(undone)].append(int(one.txn))

    def stand(number: int) -> list[int]:
        return [one for one in undoing.get(number, ()) if not stand(one)]

    return len(undoing.get(txn, ())), next(iter(reversed(stand(txn))), None)


def _sides(scan: ChangeScan, events: Iterable[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
    """The rows that were inserted, and those that were deleted."""
    found = pa.Table.from_batches(events, scan.reader.schema())
    rows = found.drop_columns([one.name for one in CHANGE_FIELDS])
    is_insert = pc.equal(found[CHANGE_FIELDS[0].name], INSERT)
    return rows.filter(is_insert), rows.filter(pc.invert(is_insert))


def without_equal(rows: pa.Table, gone: pa.Table) -> tuple[pa.Table, pa.Table]:
    """``rows`` without as many equal ones as ``gone`` has of each, and those that are not there."""
    both = pa.concat_tables([rows, gone])
    values, _ = row_groups(both, both.schema.names)
    here, away = values[: rows.num_rows], values[rows.num_rows :]
    counts = [np.bincount(one, minlength=len(values) + 1) for one in (here, away)]
    stays = _places_among_equal(here) >= counts[1][here]
    missing = _places_among_equal(away) >= counts[0][away]
    return rows.filter(pa.array(stays)), gone.filter(pa.array(missing))


def _places_among_equal(values: _Places) -> _Places:
    """How many of the same value come before each."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    found = np.empty(len(values), np.int64)
    found[order] = np.arange(len(values)) - np.searchsorted(in_order, in_order)
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """``taken`` are the places among the live rows of those that the transaction left, ``changed``
    what is otherwise: as it was left, and as it is. ``renumbered``: live rows have its write id
    that it did not insert.
    """

    taken: list[int]
    changed: list[tuple[_Row, _Row]]
    renumbered: bool = False


def compared(
    live: Sequence[pa.Table],
    mine: npt.NDArray[np.bool_],
    inserted: pa.Table,
    deleted: pa.Table,
    key: Sequence[str],
) -> Compared:
    """Whether live rows are what a transaction left: those that are ``mine`` have its write id.

    With a key a row that has the values that the transaction left stands for the one that it left:
    an undo or an update made it so again. One that has the key of a deleted row came since.
    """
    names = inserted.schema.names
    now = [one.select(names) for one in live]
    schema = now[0].schema if now else inserted.schema
    rows = pa.concat_tables([*now, *(one.cast(schema, safe=False) for one in (inserted, deleted))])
    values, _ = row_groups(rows, names)
    mine_by_values = _places_by(values, np.flatnonzero(mine))
    first, end = len(mine), len(mine) + inserted.num_rows
    taken, missing = [], []
    for place in range(first, end):
        candidates = mine_by_values.get(int(values[place]))
        if candidates:
            taken.append(candidates.pop())
        else:
            missing.append(place)
    changed: list[tuple[_Row, _Row]] = []
    if not key:
        changed += [(_row(rows, place), None) for place in missing]
        return Compared(taken, changed, renumbered=any(mine_by_values.values()))
    keys, has_key = row_groups(rows, key)
    others = np.setdiff1d(np.flatnonzero(has_key[:first]), taken)
    others_by_key = _places_by(keys, others)
    for place in missing:
        candidates = others_by_key.get(int(keys[place]), []) if has_key[place] else []
        if len(candidates) == 1 and values[candidates[0]] == values[place]:
            taken.append(candidates.pop())
        else:
            changed.append((_row(rows, place), _row(rows, candidates[0]) if candidates else None))
    for place in range(end, rows.num_rows):
        candidates = others_by_key.get(int(keys[place]), []) if has_key[place] else []
        changed += [(None, _row(rows, one)) for one in candidates]
    return Compared(taken, changed)


def _places_by(groups: _Places, places: _Places) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for place in places:
        found[int(groups[place])].append(int(place))
    return found


def _row(rows: pa.Table, place: int) -> Mapping[str, object]:
    (row,) = python_rows(rows.slice(place, 1))
    return row


def _gone(there: _Parts, taken: Sequence[int]) -> Gone:
    """The identities of the rows at these places, by partition."""
    gone, first, places = Gone(), 0, np.sort(np.array(taken, np.int64))
    for values, rows in there:
        here = places[(places >= first) & (places < first + rows.num_rows)] - first
        gone.add(values, rows.take(pa.array(here)))
        first += rows.num_rows
    return gone


def _changed_since(txn: TxnId, changed: Sequence[ChangedRow]) -> ChangedSinceError:
    shown = "; ".join(_shown(one) for one in changed[:_SHOWN])
    more = f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return ChangedSinceError(
        f"Transaction {txn} cannot be undone: {len(changed)} rows that it left have changed since: "
        f"{shown}{more}",
        note="Undo the later transactions first, or name the columns that tell a row: key=.",
        txn=int(txn),
        count=len(changed),
        rows=tuple(changed[:_LISTED_MAX]),
    )


def _shown(one: ChangedRow) -> str:
    if one.left is None:
        return f"{one.table} has {dict(one.now or {})} again"
    now = "is not there any more" if one.now is None else f"is {dict(one.now)}"
    return f"{one.table} {dict(one.left)} {now}"
