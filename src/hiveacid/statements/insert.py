"""INSERT INTO and INSERT OVERWRITE: from a query, a DataFrame, or a few literal rows; TRUNCATE.

Literal rows are written by the driver itself, in the same transaction, without a Spark job. A table
is emptied by a new base that holds nothing (format.md 1.5); readers of older snapshots are not
disturbed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hiveacid.errors import ConflictError, InvalidInputError, spark_needed
from hiveacid.layout.directories import METADATA_FILE, BaseName, format_base, partition_name
from hiveacid.layout.events import DataFormat, format_marker
from hiveacid.model.commits import initial_statistics
from hiveacid.model.tables import (
    AcidMode,
    Column,
    Partition,
    StatementId,
    Table,
    TableKind,
    TableName,
    WriteId,
)
from hiveacid.model.types import INTEGER_BITS
from hiveacid.spark.session import arrow_frame, is_ansi, quoted
from hiveacid.statements.arrow_rows import (
    literal_columns,
    literal_query,
    stored_arrays,
    typed_column,
    what_needs_spark,
)
from hiveacid.statements.checks import (
    check,
    check_has_columns,
    check_has_partition_columns,
    check_width,
    insert_width,
    refuse_extra,
)
from hiveacid.statements.constraints import (
    check_conditions,
    column_default,
    default_expression,
    not_null_columns,
)
from hiveacid.statements.driver_write import in_parts, write_arrow, write_parts
from hiveacid.statements.job import Job, Work
from hiveacid.statements.locations import owns_files
from hiveacid.statements.partition_values import (
    PartitionText,
    named_partitions,
    normal_text,
    partition_column,
)
from hiveacid.statements.placement import new_location
from hiveacid.statements.values import (
    Command,
    Delete,
    DeleteResult,
    Insert,
    InsertResult,
    Literals,
    Query,
    Staged,
    with_columns,
)
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.stage import stage_nothing
from hiveacid.storage.target import (
    FileKind,
    WriteResult,
    WriteTarget,
    WrittenFile,
    final_path,
    write_result,
)
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look, is_same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_PLAIN_KEYS: Final = {*INTEGER_BITS, "string", "date", "boolean"}


def plan(statement: Insert, look: Look) -> InsertWork:
    """How to carry the statement out.

    Raises:
        InvalidInputError: 10044 and others, as ``checks``.
    """
    table = with_columns(look.definition(statement.table), statement.added)
    check(statement, table)
    static = {
        name.lower(): normal_text(text, partition_column(table, name))
        for name, text in statement.partition.items()
    }
    return InsertWork(table, statement, static, is_there=_is_there(statement, table, static, look))


def _is_there(
    statement: Insert, table: Table, static: Mapping[str, str | None], look: Look
) -> bool:
    """Whether IF NOT EXISTS leaves the statement nothing to do; without partitions it says nothing
    (enforce_constraint_notnull.q).

    Raises:
        InvalidInputError: 10093, no partition is named as a whole.
    """
    if not (statement.if_not_exists and table.partition_keys):
        return False
    open_keys = [key for key in table.partition_keys if key not in static]
    if open_keys or not static:
        raise InvalidInputError(
            "Dynamic partitions do not support IF NOT EXISTS. Specified partitions with value : "
            f"{', '.join(open_keys)}",
            code=10093,
            table=str(table.name),
        )
    wanted = tuple(static[key] for key in table.partition_keys)
    return any(part.values == wanted for part in look.partitions(table))


@dataclass(frozen=True, slots=True)
class InsertWork(Work):
    """What INSERT, INSERT OVERWRITE and ``insert`` do to one table: rows in, files out."""

    table: Table
    statement: Insert
    static: Mapping[str, str | None]
    is_there: bool = False
    """The partition is, and the statement wants it only where it is not: nothing is written."""

    @property
    def reads(self) -> Sequence[TableName]:
        """Tables in the source query."""
        refs = [ref for query in self.statement.queries for ref in query.tables.values()]
        return tuple(sorted({ref.name for ref in refs} - {self.table.name}))

    @property
    def does(self) -> frozenset[WriteKind]:
        """Inserts, or overwrites."""
        replaces = self.statement.overwrite and not self.is_there
        return frozenset({WriteKind.OVERWRITE if replaces else WriteKind.INSERT})

    @property
    def partitions(self) -> tuple[str, ...] | None:
        """The static partition, where the statement names all of it."""
        keys = self.table.partition_keys
        if keys and all(key in self.static for key in keys):
            return (partition_name(keys, [self.static[key] for key in keys]),)
        return None

    @property
    def source_columns(self) -> tuple[Column, ...]:
        """What the source's columns are assigned to, in its order."""
        by_name = {c.name: c for c in self.table.all_columns}
        if self.statement.columns:
            return tuple(by_name[name.lower()] for name in self.statement.columns)
        return tuple(c for c in self.table.all_columns if c.name not in self.static)

    @property
    def stored_columns(self) -> tuple[Column, ...]:
        """Data columns, then dynamic partition columns: what the writer gets."""
        return tuple(c for c in self.table.all_columns if c.name not in self.static)

    def write(self, job: Job) -> WriteResult:
        """Through Arrow in the driver, or one Spark action."""
        statement, table = self.statement, self.table
        insert = job.statement_ids[0] if job.statement_ids else StatementId(0)
        target = job.target(
            insert_statement=insert,
            overwrite=statement.overwrite and table.acid_mode is not AcidMode.NONE,
            static_partition=dict(self.static),
        )
        if self.is_there:
            return write_result(target, ())
        written = self._write_given(job, target) or self._write_literals(job, target)
        if written is None:
            written = self._write_frame(job, target)
        return self._completed(job, target, written)

    def result(self, written: WriteResult, write_id: WriteId) -> InsertResult:
        """Rows written."""
        return InsertResult(written.rows_inserted, write_id)

    def _write_given(self, job: Job, target: WriteTarget) -> WriteResult | None:
        """Arrow data, by the driver, or what is staged; None where Spark has to evaluate
        something.
        """

        if isinstance(self.statement.source, Staged):
            return self._staged(self.statement.source, target)
        if not isinstance(self.statement.source, pa.Table):
            return None
        rows = self._named(self.statement.source)
        need = what_needs_spark(self.table, [*rows.schema.names, *self.static])
        if need and job.context.spark is None:
            raise spark_needed(f"A write to {self.table.name}, which has {need},")
        if need:
            return None
        parts = in_parts(rows, self.table)
        arrays = (stored_arrays(self.table, part, self.stored_columns) for part in parts)
        return write_parts(arrays, target=target)

    def _staged(self, source: Staged, target: WriteTarget) -> WriteResult:
        if not is_same(source.target.table, self.table):
            raise ConflictError(
                f"{self.table.name} was altered, or made anew, while rows for it were staged",
                table=str(self.table.name),
                note="Write them again.",
            )
        assert (source.target.write_id, source.target.staging) == (target.write_id, target.staging)
        return write_result(target, source.files())

    def _write_literals(self, job: Job, target: WriteTarget) -> WriteResult | None:

        source = self.statement.source
        if not isinstance(source, Literals) or self._is_ansi(job):
            return None
        given = {column.name: i for i, column in enumerate(self.source_columns)}
        missing = [c for c in self.stored_columns if c.name not in given]
        if any(column_default(self.table, c.name) for c in missing):
            return None
        if check_conditions(self.table) or not_null_columns(self.table):
            return None
        rows = [
            [row[given[c.name]] if c.name in given else None for c in self.stored_columns]
            for row in source.rows
        ]
        arrays = literal_columns(rows, self.stored_columns)
        return None if arrays is None else write_arrow(arrays, target=target)

    def _write_frame(self, job: Job, target: WriteTarget) -> WriteResult:
        spark = job.context.session()  # before modules that import PySpark
        from hiveacid.spark.assign import assign, constrained
        from hiveacid.spark.write import write_rows

        assigned = [
            assign(
                self._in_order(self._source(job, source)),
                self.stored_columns,
                ansi=self._is_ansi(job),
                ansi_session=is_ansi(spark),
            )
            for source in (self.statement.source, *self.statement.also)
        ]
        rows = constrained(
            reduce(lambda rows, more: rows.unionAll(more), assigned),
            not_null=[
                c.name for c in self.stored_columns if c.name in not_null_columns(self.table)
            ],
            checks=check_conditions(self.table),
        )
        few = self._write_few(job, rows, target)
        return write_rows(spark, rows, target=target) if few is None else few

    def _write_few(self, job: Job, rows: DataFrame, target: WriteTarget) -> WriteResult | None:
        """Few rows, by the driver: no Python worker; None where they are more, or their partitions
        have texts that only Spark knows.
        """
        from hiveacid.spark.write import few_collected

        few, keys = self.statement.few, self.table.partition_columns
        if few is None or any(str(column.type) not in _PLAIN_KEYS for column in keys):
            return None
        found = few_collected(job.context.session(), rows, few.rows, at=job.files.at)
        if found is None:
            few.fits = False
            return None
        types = [arrow_type(column.type) for column in self.stored_columns]
        arrays = [
            column.combine_chunks().cast(kind)
            for column, kind in zip(found.columns, types, strict=True)
        ]
        return write_arrow(arrays, target=target)

    def _is_ansi(self, job: Job) -> bool:
        handed_in = not isinstance(self.statement.source, Query | Literals)
        return job.context.settings.assigns_ansi(handed_in=handed_in)

    def _named(self, rows: pa.Table) -> pa.Table:
        """The source's rows, each column under the name of the one that it is for."""
        names = [c.name for c in self.source_columns]
        if self.statement.by_name:
            check_has_columns(rows.schema.names, names, self.table)
            return rows
        check_width(rows.num_columns, self.table, expected=len(names))
        return rows.rename_columns(names)

    def _source(
        self, job: Job, source: Query | Literals | DataFrame | pa.Table | Staged
    ) -> DataFrame:
        from hiveacid.statements.select import query_frame

        if isinstance(source, Literals):
            frame = job.context.session().sql(literal_query(source.rows)).coalesce(1)
        elif isinstance(source, Query):
            frame = query_frame(job, source, by_one=True)
            if self.statement.by_name:
                return self._found_by_name(frame)
        elif isinstance(source, pa.Table):  # cast without loss, as where Spark is not needed
            rows = self._named(source)
            arrays = {c.name: typed_column(rows, c) for c in self.source_columns}
            return arrow_frame(job.context.session(), pa.table(arrays))
        else:
            assert not isinstance(source, Staged)
            frame = source
            if self.statement.by_name:
                names = [c.name for c in self.source_columns]
                check_has_columns(frame.columns, names, self.table)
                given = {name.lower(): name for name in frame.columns}
                return frame.select(*[frame[quoted(given[name])] for name in names])
        check_width(
            len(frame.columns), self.table, expected=insert_width(self.statement, self.table)
        )
        return frame

    def _found_by_name(self, frame: DataFrame) -> DataFrame:
        """The columns of a query BY NAME; one that it lacks gets its default.

        Raises:
            InvalidInputError: the table lacks a column, or a partition column is missing.
        """
        from pyspark.sql import functions as F

        names = [name.lower() for name in frame.columns]
        wanted = {column.name for column in self.source_columns}
        refuse_extra(names, wanted, self.table)
        check_has_partition_columns(names, self.table, static=self.static)
        return frame.toDF(*names).select(
            *[
                F.col(quoted(c.name))
                if c.name in names
                else F.expr(default_expression(self.table, c.name)).alias(c.name)
                for c in self.source_columns
            ]
        )

    def _in_order(self, frame: DataFrame) -> DataFrame:
        """The source's columns in the order of ``stored_columns``; a column left out gets its
        default.
        """
        from pyspark.sql import functions as F

        if not self.statement.columns:
            return frame
        given = {column.name: f"__hiveacid_s{i}" for i, column in enumerate(self.source_columns)}
        named = frame.toDF(*given.values())
        return named.select(
            *[
                F.col(given[c.name])
                if c.name in given
                else F.expr(default_expression(self.table, c.name))
                for c in self.stored_columns
            ]
        )

    def _completed(self, job: Job, target: WriteTarget, written: WriteResult) -> WriteResult:
        """What a statement does besides writing its rows: an overwrite without rows empties the
        table or its static partition, of what is dynamic only where it is ``whole``; a static
        partition is there afterwards.
        """

        table = self.table
        is_static = all(c.name in self.static for c in table.partition_columns)
        is_plain = table.acid_mode is AcidMode.NONE
        if self.statement.overwrite and is_static and not written.files and not is_plain:
            return stage_nothing(target)
        if self.statement.whole and not is_static:
            filled = {file.partition for file in written.files}
            rest = tuple(p for p in job.view.partitions(table) if p.values not in filled)
            emptied = TruncateWork(table, rest).write(job).files if rest else ()
            return replace(written, files=written.files + emptied)
        if is_static and table.partition_columns and not written.files:
            values = tuple(self.static[c.name] for c in table.partition_columns)
            if any(one.values == values for one in job.view.partitions(table)):
                return written
            place = new_location(table, values)
            fs, path = job.files.at(place)
            fs.create_directory(path)
            known = initial_statistics(()) if owns_files(table) else {}
            job.txn.pending.add_partitions(table.name, [Partition(values, place, known)])
        return written


