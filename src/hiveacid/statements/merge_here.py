"""MERGE of a small source through Spark, without a join of Spark's: the driver matches the keys.

Spark evaluates the source in one job, again only where a clause's condition fails for one of its
rows, or they are too many; ``driver_merge`` does the rest. A statement goes this
way where its text shows that both ways give the same rows: ON compares columns of one type, clauses
set and insert columns of the source as they are, and conditions compare them with literals. The
rest (expressions, casts, rows that no source row matches, constraints) is Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.model.tables import AcidMode, Column, Table
from hiveacid.model.types import INTEGER_BITS, DecimalType, PrimitiveType
from hiveacid.spark.assign import stored_type
from hiveacid.spark.conf import driver_share, is_ansi
from hiveacid.spark.text import quoted
from hiveacid.spark.types import spark_type
from hiveacid.spark.write import collected, estimated_bytes, few_collected
from hiveacid.statements.arrow_rows import typed_column, what_needs_spark
from hiveacid.statements.constraints import not_null_columns
from hiveacid.statements.driver_merge import SourceRows
from hiveacid.statements.matching import newest_rows
from hiveacid.statements.values import MatchedDelete, MatchedUpdate, Merge, NotMatchedInsert
from hiveacid.storage.stage import DELETE, TOUCH, UPDATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

    from hiveacid.statements.job import Job
    from hiveacid.storage.plan.scan_plan import ScanPlan

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
    kinds = {name: stored_type(columns[target].type).simpleString() for target, name in pairs}
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
    placed = [*table.partition_columns, *_bucketing(table)]
    return (
        bool(clauses)
        and known
        and updates <= 1
        and inserts <= 1
        and table.acid_mode is AcidMode.FULL
        and not (statement.tables or statement.evolve or statement.added)
        and not (what_needs_spark(table, [c.name for c in table.all_columns]))
        and not not_null_columns(table)
        and all(_is_of(one, _KEYS) for one in placed)
    )


def _bucketing(table: Table) -> list[Column]:
    names = set() if table.bucket is None else {name.lower() for name in table.bucket.columns}
    return [column for column in table.columns if column.name in names]


def _is_of(column: Column, names: set[str]) -> bool:
    kind = column.type
    return isinstance(kind, DecimalType) or (isinstance(kind, PrimitiveType) and kind.name in names)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the statement's texts."""

    table: Table
    source: set[str]
    alias: str
    source_alias: str

    def way(self, statement: Merge) -> _Way | None:
        """None where a text is another than the driver knows."""
        on = self._on(statement.on)
        assigned: dict[str, str] | None = {}
        inserted: dict[str, str] | None = {}
        fixed: dict[str, str] = {}
        for clause in statement.clauses:
            if isinstance(clause, MatchedUpdate):
                given = dict(clause.assignments)
                assigned = self._all(self.table.columns) if clause.all_columns else self._by(given)
                partition = [column.name for column in self.table.partition_columns]
                there = [name for name in partition if name in self.source]
                fixed = dict(zip(there, there, strict=True)) if clause.all_columns else {}
            elif isinstance(clause, NotMatchedInsert):
                names = clause.columns or tuple(c.name for c in self.table.all_columns)
                values = dict(zip(names, clause.values, strict=False))
                everything = self._all(self.table.all_columns)
                inserted = everything if clause.all_columns else self._by(values)
                if inserted is None or what_needs_spark(self.table, inserted):
                    return None
        if on is None or assigned is None or inserted is None:
            return None
        kinds = {column.name: column for column in self.table.all_columns}
        written = {*assigned, *inserted}
        if not all(_is_of(kinds[one], _KEYS) for one in on):
            return None
        if not all(_is_of(kinds[one], _VALUES) for one in written):
            return None
        # what is equal stays as it is
        fresh = {target: name for target, name in assigned.items() if on.get(target) != name}
        fixed = {target: name for target, name in fixed.items() if on.get(target) != name}
        if on.keys() & {*fresh, *fixed}:
            return None
        return _Way(on, fresh, fixed, inserted)

    def _on(self, text: object) -> dict[str, str] | None:
        found: dict[str, str] = {}
        names = {column.name for column in self.table.all_columns}
        if not isinstance(text, str):
            return None
        for part in re.split(r"\band\b", text, flags=re.IGNORECASE):
            match = _EQUAL.fullmatch(part)
            if match is None:
                return None
            one, left, other, right = (word.lower() for word in match.groups())
            if (one, other) == (self.source_alias, self.alias):
                one, left, other, right = other, right, one, left
            if (one, other) != (self.alias, self.source_alias) or one == other or left in found:
                return None
            if left not in names or right not in self.source:
                return None
            found[left] = right
        return found

    def _all(self, columns: Sequence[Column]) -> dict[str, str] | None:
        names = [column.name for column in columns]
        return dict(zip(names, names, strict=True)) if self.source.issuperset(names) else None

    def _by(self, values: Mapping[str, object]) -> dict[str, str] | None:
        found, names = {}, {column.name for column in self.table.all_columns}
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
