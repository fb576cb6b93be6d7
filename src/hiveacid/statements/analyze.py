"""ANALYZE TABLE: counts, sizes and column statistics of a snapshot, stored by a commit.

The rows are read once, whatever is asked for. What is found holds only if nobody committed a
change since; the commit looks, and leaves the old statistics otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hiveacid.errors import InvalidInputError
from hiveacid.layout.directories import Snapshot, SnapshotPart, partition_name
from hiveacid.model.commits import ColumnStatistics, StatisticsChange
from hiveacid.model.readable import decimal_text
from hiveacid.model.tables import Column, Partition, Table, TableKind, TableName
from hiveacid.model.types import INTEGER_BITS, CharType, DecimalType, PrimitiveType, VarcharType
from hiveacid.spark.session import constant, quoted
from hiveacid.statements.context import Bound, ExecutionContext, locked, use_write_id
from hiveacid.statements.partition_values import PartitionText, named_partitions
from hiveacid.statements.values import Command
from hiveacid.storage.plan.planning import plan_scan
from hiveacid.txn.footprint import Footprint, TableRead
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


@dataclass(frozen=True, slots=True)
class Analyze(Command):
    """ANALYZE TABLE name [PARTITION (...)] COMPUTE STATISTICS [NOSCAN | FOR COLUMNS [names]].

    ``partition`` names some of the partition columns; none of them: all partitions. ``columns``
    None: no column statistics; empty: of all columns.
    """

    name: TableName
    partition: PartitionText = ()
    columns: tuple[str, ...] | None = None
    noscan: bool = False


_DISTINCT_ERROR: Final = 0.02
_ROWS: Final = "__hiveacid_rows"
_PLACE: Final = "__hiveacid_place"


def needs(_: ExecutionContext, statement: Analyze, look: Look) -> Footprint:
    """It reads the table, whatever it asks for.

    Raises:
        NotFoundError: 10001 no such table, 10006 no such partition.
        InvalidInputError: 10091 a view, 10002 no such column.
    """
    table = look.definition(statement.name)
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(
            "ANALYZE is not supported for views", code=10091, view=str(table.name)
        )
    _columns(table, statement.columns)
    if statement.partition:
        _partitions(table, statement, look)
    return Footprint(reads=(TableRead(table),))


def carry_out(context: ExecutionContext, bound: Bound) -> None:
    """Count what there is, and store it with a commit.

    Raises:
        NotFoundError, InvalidInputError: as ``needs``.
    """
    held = locked(context, bound, needs)
    statement: Analyze = held.value
    table = held.view.definition(statement.name)
    columns = _columns(table, statement.columns)
    with held.txn as txn:
        partitions = _partitions(table, statement, held.view)
        snapshot = txn.snapshot(table, partitions=partitions)
        use_write_id(txn, table)
        if statement.noscan:
            changes = [_change(table, snapshot, part, None, None) for part in snapshot.parts]
        else:
            found = _look(context, snapshot, columns or ())
            changes = []
            for place, part in enumerate(snapshot.parts):
                row = found.get(place)
                stats = None if columns is None else _statistics(columns, row)
                rows = 0 if row is None else int(row[_ROWS])
                changes.append(_change(table, snapshot, part, rows, stats))
        txn.record_statistics(changes)
        txn.commit()


def _columns(table: Table, names: tuple[str, ...] | None) -> tuple[Column, ...] | None:
    if names is None:
        return None
    known = {column.name: column for column in table.columns}
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"Invalid column reference {name}", code=10002, table=str(table.name), column=name
            )
    wanted = [known[name] for name in names] if names else list(table.columns)
    return tuple(column for column in wanted if _kind(column) is not None)


def _partitions(table: Table, statement: Analyze, look: Look) -> tuple[Partition, ...] | None:
    if not (table.partition_columns or statement.partition):
        return None
    return named_partitions(table, look.partitions(table), statement.partition)


def _change(
    table: Table,
    snapshot: Snapshot,
    part: SnapshotPart,
    rows: int | None,
    columns: tuple[ColumnStatistics, ...] | None,
) -> StatisticsChange:
    directory = part.directory
    every = (*directory.row_files, *directory.delete_files)
    files = [file for file in every if file.size_bytes > 0]
    return StatisticsChange(
        table.name,
        partition_name(table.partition_keys, part.partition.values)
        if table.partition_keys
        else None,
        rows=rows,
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        replaces=True,
        seen=snapshot.valid,
        columns=columns,
    )


# -------------------------------------------------------------------- one look at the rows


def _look(
    context: ExecutionContext, snapshot: Snapshot, columns: Sequence[Column]
) -> Mapping[int, Row]:
    """The aggregates by the number of the snapshot's part; nothing where a part has no rows."""
    from pyspark.sql import functions as F

    from hiveacid.spark.read import read

    spark = context.session()
    table = snapshot.table
    if not snapshot.parts:
        return {}
    keys = table.partition_keys
    wanted = [column.name for column in columns] + list(keys)
    columns_read = wanted or [table.columns[0].name]
    plan = plan_scan(snapshot, files=context.files, columns=columns_read)
    rows = read(spark, plan).frame
    texts = [f"count(*) as {quoted(_ROWS)}"]
    for place, column in enumerate(columns):
        texts += [f"{text} as c{place}_{name}" for name, text in _aggregates(column).items()]
    grouped = rows.groupBy(*[F.col(quoted(key)) for key in keys])
    found = grouped.agg(*[F.expr(text) for text in texts]).collect()
    if not keys:
        return dict(enumerate(found))
    places: dict[tuple[Any, ...], list[int]] = {}
    for row in _places(context, snapshot):
        places.setdefault(_key(row, keys), []).append(row[_PLACE])
    looked: dict[int, Row] = {}
    for row in found:
        numbers = places[_key(row, keys)]
        if len(numbers) == 1:
            looked[numbers[0]] = row
            continue
        for number in numbers:  # d=1 and d=01, d=junk and NULL: each has a look of its own
            alone = replace(snapshot, parts=(snapshot.parts[number],))
            if (one := _look(context, alone, columns).get(0)) is not None:
                looked[number] = one
    return looked


