"""``read_arrow``: the live rows of a table as a stream of record batches.

As many threads read as Arrow uses (``pyarrow.set_cpu_count``), in object stores more. Each has one
stripe of the columns needed in memory, one more waits; and the delete events of one bucket are
there.
"""

from __future__ import annotations

import functools
import logging
import math
import operator
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from os import PathLike
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError, NotFoundError, UnsupportedError, tolerated
from hiveacid.layout.directories import Snapshot, default_partition_value
from hiveacid.model.history import as_of
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.predicates import (
    ANYTHING,
    Compare,
    Constant,
    IsNull,
    Op,
    Or,
    Predicate,
    columns_of,
    typed,
)
from hiveacid.model.tables import AcidMode, Column, Partition, Table, TableName
from hiveacid.model.types import STRING, HiveType
from hiveacid.reading.source import PathSource, SessionTable, Source, TableSource, source_of
from hiveacid.sql.conditions import parse_condition
from hiveacid.statements.arguments import checked
from hiveacid.statements.select import Lease
from hiveacid.storage.arrow_types import MICROSECONDS, arrow_type, readable
from hiveacid.storage.filesystem import Files
from hiveacid.storage.listing import noticing_cleaning
from hiveacid.storage.merge.merge_read import (
    FILE_NAME_NAME,
    IS_DELETED_NAME,
    ROW_ID_NAME,
    extra_fields,
    record_batch,
)
from hiveacid.storage.orc.tails import unit_of
from hiveacid.storage.plan.arrow_conditions import (
    Condition,
    check_expression,
    expression_of,
    filtered,
    joined,
    kept_partitions,
    mentions,
)
from hiveacid.storage.plan.planning import partitions_that_match, plan_scan
from hiveacid.storage.read import TableReader, Unit, parts_of
from hiveacid.txn.view import is_same

_log = logging.getLogger(__name__)


_EXTRAS_OF: Final = {
    AcidMode.NONE: {FILE_NAME_NAME},
    AcidMode.INSERT_ONLY: {FILE_NAME_NAME, ROW_ID_NAME},
    AcidMode.FULL: {FILE_NAME_NAME, ROW_ID_NAME, IS_DELETED_NAME},
}


@checked
def read_arrow(
    table: str | PathLike[str] | SessionTable,
    *,
    columns: str | Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    partitions: str | Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
    valid_write_ids: str | ValidWriteIdList | None = None,
    valid_txns: str | ValidTxnList | None = None,
    row_ids: bool = False,
    deleted_rows: bool = False,
    file_names: bool = False,
    as_of_write_id: int | None = None,
    as_of_time: object = None,
    as_of_tag: str | None = None,
) -> pa.RecordBatchReader:
    """The rows of a transactional table, lazily.

    ``table`` is the absolute path or URI of a directory, or a session's table
    (``acid.table("t")``; the session needs no Spark), which is read as of now under a lease that
    ends with the last batch, when the reader is dropped, or after ``hiveacid.reads.lease_s``.

    ``columns`` selects by name (case ignored; a text is one name; None is all), also partitions'.
    ``filter`` keeps the rows for which it is true: SQL text (``"id = 5 and year in (1995, 1996)"``;
    comparisons with literals, IN, BETWEEN, IS NULL, AND, OR, NOT), by which partitions, buckets,
    files and stripes are left out, or an Arrow expression, by which partitions are. ``partitions``
    chooses partitions: values (``{"year": 1995}``), a list of such, or SQL text over partition
    columns. By path, partition columns are strings. ``valid_write_ids``
    (``db.t:hwm:minOpen:open:aborted``) and ``valid_txns`` say what is committed at a path; None
    counts all as committed, which is logged. ``as_of_...`` reads a session's table as it was just
    after a write id committed, at a time or at a tag. ``row_ids`` adds ``row__id``
    struct<writeid, bucketid, rowid> last, of an insert-only table write id and bucket of the file
    (NULL of a compaction's). ``deleted_rows`` gives deleted rows that no major compaction has
    removed, too, adds ``row__is__deleted``, and in ``row__id`` has the write id of what deleted
    them. ``file_names`` adds ``input__file__name``, a URI. Timestamps have nanoseconds where the
    files' statistics say that all fit (1677 to 2262), else microseconds.

    Raises:
        FormatError: a damaged or foreign file, or a list that is not one; also while reading
        batches. MissingFileError: the directory, or a file found in it, is not there.
        NotFoundError: no such column, no such version.
        InvalidInputError: a filter that does not fit the table (SqlSyntaxError, UnsupportedError).
        SnapshotExpiredError: what these lists need was compacted away; also while reading batches,
        where it was cleaned meanwhile: never fewer rows.
        StorageError: the file system failed.
        UnsupportedError: a timestamp outside 1677..2262 in a union.
    """
    source = source_of(
        table,
        valid_write_ids=valid_write_ids,
        valid_txns=valid_txns,
        wanted=as_of(as_of_write_id, as_of_time, as_of_tag),
    )
    return open_rows(
        source,
        columns=columns,
        filter=filter,
        partitions=partitions,
        extras=extra_fields(row_ids=row_ids, deleted=deleted_rows, file_names=file_names),
        unit=None,
    )


