"""``spark.readStream`` and ``df.writeStream`` on a session that is enabled: streams from and into
tables of ours are those of ``format("hiveacid")``, which Spark has from version 4 on.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from hiveacid.connectors.frames import Told, dressed, table_named, written_text
from hiveacid.connectors.paths import FORMAT, ensure_database, location_of, name_for, table_at
from hiveacid.errors import InvalidInputError, NotFoundError, UnsupportedError
from hiveacid.sql import parse_table_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.session import Session
    from hiveacid.table import AcidTable


def read_stream(acid: Session, original: Any, spark: object) -> Any:
    """``SparkSession.readStream``."""
    return dressed(_StreamReader, original, acid, owner=spark)


def write_stream(acid: Session, original: Any, frame: object) -> Any:
    """``DataFrame.writeStream``."""
    return dressed(_StreamWriter, original, acid, owner=frame)


def _check(acid: Session, instead: str) -> None:
    """Streams of Python data sources are there from Spark 4 on.

    Raises:
        UnsupportedError: it is an older one.
    """
    if int(acid.spark.version.partition(".")[0]) < 4:
        raise UnsupportedError(
            f"Spark {acid.spark.version} has no streams of Python data sources", note=instead
        )


class _Stream(Told):
    """Names the table and the metastore to the data source."""

    def _name(self, ours: AcidTable) -> None:
        for key, value in (("table", ours.name), ("metastore", self._acid.client.metastore.url)):
            if key not in self._given:
                self.option(key, str(value))
        self.format(FORMAT)

    def _named(self, path: str | PathLike[str] | None) -> tuple[AcidTable | None, str | None]:
        """The table that options or a path name, and the path; the other is of no use then."""
        where = path or self._given.get("path")
        if (where is None) is ("table" not in self._given):
            raise InvalidInputError(
                "A stream of format('hiveacid') needs a path, or option('table', name)"
            )
        if where is not None:
            return table_at(self._acid, fspath(where)), fspath(where)
        return table_named(self._acid, self._given["table"]), None


class _StreamReader(_Stream):
    def table(self, tableName: str) -> DataFrame:
        ours = table_named(self._acid, tableName)
        if ours is None:
            return super().table(tableName)  # type: ignore[misc,no-any-return]
        return self._stream(ours)

    def load(
        self,
        path: str | None = None,
        format: str | None = None,
        schema: Any = None,
        **options: Any,
    ) -> DataFrame:
        if format is not None:
            self.format(format)
        self.options(**options)
        if not self.is_ours or "metastore" in self._given:
            return super().load(path, schema=schema)  # type: ignore[misc,no-any-return]
        ours, where = self._named(path)
        if ours is None:
            name = where or self._given["table"]
            raise NotFoundError(f"Table not found {name}", code=10001, table=str(name))
        return self._stream(ours)

    def _stream(self, ours: AcidTable) -> DataFrame:
        _check(self._acid, "acid.table(name).df() reads what is there now")
        self._name(ours)
        return super().load()  # type: ignore[misc,no-any-return]


class _StreamWriter(_Stream):
    def partitionBy(self, *cols: Any) -> Any:
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        self._told["partitioned_by"] = tuple(names)
        return self

    def start(self, path: str | None = None, format: str | None = None, **rest: Any) -> Any:
        if format is not None:
            self.format(format)
        if not self.is_ours:
            return self._original(path, rest)
        self._take(rest)
        if "metastore" in self._given:
            return super().start(path)  # type: ignore[misc]
        ours, where = self._named(path)
        if ours is None:
            name = name_for(self._acid, where) if where else str(self._given["table"])
            ours = self._create(name, location=None if where is None else location_of(where))
        return self._stream(ours)

    def toTable(self, tableName: str, format: str | None = None, **rest: Any) -> Any:
        if format is not None:
            self.format(format)
        ours = table_named(self._acid, tableName)
        if ours is None and not self.is_ours:
            if "partitioned_by" in self._told:
                super().partitionBy(*self._told["partitioned_by"])  # type: ignore[misc]
            return super().toTable(tableName, **rest)  # type: ignore[misc]
        self._take(rest)
        return self._stream(ours or self._create(tableName, location=None))

    def _original(self, path: str | None, rest: Any) -> Any:
        if "partitioned_by" in self._told:
            super().partitionBy(*self._told["partitioned_by"])  # type: ignore[misc]
        return super().start(path, **rest)  # type: ignore[misc]

    def _take(self, rest: dict[str, Any]) -> None:
        """The arguments that builder methods take as well."""
        for name in ("outputMode", "partitionBy", "queryName"):
            value = rest.pop(name, None)
            if value is not None:
                getattr(self, name)(value)
        self.options(**rest)

    def _create(self, name: str, *, location: str | None) -> AcidTable:
        ensure_database(self._acid, parse_table_name(name))
        frame: DataFrame = self._owner
        partitioned_by = self._told.get("partitioned_by", ())
        made = self._acid.create_table(
            name, frame.schema, partitioned_by=partitioned_by, location=location
        )
        return self._acid.table(written_text(made.name))

    def _stream(self, ours: AcidTable) -> Any:
        _check(self._acid, "df.writeStream.foreachBatch(hiveacid.foreach_batch(acid, name))")
        self._name(ours)
        return super().start()  # type: ignore[misc]
