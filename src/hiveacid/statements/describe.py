"""DESCRIBE of tables, partitions, columns and databases: Hive 4.1's layout without its padding.

EXPLAIN: what of each table would be read, Spark's plan of a query; for everything else what the
statement would touch. EXPLAIN LOCKS: the locks that it would take. Nothing is executed and no lock
is taken; the tables are looked at in a read transaction that ends with the explanation.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hiveacid.errors import InvalidInputError
from hiveacid.metastore.api import Catalog
from hiveacid.model.commits import (
    ACCURATE,
    FILES,
    RAW_SIZE_BYTES,
    ROWS,
    SIZE_BYTES,
    ColumnStatistics,
    accuracy_text,
    is_accurate,
)
from hiveacid.model.readable import at
from hiveacid.model.tables import Column, Partition, Table, TableKind, TableName, storage_classes
from hiveacid.model.transactions import LockComponent
from hiveacid.model.types import HiveType, StructType, names_inside
from hiveacid.statements.constraints import (
    KeyConstraint,
    check_constraints,
    default_constraints,
    key_constraints,
    not_null_constraints,
    shown_properties,
)
from hiveacid.statements.context import Bound, ExecutionContext
from hiveacid.statements.job import Reader
from hiveacid.statements.partition_values import PartitionText, full_values
from hiveacid.statements.select import answered, known_answer
from hiveacid.statements.values import (
    Command,
    Delete,
    DmlStatement,
    Insert,
    Inserts,
    Listing,
    Literals,
    Merge,
    Query,
    Update,
)
from hiveacid.storage.locations import root_of
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.txn.footprint import Footprint, lock_components
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class DescribeTable(Command):
    """DESCRIBE [FORMATTED | EXTENDED] name [PARTITION (...)] [column[.field ...]]; ``$elem$``,
    ``$key$`` and ``$value$`` are the fields of lists and maps.
    """

    name: TableName
    column: tuple[str, ...] = ()
    partition: PartitionText = ()
    formatted: bool = False
    extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeDatabase(Command):
    """DESCRIBE DATABASE [EXTENDED] name."""

    name: str
    extended: bool = False


Row = tuple[str | None, ...]
_COLUMNS = ("col_name", "data_type", "comment")
_BLANK: Row = ("", None, None)


def describe(catalog: Catalog, statement: DescribeTable | DescribeDatabase) -> Listing:
    """The answer to DESCRIBE.

    Raises:
        NotFoundError: no such database, table or partition.
        InvalidInputError: 10004 no such column.
    """
    if isinstance(statement, DescribeDatabase):
        return _database(catalog, statement)
    table = catalog.get_table(statement.name)
    partition = None
    if statement.partition:
        partition = catalog.get_partition(table.name, full_values(table, statement.partition))
    detailed = statement.formatted or statement.extended
    if statement.column:
        column = _column_of(table, statement.column, table.all_columns)
        if statement.formatted:
            return _column_statistics(catalog, table, column, partition)
        shown = _inside(column.type) if isinstance(column.type, StructType) else (column,)
        return Listing(_COLUMNS, tuple(_row(one, "from deserializer") for one in shown))
    rows: list[Row] = [("# col_name", "data_type", "comment")] if detailed else []
    keys = table.partition_columns
    rows += [_row(column) for column in (table.columns if detailed else table.all_columns)]
    if keys:
        rows += [_BLANK, ("# Partition Information", None, None)]
        rows += [("# col_name", "data_type", "comment"), *map(_row, keys)]
    if detailed:
        rows += _of_table(catalog, table) if partition is None else _of_partition(table, partition)
        rows += _storage(table)
        rows += _view(table) if table.kind is TableKind.VIEW else _constraints(table)
    return Listing(_COLUMNS, tuple(rows))


def _row(column: Column, comment: str = "") -> Row:
    return (column.name, str(column.type), column.comment or comment)


def _column_of(table: Table, path: tuple[str, ...], columns: tuple[Column, ...]) -> Column:
    name, *rest = path
    for column in columns:
        if column.name == name:
            return _column_of(table, tuple(rest), _inside(column.type)) if rest else column
    raise InvalidInputError(
        f"Invalid table alias or column reference '{name}': (possible column names are: "
        f"{', '.join(column.name for column in columns)})",
        code=10004,
        table=str(table.name),
        column=name,
    )


# -------------------------------------------------------------------- tables, partitions


def _of_table(catalog: Catalog, table: Table) -> list[Row]:
    created = at(table.created_at_ms).strftime("%a %b %d %H:%M:%S UTC %Y")
    rows: list[Row] = [
        _BLANK,
        ("# Detailed Table Information", None, None),
        ("Database:", table.name.database, None),
        ("OwnerType:", "USER", None),
        ("Owner:", table.owner, None),
        ("CreateTime:", created, None),
        ("LastAccessTime:", "UNKNOWN", None),
        ("Retention:", "0", None),
    ]
    if table.kind is not TableKind.VIEW:
        rows.append(("Location:", table.location, None))
    rows += [("Table Type:", table.kind.value, None), ("Table Parameters:", None, None)]
    properties = shown_properties(table.properties)
    if table.comment is not None:
        properties["comment"] = table.comment
    if table.partition_columns:
        properties |= _summed(catalog.list_partitions(table.name, statistics=True))
    return rows + _parameters(properties)


def _of_partition(table: Table, partition: Partition) -> list[Row]:
    values = ", ".join(text or "__HIVE_DEFAULT_PARTITION__" for text in partition.values)
    rows: list[Row] = [
        _BLANK,
        ("# Detailed Partition Information", None, None),
        ("Partition Value:", f"[{values}]", None),
        ("Database:", table.name.database, None),
        ("Table:", table.name.table, None),
        ("LastAccessTime:", "UNKNOWN", None),
        ("Location:", partition.location, None),
        ("Partition Parameters:", None, None),
    ]
    return rows + _parameters(partition.properties)


def _parameters(properties: Mapping[str, str]) -> list[Row]:
    return [("", key, _escaped(properties[key])) for key in sorted(properties)]


def _escaped(text: str) -> str:
    """As Hive shows the value of a parameter: with the quotes of JSON escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _summed(partitions: Sequence[Partition]) -> dict[str, str]:
    """The statistics of a partitioned table are those of its partitions together."""
    numbers = (FILES, ROWS, RAW_SIZE_BYTES, SIZE_BYTES)
    found = {
        key: str(sum(int(part.properties.get(key, "0")) for part in partitions)) for key in numbers
    }
    basic = all(is_accurate(part.properties) for part in partitions)
    return {
        **found,
        "numPartitions": str(len(partitions)),
        ACCURATE: accuracy_text(basic=basic, columns=()),
    }


