"""``spark.table`` and ``spark.read`` on a session that is enabled, and what readers and writers
have in common: Spark's own objects get a class of ours above their own, which keeps what they were
told and takes over where a table is one of ours.

So are ``df.mergeInto(...)`` of Spark 4, and streams: ``spark.readStream`` and ``df.writeStream`` on
a session that is enabled: streams from and into tables of ours are those of ``format("hiveacid")``,
which Spark has from version 4 on.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from hiveacid.connectors.names import (
    FORMAT,
    is_table_of_ours,
    location_of,
    name_for,
    name_of_new,
    parts_of,
    required_at,
    table_at,
    without_catalog,
    written_text,
)
from hiveacid.connectors.options import (
    FEED,
    SINK,
    SOURCE,
    TRAVEL,
    Options,
    changes_asked,
    range_asked,
    version_asked,
)
from hiveacid.errors import (
    AcidError,
    InvalidInputError,
    NotFoundError,
    SqlSyntaxError,
    UnsupportedError,
    no_such_table,
)
from hiveacid.session import Session
from hiveacid.spark.workers import chosen_python, is_local
from hiveacid.sql import parse_table_name
from hiveacid.statements.select import open_changes
from hiveacid.table import AcidTable, MergeBuilder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


ALIAS: Final = "_hiveacid_alias"


def table_named(acid: Session, name: object, *, views_hide: bool = True) -> AcidTable | None:
    """The table or view of ours that a name in Python means; as ``is_table_of_ours``."""
    try:
        written = parse_table_name(without_catalog(name)) if isinstance(name, str) else None
    except SqlSyntaxError:  # three parts: of another catalog
        return None
    if written is None or not is_table_of_ours(acid.look(), written, views_hide=views_hide):
        return None
    return acid.table(written_text(written))


# -------------------------------------------------------------------- in the place of Spark's


def table(acid: Session, original: Callable[[str], DataFrame], tableName: str) -> DataFrame:
    """``SparkSession.table``."""
    ours = table_named(acid, tableName)
    return original(tableName) if ours is None else ours.df()


def alias(_: Session, original: Callable[[str], Any], alias: str) -> Any:
    """``DataFrame.alias``: a source of MERGE is called so, which only Spark's plan would tell."""
    made = original(alias)
    setattr(made, ALIAS, alias)
    return made


def dressed(ours: type, acid: Session, value: Any, owner: Any) -> Any:
    """The same object of Spark's, its methods below those of ``ours``; ``owner`` is the session or
    the DataFrame that it belongs to.
    """
    made = copy.copy(value)
    sparks: type = type(value)
    made.__class__ = _class(ours, sparks)
    made._acid, made._owner, made._told, made._given = acid, owner, {}, {}
    return made


@cache
def _class(ours: type, sparks: type) -> type:
    return type(sparks.__name__, (ours, sparks), {})