def _key(row: Row, keys: Sequence[str]) -> tuple[Any, ...]:
    """The partition of a row; a NaN, which is not equal to itself, as NULL."""
    return tuple(None if row[key] != row[key] else row[key] for key in keys)


def _places(context: ExecutionContext, snapshot: Snapshot) -> list[Row]:
    """The partition values as Spark has them, with the number of the part."""
    from hiveacid.spark.assign import key_value

    columns = snapshot.table.partition_columns
    rows = ", ".join(
        "("
        + ", ".join(
            [
                *[
                    key_value(constant(value), column)
                    for column, value in zip(columns, part.partition.values, strict=True)
                ],
                str(place),
            ]
        )
        + ")"
        for place, part in enumerate(snapshot.parts)
    )
    names = ", ".join([*[quoted(column.name) for column in columns], quoted(_PLACE)])
    frame: DataFrame = context.session().sql(f"SELECT * FROM VALUES {rows} AS places({names})")
    return frame.collect()


def _kind(column: Column) -> str | None:
    """Which statistics Hive keeps for the type; None for none."""
    kind = column.type
    if isinstance(kind, DecimalType):
        return "decimal"
    if isinstance(kind, CharType | VarcharType):
        return "string"
    if not isinstance(kind, PrimitiveType):
        return None
    if kind.name in INTEGER_BITS:
        return "long"
    if kind.name in ("float", "double"):
        return "double"
    return kind.name if kind.name in ("string", "binary", "boolean", "date", "timestamp") else None


_EPOCH: Final = "timestamp_ntz'1970-01-01 00:00:00'"
_BOUNDED: Final = {
    "long": "{0}",
    "double": "cast({0} as double)",
    "decimal": "{0}",
    "date": "unix_date({0})",
    "timestamp": f"timestampdiff(SECOND, {_EPOCH}, cast({{0}} as timestamp_ntz))",
}


def _aggregates(column: Column) -> dict[str, str]:
    name, kind = quoted(column.name), _kind(column)
    found = {"nulls": f"count_if({name} is null)"}
    if kind == "boolean":
        return found | {"trues": f"count_if({name})", "falses": f"count_if(not {name})"}
    if kind in ("string", "binary"):
        length = f"coalesce(length({name}), 0)"
        found |= {"average_length": f"avg({length})", "longest": f"max({length})"}
    if kind != "binary":
        found["distinct"] = f"approx_count_distinct({name}, {_DISTINCT_ERROR})"
    if kind in _BOUNDED:
        value = _BOUNDED[kind].format(name)
        found |= {"low": f"min({value})", "high": f"max({value})"}
    return found


def _statistics(columns: Sequence[Column], row: Row | None) -> tuple[ColumnStatistics, ...]:
    found = []
    for place, column in enumerate(columns):
        names = _aggregates(column)
        values: dict[str, Any] = {
            name: None if row is None else row[f"c{place}_{name}"] for name in names
        }
        low, high = values.pop("low", None), values.pop("high", None)
        kind = _kind(column)
        if kind == "decimal":
            lowest, highest = (None if v is None else decimal_text(v) for v in (low, high))
            values |= {"decimal_low": lowest, "decimal_high": highest}
        elif kind == "double":
            values |= {"double_low": low, "double_high": high}
        elif kind in _BOUNDED:
            values |= {"long_low": low, "long_high": high}
        for name in ("nulls", "distinct", "trues", "falses", "longest", "average_length"):
            if name in values and values[name] is None:
                values[name] = 0
        found.append(ColumnStatistics(column.name, str(column.type), **values))
    return tuple(found)
