"""``AcidTable``: a table as a handle, and the immutable builders of statements on it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from hiveacid.errors import InvalidInputError
from hiveacid.health import TableHealth
from hiveacid.model.compactions import CompactionInfo
from hiveacid.model.tables import Column, Table, TableName
from hiveacid.past import TablePast, TableTags
from hiveacid.reading.changes import TableChanges
from hiveacid.spark.session import quoted
from hiveacid.sql.parameters import condition_given, expression_given, is_column
from hiveacid.statements.analyze import Analyze
from hiveacid.statements.arguments import checked, wrong_argument
from hiveacid.statements.compact import Compact
from hiveacid.statements.context import OpenSession
from hiveacid.statements.load import Load
from hiveacid.statements.partition_values import partition_texts
from hiveacid.statements.session_state import LockTable, UnlockTable
from hiveacid.statements.values import (
    Delete,
    DeleteResult,
    Expression,
    Insert,
    InsertResult,
    LoadResult,
    MatchedDelete,
    MatchedUpdate,
    Merge,
    MergeClause,
    MergeResult,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    Update,
    UpdateResult,
    shortened,
)
from hiveacid.writing import delete_arrow, frame_or_table, in_session_zone, merge_arrow, write_arrow


@checked
@dataclass(frozen=True, slots=True)
class AcidTable(TableHealth, TableChanges, TablePast, TableTags):
    """A handle on a table; holds nothing but its name, so it is never out of date."""

    session: OpenSession
    name: TableName

    def __repr__(self) -> str:
        return f"<AcidTable {shortened(str(self.name))}>"

    @property
    def definition(self) -> Table:
        """Columns, partition columns, buckets, location, properties.

        Raises:
            NotFoundError: the table was dropped.
        """
        return self.session.table_definition(self.name)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, partition columns last."""
        return tuple(column.name for column in self._all_columns())

    def _all_columns(self) -> tuple[Column, ...]:
        return self.definition.all_columns

    def insert(
        self,
        rows: object,
        *,
        columns: Sequence[str] = (),
        partition: Mapping[str, object] | None = None,
        by_name: bool = True,
        evolve: bool = False,
    ) -> InsertResult:
        """Append rows, their columns found by name (``by_name=False``: by position).

        ``rows`` is a DataFrame, or what the driver has (Arrow, pandas, Polars, a list of dicts),
        which it writes without a Spark job. ``columns`` are those that the rows have; the others
        get their default. ``partition`` fixes partition columns by their text; the others come
        from the rows. With ``evolve`` columns that the table lacks are added to it, by the same
        commit, and those that the rows lack get their default.

        Raises:
            InvalidInputError: the columns do not fit.
            ConversionError: a value does not fit its column (unless ``store_assignment=hive``).
        """
        return self._insert(rows, columns, partition, by_name, evolve, overwrite=False)

    def overwrite(
        self,
        rows: object,
        *,
        columns: Sequence[str] = (),
        partition: Mapping[str, object] | None = None,
        by_name: bool = True,
        evolve: bool = False,
        whole: bool = False,
    ) -> InsertResult:
        """INSERT OVERWRITE: replace the table, its partition ``partition``, or the partitions the
        rows go to; with ``whole`` the others are emptied, too.

        Raises:
            InvalidInputError, ConversionError: as ``insert``.
        """
        return self._insert(rows, columns, partition, by_name, evolve, overwrite=True, whole=whole)

    def _insert(
        self,
        rows: object,
        columns: Sequence[str],
        partition: Mapping[str, object] | None,
        by_name: bool,
        evolve: bool,
        *,
        overwrite: bool,
        whole: bool = False,
    ) -> InsertResult:
        if evolve and not by_name:
            raise InvalidInputError("evolve finds columns by name: leave by_name=False out")
        source = frame_or_table(rows, argument="rows", columns=self._all_columns)
        statement = Insert(
            table=self.name,
            source=in_session_zone(source, self.session, self._all_columns),
            columns=tuple(columns),
            partition=dict(partition_texts(partition)),
            overwrite=overwrite,
            by_name=by_name,
            evolve=evolve,
            whole=whole,
        )
        return cast(InsertResult, self.session.execute(statement))

    def load(
        self,
        path: str,
        *,
        overwrite: bool = False,
        partition: Mapping[str, object] | None = None,
        local: bool = False,
    ) -> LoadResult | InsertResult:
        """LOAD DATA: take files as they are, all of a directory's; moved, or copied (``local``).

        A bucketed table, a partition that the rows decide and nested directories make it an INSERT
        of the files' rows, as in Hive.

        Raises:
            InvalidInputError: no such files, or files of another format than the table's.
        """
        spec = partition_texts(partition)
        statement = Load(self.name, path, local=local, overwrite=overwrite, partition=spec)
        return cast("LoadResult | InsertResult", self.session.execute(statement))

    def update(
        self, assignments: Mapping[str, object], *, where: Expression | None = None
    ) -> UpdateResult:
        """UPDATE SET column = value for the rows that meet ``where``.

        A value is SQL text (``"pay * 2"``, ``"'Ann'"``), a ``Column``, or any other value of
        Python's: a number, a date, bytes, a list, None.

        Raises:
            InvalidInputError: 10292, 10297, 10302, 10408, 10414 as Hive; a value of no such type.
        """
        given = _assigned(assignments, self.name.table)
        statement = Update(self.name, given, condition_given(where))
        return cast(UpdateResult, self.session.execute(statement))

    def delete(self, where: Expression | None = None) -> DeleteResult:
        """DELETE the rows that meet ``where``; without it, all (a TRUNCATE, as in Hive).

        Raises:
            InvalidInputError: 10297, 10414 as Hive.
        """
        return cast(DeleteResult, self.session.execute(Delete(self.name, condition_given(where))))

    def analyze(
        self,
        *,
        columns: Sequence[str] | None = None,
        partition: Mapping[str, object] | None = None,
    ) -> None:
        """ANALYZE TABLE: count rows and files; ``columns`` takes statistics of columns, too (empty:
        of all). ``partition`` narrows it to the partitions with these values.

        Raises:
            InvalidInputError: 10091 a view, 10002 no such column.
            NotFoundError: 10006 no such partition.
        """
        names = None if columns is None else tuple(name.lower() for name in columns)
        self.session.execute(Analyze(self.name, partition_texts(partition), names))

    def compact(
        self,
        kind: str = "major",
        *,
        partition: Mapping[str, object] | None = None,
        wait: bool = False,
        pool: str | None = None,
        properties: Mapping[str, str] | None = None,
        order_by: str | None = None,
        buckets: int | None = None,
    ) -> tuple[CompactionInfo, ...]:
        """ALTER TABLE ... COMPACT: ask for a compaction, with ``wait`` until it is done; the
        entries of the queue.

        ``kind`` is ``major``, ``minor`` or ``rebalance``; ``order_by`` and ``buckets`` are for a
        rebalance. A partitioned table without ``partition``: whatever the thresholds ask for.

        Raises:
            InvalidInputError: 10282, 10284, 10286, or what this table cannot be compacted to.
            NotFoundError: 10006 no such partition.
            CompactionError: 10432, one is on its way; or it failed.
        """
        from hiveacid.sql import parse_sort_items

        value = Compact(
            self.name,
            str(kind).lower(),
            partition_texts(partition),
            wait,
            properties or {},
            pool,
            buckets,
            () if order_by is None else parse_sort_items(order_by),
        )
        return cast("tuple[CompactionInfo, ...]", self.session.execute(value))

    def merge(
        self,
        source: object,
        *,
        on: Expression | Sequence[str],
        alias: str = "t",
        source_alias: str = "s",
        evolve: bool = False,
    ) -> MergeBuilder:
        """Begin a MERGE; expressions name the target's columns ``t.x`` and the source's ``s.x``.

        ``source`` is rows as ``insert`` takes them. ``on`` is a condition, or the names of columns
        that are equal on both sides: ``on="id"``, ``on=["id", "day"]``. With ``evolve`` the table
        gets the columns of the source that clauses assign by name, and of those that ``*`` takes
        all that no condition names.

        Raises:
            InvalidInputError: an argument that is of no such type.
        """
        rows = frame_or_table(source, argument="source", columns=self._all_columns)
        condition = _equal_columns(on, alias, source_alias)
        return MergeBuilder(
            self.session,
            Merge(
                self.name,
                rows,
                condition,
                (),
                alias=alias,
                source_alias=source_alias,
                evolve=evolve,
            ),
        )

    def lock(
        self, *, exclusive: bool = False, partition: Mapping[str, object] | None = None
    ) -> None:
        """LOCK TABLE: the session keeps others from the table, or from one partition of it, until
        ``unlock`` or its end; from changing its definition only, unless ``exclusive``.

        Raises:
            LockError: not granted before the deadline.
            InvalidInputError: not transactional, or within a transaction.
            NotFoundError: no such partition.
        """
        self.session.execute(LockTable(self.name, partition_texts(partition), exclusive))

    def unlock(self, *, partition: Mapping[str, object] | None = None) -> None:
        """UNLOCK TABLE: gives back what ``lock`` took, given the same ``partition``.

        Raises:
            NotFoundError: the session holds no such lock.
        """
        self.session.execute(UnlockTable(self.name, partition_texts(partition)))

    def write_arrow(
        self,
        data: object,
        *,
        overwrite: bool = False,
        partition: Mapping[str, object] | None = None,
        evolve: bool = False,
    ) -> InsertResult:
        """``hiveacid.write_arrow`` to this table."""
        return write_arrow(self, data, overwrite=overwrite, partition=partition, evolve=evolve)

    def delete_arrow(self, keys_or_filter: object) -> DeleteResult:
        """``hiveacid.delete_arrow`` from this table."""
        return delete_arrow(self, keys_or_filter)

    def merge_arrow(
        self,
        data: object,
        *,
        on: str | Sequence[str],
        when_matched: str | None = "update",
        when_not_matched: str | None = "insert",
        delete_where: str | None = None,
        evolve: bool = False,
    ) -> MergeResult:
        """``hiveacid.merge_arrow`` into this table."""
        return merge_arrow(
            self,
            data,
            on=on,
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            delete_where=delete_where,
            evolve=evolve,
        )


