"""What the driver does of Spark's statements where rows are few and the text shows that both give
the same.

UPDATE, DELETE and SELECT without a job: a condition of comparisons with literals that Arrow makes
as Spark does, for an UPDATE literals as new values, for a SELECT names of columns. Then the
planner's choice of stripes is read here; what has more rows than that is Spark's.

MERGE of a small source without a join of Spark's: the driver matches the keys (``driver_merge``).
Spark evaluates the source in one job, again only where a clause's condition fails for one of its
rows, or they are too many. ON compares columns of one type, clauses set and insert columns of the
source as they are, and conditions compare them with literals. The rest (expressions, casts, rows
that no source row matches, constraints) is Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructField

from hiveacid.model.predicates import And, Anything, Compare, In, IsNull, Or, Predicate, columns_of
from hiveacid.model.tables import AcidMode, Column, Table
from hiveacid.model.types import INTEGER_BITS, is_decimal_or
from hiveacid.spark import arrow_read
from hiveacid.spark.arrow_read import RowsHere, is_for_driver
from hiveacid.spark.assign import spark_type, stored_type, type_text
from hiveacid.spark.jobs import known_rows
from hiveacid.spark.session import driver_share, is_ansi, quoted
from hiveacid.spark.write import collected, estimated_bytes, few_collected
from hiveacid.statements.arrow_rows import literal_columns, typed_column, what_needs_spark
from hiveacid.statements.constraints import check_conditions, not_null_columns
from hiveacid.statements.driver_merge import Gone, SourceRows, stored, with_row_ids
from hiveacid.statements.driver_write import write_arrow, write_deletes
from hiveacid.statements.job import Job
from hiveacid.statements.matching import newest_rows
from hiveacid.statements.values import Lookup, MatchedDelete, MatchedUpdate, Merge, NotMatchedInsert
from hiveacid.storage.plan.arrow_conditions import expression_of, filtered
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.storage.read import TableReader, parts_of
from hiveacid.storage.stage import DELETE, TOUCH, UPDATE
from hiveacid.storage.target import WriteResult, WriteTarget, write_result

_COMPARED: Final = {"string": "str", "date": "date", **dict.fromkeys(INTEGER_BITS, "int")}
"""Types whose values Arrow compares as Spark does, and the class of the literals beside them."""
_GIVEN: Final = {"boolean", "string", "varchar", "date", "float", "double", "decimal"} | {
    *INTEGER_BITS
}
"""Types whose values Arrow hands to Python as Spark does."""
Part = tuple[tuple[str | None, ...], pa.Table]
"""The values of a partition, and rows of it with their row ids."""


def delete_here(
    job: Job, plan: ScanPlan, condition: Predicate | None, *, target: WriteTarget
) -> WriteResult | None:
    """Stage a DELETE's events in the driver; None where it is not that simple, or not few rows:
    then Spark carries it out.
    """
    if condition is None:
        return None
    parts = _rows(job, plan, condition, columns=columns_of(condition))
    return None if parts is None else _deleted(parts, target=target, action=DELETE)


def update_here(
    job: Job,
    plan: ScanPlan,
    condition: Predicate | None,
    literals: Mapping[str, object] | None,
    *,
    target: WriteTarget,
) -> WriteResult | None:
    """Stage an UPDATE's events in the driver; None where Spark has to, as ``delete_here``."""
    table = plan.snapshot.table
    if condition is None or literals is None or check_conditions(table) or not_null_columns(table):
        return None
    if job.context.settings.assigns_ansi(handed_in=False):
        return None
    assigned = [column for column in table.columns if column.name in literals]
    values = literal_columns([[literals[c.name] for c in assigned]], assigned)
    if values is None or len(assigned) < len(literals):
        return None
    parts = _rows(job, plan, condition, columns=table.column_names)
    if parts is None:
        return None
    written = _deleted(parts, target=target, action=UPDATE)
    if not parts:
        return written
    new = {c.name: value[0] for c, value in zip(assigned, values, strict=True)}
    images = pa.concat_tables(rows for _, rows in parts)
    arrays = [
        pa.repeat(new[column.name], images.num_rows) if column.name in new else array
        for column, array in zip(table.all_columns, stored(table, images), strict=True)
    ]
    rows = write_arrow(arrays, target=target, statement=target.update_insert_statement)
    return write_result(target, [*written.files, *rows.files])


def select_here(
    spark: SparkSession,
    lookup: Lookup,
    rows: RowsHere,
    *,
    otherwise: Callable[[], DataFrame],
) -> DataFrame | None:
    """The answer as a DataFrame that Spark has no part in where it is collected; None where it is
    for Spark. ``otherwise`` makes it by Spark.
    """
    table = rows.plan.snapshot.table
    kinds = {column.name: str(column.type).partition("(")[0] for column in table.columns}
    named = {name for name, _ in lookup.columns}
    if not named | columns_of(lookup.condition) <= kinds.keys() & set(rows.plan.columns):
        return None
    if not _GIVEN.issuperset(kinds[name] for name in named):
        return None
    if not _is_compared_alike(lookup.condition, table):
        return None
    return known_rows(spark, partial(_answer, lookup, rows), otherwise=otherwise)


