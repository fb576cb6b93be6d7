"""The catalog as the SQL room wants to see it: our tables, and Spark's temporary views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.errors import NotFoundError
from hiveacid.metastore.api import Catalog
from hiveacid.model.tables import Table, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CatalogNames:
    """Looks names up for ONE statement: every answer is remembered, so a statement sees one
    catalog.
    """

    def __init__(self, catalog: Catalog, *, database: str, spark: SparkSession | None) -> None:
        self._catalog = catalog
        self._database = database
        self._spark = spark
        self._tables: dict[TableName, Table | None] = {}
        self._views: dict[str, bool] = {}

    @property
    def current_database(self) -> str:
        """The session's current database."""
        return self._database

    def table(self, name: TableName) -> Table | None:
        """A table of ours, or None."""
        if name not in self._tables:
            try:
                self._tables[name] = self._catalog.get_table(name)
            except NotFoundError:
                self._tables[name] = None
        return self._tables[name]

    def is_temporary_view(self, name: str) -> bool:
        """True if Spark has a temporary view of this name."""
        key = name.lower()
        if key not in self._views:
            self._views[key] = self._spark is not None and _is_temporary(self._spark, name)
        return self._views[key]


def _is_temporary(spark: SparkSession, name: str) -> bool:
    from pyspark.errors import PySparkException

    try:
        return bool(spark.catalog.getTable("`" + name.replace("`", "``") + "`").isTemporary)
    except PySparkException:  # there is nothing of that name
        return False