def _storage(table: Table) -> list[Row]:
    classes = storage_classes(table)
    order = ", ".join(
        f"Order(col:{c.name}, order:{0 if c.is_descending else 1})" for c in table.sort_columns
    )
    return [
        _BLANK,
        ("# Storage Information", None, None),
        ("SerDe Library:", classes.serde, None),
        ("InputFormat:", classes.input_format, None),
        ("OutputFormat:", classes.output_format, None),
        ("Compressed:", "No", None),
        ("Num Buckets:", str(table.bucket.count if table.bucket else -1), None),
        ("Bucket Columns:", _names(table.bucket_columns), None),
        ("Sort Columns:", f"[{order}]", None),
    ]


def _names(names: Sequence[str]) -> str:
    return "[" + ", ".join(names) + "]"


def _view(table: Table) -> list[Row]:
    return [
        _BLANK,
        ("# View Information", None, None),
        ("Original Query:", table.view_text, None),
        ("Expanded Query:", table.view_expanded, None),
    ]


# -------------------------------------------------------------------- constraints


def _constraints(table: Table) -> list[Row]:
    """A section for each kind that there is: of each constraint its name, then what it says."""
    found: dict[str, list[tuple[str, list[Row]]]] = {
        "# Primary Key": [],
        "# Foreign Keys": [],
        "# Unique Constraints": [],
        "# Not Null Constraints": [
            (name, [("Column Name:", column, None)])
            for column, name in not_null_constraints(table).items()
        ],
        "# Default Constraints": [
            (name, [(f"Column Name:{column}", f"Default Value:{text}", None)])
            for column, (name, text) in default_constraints(table).items()
        ],
        "# Check Constraints": [
            (name, [("Check Value:", text, None)])
            for name, text in check_constraints(table).items()
        ],
    }
    for key in key_constraints(table):
        title, column_rows = _KEYS[key.kind]
        found[title].append((key.name, column_rows(key)))
    rows: list[Row] = []
    for title, constraints in found.items():
        rows += (
            [_BLANK, (title, None, None), ("Table:", str(table.name), None)] if constraints else []
        )
        for name, said in constraints:
            rows += [("Constraint Name:", name, None), *said]
    return [_BLANK, ("# Constraints", None, None), *rows] if rows else []