class Told:
    """What a reader or writer was told: its format, mode and options."""

    _acid: Session
    _owner: Any
    _told: dict[str, Any]
    _given: dict[str, Any]
    """Options, by their names in lower case."""

    def format(self, source: str) -> Any:
        """As Spark's."""
        self._told["format"] = source
        return super().format(source)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        """As Spark's."""
        self._given[key.lower()] = value
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        """As Spark's."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def tell_partitions(self, columns: tuple[Any, ...]) -> None:
        """Of ``partitionBy``: names, or one list of them."""
        names = (
            columns[0] if len(columns) == 1 and isinstance(columns[0], list | tuple) else columns
        )
        self._told["partitioned_by"] = tuple(names)

    @property
    def is_ours(self) -> bool:
        """Whether it was told our format."""
        return str(self._told.get("format", "")).lower() == FORMAT

    def known_options(self, known: Sequence[str]) -> Mapping[str, str]:
        """The options that were given, by the names in ``known``.

        Raises:
            UnsupportedError: another one.
        """
        names = {name.lower(): name for name in known}
        for key in self._given:
            if key not in names:
                others = f"; they take {', '.join(known)}" if known else ""
                raise UnsupportedError(
                    f"Tables of ours take no option {key} here{others}", option=key
                )
        given = {key: value for key, value in self._given.items() if value is not None}
        return {names[key]: str(value) for key, value in given.items()}


# -------------------------------------------------------------------- reading


class _Tables(Told):
    """What readers of rows and of streams have in common."""

    _rows: Callable[[AcidTable], DataFrame]
    """The rows of a table of ours, as it was told to read them."""

    def table(self, tableName: str) -> DataFrame:
        ours = table_named(self._acid, tableName)
        if ours is None:
            return super().table(tableName)  # type: ignore[misc,no-any-return]
        return self._rows(ours)


class _Reader(_Tables):
    def load(
        self,
        path: str | PathLike[str] | list[str] | None = None,
        format: str | None = None,
        schema: Any = None,
        **options: Any,
    ) -> DataFrame:
        if format is not None:
            self.format(format)
        if not self.is_ours or "metastore" in self._given or "metastore" in options:
            if self.is_ours:
                make_found(self._acid)
            return super().load(path, schema=schema, **options)  # type: ignore[misc,no-any-return]
        self.options(**options)
        name, where = self._given.pop("table", None), path or self._given.pop("path", None)
        if isinstance(where, list | tuple) and len(where) == 1:
            where = where[0]
        if schema is not None or (name is None) is (where is None) or isinstance(where, list):
            raise InvalidInputError(
                "format('hiveacid') reads one table: .load(path), or .option('table', name).load(),"
                " without a schema"
            )
        if where is None:
            return self._rows(self._acid.table(str(name)))
        place: Any = where
        return self._rows(required_at(self._acid, fspath(place)))

    def _rows(self, ours: AcidTable) -> DataFrame:
        given = self.known_options((*TRAVEL, *FEED))
        more = {name.lower(): text for name, text in given.items()}
        options = Options(written_text(ours.name), None, {}, more)
        if changes_asked(options):
            context = ours.session.reading_context()
            asked = range_asked(options)
            return open_changes(context, ours.definition, asked, None).frame(context)
        wanted = version_asked(more)
        return ours.df() if wanted is None else ours.as_of(wanted).df()


def merge_into(
    acid: Session, original: Callable[[str, Column], Any], table: str, condition: Column
) -> Any:
    """``DataFrame.mergeInto``; ``original`` is bound to the source."""
    ours = table_named(acid, table)
    if ours is None:
        return original(table, condition)
    source: DataFrame = original.__self__  # type: ignore[attr-defined]
    return MergeInto(merge_of(ours, source, condition, alias=parts_of(table)[-1]))


def merge_of(ours: AcidTable, source: DataFrame, condition: Any, *, alias: str) -> MergeBuilder:
    """A MERGE of rows under the name that they were given by ``alias``."""
    name = getattr(source, ALIAS, None) or "source"
    return ours.merge(source, on=condition, alias=alias, source_alias=name)


class MergeInto:
    """As ``pyspark.sql.MergeIntoWriter``: clauses change it, ``merge`` carries it out."""

    def __init__(self, builder: MergeBuilder) -> None:
        self._builder = builder

    def whenMatched(self, condition: Column | None = None) -> _Clause:
        """Rows that match: ``updateAll``, ``update``, ``delete``."""
        return _Clause(self, "when_matched", condition)

    def whenNotMatched(self, condition: Column | None = None) -> _Clause:
        """Rows of the source that match none: ``insertAll``, ``insert``."""
        return _Clause(self, "when_not_matched", condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> _Clause:
        """Rows of the table that match none: ``update``, ``delete``."""
        return _Clause(self, "when_not_matched_by_source", condition)

    def withSchemaEvolution(self) -> MergeInto:
        """Columns that the table lacks are added to it."""
        self._builder = self._builder.evolving()
        return self

    def merge(self) -> None:
        """Carry the MERGE out."""
        self._builder.run()

    def add(self, clause: str, *args: Any, where: Any) -> MergeInto:
        """One more clause, by the name that the builder has for it."""
        self._builder = getattr(self._builder, clause)(*args, where=where)
        return self


@dataclass(frozen=True)
class _Clause:
    """A clause that lacks what is to be done."""

    merge: MergeInto
    kind: str
    condition: Any

    def updateAll(self) -> MergeInto:
        return self._with("update_all")

    def update(self, assignments: Mapping[str, Any]) -> MergeInto:
        return self._with("update", assignments)

    def delete(self) -> MergeInto:
        return self._with("delete")

    def insertAll(self) -> MergeInto:
        return self._with("insert_all")

    def insert(self, assignments: Mapping[str, Any]) -> MergeInto:
        return self._with("insert", assignments)

    def _with(self, action: str, *args: Any) -> MergeInto:
        return self.merge.add(f"{self.kind}_{action}", *args, where=self.condition)


def query_of(acid: Session, checkpoint: str | None) -> str | None:
    """The id of the streaming query whose checkpoint that is; None for a new one, and for one that
    is not to be read here.
    """
    if checkpoint is None:
        return None
    try:
        fs, path = acid.client.files.at(location_of(checkpoint))
        found = json.loads(fs.read_bytes(f"{path}/metadata"))
        return str(found["id"])
    except (AcidError, ValueError, LookupError):
        return None


def _check_has_streams(acid: Session, instead: str) -> None:
    """
    Raises:
        UnsupportedError: this Spark has no streams of Python data sources, which came with 4.
    """
    if int(acid.spark.version.partition(".")[0]) < 4:
        raise UnsupportedError(
            f"Spark {acid.spark.version} has no streams of Python data sources", note=instead
        )


def make_found(acid: Session) -> None:
    """Lets Spark, from 4 on, find the data source. A local Spark looks for it by the first
    ``python3`` in PATH, which in an environment that is not activated is one without hiveacid; a
    source that is handed in runs this interpreter (``prepare``).
    """
    if int(acid.spark.version.partition(".")[0]) < 4:
        return
    if not is_local(acid.spark) or chosen_python(acid.spark) is not None:
        return
    from pyspark.errors import PySparkException

    from hiveacid.connectors.data_source import HiveAcidDataSource

    with suppress(PySparkException):  # it has found it
        acid.spark.dataSource.register(HiveAcidDataSource)


class _Stream(Told):
    """Names the table and the metastore to the data source."""

    def _name(self, ours: AcidTable, known: tuple[str, ...]) -> None:
        url = self._acid.client.metastore.url
        for key, value in (("table", written_text(ours.name)), ("metastore", url)):
            if key not in self._given:
                self.option(key, value)
        Options.of({key: str(value) for key, value in self._given.items()}, known)
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


class _StreamReader(_Stream, _Tables):
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
            if self.is_ours:
                make_found(self._acid)
            return super().load(path, schema=schema)  # type: ignore[misc,no-any-return]
        ours, where = self._named(path)
        if ours is None:
            name = where or self._given["table"]
            raise no_such_table(name)
        return self._rows(ours)

    def _rows(self, ours: AcidTable) -> DataFrame:
        _check_has_streams(self._acid, "acid.table(name).df() reads what is there now")
        make_found(self._acid)
        self._name(ours, SOURCE)
        return super().load()  # type: ignore[misc,no-any-return]


class _StreamWriter(_Stream):
    def partitionBy(self, *cols: Any) -> Any:
        self.tell_partitions(cols)
        return self

    def queryName(self, queryName: str) -> Any:
        self._told["query"] = queryName
        return super().queryName(queryName)  # type: ignore[misc]

    def start(self, path: str | None = None, format: str | None = None, **rest: Any) -> Any:
        if format is not None:
            self.format(format)
        if not self.is_ours:
            return self._original(path, rest)
        self._take(rest)
        if "metastore" in self._given:
            make_found(self._acid)
            return super().start(path)  # type: ignore[misc]
        ours, where = self._named(path)
        if ours is None:
            name = name_for(self._acid, where) if where else str(self._given["table"])
            self._refuse_begun(where or name)
            ours = self._create(name, location=None if where is None else location_of(where))
        return self._stream(ours)

    def toTable(self, tableName: str, format: str | None = None, **rest: Any) -> Any:
        if format is not None:
            self.format(format)
        self._take(rest)
        ours = table_named(self._acid, tableName)
        if ours is None:
            self._refuse_begun(tableName)
        if ours is None and not self.is_ours:
            if "partitioned_by" in self._told:
                super().partitionBy(*self._told["partitioned_by"])  # type: ignore[misc]
            return super().toTable(tableName)  # type: ignore[misc]
        return self._stream(ours or self._create(tableName, location=None))

    def _refuse_begun(self, name: str) -> None:
        """What the query wrote before went to a table of ours that is gone, or has another name.

        Raises:
            NotFoundError: it did.
        """
        query = query_of(self._acid, self._checkpoint())
        before = self._acid.client.own.last_batches(query) if query else ()
        if before:
            raise NotFoundError(
                f"Table not found {name}: the stream of this checkpoint wrote to"
                f" {', '.join(f'{one.table} (up to batch {one.number})' for one in before)}",
                code=10001,
                table=name,
                note="A checkpoint belongs to one table: name that one, or begin with a new"
                " checkpointLocation.",
            )

    def _checkpoint(self) -> str | None:
        """Where the query keeps how far it is; None for a place that is new each time."""
        given = self._given.get("checkpointlocation")
        if given is not None:
            return str(given)
        root = self._acid.spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        name = self._told.get("query")
        return f"{root}/{name}" if root and name else None

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
        frame: DataFrame = self._owner
        partitioned_by = self._told.get("partitioned_by", ())
        made = self._acid.create_table(
            name_of_new(self._acid, name),
            frame.schema,
            partitioned_by=partitioned_by,
            location=location,
        )
        return self._acid.table(written_text(made.name))

    def _stream(self, ours: AcidTable) -> Any:
        instead = "df.writeStream.foreachBatch(hiveacid.foreach_batch(acid, name))"
        _check_has_streams(self._acid, instead)
        make_found(self._acid)
        self._name(ours, SINK)
        return super().start()  # type: ignore[misc]


read: Final = partial(dressed, _Reader)
"""``SparkSession.read``."""
read_stream: Final = partial(dressed, _StreamReader)
"""``SparkSession.readStream``."""
write_stream: Final = partial(dressed, _StreamWriter)
"""``DataFrame.writeStream``."""