def _answer(lookup: Lookup, rows: RowsHere) -> list[Row]:

    if not rows.batches:
        return []
    kinds = {column.name: column.type for column in rows.plan.snapshot.table.columns}
    expression = expression_of(lookup.condition, kinds)
    found = pa.Table.from_batches(rows.batches)
    found = found if expression is None else filtered(found, expression)
    row = Row(*(title for _, title in lookup.columns))
    values = (found.column(name).to_pylist() for name, _ in lookup.columns)
    return [row(*cells) for cells in zip(*values, strict=True)]


def _deleted(parts: list[Part], *, target: WriteTarget, action: int) -> WriteResult:
    gone = Gone()
    for values, rows in parts:
        gone.add(values, rows)
    return write_deletes(gone.keys(), target=target, action=action)


def _rows(
    job: Job, plan: ScanPlan, condition: Predicate, *, columns: Collection[str]
) -> list[Part] | None:
    """The rows that meet the condition; None where they are, or may be, too many."""
    table = plan.snapshot.table
    if table.acid_mode is not AcidMode.FULL or not _is_compared_alike(condition, table):
        return None
    if not is_for_driver(plan, bytes_max=job.context.settings.reads_local_bytes):
        return None
    expression = expression_of(condition, table.types)
    reader = TableReader(plan.files, table, frozenset(columns), plan.snapshot.valid, row_ids=True)
    parts: list[Part] = []
    count = 0
    for partition, batch in reader.rows_of(parts_of(plan)):
        rows = with_row_ids(batch)
        if expression is not None:
            rows = filtered(rows, expression)
        count += rows.num_rows
        if count > arrow_read.ROWS_MAX:
            return None
        if rows.num_rows:
            parts.append((partition.values, rows))
    return parts


def _is_compared_alike(condition: Predicate, table: Table) -> bool:
    """Whether Arrow's answer is Spark's for all that the condition compares."""
    if isinstance(condition, And | Or):
        return all(_is_compared_alike(part, table) for part in condition.parts)
    if isinstance(condition, Anything):
        return False
    if isinstance(condition, IsNull):
        return condition.column not in table.partition_keys
    kinds = {column.name: str(column.type) for column in table.all_columns}
    if condition.column in table.partition_keys and kinds[condition.column] not in INTEGER_BITS:
        return False  # Spark has texts of the default partition where Arrow has NULL
    known = _COMPARED.get(kinds.get(condition.column, ""))
    values = condition.values if isinstance(condition, In) else [condition.value]
    assert isinstance(condition, In | Compare)
    return all(type(value).__name__ == known for value in values)


_NAME: Final = r"`?(\w+)`?\s*\.\s*`?(\w+)`?"
_EQUAL: Final = re.compile(rf"\s*{_NAME}\s*=\s*{_NAME}\s*")
_VALUE: Final = re.compile(rf"\s*{_NAME}\s*")
_TOKEN: Final = re.compile(
    rf"\s*(?:'[^'\\]*'|(?P<number>\d+(?:\.\d+)?)\b|(?:{_NAME})"
    r"|\b(?:and|or|not|in|is|null|between|true|false)\b|<=>|<=|>=|<>|!=|==|=|<|>|\(|\)|,)",
    re.IGNORECASE,
)
_KEYS: Final = {*INTEGER_BITS, "string", "date", "boolean"}
_VALUES: Final = {*_KEYS, "float", "double", "timestamp", "binary"}
_ORDERED: Final = {*_KEYS, "timestamp", "timestamp_ntz"}
_MATCHED, _NEW = "__hiveacid_matched", "__hiveacid_new"
TARGET_LEAST_BYTES = 8 << 20
"""Spark's own join of less costs no more than asking for the size of the source."""
TARGET_FACTOR: Final = 16
"""The driver reads keys of so many times more bytes of the table than it takes of a source."""


@dataclass(frozen=True, slots=True)
class _Way:
    """Which columns of the source (their names in lower case) become which of the table."""

    on: Mapping[str, str]
    assigned: Mapping[str, str]
    fixed: Mapping[str, str]
    """those that may not change in a row that is updated by SET *"""
    inserted: Mapping[str, str]