@dataclass(frozen=True, slots=True)
class Truncate(Command):
    """TRUNCATE TABLE name [PARTITION (...)] [FORCE], which empties an external table, too.

    ``every`` are columns that PARTITION names without a value.
    """

    name: TableName
    partition: PartitionText = ()
    force: bool = False
    every: tuple[str, ...] = ()


def plan_truncate(statement: Truncate, look: Look) -> TruncateWork:
    """How to carry TRUNCATE TABLE out; a partition specification may name some of the columns.

    Raises:
        InvalidInputError: 10146 for an external table or a view, 10098 for an unknown column.
        NotFoundError: 10006, no such partition.
    """
    table = look.definition(statement.name)
    forced = statement.force and table.kind is TableKind.EXTERNAL
    if table.kind is not TableKind.MANAGED and not forced:
        raise InvalidInputError(
            f"Cannot truncate non-managed table {table.name.table}.",
            code=10146,
            table=str(table.name),
        )
    for column in statement.every:
        partition_column(table, column)
    if not statement.partition:
        return TruncateWork(table)
    chosen = named_partitions(table, look.partitions(table), statement.partition)
    names = tuple(partition_name(table.partition_keys, part.values) for part in chosen)
    return TruncateWork(table, chosen, partitions=names)


def plan_delete(statement: Delete, look: Look) -> TruncateWork:
    """How to carry DELETE without a condition out.

    Raises:
        InvalidInputError: 10402 for a view.
    """
    table = look.definition(statement.table)
    check(statement, table)
    return TruncateWork(table)


