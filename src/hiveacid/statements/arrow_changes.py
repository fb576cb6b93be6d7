"""DELETE and MERGE of Arrow data without Spark, for small jobs: one pass over the target's keys.

The target is read partition by partition with row ids, joined to the given rows by Arrow, and what
matches is kept: memory is one stripe, the given rows, and the rows that change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError, cardinality_error
from hiveacid.layout.names import default_partition_value
from hiveacid.model.ids import StatementId, WriteId
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
from hiveacid.model.tables import AcidMode, Column, Table, TableName
from hiveacid.model.transactions import OperationType
from hiveacid.statements.arrow_rows import check_not_null, refuse_what_needs_spark, stored_arrays
from hiveacid.statements.checks import check_has_partition_columns
from hiveacid.statements.driver_write import DeleteKeys, write_arrow, write_deletes
from hiveacid.statements.evolve import with_columns
from hiveacid.statements.job import Job
from hiveacid.statements.values import DeleteResult, MergeResult
from hiveacid.storage.merge.merge_read import ROW_ID_NAME
from hiveacid.storage.plan.arrow_conditions import Condition, filtered
from hiveacid.storage.read import TableReader
from hiveacid.storage.stage import DELETE, UPDATE
from hiveacid.storage.target import WriteResult, WriteTarget, WrittenFile, write_result
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look

_TARGET, _SOURCE = "__hiveacid_t", "__hiveacid_s"
_LISTED_KEYS_MAX = 200
"""Up to so many different keys the target's places are chosen by each, else by the range."""

Values = tuple[str | None, ...]


class WhenMatched(Enum):
    """What happens to target rows that have a source row."""

    UPDATE = "update"
    DELETE = "delete"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ArrowDelete:
    """DELETE the rows that meet ``condition`` and, where ``keys`` are given, have the same values
    in all columns of one of them (typed as the table's).
    """

    table: TableName
    condition: Condition
    keys: pa.Table | None = None


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
class ArrowDeleteWork:
    """One DELETE."""

    COUNTS_ROWS: ClassVar[bool] = True
    table: Table
    statement: ArrowDelete
    kind: WriteKind = WriteKind.DELETE
    partitions: tuple[str, ...] | None = None
    statements: int = 1
    operations: tuple[OperationType, ...] = (OperationType.DELETE,)
    reads: tuple[TableName, ...] = ()

    def write(self, job: Job) -> WriteResult:
        """Delete events of the rows found."""
        condition, keys = self.statement.condition, self.statement.keys
        names = () if keys is None else tuple(keys.schema.names)
        predicate = conjunction((condition.predicate, key_predicate(keys, self.table)))
        found = Gone()
        for values, rows in target_rows(
            job, self.table, predicate, columns={*condition.columns, *names}
        ):
            if condition.expression is not None:
                rows = filtered(rows, condition.expression)
            if keys is not None:
                at, _ = matches(rows, keys, names)
                rows = rows.take(pa.array(np.unique(at)))
            found.add(values, rows)
        (statement,) = job.statement_ids
        target = job.target(delete_statement=statement)
        return write_deletes(found.keys(), target=target)

    def result(self, written: WriteResult, write_id: WriteId) -> DeleteResult:
        """Rows deleted."""
        return DeleteResult(written.rows_deleted, write_id)