def source_here(job: Job, plan: ScanPlan, statement: Merge, source: DataFrame) -> SourceRows | None:
    """The source's rows with what happens to each; None where the statement is for Spark. ``plan``
    is what may be read of the table.

    Raises:
        AcidError: Spark could not evaluate the source.
    """
    limit, table = job.context.settings.merge_local_bytes, plan.snapshot.table
    if not limit or not hasattr(source, "toArrow") or not _is_plain(statement, table):
        return None
    least = TARGET_LEAST_BYTES if statement.few is None else 0
    if not least <= plan.amount.bytes <= limit * TARGET_FACTOR:
        return None
    alias = statement.alias or table.name.table
    source_alias = statement.source_alias or "source"
    fields = {field.name.lower(): field for field in source.schema.fields}
    if len(fields) < len(source.columns):
        return None
    reader = _Reader(table, set(fields), alias.lower(), source_alias.lower())
    way = reader.way(statement)
    ansi = is_ansi(job.context.session())
    if way is None or not all(reader.is_simple(c.condition, ansi=ansi) for c in statement.clauses):
        return None
    columns = {column.name: column for column in table.all_columns}
    parts = (way.on, way.assigned, way.fixed, way.inserted)
    pairs = [pair for part in parts for pair in part.items()]
    if any(fields[name].dataType != spark_type(columns[target].type) for target, name in pairs):
        return None
    order = _order(statement, fields)
    if order is None:
        return None
    names = sorted({name for _, name in pairs})
    kinds = {name: type_text(stored_type(columns[target].type)) for target, name in pairs}
    texts = [
        f"cast({quoted(source_alias, fields[name].name)} as {kinds[name]}) as {quoted(name)}"
        for name in names
    ]
    texts += [f"{quoted(source_alias, name)} as {new}" for name, new in order.items()]
    frame = source.alias(source_alias).selectExpr(*texts, *_choices(statement))
    rows = _collected(job, frame, statement, limit)
    if rows is not None and statement.newest is not None:
        rows = newest_rows(rows, statement.newest.keys, list(order.values()))
    return None if rows is None else _source_rows(statement, columns, way, rows)


def _collected(job: Job, frame: DataFrame, statement: Merge, limit: int) -> pa.Table | None:
    """The rows; None where they are too many, or too much."""
    spark, few = job.context.session(), statement.few
    asks_more = any(clause.condition is not None for clause in statement.clauses)
    if few is not None:
        found = few_collected(spark, frame, few.rows, asks_more=asks_more, at=job.files.at)
        few.fits = found is not None
        return found
    estimate = estimated_bytes(spark, frame)
    if estimate is None or estimate > min(limit, driver_share(spark)):
        return None
    return collected(spark, frame, asks_more=asks_more, at=job.files.at)


def _order(statement: Merge, fields: Mapping[str, StructField]) -> Mapping[str, str] | None:
    """The columns that say which row of a key is the newest, with the names they get; None where
    their order, or what is a key, is only known to Spark.
    """
    newest = statement.newest
    if newest is None:
        return {}
    names = {name.lower(): f"__hiveacid_o{i}" for i, name in enumerate(newest.order_by)}
    if not {key.lower() for key in newest.keys} | names.keys() <= fields.keys():
        return None
    kinds = [fields[name].dataType.simpleString() for name in names]
    return names if all(k in _ORDERED or k.startswith("decimal(") for k in kinds) else None


