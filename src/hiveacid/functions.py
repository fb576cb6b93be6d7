"""Table functions for Spark's SQL: Python UDTFs that read tables of a metastore.

    from hiveacid import functions
    functions.register(acid)
    spark.sql("select * from table_changes('emp', 3, 9)")

``hiveacid.enable`` registers them by itself. It also goes on taking the statements that name
tables of ours, ``table_changes('emp', 3, 9)`` among them, and those are read by many tasks; a
function reads in one task, and gives Spark rows of Python. It serves text that only Spark sees:
EXECUTE IMMEDIATE, or a session that is not enabled.

    table_changes(table, first [, last])   what changed in these versions, or between these times,
                                           both ends included; its columns are the table's (PySpark
                                           4)
    table_history(table [, limit])         the commits that wrote to a table, the last first
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from hiveacid.connectors.options import FEED, Options
from hiveacid.errors import InvalidInputError
from hiveacid.model.history import moment_ms
from hiveacid.settings import Settings
from hiveacid.spark.jobs import own_calls
from hiveacid.statements.arguments import checked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType
    from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

    from hiveacid.session import Session

_MARK: Final = "spark.hiveacid.functions"
"""Spark's setting that names those of its functions that are ours."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The metastore whose tables a function reads, with what the session was told to do so; keys of
    object stores come from the environment of Spark's workers.
    """

    url: str
    settings: Mapping[str, str]

    def options(self, table: object, **more: str) -> Options:
        """What a reader of the table is told.

        Raises:
            InvalidInputError: the table is no text.
        """
        if not isinstance(table, str):
            raise InvalidInputError("The first argument is the name of a table, as a text")
        given = {name.lower(): value for name, value in more.items()}
        return Options(table, self.url, self.settings, given)


@checked
def register(acid: Session) -> tuple[str, ...]:
    """Registers the table functions in the Spark session of ``acid``, for the tables of its
    metastore; their names. A function of that name that is not ours stays.

    Example:
        >>> functions.register(acid)  # doctest: +SKIP
        ('table_changes', 'table_history')

    Raises:
        SparkNeededError: the session was connected without Spark.
    """
    spark = acid.spark
    unregister(spark)
    defaults = Settings()
    changed = {
        name: text
        for name, text in acid.settings.items()
        if text not in (defaults.get(name), "***")
    }
    place, made = _Place(acid.client.metastore.url, changed), []
    with own_calls():
        for name, function in _FUNCTIONS.items():
            if spark.catalog.functionExists(name):
                continue
            registered = function(place)
            if registered is not None:
                spark.udtf.register(name, registered)
                made.append(name)
    if made:
        spark.conf.set(_MARK, ",".join(made))
    return tuple(made)


def unregister(spark: SparkSession) -> None:
    """Takes the functions out of a Spark session; where there are none nothing happens."""
    names = spark.conf.get(_MARK, "")
    if not names:
        return
    with own_calls():
        for name in names.split(","):
            spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")
    spark.conf.unset(_MARK)


# -------------------------------------------------------------------- the functions
# Their classes are pickled by value, with the metastore in them.


def _table_changes(place: _Place) -> Any:
    """None before Spark 4: there a function cannot have the columns of its table."""
    from pyspark.sql import functions, udtf

    if not hasattr(udtf, "AnalyzeResult"):
        return None

    class TableChanges:
        def __init__(self, analyzed: AnalyzeResult) -> None:
            self._schema = analyzed.schema

        @staticmethod
        def analyze(
            table: AnalyzeArgument, first: AnalyzeArgument, last: AnalyzeArgument | None = None
        ) -> AnalyzeResult:
            from hiveacid.connectors.batch_read import table_schema, with_change_types

            _asked(first.value, None if last is None else last.value)
            return udtf.AnalyzeResult(with_change_types(table_schema(place.options(table.value))))

        def eval(self, table: str, first: object, last: object = None) -> Iterator[Any]:
            from hiveacid.connectors.batch_read import ChangesReader

            asked = place.options(table, **{FEED[0]: "true"}, **_asked(first, last))
            reader = ChangesReader(asked, self._schema)
            for partition in reader.partitions():
                for batch in reader.read(partition):
                    yield from _rows(batch, self._schema)

    return functions.udtf(TableChanges)


def _table_history(place: _Place) -> Any:
    from pyspark.sql import functions

    from hiveacid.statements.history import KINDS, DescribeHistory, history_listing

    class TableHistory:
        def eval(self, table: str, limit: int | None = None) -> Iterator[Any]:
            with place.options(table).connect() as session:
                described = DescribeHistory(session.table_name(table), limit)
                yield from history_listing(session.client.metastore, described).rows

    columns = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
    return functions.udtf(TableHistory, returnType=columns)


_FUNCTIONS: Final[Mapping[str, Callable[[_Place], Any]]] = {
    "table_changes": _table_changes,
    "table_history": _table_history,
}


def _asked(first: object, last: object) -> dict[str, str]:
    """The options for both ends, each a version or a time.

    Raises:
        InvalidInputError: one is neither.
    """
    found = {}
    for side, value in (("starting", first), ("ending", last)):
        if isinstance(value, datetime):  # Spark's, in the time zone of the process
            value = value.astimezone(timezone.utc)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            found[f"{side}Version"] = str(value)
        elif isinstance(value, (str, date)):
            moment_ms(value)
            found[f"{side}Timestamp"] = str(value)
        elif value is not None or side == "starting":
            raise InvalidInputError(
                f"A version is a whole number or a time, a constant, and not {value!r}"
            )
    return found


def _rows(batch: pa.RecordBatch, schema: StructType) -> Iterator[tuple[Any, ...]]:
    columns = [
        [_value(value, field.dataType) for value in column.to_pylist()]
        for field, column in zip(schema.fields, batch.columns, strict=True)
    ]
    return zip(*columns, strict=True)


def _value(value: Any, kind: DataType) -> Any:
    """A value of Arrow's as Spark takes it from Python."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if value is None:
        return None
    if isinstance(kind, MapType):
        return {_value(key, kind.keyType): _value(each, kind.valueType) for key, each in value}
    if isinstance(kind, ArrayType):
        return [_value(each, kind.elementType) for each in value]
    if isinstance(kind, StructType):
        return tuple(_value(value[field.name], field.dataType) for field in kind.fields)
    return value
