"""``HiveacidTable``: a table under the method names that Spark users know from other formats, for
code that is moved here; ``hiveacid.AcidTable`` is the same in Hive's words. Not part of
``hiveacid``'s own names: ``from hiveacid.tables import *``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from hiveacid.connectors.enable import enabled_acid
from hiveacid.connectors.frames import merge_of, table_named
from hiveacid.connectors.names import location_of, name_for, name_of_new, required_at, table_at
from hiveacid.connectors.strings import in_hives_words
from hiveacid.errors import (
    AlreadyExistsError,
    CompactionError,
    InvalidInputError,
    UnsupportedError,
    no_such_table,
)
from hiveacid.layout.directories import parse_partition_name
from hiveacid.model.compactions import CompactionInfo
from hiveacid.session import Session
from hiveacid.spark.jobs import own_calls
from hiveacid.spark.session import literal, quoted
from hiveacid.sql.parse import ParsedStatement
from hiveacid.statements.arguments import checked
from hiveacid.statements.history import DescribeHistory
from hiveacid.statements.values import DescribeDetail, InsertResult
from hiveacid.table import AcidTable, MergeBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


__all__ = ["HiveacidTable"]


def _told(of: AcidTable | MergeBuilder, given: Any) -> Any:
    """An expression, or a mapping to some; a text is read as Spark reads it."""

    def one(value: Any) -> Any:
        spark = cast("Session", of.session).spark
        return in_hives_words(spark, value) if isinstance(value, str) else value

    is_several = isinstance(given, Mapping)
    return {name: one(value) for name, value in given.items()} if is_several else one(given)


@checked
class HiveacidTable:
    """A table of a session that is enabled, by its name or where it lies."""

    def __init__(self, acid: AcidTable, name: str | None = None) -> None:
        self._acid = acid
        self._name = name

    @classmethod
    def forName(cls, spark: SparkSession, name: str) -> HiveacidTable:
        """The table of this name.

        Raises:
            NotFoundError: there is none.
            InvalidInputError: the session is not enabled.
        """
        found = table_named(enabled_acid(spark), name)
        if found is None:
            raise no_such_table(name)
        return cls(found)

    @classmethod
    def forPath(cls, spark: SparkSession, path: str) -> HiveacidTable:
        """The table that lies there.

        Raises:
            NotFoundError: none is registered there.
            InvalidInputError: the session is not enabled.
        """
        return cls(required_at(enabled_acid(spark), path))

    @classmethod
    def isHiveacidTable(cls, spark: SparkSession, path: str) -> bool:
        """Whether a table lies there."""
        return table_at(enabled_acid(spark), path) is not None

    @classmethod
    def create(cls, spark: SparkSession) -> TableBuilder:
        """Begins the definition of a table that must not exist."""
        return TableBuilder(enabled_acid(spark), "create")

    @classmethod
    def createIfNotExists(cls, spark: SparkSession) -> TableBuilder:
        """Begins the definition of a table that may exist: then it stays as it is."""
        return TableBuilder(enabled_acid(spark), "if_not_exists")

    @classmethod
    def replace(cls, spark: SparkSession) -> TableBuilder:
        """Begins the definition of a table that takes the place of one that exists."""
        return TableBuilder(enabled_acid(spark), "replace")

    @classmethod
    def createOrReplace(cls, spark: SparkSession) -> TableBuilder:
        """Begins the definition of a table that takes the place of one that may exist."""
        return TableBuilder(enabled_acid(spark), "or_replace")

    def toDF(self) -> DataFrame:
        """The rows as they are now."""
        frame = self._acid.df()
        return frame if self._name is None else frame.alias(self._name)

    def alias(self, aliasName: str) -> HiveacidTable:
        """The table under another name, for the expressions of a merge."""
        return HiveacidTable(self._acid, aliasName)

    def update(self, condition: Any = None, set: Mapping[str, Any] | None = None) -> None:
        """UPDATE; values are SQL texts or Columns.

        Raises:
            InvalidInputError: as ``AcidTable.update``.
        """
        if not set:
            raise InvalidInputError("update needs set={column: value}", argument="set")
        self._acid.update(_told(self._acid, set), where=_told(self._acid, condition))

    def delete(self, condition: Any = None) -> None:
        """DELETE of the rows that meet the condition; without it, of all."""
        self._acid.delete(where=_told(self._acid, condition))

    def history(self, limit: int | None = None) -> DataFrame:
        """DESCRIBE HISTORY, with numbers and times: the commits that wrote to the table, the last
        first.
        """
        return self._listed(DescribeHistory(self._acid.name, limit))

    def detail(self) -> DataFrame:
        """DESCRIBE DETAIL: one row that says how the table is."""
        return self._listed(DescribeDetail(self._acid.name))

    def restoreToVersion(self, version: int) -> DataFrame:
        """RESTORE TABLE ... TO VERSION AS OF; one row, ``num_restored_rows``.

        Raises:
            NotFoundError, SnapshotExpiredError: as ``AcidTable.restore``.
        """
        return self._restored(self._acid.restore(write_id=version))

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """The same, to the last version up to a time; one without a zone is UTC."""
        return self._restored(self._acid.restore(time=timestamp))

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """VACUUM: removes what no reader can need any more; a frame without rows.

        Raises:
            InvalidInputError: as ``AcidTable.clean``.
        """
        self._acid.clean(retain_hours=retentionHours)
        with own_calls():
            spark = cast("Session", self._acid.session).spark
            return spark.range(0).select()

    def optimize(self) -> Optimization:
        """Begins a compaction, which makes few files of many."""
        return Optimization(self._acid)

    def _listed(self, statement: DescribeHistory | DescribeDetail) -> DataFrame:
        session = self._acid.session
        frame: DataFrame = session.run(ParsedStatement(type(statement).__name__, 1, statement))
        return frame

    def _restored(self, done: InsertResult) -> DataFrame:
        with own_calls():
            spark = cast("Session", self._acid.session).spark
            return spark.range(1).selectExpr(f"{done.rows}L AS num_restored_rows")

    def merge(self, source: DataFrame, condition: Any) -> MergeClauses:
        """Begins a MERGE; the source is called as ``source.alias`` says."""
        name = self._name or self._acid.name.table
        on = _told(self._acid, condition)
        return MergeClauses(merge_of(self._acid, source, on, alias=name))


class Optimization:
    """A compaction in the making; ``executeCompaction`` carries it out."""

    def __init__(self, acid: AcidTable, conditions: tuple[str, ...] = ()) -> None:
        self._acid = acid
        self._conditions = conditions

    def where(self, partitionFilter: str) -> Optimization:
        """Only partitions for which this is true: ``"day >= '2026-11-01'"``."""
        return Optimization(self._acid, (*self._conditions, _told(self._acid, partitionFilter)))

    def executeCompaction(self) -> DataFrame:
        """Compacts, major, all that has something to do, and waits for it; a row for each
        compaction: ``compactionid`` and ``partition``, NULL of a table without.

        Raises:
            CompactionError: one failed.
            InvalidInputError: the table cannot be compacted, or a condition is not one of
            partitions.
        """
        session = cast("Session", self._acid.session)
        chosen: list[dict[str, str | None] | None] = [None]
        if self._conditions:
            name = self._acid.name
            text = f"SHOW PARTITIONS {quoted(name.database, name.table)} WHERE "
            shown: DataFrame = session.sql(text + " AND ".join(f"({c})" for c in self._conditions))
            found = [parse_partition_name(row[0]) for row in shown.collect()]
            chosen = [dict(values) for values in found if values is not None]
        done = [one for partition in chosen for one in self._compacted(partition)]
        rows = [(int(one.id), one.partition) for one in done]
        with own_calls():
            return session.spark.createDataFrame(rows, "compactionid bigint, partition string")

    def _compacted(self, partition: dict[str, str | None] | None) -> tuple[CompactionInfo, ...]:
        try:
            return self._acid.compact(partition=partition, wait=True)
        except CompactionError as error:
            if error.code != 10432:  # nothing to do
                raise
            return ()

    def executeZOrderBy(self, *cols: Any) -> DataFrame:
        """Is refused.

        Raises:
            UnsupportedError: always; it says what orders rows.
        """
        del cols
        raise UnsupportedError(
            "Rows are not ordered by several columns at once",
            note="compact('rebalance', order_by='day, id') of spark.acid.table(name) sorts them.",
        )


class MergeClauses:
    """A MERGE in the making; ``execute`` carries it out."""

    def __init__(self, builder: MergeBuilder) -> None:
        self._builder = builder

    def _with(self, clause: str, *given: Any, where: Any) -> MergeClauses:
        """One more clause, by the name that the builder has for it."""
        told = [_told(self._builder, one or {}) for one in given]
        add = getattr(self._builder, clause)
        return MergeClauses(add(*told, where=_told(self._builder, where)))

    def whenMatchedUpdate(
        self, condition: Any = None, set: Mapping[str, Any] | None = None
    ) -> MergeClauses:
        """WHEN MATCHED [AND condition] THEN UPDATE SET ..."""
        return self._with("when_matched_update", set, where=condition)

    def whenMatchedUpdateAll(self, condition: Any = None) -> MergeClauses:
        """WHEN MATCHED [AND condition] THEN UPDATE SET *"""
        return self._with("when_matched_update_all", where=condition)

    def whenMatchedDelete(self, condition: Any = None) -> MergeClauses:
        """WHEN MATCHED [AND condition] THEN DELETE"""
        return self._with("when_matched_delete", where=condition)

    def whenNotMatchedInsert(
        self, condition: Any = None, values: Mapping[str, Any] | None = None
    ) -> MergeClauses:
        """WHEN NOT MATCHED [AND condition] THEN INSERT (...) VALUES (...)"""
        return self._with("when_not_matched_insert", values, where=condition)

    def whenNotMatchedInsertAll(self, condition: Any = None) -> MergeClauses:
        """WHEN NOT MATCHED [AND condition] THEN INSERT *"""
        return self._with("when_not_matched_insert_all", where=condition)

    def whenNotMatchedBySourceUpdate(
        self, condition: Any = None, set: Mapping[str, Any] | None = None
    ) -> MergeClauses:
        """WHEN NOT MATCHED BY SOURCE [AND condition] THEN UPDATE SET ..."""
        return self._with("when_not_matched_by_source_update", set, where=condition)

    def whenNotMatchedBySourceDelete(self, condition: Any = None) -> MergeClauses:
        """WHEN NOT MATCHED BY SOURCE [AND condition] THEN DELETE"""
        return self._with("when_not_matched_by_source_delete", where=condition)

    def withSchemaEvolution(self) -> MergeClauses:
        """Columns that the table lacks are added to it."""
        return MergeClauses(self._builder.evolving())

    def execute(self) -> None:
        """Carry the MERGE out.

        Raises:
            CardinalityError: two source rows match one target row.
            InvalidInputError: as ``MergeBuilder.run``.
        """
        self._builder.run()


class TableBuilder:
    """A definition in the making: methods change it, ``execute`` makes the table."""

    def __init__(self, acid: Session, how: str) -> None:
        self._acid, self._how = acid, how
        self._name: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._columns: list[str] = []
        self._partitioned_by: tuple[str, ...] = ()
        self._properties: dict[str, str] = {}

    def tableName(self, identifier: str) -> TableBuilder:
        """What it is called."""
        self._name = identifier
        return self

    def location(self, location: str) -> TableBuilder:
        """Where it lies."""
        self._location = location_of(location)
        return self

    def comment(self, comment: str) -> TableBuilder:
        """What is said of it."""
        self._comment = comment
        return self

    def addColumn(
        self, colName: str, dataType: Any, nullable: bool = True, comment: str | None = None
    ) -> TableBuilder:
        """One more column; a type is a text or one of Spark's.

        Raises:
            InvalidInputError: it is not nullable: NOT NULL is said in SQL.
        """
        if not nullable:
            raise InvalidInputError("nullable=False: say NOT NULL in CREATE TABLE of SQL")
        kind = dataType if isinstance(dataType, str) else dataType.simpleString()
        said = "" if comment is None else f" comment {literal(comment)}"
        self._columns.append(f"{quoted(colName)} {kind}{said}")
        return self

    def addColumns(self, cols: Any) -> TableBuilder:
        """The columns of a schema, or a list of fields."""
        for field in getattr(cols, "fields", cols):
            said = field.metadata.get("comment") if field.metadata else None
            self.addColumn(field.name, field.dataType, comment=said)
        return self

    def partitionedBy(self, *cols: Any) -> TableBuilder:
        """The columns by which it is partitioned."""
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        self._partitioned_by = tuple(names)
        return self

    def property(self, key: str, value: str) -> TableBuilder:
        """One of its TBLPROPERTIES."""
        self._properties[key] = value
        return self

    def execute(self) -> HiveacidTable:
        """Make the table.

        Raises:
            AlreadyExistsError, NotFoundError: it must not, or must, exist.
            InvalidInputError: the definition is refused.
        """
        acid, where = self._acid, self._location
        there = None if where is None else table_at(acid, where)
        name = self._name
        if name is None:
            if where is None:
                raise InvalidInputError("The table needs a tableName or a location")
            name = name_for(acid, where) if there is None else str(there.name)
        if self._how == "create" and there is not None:
            raise AlreadyExistsError(f"Table {there.name} lies at {where} already")
        if self._how == "replace" and table_named(acid, name, views_hide=False) is None:
            raise no_such_table(name)
        made = acid.create_table(
            name_of_new(acid, name),
            ", ".join(self._columns),
            partitioned_by=self._partitioned_by,
            properties=self._properties,
            comment=self._comment,
            location=where,
            if_not_exists=self._how == "if_not_exists",
            or_replace=self._how in ("replace", "or_replace"),
        )
        return HiveacidTable(made)