@dataclass(frozen=True, slots=True)
class TruncateWork(Work):
    """TRUNCATE, or DELETE without a condition; ``chosen`` narrows it to some partitions."""

    table: Table
    chosen: tuple[Partition, ...] | None = None
    partitions: tuple[str, ...] | None = None
    does: frozenset[WriteKind] = frozenset({WriteKind.OVERWRITE})

    def write(self, job: Job) -> WriteResult:
        """One empty base for each partition; none in a table without transactions, where the files
        go.
        """
        table = self.table
        if table.acid_mode is AcidMode.NONE:
            return WriteResult((), 0, 0, 0)
        parts = job.view.partitions(table) if self.chosen is None else self.chosen
        directory = format_base(BaseName(job.write_id))
        text = format_marker(DataFormat.TRUNCATED).encode()
        fs, staging = job.files.at(job.staging)
        fs.make_room(staging)
        files = []
        for number, part in enumerate(parts):
            path = f"{staging}/truncated-{number:06d}"
            file = WrittenFile(
                part.values, directory, METADATA_FILE, path, FileKind.PLAIN, 0, len(text)
            )
            if job.in_place is not None:
                path = final_path(fs.path_of(table.location), file, table.partition_keys)
                job.in_place.append(path)
            files.append(replace(file, staged_path=path))
        fs.each(partial(fs.write_bytes, data=text), [file.staged_path for file in files])
        return WriteResult(tuple(files), 0, 0, 0)

    def result(self, written: WriteResult, write_id: WriteId) -> DeleteResult:
        """Nothing is counted."""
        del written
        return DeleteResult(None, write_id)