def _is_plain(statement: Merge, table: Table) -> bool:
    """Whether the table and the kinds of clauses are such as the driver knows."""
    clauses = statement.clauses
    updates = sum(isinstance(one, MatchedUpdate) for one in clauses)
    inserts = sum(isinstance(one, NotMatchedInsert) for one in clauses)
    known = all(isinstance(o, MatchedUpdate | MatchedDelete | NotMatchedInsert) for o in clauses)
    buckets = {name.lower() for name in table.bucket_columns}
    placed = [*table.partition_columns, *(c for c in table.columns if c.name in buckets)]
    return (
        bool(clauses)
        and known
        and updates <= 1
        and inserts <= 1
        and table.acid_mode is AcidMode.FULL
        and not (statement.tables or statement.evolve or statement.added)
        and not (what_needs_spark(table, table.column_names))
        and not not_null_columns(table)
        and all(is_decimal_or(_KEYS, one.type) for one in placed)
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the texts of a MERGE as pairs of columns: of the table, and of the source."""

    table: Table
    source: set[str]
    alias: str
    source_alias: str

    def way(self, statement: Merge) -> _Way | None:
        """Which column of the source each column of the table is compared with, updated and
        inserted from; None where a text says more than names.
        """
        on = self._on(statement.on)
        assigned: dict[str, str] | None = {}
        inserted: dict[str, str] | None = {}
        fixed: dict[str, str] = {}
        for clause in statement.clauses:
            if isinstance(clause, MatchedUpdate):
                given = dict(clause.assignments)
                assigned = self._all(self.table.columns) if clause.all_columns else self._by(given)
                there = [name for name in self.table.partition_keys if name in self.source]
                fixed = dict(zip(there, there, strict=True)) if clause.all_columns else {}
            elif isinstance(clause, NotMatchedInsert):
                names = clause.columns or self.table.column_names
                values = dict(zip(names, clause.values, strict=False))
                everything = self._all(self.table.all_columns)
                inserted = everything if clause.all_columns else self._by(values)
                if inserted is None or what_needs_spark(self.table, inserted):
                    return None
        if on is None or assigned is None or inserted is None:
            return None
        kinds = {column.name: column for column in self.table.all_columns}
        written = {*assigned, *inserted}
        if not all(is_decimal_or(_KEYS, kinds[one].type) for one in on):
            return None
        if not all(is_decimal_or(_VALUES, kinds[one].type) for one in written):
            return None
        # what is equal stays as it is
        fresh = {target: name for target, name in assigned.items() if on.get(target) != name}
        fixed = {target: name for target, name in fixed.items() if on.get(target) != name}
        if on.keys() & {*fresh, *fixed}:
            return None
        return _Way(on, fresh, fixed, inserted)

    def _on(self, text: object) -> dict[str, str] | None:
        pairs: dict[str, str] = {}
        names = set(self.table.column_names)
        if not isinstance(text, str):
            return None
        for part in re.split(r"\band\b", text, flags=re.IGNORECASE):
            match = _EQUAL.fullmatch(part)
            if match is None:
                return None
            one, left, other, right = (word.lower() for word in match.groups())
            if (one, other) == (self.source_alias, self.alias):
                one, left, other, right = other, right, one, left
            if (one, other) != (self.alias, self.source_alias) or one == other or left in pairs:
                return None
            if left not in names or right not in self.source:
                return None
            pairs[left] = right
        return pairs

    def _all(self, columns: Sequence[Column]) -> dict[str, str] | None:
        names = [column.name for column in columns]
        return dict(zip(names, names, strict=True)) if self.source.issuperset(names) else None

    def _by(self, values: Mapping[str, object]) -> dict[str, str] | None:
        found, names = {}, set(self.table.column_names)
        for target, value in values.items():
            match = _VALUE.fullmatch(value) if isinstance(value, str) else None
            if match is None or target.lower() not in names:
                return None
            qualifier, name = (word.lower() for word in match.groups())
            if qualifier != self.source_alias or name not in self.source:
                return None
            found[target.lower()] = name
        return found

    def is_simple(self, condition: object, *, ansi: bool) -> bool:
        """Whether it only compares the source's columns with literals, and cannot fail."""
        if condition is None:
            return True
        if not isinstance(condition, str):
            return False
        at = 0
        text = condition.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None or match.end() == at:
                return False
            qualifier, name = match.group(2), match.group(3)
            if qualifier and (qualifier.lower(), name.lower() in self.source) != (
                self.source_alias,
                True,
            ):
                return False
            if match.group("number") and ansi:  # a text beside it might not convert
                return False
            at = match.end()
        return True


def _choices(statement: Merge) -> list[str]:
    """The clause that each row takes where it matches, and where it does not."""
    cases: dict[str, list[str]] = {_MATCHED: [], _NEW: []}
    for index, clause in enumerate(statement.clauses):
        name = _NEW if isinstance(clause, NotMatchedInsert) else _MATCHED
        condition = "true" if clause.condition is None else f"(\n{clause.condition}\n)"
        cases[name].append(f"when {condition} then {index}")
    return [
        f"cast({f'case {chr(32).join(found)} end' if found else 'null'} as int) as {name}"
        for name, found in cases.items()
    ]


def _source_rows(
    statement: Merge, columns: Mapping[str, Column], way: _Way, rows: pa.Table
) -> SourceRows:
    actions = np.full(rows.num_rows, TOUCH, dtype=np.int8)
    chosen = pc.fill_null(rows.column(_MATCHED), -1).to_numpy()
    fresh = rows.column(_NEW).is_valid().to_numpy()
    for index, clause in enumerate(statement.clauses):
        if not isinstance(clause, NotMatchedInsert):
            action = DELETE if isinstance(clause, MatchedDelete) else UPDATE
            actions[chosen == index] = action

    def taken(names: Mapping[str, str]) -> pa.Table:
        found = rows.select(list(names.values())).rename_columns(list(names))
        return pa.table({name: typed_column(found, columns[name]) for name in names})

    inserted = taken(way.inserted) if way.inserted else taken(way.on)
    return SourceRows(
        rows=taken({**way.assigned, **way.fixed, **way.on}),
        on=tuple(way.on),
        assigned=tuple(way.assigned),
        actions=actions,
        inserted=inserted,
        fresh=fresh,
        matches_once=any(not isinstance(one, NotMatchedInsert) for one in statement.clauses),
    )
