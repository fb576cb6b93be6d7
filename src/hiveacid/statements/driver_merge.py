"""MERGE by the driver: source rows that are here, keys of the table that are read, new files.

    source rows --> keys, sorted --+
    table: key columns, row ids ---+--> pairs --> delete events, new images, new rows --> files

Of the table only the columns compared are read, with row ids, and those that new images keep: in
threads, and only the stripes that the keys' range can be in. Memory is one stripe a thread, the
source, and the rows that change. Files are written in threads, too.

DELETE and MERGE of Arrow data are statements of their own, for small jobs without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError, cardinality_error
from hiveacid.layout.directories import default_partition_value
from hiveacid.model.predicates import (
    ANYTHING,
    NOTHING,
    Compare,
    In,
    Op,
    Predicate,
    conjunction,
    typed,
)
from hiveacid.model.tables import AcidMode, Column, StatementId, Table, TableName, WriteId
from hiveacid.statements.arrow_rows import check_not_null, refuse_what_needs_spark, stored_arrays
from hiveacid.statements.checks import check_has_partition_columns
from hiveacid.statements.driver_write import write_arrow, write_deletes
from hiveacid.statements.job import Job, Work
from hiveacid.statements.matching import Keys, Places
from hiveacid.statements.values import DeleteResult, MergeResult, with_columns
from hiveacid.storage.merge.sources import DeleteKeys
from hiveacid.storage.plan.arrow_conditions import Condition, filtered
from hiveacid.storage.plan.planning import plan_scan
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.storage.python_values import python_rows
from hiveacid.storage.ranged import in_order
from hiveacid.storage.read import TableReader, parts_of
from hiveacid.storage.stage import DELETE, TOUCH, UPDATE, make_staging
from hiveacid.storage.target import WriteResult, WriteTarget, write_result
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look

ROW_IDS: Final = "\0row__id"
"""The column of row ids beside a table's own, which may have that name without the mark."""
_LISTED_KEYS_MAX: Final = 200
"""Up to so many different keys the table's places are chosen by each, else by the range."""
_ROWS_A_FILE: Final = 100_000
"""New rows of an unbucketed table are spread over files of at least so many, for threads."""
Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """``rows`` has the columns ``on`` and those ``assigned`` by an update, by the table's names and
    types. ``actions`` say of each row what happens to the table's row that it matches (DELETE,
    UPDATE, TOUCH); ``fresh`` which of ``inserted`` are inserted where they match nothing.
    """

    rows: pa.Table
    on: tuple[str, ...]
    assigned: tuple[str, ...]
    actions: npt.NDArray[np.int8]
    inserted: pa.Table
    fresh: npt.NDArray[np.bool_]
    matches_once: bool
    """Whether it is an error that two rows match one of the table."""


def merge_rows(
    job: Job,
    table: Table,
    source: SourceRows,
    *,
    target: WriteTarget,
    planned: ScanPlan | None = None,
) -> WriteResult:
    """Stage the files of a MERGE into a table. Rows that are not in ``planned``, where that is
    given, match nothing.

    Raises:
        CardinalityError: two source rows match one row.
        InvalidInputError: 10292, 10302 a match would move a row.
        ConversionError, StorageError: as the writers.
    """
    matched = _matched(job, table, source, planned)
    make_staging(target)
    tasks: list[Callable[[], WriteResult]] = []
    for gone, action in ((matched.deleted, DELETE), (matched.replaced, UPDATE)):
        if len(gone):
            tasks.append(partial(write_deletes, list(gone.keys()), target=target, action=action))
    if len(matched.replaced) and target.update_insert_statement is not None:
        images = _images(table, source, matched)
        arrays = stored(table, images)
        named_arrays = [(c.name, a) for c, a in zip(table.all_columns, arrays, strict=True)]
        check_not_null(table, [one for one in named_arrays if one[0] in source.assigned])
        tasks += _writes(table, arrays, target=target, statement=target.update_insert_statement)
    unmatched = source.inserted.filter(pa.array(~matched.seen & source.fresh))
    if unmatched.num_rows:
        check_has_partition_columns(unmatched.schema.names, table)
        arrays = stored_arrays(table, unmatched, table.all_columns)
        tasks += _writes(table, arrays, target=target, statement=target.insert_statement)
    results = in_order(tasks, threads=pa.cpu_count())
    return write_result(target, [file for one in results for file in one.files])


