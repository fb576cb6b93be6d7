"""A DataFrame whose rows the driver knows: ``collect`` is no call to Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from hiveacid.spark.jobs import own_calls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


def known_rows(
    spark: SparkSession, rows: Callable[[], list[Row]], *, otherwise: Callable[[], DataFrame]
) -> DataFrame | None:
    """A DataFrame that collects ``rows``; for all else it becomes that of ``otherwise``, which is
    made when it is asked for. None on Spark Connect.
    """
    if getattr(spark, "_sc", None) is None:
        return None
    return cast("DataFrame", _class()(spark, rows, otherwise))


@cache
def _class() -> Any:
    from pyspark.sql.classic.dataframe import DataFrame

    class KnownRows(DataFrame):
        """What it has not itself, the handle of Spark's own above all, its other self has."""

        __module__ = DataFrame.__module__  # by which we and others tell a DataFrame of Spark's

        def __new__(cls, *_: object) -> Any:  # that of PySpark 4.0 takes two arguments
            return object.__new__(cls)

        def __init__(
            self, spark: SparkSession, rows: Callable[[], list[Row]], other: Callable[[], DataFrame]
        ) -> None:
            self._session = spark
            self._sc = spark._sc
            self.is_cached = False
            self._support_repr_html = False
            self._rows = rows
            self._make = other

        def collect(self) -> list[Row]:
            """All rows."""
            return self._rows()

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or "_make" not in self.__dict__:
                raise AttributeError(name)
            if "_other" not in self.__dict__:
                with own_calls():
                    self._other = self._make()
            return getattr(self._other, name)

    return KnownRows