_KEYS: Final[Mapping[str, tuple[str, Callable[[KeyConstraint], list[Row]]]]] = {
    "PRIMARY KEY": (
        "# Primary Key",
        lambda key: [("Column Name:", column, None) for column in key.columns],
    ),
    "FOREIGN KEY": (
        "# Foreign Keys",
        lambda key: [
            (
                f"Parent Column Name:{key.parent}.{parent}",
                f"Column Name:{column}",
                f"Key Sequence:{place}",
            )
            for place, (column, parent) in enumerate(
                zip(key.columns, key.parent_columns, strict=False), 1
            )
        ],
    ),
    "UNIQUE": (
        "# Unique Constraints",
        lambda key: [
            (f"Column Name:{column}", f"Key Sequence:{place}", None)
            for place, column in enumerate(key.columns, 1)
        ],
    ),
}
"""Of each kind of key the title, and what is said of its columns."""


# -------------------------------------------------------------------- column statistics


def _column_statistics(
    catalog: Catalog, table: Table, column: Column, partition: Partition | None
) -> Listing:
    if partition is None and table.partition_columns:
        found = _of_all_partitions(catalog, table, column)
    else:
        values = None if partition is None else partition.values
        found = catalog.column_statistics(table.name, column.name, partition=values)
    rows = [
        ("col_name", column.name),
        ("data_type", str(column.type)),
        *_bounds(column, found),
        ("comment", column.comment or "from deserializer"),
    ]
    if partition is None:
        rows.append((ACCURATE, _escaped(table.properties.get(ACCURATE, "{}"))))
    return Listing(("column_property", "value"), tuple(rows))


def _of_all_partitions(catalog: Catalog, table: Table, column: Column) -> ColumnStatistics | None:
    """None where those of a partition are not known."""
    known = []
    for partition in catalog.list_partitions(table.name):
        found = catalog.column_statistics(table.name, column.name, partition=partition.values)
        if found is None:
            return None
        known.append(found)
    return ColumnStatistics.together(known) if known else None


def _bounds(column: Column, found: ColumnStatistics | None) -> list[tuple[str, str]]:
    names = ("min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len")
    values: tuple[object, ...] = ()
    if found is not None:
        bounds = (
            next((value for value in known if value is not None), None)
            for known in (
                (found.long_low, found.double_low, found.decimal_low),
                (found.long_high, found.double_high, found.decimal_high),
            )
        )
        values = tuple(_as_shown(bound, column.type) for bound in bounds)
        values += (found.nulls, found.distinct, found.average_length, found.longest)
        values += (found.trues, found.falses)
    shown = ["" if value is None else str(value) for value in values] or [""] * 8
    pairs = zip((*names, "num_trues", "num_falses"), shown, strict=True)
    return [*pairs, ("bit_vector", "")]


def _as_shown(bound: object, kind: HiveType) -> object:
    """Of a date its days since 1970, of a timestamp its seconds, as Hive shows them."""
    if not isinstance(bound, int):
        return bound
    with suppress(OverflowError):  # a year that Python has no dates of
        if str(kind) == "date":
            return datetime.date(1970, 1, 1) + datetime.timedelta(bound)
        if str(kind) == "timestamp":
            return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=bound)
    return bound


def _inside(kind: HiveType) -> tuple[Column, ...]:
    return tuple(map(Column, names_inside(kind), kind.children))


def _database(catalog: Catalog, statement: DescribeDatabase) -> Listing:
    database = catalog.get_database(statement.name)
    columns = ["db_name", "comment", "location"]
    row: list[str | None] = [database.name, database.comment or "", database.location]
    if statement.extended:
        columns.append("parameters")
        pairs = ", ".join(f"{key}={value}" for key, value in sorted(database.properties.items()))
        row.append(f"{{{pairs}}}" if pairs else "")
    return Listing(tuple(columns), (tuple(row),))


@dataclass(frozen=True, slots=True)
class Explain(Command):
    """EXPLAIN [EXTENDED | FORMATTED | ...] statement; ``mode`` is '' or the word in lower case."""

    statement: Query | DmlStatement | Command
    mode: str = ""


