"""Queries and DML: what the user wants, whether typed as SQL or built in Python, and the answers.

The values of other statements, all of them a ``Command``, lie beside what carries them out.

An ``Expression`` is Spark SQL text (already translated from Hive's dialect) or a pyspark
``Column``. Text may hold subqueries; tables of ours in it are named by placeholders: ``tables`` of
the enclosing statement maps each placeholder (a legal identifier such as ``__hiveacid_0``) to the
``TableRef`` it stands for. What carries the statement out (``job.temporary_views``) puts a
temporary view in each placeholder's place, so the text needs no further change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from hiveacid.model.history import AsOf, ChangeRange
from hiveacid.model.predicates import ANYTHING, Predicate
from hiveacid.model.readable import HtmlFields, html_table
from hiveacid.model.tables import Column, Table, TableName, WriteId
from hiveacid.spark.session import given_rows, literal, quoted

if TYPE_CHECKING:
    from pyarrow import Table as ArrowTable
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid.storage.target import WriteTarget, WrittenFile


Expression: TypeAlias = "str | SparkColumn"


class VirtualColumn(Enum):
    """A column that a query may name and ``*`` does not show; a column of that name hides it."""

    ROW_ID = "ROW__ID"
    """struct<writeid, bucketid, rowid>: the row's identity, in a full ACID table; else NULL"""
    BUCKET_ID = "BUCKET__ID"
    """the bucket (or writer) number in ROW__ID.bucketid; Hive 4.1 does not have it"""
    FILE_NAME = "INPUT__FILE__NAME"
    """URI of the file in which the row is"""
    IS_DELETED = "ROW__IS__DELETED"
    """false, unless deleted rows are asked for"""