def _writes(
    table: Table, arrays: list[pa.Array], *, target: WriteTarget, statement: StatementId | None
) -> Iterator[Callable[[], WriteResult]]:
    """What writes the rows, each call a file of its own where the table lets rows lie anywhere."""
    count = 1
    if table.bucket is None and not table.partition_columns:
        count = max(1, min(len(arrays[0]) // _ROWS_A_FILE, pa.cpu_count()))
    size = -(-len(arrays[0]) // count)
    for number in range(count):
        part = [array.slice(number * size, size) for array in arrays]
        yield partial(write_arrow, part, target=target, statement=statement, bucket=number)


class Gone:
    """Identities (``ROW_IDS``) of rows to be deleted, by partition."""

    def __init__(self) -> None:
        self._parts: dict[Values, list[pa.StructArray]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, partition: Values, rows: pa.Table) -> None:
        """The rows of one partition, with ``ROW_IDS``."""
        if rows.num_rows:
            self._count += rows.num_rows
            self._parts.setdefault(partition, []).extend(rows.column(ROW_IDS).chunks)

    def keys(self) -> Iterator[tuple[Values, DeleteKeys]]:
        """The identities as numbers."""
        for partition, chunks in self._parts.items():
            write_id, bucket, row_id = pa.concat_arrays(chunks).flatten()
            yield partition, (write_id.to_numpy(), bucket.to_numpy(), row_id.to_numpy())


@dataclass(slots=True)
class _Matched:
    """What a MERGE found; ``seen`` marks the source rows that match something, ``kept`` and
    ``sources`` are the two halves of the new images.
    """

    seen: npt.NDArray[np.bool_]
    deleted: Gone = field(default_factory=Gone)
    replaced: Gone = field(default_factory=Gone)
    kept: list[pa.Table] = field(default_factory=list)
    sources: list[Places] = field(default_factory=list)


def _matched(job: Job, table: Table, source: SourceRows, planned: ScanPlan | None) -> _Matched:
    """Join the table with the source; no row of the table may be taken twice."""
    matched = _Matched(np.zeros(source.rows.num_rows, dtype=np.bool_))
    updates = bool((source.actions == UPDATE).any())
    kept_names = _kept_columns(table, source)
    keys = source.rows.select(list(source.on))
    index = Keys(keys, source.on)
    where = key_predicate(keys, table)
    columns = {*source.on, *(kept_names if updates else ())}
    for values, rows in target_rows(job, table, where, columns=columns, planned=planned):
        row_places, source_places = index.matches(rows)
        matched.seen[source_places] = True
        if not source.matches_once or not len(row_places):
            continue
        _check_once(rows, row_places, source.on)
        actions = source.actions[source_places]
        matched.deleted.add(values, rows.take(pa.array(row_places[actions == DELETE])))
        is_update = actions == UPDATE
        if is_update.any():
            old = rows.take(pa.array(row_places[is_update]))
            _check_fixed(table, source, old, source_places[is_update])
            matched.replaced.add(values, old)
            matched.kept.append(old.select(kept_names))
            matched.sources.append(source_places[is_update])
    return matched


def _kept_columns(table: Table, source: SourceRows) -> list[str]:
    """Columns that new images take from the old ones, or that must be equal."""
    assigned = set(source.assigned).difference(_fixed(table, source))
    return [column.name for column in table.all_columns if column.name not in assigned]


def _images(table: Table, source: SourceRows, matched: _Matched) -> pa.Table:
    """The new rows, made of the source and of what was kept of the old ones."""
    kept = pa.concat_tables(matched.kept)
    new = source.rows.select(list(source.assigned)).combine_chunks()
    new = new.take(pa.array(np.concatenate(matched.sources)))
    return pa.table(
        {
            name: (new if name in source.assigned else kept).column(name)
            for name in table.column_names
        }
    )


def _fixed(table: Table, source: SourceRows) -> list[str]:
    """Partition and bucketing columns that the source has and a match may not change."""
    names = (*table.partition_keys, *table.bucket_columns)
    given = source.rows.schema.names
    return [one for one in names if one in given and one not in source.on]


def _check_fixed(table: Table, source: SourceRows, old: pa.Table, by: Places) -> None:
    """Partition and bucketing columns stay as they are: a row does not move.

    Raises:
        InvalidInputError: 10292, 10302 as Hive.
    """
    partition = table.partition_keys
    defaults = {c.name: default_partition_value(c.type) for c in table.partition_columns}
    for name in _fixed(table, source):
        given = source.rows.column(name).take(pa.array(by))
        default = defaults.get(name)
        if default is not None:  # NULL is another word for the default partition
            given = pc.fill_null(given, default)
        if not _same(old.column(name), given):
            kind, code = ("partition", 10292) if name in partition else ("bucketing", 10302)
            raise InvalidInputError(
                f"Updating values of {kind} columns is not supported. Column {name}.",
                code=code,
                table=str(table.name),
                column=name,
            )


def target_rows(
    job: Job,
    table: Table,
    predicate: Predicate,
    *,
    columns: Iterable[str],
    planned: ScanPlan | None = None,
) -> Iterator[tuple[Values, pa.Table]]:
    """The live rows of the table, or of what is ``planned`` of it, that may meet the predicate,
    partition by partition: ``columns``, and of a full ACID table ``ROW_IDS``, last.
    """
    has_ids = table.acid_mode is AcidMode.FULL
    wanted = frozenset(columns)
    if planned is None:
        plan = job.plan(table, predicate=predicate, columns=wanted)
    else:
        plan = plan_scan(
            planned.snapshot,
            files=planned.files,
            predicate=conjunction((planned.predicate, predicate)),
            columns=wanted,
            partitions_of=planned.partitions_of,
        )
    threads = pa.cpu_count()
    reader = TableReader(
        plan.files, table, wanted, plan.snapshot.valid, row_ids=has_ids, threads=threads
    )
    for partition, batch in reader.rows_of(parts_of(plan)):
        yield partition.values, with_row_ids(batch) if has_ids else pa.Table.from_batches([batch])


def with_row_ids(batch: pa.RecordBatch) -> pa.Table:
    """Rows as a reader gives them, row ids last, with those under a name of their own."""
    rows = pa.Table.from_batches([batch])
    return rows.rename_columns([*rows.schema.names[:-1], ROW_IDS])


def key_predicate(keys: pa.Table | None, table: Table) -> Predicate:
    """What a row must meet to equal one of the keys: where to look for it."""
    if keys is None:
        return ANYTHING
    parts = [_column_predicate(name, keys.column(name)) for name in keys.schema.names]
    return typed(conjunction(tuple(parts)), table.types)


def _column_predicate(name: str, values: pa.ChunkedArray) -> Predicate:
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind)):
        return ANYTHING
    distinct = pc.drop_null(values.unique())
    if not len(distinct):
        return NOTHING
    try:
        if len(distinct) <= _LISTED_KEYS_MAX:
            return In(name, frozenset(distinct.to_pylist()))
        found = pc.min_max(distinct).as_py()
    except OverflowError:  # a year that Python's dates do not have
        return ANYTHING
    low, high = Compare(name, Op.GE, found["min"]), Compare(name, Op.LE, found["max"])
    return conjunction((low, high))


def _check_once(rows: pa.Table, at: Places, on: Sequence[str]) -> None:
    ordered = np.sort(at)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        place = int(twice[0])
        first = rows.column(ROW_IDS)[place].as_py()
        row = [first["writeid"], first["bucketid"], first["rowid"]]
        (key,) = python_rows(rows.select(list(on)).slice(place, 1))
        raise cardinality_error(row, key)


def _same(old: pa.ChunkedArray, new: pa.ChunkedArray) -> bool:
    """Equal row by row, NULL to NULL, NaN to NaN."""
    unequal = pc.fill_null(pc.not_equal(old, new), False)
    if pa.types.is_floating(old.type):
        both = pc.fill_null(pc.and_(pc.is_nan(old), pc.is_nan(new)), False)
        unequal = pc.and_(unequal, pc.invert(both))
    null = pc.not_equal(old.is_null(), new.is_null())
    return not pc.any(pc.or_(unequal, null)).as_py()


def stored(table: Table, rows: pa.Table) -> list[pa.Array]:
    """One array for each column of the table, partition columns included."""
    return [_one(rows.column(column.name)) for column in table.all_columns]


def _one(chunks: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(chunks.chunks) if chunks.num_chunks != 1 else chunks.chunk(0)


class WhenMatched(Enum):
    """What happens to target rows that have a source row."""

    UPDATE = "update"
    DELETE = "delete"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ArrowDelete:
    """DELETE the rows that meet ``condition`` and, where ``keys`` are given, have the same values
    in all columns of one of them (typed as the table's); ``purges`` as in ``Delete``.
    """

    table: TableName
    condition: Condition
    keys: pa.Table | None = None
    purges: bool = False


@dataclass(frozen=True, slots=True)
class ArrowMerge:
    """MERGE of ``rows`` (columns typed as the table's) on equal values in ``on``.

    ``deletes`` marks source rows that delete what they match and are never inserted; ``added`` are
    columns that the table gets by it.
    """

    table: TableName
    rows: pa.Table
    on: tuple[str, ...]
    when_matched: WhenMatched
    inserts: bool
    deletes: npt.NDArray[np.bool_]
    added: tuple[Column, ...] = ()


ArrowChange: TypeAlias = "ArrowDelete | ArrowMerge"


@dataclass(frozen=True, slots=True)
class ArrowDeleteWork(Work):
    """What ``delete_arrow`` does to one table, without Spark."""

    table: Table
    statement: ArrowDelete
    does: frozenset[WriteKind] = frozenset({WriteKind.DELETE})

    def write(self, job: Job) -> WriteResult:
        """Delete events of the rows found."""
        condition, keys = self.statement.condition, self.statement.keys
        names = () if keys is None else tuple(keys.schema.names)
        predicate = conjunction((condition.predicate, key_predicate(keys, self.table)))
        deleted = Gone()
        index = None if keys is None else Keys(keys, names)
        for values, rows in target_rows(
            job, self.table, predicate, columns={*condition.columns, *names}
        ):
            if condition.expression is not None:
                rows = filtered(rows, condition.expression)
            if index is not None:
                row_places, _ = index.matches(rows)
                rows = rows.take(pa.array(np.unique(row_places)))
            deleted.add(values, rows)
        return write_deletes(deleted.keys(), target=self.changes_target(job))

    def result(self, written: WriteResult, write_id: WriteId) -> DeleteResult:
        """Rows deleted."""
        return DeleteResult(written.rows_deleted, write_id)


@dataclass(frozen=True, slots=True)
class ArrowMergeWork(Work):
    """One MERGE; statement ids in Hive 4.1's order: deletes, deletes of updates, updates,
    inserts.
    """

    table: Table
    statement: ArrowMerge

    @property
    def does(self) -> frozenset[WriteKind]:
        """Inserts, updates and deletes as asked for, where a row of the data asks for a delete."""
        value = self.statement
        deletes = value.when_matched is WhenMatched.DELETE or bool(value.deletes.any())
        wanted = {
            WriteKind.DELETE: deletes,
            WriteKind.UPDATE: value.when_matched is WhenMatched.UPDATE,
            WriteKind.INSERT: value.inserts,
        }
        return frozenset(one for one, is_wanted in wanted.items() if is_wanted)

    def write(self, job: Job) -> WriteResult:
        """One pass over the target's stripes that may match; source and changes are in memory."""
        target = self.changes_target(job)
        return merge_rows(job, self.table, self._source(), target=target)

    def result(self, written: WriteResult, write_id: WriteId) -> MergeResult:
        """Rows by what happened to them."""
        return MergeResult(
            written.rows_updated, written.rows_deleted, written.rows_inserted, write_id
        )

    def _source(self) -> SourceRows:
        statement = self.statement
        given = set(statement.rows.schema.names).difference(statement.on)
        when_matched = {WhenMatched.UPDATE: UPDATE, WhenMatched.DELETE: DELETE}
        other = when_matched.get(statement.when_matched, TOUCH)
        return SourceRows(
            rows=statement.rows,
            on=statement.on,
            assigned=tuple(c.name for c in self.table.columns if c.name in given),
            actions=np.where(statement.deletes, DELETE, other).astype(np.int8),
            inserted=statement.rows,
            fresh=~statement.deletes & statement.inserts,
            matches_once=self.kind is not WriteKind.INSERT,
        )


def plan(statement: ArrowChange, look: Look) -> ArrowDeleteWork | ArrowMergeWork:
    """How to carry the statement out.

    Raises:
        UnsupportedError: rows are written to a table with a CHECK.
    """
    table = look.definition(statement.table)
    if isinstance(statement, ArrowDelete):
        return ArrowDeleteWork(table, statement)
    if statement.inserts or statement.when_matched is WhenMatched.UPDATE:
        refuse_what_needs_spark(table, table.column_names)  # defaults only where rows are inserted
    return ArrowMergeWork(with_columns(table, statement.added), statement)