_MODES = {"extended": "extended", "formatted": "formatted", "cost": "cost", "cbo": "cost"}
_HIDDEN = ("also", "tables")
"""Fields that other lines tell better, as they do what takes no part in comparisons."""


def explain(context: ExecutionContext, bound: Bound) -> Listing:
    """The explanation of an ``Explain`` as lines of text.

    Raises:
        NotFoundError, AcidError: a table could not be looked at.
        pyspark's AnalysisException: a query is wrong.
    """
    begin = partial(context.client.transactions.begin, read_only=True)
    with begin() if context.unit is None else nullcontext(context.unit.txn) as txn:
        value: Explain = answered(Reader(context=context, txn=txn, view=bound.look), bound)
        lines = _Explanation(context, txn, bound.look, value.mode).lines(value.statement)
    return Listing(("Explain",), tuple((line,) for line in lines))


@dataclass(frozen=True, slots=True)
class _Explanation:
    """Explains with a look and a transaction, without locks."""

    context: ExecutionContext
    txn: Transaction
    look: Look
    mode: str

    def lines(self, value: object) -> list[str]:
        if isinstance(value, Query):
            return self._query(value)
        if isinstance(value, Inserts):
            return [line for branch in value.branches for line in self.lines(branch)]
        lines = [type(value).__name__]
        lines += [f"  {name}: {text}" for name, text in _described(value)]
        if isinstance(value, (Update, Delete, Merge)):
            table = self.look.definition(value.table)
            plan = self._reader().plan(table, predicate=value.predicate)
            lines.append(f"  reads: {plan.summary()}")
        queries = value.queries if isinstance(value, Insert) else ()
        if isinstance(value, Merge) and isinstance(value.source, Query):
            queries = (value.source,)
        for query in queries:
            lines += ["  source:", *(f"    {line}" for line in self._query(query))]
        return lines

    def _query(self, query: Query) -> list[str]:
        from hiveacid.statements.select import query_frame

        spark = self.context.session()
        if not query.tables:
            return _plan(spark, spark.sql(query.text), self.mode)
        reader = self._reader()
        known = known_answer(reader, query)
        if known is not None:
            plan = _plan(spark, spark.sql(known), self.mode)
            (ref,) = query.tables.values()
            return ["== Tables ==", f"{ref.name}: answered from metadata", "", *plan]
        plan = _plan(spark, query_frame(reader, query), self.mode)
        read = [
            f"{p.snapshot.table.name}: {p.summary()}{_unreached(spark, p)}" for p in reader.plans
        ]
        return ["== Tables ==", *read, "", *plan]

    def _reader(self) -> Reader:
        return Reader(context=self.context, txn=self.txn, view=self.look)


def _unreached(spark: SparkSession, plan: ScanPlan) -> str:
    """What hiveacid's reader reads because Spark's cannot; the rest Spark's plan tells."""
    from hiveacid.spark.session import reads_files

    places = [part.part.partition.location for part in plan.parts]
    roots = {root_of(place) for place in places if not reads_files(spark, place)}
    return "".join(f", {root} by hiveacid: Spark reads no files there" for root in sorted(roots))


def _plan(spark: SparkSession, frame: DataFrame, mode: str) -> list[str]:
    from hiveacid.spark.jobs import explained

    return explained(spark, frame, _MODES.get(mode, "")).rstrip("\n").split("\n")


def _described(value: Any) -> list[tuple[str, str]]:
    if not is_dataclass(value):
        return []
    found = []
    for one in fields(value):
        content = getattr(value, one.name)
        if one.name in _HIDDEN or not one.compare or not content:
            continue
        if isinstance(content, Query):
            content = content.text
        elif isinstance(content, Literals):
            content = f"{len(content.rows)} literal rows"
        found.append((one.name, str(content)))
    return found


def locks_listing(footprint: Footprint) -> Listing:
    """The locks, a line each, below Hive's title."""
    lines = [_lock_line(one) for one in lock_components(footprint)]
    return Listing(("Explain",), (("LOCK INFORMATION:",), *((line,) for line in lines)))


def _lock_line(one: LockComponent) -> str:
    place = one.database if one.table is None else f"{one.database}.{one.table}"
    if one.partition is not None:
        place += "." + one.partition.replace("/", ".")
    return f"{place} -> {one.type.name}"