@checked
@dataclass(frozen=True, slots=True)
class MergeBuilder:
    """A MERGE in the making: each method returns a new builder, ``run`` carries it out.

    The first clause whose condition holds applies to a row, in the order in which they were added.
    """

    session: OpenSession
    statement: Merge

    def __repr__(self) -> str:
        kinds = ", ".join(type(clause).__name__ for clause in self.statement.clauses)
        return f"<MergeBuilder {shortened(str(self.statement.table))} [{shortened(kinds)}]>"

    def when_matched_update(
        self, assignments: Mapping[str, object], *, where: Expression | None = None
    ) -> MergeBuilder:
        """WHEN MATCHED [AND where] THEN UPDATE SET ...; values as those of ``AcidTable.update``."""
        given = _assigned(assignments, self.statement.alias)
        return self._with(MatchedUpdate(given, condition_given(where)))

    def when_matched_update_all(self, *, where: Expression | None = None) -> MergeBuilder:
        """WHEN MATCHED [AND where] THEN UPDATE SET *: every column from the source's of the same
        name.
        """
        return self._with(MatchedUpdate((), condition_given(where), all_columns=True))

    def when_matched_delete(self, *, where: Expression | None = None) -> MergeBuilder:
        """WHEN MATCHED [AND where] THEN DELETE."""
        return self._with(MatchedDelete(condition_given(where)))

    def when_not_matched_insert(
        self, values: Mapping[str, object], *, where: Expression | None = None
    ) -> MergeBuilder:
        """WHEN NOT MATCHED [AND where] THEN INSERT (columns) VALUES (...)."""
        given = _assigned(values, self.statement.alias)
        names, texts = tuple(name for name, _ in given), tuple(text for _, text in given)
        return self._with(NotMatchedInsert(names, texts, condition_given(where)))

    def when_not_matched_insert_all(self, *, where: Expression | None = None) -> MergeBuilder:
        """WHEN NOT MATCHED [AND where] THEN INSERT *."""
        return self._with(NotMatchedInsert((), (), condition_given(where), all_columns=True))

    def when_not_matched_by_source_update(
        self, assignments: Mapping[str, object], *, where: Expression | None = None
    ) -> MergeBuilder:
        """WHEN NOT MATCHED BY SOURCE [AND where] THEN UPDATE SET ..."""
        given = _assigned(assignments, self.statement.alias)
        return self._with(NotMatchedBySourceUpdate(given, condition_given(where)))

    def when_not_matched_by_source_delete(self, *, where: Expression | None = None) -> MergeBuilder:
        """WHEN NOT MATCHED BY SOURCE [AND where] THEN DELETE."""
        return self._with(NotMatchedBySourceDelete(condition_given(where)))

    def evolving(self) -> MergeBuilder:
        """The same with ``evolve``."""
        return replace(self, statement=replace(self.statement, evolve=True))

    def run(self) -> MergeResult:
        """Carry the MERGE out.

        Raises:
            CardinalityError: two source rows match one target row.
            InvalidInputError: 10404 to 10406 and others, as Hive.
        """
        return cast(MergeResult, self.session.execute(self.statement))

    def _with(self, clause: MergeClause) -> MergeBuilder:
        clauses = (*self.statement.clauses, clause)
        return replace(self, statement=replace(self.statement, clauses=clauses))