def schema_of(source: Source) -> pa.Schema:
    """All columns, partition columns last; timestamps in microseconds."""
    columns = source.definition.all_columns
    return pa.schema([(c.name, arrow_type(c.type, unit=MICROSECONDS)) for c in columns])


def open_rows(
    source: Source,
    *,
    columns: str | Sequence[str] | None,
    filter: str | pc.Expression | Predicate | None,
    partitions: PartitionChoice = None,
    extras: Sequence[pa.Field] = (),
    unit: str | None = MICROSECONDS,
) -> pa.RecordBatchReader:
    """The rows of a source as of now; arguments and errors as ``read_arrow``; ``extras`` are what
    it adds.

    ``unit`` is that of timestamps; None is nanoseconds where all values fit, else microseconds.
    """
    schema = schema_of(source)
    output = pa.schema([schema.field(name) for name in chosen_names(schema, columns)])
    table = source.definition
    by_path = isinstance(source, PathSource)
    name = None if by_path else table.name
    asked = {extra.name for extra in extras}
    _check_extras(asked, table, schema, shown=str(name or table.location))
    condition = condition_of(filter, table.all_columns, table=name)
    chosen = chosen_expression(partitions, table.partition_columns, table=name)
    wanted = condition.columns.union(output.names)
    scan = _Scan(
        table=table,
        needed=frozenset(wanted),
        condition=condition,
        output=pa.schema([*output, *extras]),
        asked=frozenset(asked),
        by_path=by_path,
    )

    def keep(found: Sequence[Partition]) -> Sequence[Partition]:
        left = partitions_that_match(table, found, condition.predicate)
        return kept_partitions(left, table, chosen=chosen, condition=condition, by_path=by_path)

    lease = source.open(keep=keep)
    if isinstance(source, TableSource) and not is_same(table, lease.snapshot.table):
        lease.close()  # what was asked for followed from a definition that is gone
        return open_rows(
            TableSource(source.table, lease.snapshot.table),
            columns=columns,
            filter=filter,
            partitions=partitions,
            extras=extras,
            unit=unit,
        )
    if unit is None:
        scan = scan.in_unit(_unit(lease, scan.needed))
    batches = _until_closed(scan.rows(lease.snapshot, lease.files), lease.close)
    return pa.RecordBatchReader.from_batches(scan.output, batches)


def _check_extras(asked: set[str], table: Table, schema: pa.Schema, *, shown: str) -> None:
    """The table's rows have what is asked for, and it has no column of that name.

    Raises:
        InvalidInputError: they have not, or it has.
    """
    if lacking := asked - _EXTRAS_OF[table.acid_mode]:
        raise InvalidInputError(
            f"{shown} is not a full ACID table: its rows have no {min(lacking)}"
        )
    if taken := asked.intersection(schema.names):
        raise InvalidInputError(
            f"{shown} has a column {min(taken)} of its own, and would get another"
        )