READ_OPTIONS: Final = ("acid.fetch.deleted.rows", "insertonly.fetch.bucketid")
"""What a query may ask for of a table, ``t('name'='true')``: deleted rows, with ROW__IS__DELETED
and in ROW__ID the write id of what deleted them; ROW__ID of a table without row events."""


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table of ours in a query, with the virtual columns that the query asks for (last).

    Only rows that meet ``predicate`` are needed, and only ``columns`` (None: all of them); what
    is read beyond that changes no result, so both take no part in comparisons.
    """

    name: TableName
    virtual: frozenset[VirtualColumn] = frozenset()
    predicate: Predicate = field(default=ANYTHING, compare=False)
    columns: frozenset[str] | None = field(default=None, compare=False)
    as_of: AsOf | None = None
    """As it was then; None as of now. Which files that are is told under the locks."""
    changes: ChangeRange | None = None
    """What changed, not the rows themselves; there are no virtual columns then."""
    options: frozenset[str] = frozenset()
    """Those of ``READ_OPTIONS`` that are true."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``count``, ``min`` or ``max`` of a column (None: of the rows); ``title`` is its name."""

    function: str
    column: str | None
    title: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """Columns, each with what it is called, of the rows that meet a condition."""

    columns: tuple[tuple[str, str], ...]
    condition: Predicate


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT: Spark SQL ``text`` in which ``tables``' placeholders stand for tables of ours.

    ``aggregates`` are all that it asks for, of all of its one table; empty where it asks for
    something else. ``lookup`` likewise, of some of its rows. ``titles`` are Hive's names of the
    first and of the last columns, where the query makes a table or view, ``kinds`` their types,
    where those are char or varchar by a cast. ``views`` are those of ours whose text is in it.
    """

    text: str
    tables: Mapping[str, TableRef] = field(default_factory=dict)
    aggregates: tuple[Aggregate, ...] = field(default=(), compare=False)
    lookup: Lookup | None = field(default=None, compare=False)
    titles: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()), compare=False)
    kinds: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()), compare=False)
    views: frozenset[TableName] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class Literals:
    """Rows of a VALUES list in which every cell is a plain literal.

    Cells are Python values: None, bool, int, Decimal (a number with a point), float (with an
    exponent), str, and from SQL's DATE and TIMESTAMP literals datetime.date and datetime.datetime
    (without zone).
    """

    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that are staged for a target, by the write id of the transaction that they are for;
    ``files`` is asked when nothing can happen to the table any more.
    """

    target: WriteTarget
    files: Callable[[], tuple[WrittenFile, ...]]


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO or INSERT OVERWRITE of one table.

    ``partition`` maps partition columns to their text (static; None for NULL) or to ``DYNAMIC``;
    empty: all partition columns are dynamic and come last in the source. ``columns`` is the
    optional column list. ``source``: a query, literal rows, a DataFrame (matched by position
    unless ``by_name``), an Arrow table (by name; written without Spark), or rows that are staged
    already. ``also`` are the queries of further branches of a multi-insert whose rows go to the
    same place. ``evolve`` asks for the columns that the table lacks, ``added`` are these.
    """

    table: TableName
    source: Query | Literals | DataFrame | ArrowTable | Staged
    columns: tuple[str, ...] = ()
    partition: Mapping[str, str | None] = field(default_factory=dict)
    dynamic_partition: tuple[str, ...] = ()
    overwrite: bool = False
    by_name: bool = False
    if_not_exists: bool = False
    also: tuple[Query, ...] = ()
    evolve: bool = False
    added: tuple[Column, ...] = ()
    whole: bool = False
    """An overwrite also empties the partitions that get no rows."""
    restores: AsOf | None = None
    """The rows are the table's own, of this version."""
    few: Few | None = field(default=None, compare=False)
    """A DataFrame of few rows is evaluated into the driver, which writes them."""

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries whose rows are inserted; none where they come from elsewhere."""
        return (self.source, *self.also) if isinstance(self.source, Query) else ()


def with_columns(table: Table, added: Collection[Column]) -> Table:
    """The table with these columns after its own."""
    return replace(table, columns=(*table.columns, *added)) if added else table


@dataclass(frozen=True, slots=True)
class Inserts:
    """FROM source INSERT ... INSERT ...: the branches of a multi-insert, one transaction."""

    branches: tuple[Insert, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE table [AS alias] SET column = expression, ... [WHERE condition].

    Rows that do not meet ``predicate`` do not meet the condition either; those that meet ``exact``
    are the ones that do, where that is known. ``literals`` are the values assigned, where all are.
    """

    table: TableName
    assignments: tuple[tuple[str, Expression], ...]
    where: Expression | None = None
    alias: str | None = None
    tables: Mapping[str, TableRef] = field(default_factory=dict)
    predicate: Predicate = field(default=ANYTHING, compare=False)
    exact: Predicate | None = field(default=None, compare=False)
    literals: Mapping[str, object] | None = field(default=None, compare=False)
    virtual: frozenset[VirtualColumn] = field(default=frozenset(), compare=False)
    """The virtual columns of the table that expressions name."""


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM table [AS alias] [WHERE condition]; ``predicate`` and ``exact`` as in ``Update``,
    ``columns`` are those that the condition needs (None: perhaps all). ``purges`` says that it is
    part of a PURGE.
    """

    table: TableName
    where: Expression | None = None
    alias: str | None = None
    tables: Mapping[str, TableRef] = field(default_factory=dict)
    predicate: Predicate = field(default=ANYTHING, compare=False)
    exact: Predicate | None = field(default=None, compare=False)
    columns: frozenset[str] | None = field(default=None, compare=False)
    virtual: frozenset[VirtualColumn] = field(default=frozenset(), compare=False)
    purges: bool = False


@dataclass(frozen=True, slots=True)
class MatchedUpdate:
    """WHEN MATCHED [AND condition] THEN UPDATE SET ...; ``all_columns`` is ``UPDATE SET *``."""

    assignments: tuple[tuple[str, Expression], ...] = ()
    condition: Expression | None = None
    all_columns: bool = False


@dataclass(frozen=True, slots=True)
class MatchedDelete:
    """WHEN MATCHED [AND condition] THEN DELETE."""

    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class NotMatchedInsert:
    """WHEN NOT MATCHED [AND condition] THEN INSERT [(columns)] VALUES (...); ``all_columns`` is
    ``INSERT *``.
    """

    columns: tuple[str, ...] = ()
    values: tuple[Expression, ...] = ()
    condition: Expression | None = None
    all_columns: bool = False


@dataclass(frozen=True, slots=True)
class NotMatchedBySourceUpdate:
    """WHEN NOT MATCHED BY SOURCE [AND condition] THEN UPDATE SET ..."""

    assignments: tuple[tuple[str, Expression], ...]
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class NotMatchedBySourceDelete:
    """WHEN NOT MATCHED BY SOURCE [AND condition] THEN DELETE."""

    condition: Expression | None = None


MergeClause = (
    MatchedUpdate
    | MatchedDelete
    | NotMatchedInsert
    | NotMatchedBySourceUpdate
    | NotMatchedBySourceDelete
)


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE INTO table [AS alias] USING source AS source_alias ON condition clauses...

    Expressions name columns as the user wrote them, qualified by the aliases (defaults: the table's
    name; the source's name). ``DEFAULT`` as a value is the text ``default``. Rows of the target
    that do not meet ``predicate`` are matched by no row of the source, and no clause changes them.
    ``evolve`` and ``added`` as in ``Insert``.
    """

    table: TableName
    source: Query | DataFrame | ArrowTable
    on: Expression
    clauses: tuple[MergeClause, ...]
    alias: str | None = None
    source_alias: str | None = None
    tables: Mapping[str, TableRef] = field(default_factory=dict)
    predicate: Predicate = field(default=ANYTHING, compare=False)
    evolve: bool = False
    added: tuple[Column, ...] = ()
    newest: Newest | None = None
    few: Few | None = field(default=None, compare=False)
    """A source of few rows is evaluated into the driver, which joins them."""
    virtual: frozenset[VirtualColumn] = field(default=frozenset(), compare=False)