_NAME: Final = re.compile(r"\s*(?!\d+\s*$)(\w+|`(?:[^`]|``)+`)\s*")


def _assigned(
    values: Mapping[str, object], alias: str | None
) -> tuple[tuple[str, Expression], ...]:
    """Names may be in back-quotes, and stand behind the table's, as in SQL."""
    if not values:
        raise InvalidInputError("no column to assign: give a mapping of columns and their values")
    return tuple(
        (_column_name(name, alias), expression_given(name, value)) for name, value in values.items()
    )


def _column_name(name: str, alias: str | None) -> str:
    table, dot, column = name.partition(".")
    is_behind = dot and alias is not None and _unquoted(table).lower() == alias.lower()
    return _unquoted(column if is_behind else name)


def _unquoted(name: str) -> str:
    name = name.strip()
    return name[1:-1].replace("``", "`") if name[:1] == "`" else name


def _equal_columns(on: object, alias: str, source_alias: str) -> Expression:
    """A condition from the names of columns that are equal; another condition as it is."""
    names = equal_columns(on)
    if names is None:
        return cast("Expression", on)
    return " AND ".join(f"{alias}.{quoted(name)} = {source_alias}.{quoted(name)}" for name in names)


def equal_columns(on: object) -> list[str] | None:
    """The columns that ``on`` names as equal on both sides; None where it is a condition.

    Raises:
        InvalidInputError: it is neither, or names no column.
    """
    if is_column(on) or (isinstance(on, str) and not _NAME.fullmatch(on)):
        return None
    names = [on] if isinstance(on, str) else on
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise wrong_argument("on", "a condition, or names of columns", on)
    if not names:
        raise InvalidInputError("on names no column")
    return [_unquoted(name) for name in names]