@dataclass(frozen=True, slots=True)
class ArrowMergeWork:
    """One MERGE; statement ids in Hive 4.1's order: deletes, deletes of updates, updates,
    inserts.
    """

    COUNTS_ROWS: ClassVar[bool] = True
    table: Table
    statement: ArrowMerge
    partitions: tuple[str, ...] | None = None
    reads: tuple[TableName, ...] = ()

    @property
    def _deletes(self) -> bool:
        return self.statement.when_matched is WhenMatched.DELETE or bool(
            self.statement.deletes.any()
        )

    @property
    def _updates(self) -> bool:
        return self.statement.when_matched is WhenMatched.UPDATE

    @property
    def kind(self) -> WriteKind:
        """INSERT where nothing else can happen."""
        if self._updates:
            return WriteKind.UPDATE
        return WriteKind.DELETE if self._deletes else WriteKind.INSERT

    @property
    def statements(self) -> int:
        """One for deletes, two for updates, one for inserts."""
        return int(self._deletes) + 2 * int(self._updates) + int(self.statement.inserts)

    @property
    def operations(self) -> Sequence[OperationType]:
        """What is recorded for each partition."""
        found = [OperationType.DELETE] if self._deletes or self._updates else []
        if self._updates or self.statement.inserts:
            found.append(OperationType.INSERT)
        return found

    def write(self, job: Job) -> WriteResult:
        """One pass over the target's places that may match; the rest is in memory."""
        ids = iter(job.statement_ids)
        target = job.target(
            delete_statement=next(ids) if self._deletes else None,
            update_delete_statement=next(ids) if self._updates else None,
            update_insert_statement=next(ids) if self._updates else None,
            insert_statement=next(ids, StatementId(0)) if self.statement.inserts else None,
        )
        found = self._matched(job)
        files: list[WrittenFile] = []
        for gone, action in ((found.deleted, DELETE), (found.replaced, UPDATE)):
            if len(gone):
                files += write_deletes(gone.keys(), target=target, action=action).files
        images = found.images
        if images and target.update_insert_statement is not None:
            arrays = stored(self.table, pa.concat_tables(images))
            check_not_null(self.table, zip(self._assigned(), self._pick(arrays), strict=True))
            statement = target.update_insert_statement
            files += write_arrow(arrays, target=target, statement=statement).files
        files += self._write_new(target, found.seen).files
        return write_result(target, files)

    def result(self, written: WriteResult, write_id: WriteId) -> MergeResult:
        """Rows by what happened to them."""
        return MergeResult(
            written.rows_updated, written.rows_deleted, written.rows_inserted, write_id
        )

    def _assigned(self) -> list[str]:
        """Data columns that an update takes from the source."""
        given = set(self.statement.rows.schema.names) - set(self.statement.on)
        return [column.name for column in self.table.columns if column.name in given]

    def _pick(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        by_name = dict(zip((c.name for c in self.table.all_columns), arrays, strict=True))
        return [by_name[name] for name in self._assigned()]

    def _matched(self, job: Job) -> _Matched:
        """Join the target with the source; no row of the target may be taken twice."""
        statement, table = self.statement, self.table
        source = statement.rows
        found = _Matched(np.zeros(source.num_rows, dtype=np.bool_))
        columns = set(statement.on)
        if self._updates:
            columns |= {column.name for column in table.all_columns}
        changes = self._updates or self._deletes
        keys = source.select(list(statement.on))
        predicate = key_predicate(keys, table)
        for values, rows in target_rows(job, table, predicate, columns=columns):
            at, by = matches(rows, keys, statement.on)
            found.seen[by] = True
            if not changes or not len(at):
                continue
            _check_once(rows, at, statement.on)
            delete = statement.deletes[by]
            if statement.when_matched is WhenMatched.DELETE:
                delete = np.ones(len(by), dtype=np.bool_)
            found.deleted.add(values, rows.take(pa.array(at[delete])))
            if self._updates:
                old = rows.take(pa.array(at[~delete]))
                new = source.take(pa.array(by[~delete]))
                self._check_fixed(old, new)
                found.replaced.add(values, old)
                found.images.append(self._image(old, new))
        return found

    def _image(self, old: pa.Table, new: pa.Table) -> pa.Table:
        assigned = set(self._assigned())
        columns = [column.name for column in self.table.all_columns]
        return pa.table({name: (new if name in assigned else old).column(name) for name in columns})

    def _check_fixed(self, old: pa.Table, new: pa.Table) -> None:
        """Partition and bucketing columns stay as they are: a row does not move.

        Raises:
            InvalidInputError: 10292, 10302 as Hive.
        """
        buckets = () if self.table.bucket is None else self.table.bucket.columns
        partition = [column.name for column in self.table.partition_columns]
        defaults = {c.name: default_partition_value(c.type) for c in self.table.partition_columns}
        for name in (*partition, *buckets):
            if name in self.statement.on or name not in new.schema.names:
                continue
            given, default = new.column(name), defaults.get(name)
            if default is not None:  # NULL is another word for the default partition
                given = pc.fill_null(given, default)
            if not _same(old.column(name), given):
                kind, code = ("partition", 10292) if name in partition else ("bucketing", 10302)
                raise InvalidInputError(
                    f"Updating values of {kind} columns is not supported. Column {name}.",
                    code=code,
                    table=str(self.table.name),
                    column=name,
                )

    def _write_new(self, target: WriteTarget, seen: npt.NDArray[np.bool_]) -> WriteResult:
        if not self.statement.inserts:
            return WriteResult((), 0, 0, 0)
        new = self.statement.rows.filter(pa.array(~seen & ~self.statement.deletes))
        if not new.num_rows:
            return WriteResult((), 0, 0, 0)
        check_has_partition_columns(new.schema.names, self.table)
        return write_arrow(stored_arrays(self.table, new, self.table.all_columns), target=target)


class Gone:
    """Identities of rows that go, by partition."""

    def __init__(self) -> None:
        self._parts: dict[Values, list[pa.StructArray]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, partition: Values, rows: pa.Table) -> None:
        """The rows of one partition, with ``row__id``."""
        if rows.num_rows:
            self._count += rows.num_rows
            self._parts.setdefault(partition, []).extend(rows.column(ROW_ID_NAME).chunks)

    def keys(self) -> Iterator[tuple[Values, DeleteKeys]]:
        """The identities as numbers."""
        for partition, chunks in self._parts.items():
            write_id, bucket, row_id = pa.concat_arrays(chunks).flatten()
            yield partition, (write_id.to_numpy(), bucket.to_numpy(), row_id.to_numpy())


@dataclass(slots=True)
class _Matched:
    """What a MERGE found; ``seen`` marks the source rows that match something."""

    seen: npt.NDArray[np.bool_]
    deleted: Gone = field(default_factory=Gone)
    replaced: Gone = field(default_factory=Gone)
    images: list[pa.Table] = field(default_factory=list)


def plan(statement: ArrowChange, look: Look) -> ArrowDeleteWork | ArrowMergeWork:
    """How to carry the statement out.

    Raises:
        UnsupportedError: rows are written to a table with a CHECK.
    """
    table = look.definition(statement.table)
    if isinstance(statement, ArrowDelete):
        return ArrowDeleteWork(table, statement)
    if statement.inserts or statement.when_matched is WhenMatched.UPDATE:
        columns = [column.name for column in table.all_columns]
        refuse_what_needs_spark(table, columns)  # defaults only where rows are inserted
    return ArrowMergeWork(with_columns(table, statement.added), statement)


def target_rows(
    job: Job, table: Table, predicate: Predicate, *, columns: Iterable[str]
) -> Iterator[tuple[Values, pa.Table]]:
    """The live rows of the table that may meet the predicate, partition by partition: ``columns``,
    and of a full ACID table ``row__id``.
    """
    has_ids = table.acid_mode is AcidMode.FULL
    wanted = frozenset(columns)
    plan = job.plan(table, predicate=predicate, columns=wanted)
    reader = TableReader(plan.files, table, wanted, plan.snapshot.valid, row_ids=has_ids)
    for part in plan.parts:
        partition, selection = part.part.partition, part.selection if has_ids else None
        for batch in reader.rows(partition, part.part.directory, selection):
            yield partition.values, pa.Table.from_batches([batch])


_Places = npt.NDArray[np.int64]


def matches(rows: pa.Table, keys: pa.Table, on: Sequence[str]) -> tuple[_Places, _Places]:
    """The pairs of rows and keys that are equal in all columns of ``on`` (NULL equals nothing).

    Raises:
        InvalidInputError: columns that Arrow cannot join by.
    """
    left = rows.select(list(on)).append_column(_TARGET, pa.array(np.arange(rows.num_rows)))
    right = keys.select(list(on)).append_column(_SOURCE, pa.array(np.arange(keys.num_rows)))
    try:
        pairs = left.join(right, keys=list(on), join_type="inner").select([_TARGET, _SOURCE])
    except pa.ArrowException as error:
        raise InvalidInputError(f"rows cannot be matched by {', '.join(on)}: {error}") from error
    return pairs.column(_TARGET).to_numpy(), pairs.column(_SOURCE).to_numpy()


def key_predicate(keys: pa.Table | None, table: Table) -> Predicate:
    """What a row must meet to equal one of the keys: where to look for it."""
    if keys is None:
        return ANYTHING
    kinds = {column.name: column.type for column in table.all_columns}
    parts = [_column_predicate(name, keys.column(name)) for name in keys.schema.names]
    return typed(conjunction(tuple(parts)), kinds)


def _column_predicate(name: str, values: pa.ChunkedArray) -> Predicate:
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind)):
        return ANYTHING
    distinct = pc.drop_null(values.unique())
    if not len(distinct):
        return NOTHING
    if len(distinct) <= _LISTED_KEYS_MAX:
        return In(name, frozenset(distinct.to_pylist()))
    found = pc.min_max(distinct).as_py()
    low, high = Compare(name, Op.GE, found["min"]), Compare(name, Op.LE, found["max"])
    return conjunction((low, high))


def _check_once(rows: pa.Table, at: _Places, on: Sequence[str]) -> None:
    values, counts = np.unique(at, return_counts=True)
    if (counts > 1).any():
        place = int(values[counts > 1][0])
        first = rows.column(ROW_ID_NAME)[place].as_py()
        row = [first["writeid"], first["bucketid"], first["rowid"]]
        raise cardinality_error(row, {name: rows.column(name)[place].as_py() for name in on})


def _same(old: pa.ChunkedArray, new: pa.ChunkedArray) -> bool:
    """Equal row by row, NULL to NULL."""
    unequal = pc.fill_null(pc.not_equal(old, new), False)
    null = pc.not_equal(old.is_null(), new.is_null())
    return not pc.any(pc.or_(unequal, null)).as_py()


def stored(table: Table, rows: pa.Table) -> list[pa.Array]:
    """One array for each column of the table, partition columns included."""
    return [_one(rows.column(column.name)) for column in table.all_columns]


def _one(chunks: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(chunks.chunks) if chunks.num_chunks != 1 else chunks.chunk(0)