def _unit(lease: Lease, needed: frozenset[str]) -> str:
    snapshot, files = lease.snapshot, lease.files
    if snapshot.table.acid_mode is not AcidMode.FULL:
        return MICROSECONDS
    types = [column.type for column in snapshot.table.columns if column.name in needed]
    with noticing_cleaning(files.at(snapshot.table.location)[0]):
        return unit_of(snapshot, types, files=files)


def chosen_names(schema: pa.Schema, columns: str | Sequence[str] | None) -> list[str]:
    """The columns chosen, as the schema has them; None is all, a text is one name.

    Raises:
        NotFoundError: no such column.
    """
    if columns is None:
        return list(schema.names)
    names = [columns] if isinstance(columns, str) else columns
    for name in names:
        if name.lower() not in schema.names:
            raise NotFoundError(
                f"no column {name!r}; there are {', '.join(schema.names)}", column=name
            )
    return [name.lower() for name in names]


def _until_closed(
    batches: Iterator[pa.RecordBatch], close: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    """``batches``; the lease ends with the last one, or when nobody holds the iterator any more."""

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        finally:
            _end(close)

    found = rows()
    weakref.finalize(found, _end, close)
    return found


def _end(close: Callable[[], None]) -> None:
    """The rows are read: a lease that cannot be given back now ends by itself."""
    with tolerated(_log, "A read lease ends by itself: %s"):
        close()


@dataclass(frozen=True, slots=True)
class _Scan:
    table: Table
    needed: frozenset[str]
    condition: Condition
    output: pa.Schema
    asked: frozenset[str]
    by_path: bool
    """without a catalog: each file tells its format, partition columns are texts"""
    unit: str = MICROSECONDS

    def in_unit(self, unit: str) -> _Scan:
        """The same with timestamps of another unit."""
        kinds = {column.name: column.type for column in self.table.columns}
        fields = [
            field.with_type(arrow_type(kinds[field.name], unit=unit))
            if field.name in kinds
            else field
            for field in self.output
        ]
        return replace(self, output=pa.schema(fields), unit=unit)

    def rows(self, snapshot: Snapshot, files: Files) -> Iterator[pa.RecordBatch]:
        """The rows of a snapshot, filtered, in the order asked for."""
        reader = TableReader(
            files,
            self.table,
            self.needed,
            snapshot.valid,
            row_ids=ROW_ID_NAME in self.asked,
            deleted=IS_DELETED_NAME in self.asked,
            file_names=FILE_NAME_NAME in self.asked,
            unit=self.unit,
            key_texts=self.by_path,
            any_format=self.by_path,
            threads=pa.cpu_count(),
        )
        if self.table.acid_mode is not AcidMode.FULL:
            units = [Unit(one.partition, one.directory, None) for one in snapshot.parts]
        else:
            with noticing_cleaning(files.at(snapshot.table.location)[0]):
                plan = plan_scan(snapshot, files=files, predicate=self.condition.predicate)
            units = parts_of(plan)
        for _, batch in reader.rows_of(units):
            yield from self._finished(batch)

    def _finished(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if not batch.num_columns:
            yield batch
            return
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        table = pa.table({name: readable(array) for name, array in arrays.items()})
        if self.condition.expression is not None:
            table = filtered(table, self.condition.expression)
        if not self.output.names:
            yield record_batch((), self.output, table.num_rows)
            return
        yield from table.select(self.output.names).cast(self.output).to_batches()


# -------------------------------------------------------------------- conditions of a read
# What a user gives as a condition: SQL text, an expression of Arrow, values of partitions.
#
# A text becomes a predicate, which files and stripes are chosen by, and from that an expression of
# Arrow; an expression of Arrow is taken as it is, and Arrow itself tells which partitions it
# leaves. Either way each row is tested in the end.


PartitionChoice = str | Mapping[str, object] | Sequence[Mapping[str, object]] | None
"""A text over partition columns, or values of partition columns, or a list of such values."""


def condition_of(
    given: str | pc.Expression | Predicate | None,
    columns: Sequence[Column],
    *,
    table: TableName | None = None,
) -> Condition:
    """The condition that a user's text or expression is, on a table's columns; a predicate only
    leaves places out. ``table`` is the name by which a text may qualify columns.

    Raises:
        NotFoundError: a column that the table does not have.
        SqlSyntaxError, UnsupportedError: a text that is not understood.
        InvalidInputError: types that do not compare.
    """
    names = frozenset(column.name for column in columns)
    if given is None:
        return Condition(None, ANYTHING, frozenset())
    if isinstance(given, pc.Expression):
        check_expression(given, columns)
        mentioned = frozenset(name for name in names if mentions(given, name))
        return Condition(given, ANYTHING, mentioned)
    kinds = {column.name: column.type for column in columns}
    if not isinstance(given, str):
        return Condition(None, typed(given, kinds), frozenset())
    tree = _parsed(given, names, table)
    expression = expression_of(tree, kinds)
    if expression is not None:
        check_expression(expression, columns)
    return Condition(expression, typed(tree, kinds), columns_of(tree))


def _parsed(text: str, names: frozenset[str], table: TableName | None) -> Predicate:
    unknown: list[str] = []
    qualifiers = [()] if table is None else [(), (table.table,), (table.database, table.table)]

    def column_of(parts: tuple[str, ...]) -> str | None:
        *qualifier, name = (part.lower() for part in parts)
        if tuple(qualifier) in qualifiers and name in names:
            return name
        unknown.append(".".join(parts))
        return None

    try:
        return parse_condition(text, column_of, strict=True)
    except UnsupportedError as error:
        if unknown and not re.search(rf"\b{re.escape(unknown[-1])}\s*\(", text):
            raise NotFoundError(f"no column {unknown[-1]!r}", column=unknown[-1]) from error
        raise


def chosen_expression(
    given: PartitionChoice, columns: Sequence[Column], *, table: TableName | None = None
) -> pc.Expression | None:
    """What the user's choice of partitions means.

    Raises:
        NotFoundError: a column that is no partition column.
        InvalidInputError: a value that is none of the column's.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return condition_of(given, columns, table=table).expression
    specs = [given] if isinstance(given, Mapping) else list(given)
    tests = [_spec_expression(spec, columns) for spec in specs]
    return joined(operator.or_, [pc.scalar(False), *tests])


def _spec_expression(spec: Mapping[str, object], columns: Sequence[Column]) -> pc.Expression:
    kinds = {column.name: column.type for column in columns}
    tests: list[pc.Expression] = []
    for name, value in spec.items():
        key = name.lower()
        if key not in kinds:
            known = ", ".join(kinds) or "none"
            raise NotFoundError(f"no partition column {name!r}; there are {known}", column=name)
        if value is None:
            default = default_partition_value(kinds[key])
            named = () if default is None else (Compare(key, Op.EQ, default),)
            test = expression_of(Or((IsNull(key), *named)), kinds)
            assert test is not None
            tests.append(test)
            continue
        try:
            test = expression_of(Compare(key, Op.EQ, _constant(value, kinds[key])), kinds)
        except (pa.ArrowException, TypeError, InvalidInputError) as error:
            raise InvalidInputError(
                f"{value!r} is no value of partition column {name} of type {kinds[key]}",
                column=name,
            ) from error
        assert test is not None
        tests.append(test)
    return functools.reduce(operator.and_, tests, pc.scalar(True))


def _constant(value: object, kind: HiveType) -> Constant:
    """The value as SQL text would say it: 1.5 is a decimal; numpy's scalars are plain ones."""
    plain = value if isinstance(value, Constant) else pa.scalar(value).as_py()
    if isinstance(plain, date) and kind == STRING:
        return str(plain)
    if isinstance(plain, float) and math.isfinite(plain):
        return Decimal(repr(float(plain)))
    if not isinstance(plain, Constant):
        raise TypeError(value)
    return plain