@dataclass(slots=True)
class Few:
    """How many rows are few; ``fits`` becomes False where there were more: Spark has evaluated so
    many in vain.
    """

    rows: int
    fits: bool = True


@dataclass(frozen=True, slots=True)
class Newest:
    """Of several rows of a DataFrame that are equal in ``keys``, none of them NULL, the one that is
    highest in ``order_by`` counts; NULL is lowest, and two that are highest are an error. What is
    in ``dropped`` only orders.
    """

    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    dropped: tuple[str, ...]


DmlStatement = Insert | Inserts | Update | Delete | Merge


@dataclass(frozen=True, slots=True)
class Command:
    """A statement other than a query, INSERT, UPDATE, DELETE or MERGE.

    Where a ``database`` is None or a ``TableName`` has the database '', the text names none;
    binding fills in the current one.
    """


# -------------------------------------------------------------------- answers


@dataclass(frozen=True, slots=True)
class Retried(HtmlFields):
    """``retries``: how often the statement ran again because another transaction won."""

    retries: int = field(default=0, repr=False, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class InsertResult(Retried):
    """``write_id`` is 0 for a table that is not transactional."""

    rows: int
    write_id: WriteId


@dataclass(frozen=True, slots=True)
class UpdateResult(Retried):
    """Rows changed."""

    rows: int
    write_id: WriteId


@dataclass(frozen=True, slots=True)
class DeleteResult(Retried):
    """Rows deleted; None where DELETE without WHERE emptied the table without counting."""

    rows: int | None
    write_id: WriteId


@dataclass(frozen=True, slots=True)
class MergeResult(Retried):
    """Rows by what happened to them."""

    updated: int
    deleted: int
    inserted: int
    write_id: WriteId


@dataclass(frozen=True, slots=True)
class LoadResult(Retried):
    """Files that were loaded as they are; ``write_id`` is 0 for a table that is not
    transactional.
    """

    files: int
    write_id: WriteId


@dataclass(frozen=True, slots=True)
class UndoResult(Retried):
    """What was taken back in one table: rows that went, and rows that came back."""

    table: str
    deleted: int
    inserted: int
    write_id: WriteId


Result = InsertResult | LoadResult | UpdateResult | DeleteResult | MergeResult | UndoResult


_ROWS_AS_TEXT_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Listing:
    """Named columns and rows; every cell is None, or a value of its column's type in Spark SQL
    (``kinds``; without them all are texts): a number, a datetime in UTC, a text.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    kinds: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows)

    def __repr__(self) -> str:
        return shortened(f"<Listing of {len(self.rows)} rows: {', '.join(self.columns)}>", 200)

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.rows)

    def __str__(self) -> str:
        return "\n".join(
            "\t".join("" if cell is None else str(cell) for cell in row)
            for row in (self.columns, *self.rows)
        )


def shortened(text: str, length: int = 80) -> str:
    """So many characters of it at most: its beginning and its end."""
    half = (length - 3) // 2
    return text if len(text) <= length else f"{text[:half]}...{text[-half:]}"


def matching(names: tuple[str, ...], pattern: str | None) -> tuple[str, ...]:
    """The names that a LIKE pattern of SHOW matches, without regard to case.

    ``*`` and ``%`` stand for anything, ``_`` for one character, ``|`` separates alternatives.
    """
    if pattern is None:
        return names
    wildcards = {"*": ".*", "%": ".*", "_": ".", "|": "|"}
    text = "".join(wildcards.get(character, re.escape(character)) for character in pattern)
    expression = re.compile(text, re.IGNORECASE | re.DOTALL)
    return tuple(name for name in names if expression.fullmatch(name))


def listing_frame(spark: SparkSession, listing: Listing) -> DataFrame:
    """The rows as a local relation, which Spark answers without a job (before Spark 4 a long one is
    distributed). Notebooks show them.
    """
    frame = _listing_frame(spark, listing)
    frame._repr_html_ = listing._repr_html_  # type: ignore[method-assign]
    return frame


def _listing_frame(spark: SparkSession, listing: Listing) -> DataFrame:
    kinds = listing.kinds or ("string",) * len(listing.columns)
    typed = [
        f"cast({quoted(name)} as {kind}) as {quoted(name)}"
        for name, kind in zip(listing.columns, kinds, strict=True)
    ]
    if not listing.rows:
        nulls = (
            f"cast(null as {kind}) as {quoted(name)}"
            for name, kind in zip(listing.columns, kinds, strict=True)
        )
        return spark.sql(f"SELECT {', '.join(nulls)} WHERE false")
    texts = [tuple(None if one is None else str(one) for one in row) for row in listing.rows]
    if len(texts) > _ROWS_AS_TEXT_MAX:
        from pyspark.sql import types as t

        strings = t.StructType([t.StructField(name, t.StringType()) for name in listing.columns])
        return given_rows(spark, texts, strings).selectExpr(*typed)
    rows = ", ".join(f"({', '.join(map(literal, row))})" for row in texts)
    columns = ", ".join(typed)
    names = ", ".join(map(quoted, listing.columns))
    return spark.sql(f"SELECT {columns} FROM VALUES {rows} AS listing({names})")


@dataclass(frozen=True, slots=True)
class DescribeDetail(Command):
    """DESCRIBE DETAIL name."""

    name: TableName


@dataclass(frozen=True, slots=True)
class Purge(Command):
    """PURGE TABLE name [[AS] alias] [WHERE condition] [WAIT seconds] [DROP PINS].

    ``where`` from SQL is a part of its text, that means what it means in a DELETE.
    """

    name: TableName
    where: object = None
    alias: str | None = None
    wait_s: float | None = None
    drop_pins: bool = False
