"""``connect`` and ``Session``: the public door; SQL in, DataFrames and small values out.

A session has a current database and settings of its own; statements of several threads go to
several sessions. Spark may be left out: then DDL, SHOW and DESCRIBE work, and listings come back
as ``Listing``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from hiveacid.client import DEFAULT_DATABASE, Client, open_client
from hiveacid.compacting import Compacting, CompactionMethods
from hiveacid.errors import InvalidInputError, spark_needed
from hiveacid.model.tables import Column, Table, TableName
from hiveacid.model.transactions import Isolation
from hiveacid.settings import Settings
from hiveacid.sql import (
    Arguments,
    Statement,
    bind,
    bind_query,
    bind_texts,
    parse,
    parse_columns,
    parse_one,
    parse_table_name,
    resolved,
)
from hiveacid.statements import ddl as definitions
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.checks import check_inserts
from hiveacid.statements.ddl_context import DdlContext
from hiveacid.statements.definitions import bucket_spec, check_query_columns
from hiveacid.statements.describe import describe
from hiveacid.statements.explain import explain
from hiveacid.statements.listing import Listing
from hiveacid.statements.listing_frame import listing_frame
from hiveacid.statements.names import CatalogNames
from hiveacid.statements.query_columns import columns_of
from hiveacid.statements.repair import repair
from hiveacid.statements.show import ShowStatement, abort_transactions, show
from hiveacid.statements.spark_errors import spark_errors_mapped
from hiveacid.statements.values import Delete, Insert, Inserts, Merge, Query, Update
from hiveacid.statements.values_compactions import CompactionStatement
from hiveacid.statements.values_load import Load
from hiveacid.statements.values_locks import LockStatement
from hiveacid.statements.values_transactions import TransactionStatement
from hiveacid.statements.values_upkeep import Analyze, RepairTable
from hiveacid.statements.values_views import CreateView
from hiveacid.statements.views import create_view
from hiveacid.transaction import AcidTransaction, TransactionControl, isolation_named
from hiveacid.txn.leases import Keep, Lease, lease_within, open_lease

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hiveacid.statements.arrow_changes import ArrowChange
    from hiveacid.statements.job import ExecutionContext
    from hiveacid.table import AcidTable
    from hiveacid.txn.unit import UnitOfWork

    _Change = Insert | Inserts | Update | Delete | Merge | Load | ArrowChange
    _Built = _Change | Query | Analyze | TransactionStatement | LockStatement | CompactionStatement

_SERIAL = itertools.count()
_NOTHING: Mapping[str, str] = {}
_DML = (Insert, Inserts, Update, Delete, Merge, Load)


def connect(
    spark: SparkSession | None,
    url: str,
    *,
    warehouse: str | None = None,
    settings: Settings | Mapping[str, str] | None = None,
) -> Session:
    """Opens the metastore at ``url`` (``sqlite:///path``; made where it does not exist).

    ``warehouse`` is where new databases and tables go: an absolute path or a URL, needed for a new
    metastore; one that exists knows its own, and refuses another. ``settings`` is a ``Settings`` or
    names and texts as SQL's SET takes them.

    Example:
        >>> acid = connect(spark, "sqlite:///metastore.db", warehouse="/data/wh")  # doctest: +SKIP

    Raises:
        MetastoreError: nothing usable is at the URL.
        UnsupportedError: a kind of metastore that is not built yet.
        InvalidInputError: a wrong URL, location or setting.
        SparkNeededError: a package that Spark needs is not installed.
    """
    chosen = settings if isinstance(settings, Settings) else Settings()
    if settings is not None and not isinstance(settings, Settings):
        for name, text in settings.items():
            chosen = chosen.with_(name, text)
    session = Session(open_client(url, warehouse=warehouse, settings=chosen))
    if spark is not None:
        session.use_spark(spark)
    return session


class Session(CompactionMethods):
    """A client of a metastore with a Spark session (or none), a current database and settings."""

    def __init__(self, client: Client, compacting: Compacting | None = None) -> None:
        self._client = client
        self._spark: SparkSession | None = None
        self._compacting = compacting or Compacting(client, spark=lambda: self._spark)
        self._database = DEFAULT_DATABASE
        self._closed = False
        self._control = TransactionControl(client.transactions)
        self._prefix = f"__hiveacid_{next(_SERIAL)}_"
        self._statements = itertools.count()

    # ---------------------------------------------------------------- state

    @property
    def client(self) -> Client:
        """The components: metastore, transactions, clock."""
        return self._client

    @property
    def spark(self) -> SparkSession:
        """The Spark session.

        Raises:
            SparkNeededError: the session was connected without Spark.
        """
        if self._spark is None:
            raise spark_needed("This")
        return self._spark

    def use_spark(self, spark: SparkSession) -> None:
        """Gives Spark to a session that was connected without."""
        from hiveacid.spark.local import prepare

        prepare(spark)
        self._spark = spark

    @property
    def compacting(self) -> Compacting:
        """What carries its compactions out."""
        return self._compacting

    @property
    def database(self) -> str:
        """The current database."""
        return self._database

    @property
    def settings(self) -> Settings:
        """The session's settings; SET changes them."""
        return self._client.settings

    @property
    def has_uncommitted(self) -> bool:
        """Whether SQL's transaction is open and has written something."""
        return self._control.has_written

    def close(self) -> None:
        """Rolls open transactions back, ends background work, gives connections back; once."""
        if not self._closed:
            self._closed = True
            self._control.close()
            self._compacting.close()
            self._client.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"database {self._database}"
        return f"<hiveacid.Session {self._client.metastore.url} {state}>"

    # ---------------------------------------------------------------- SQL

    def transaction(self, *, isolation: str | None = None) -> AcidTransaction:
        """Begins a transaction of several statements on any tables; use it in ``with``.

        What goes through it (``txn.sql``, ``txn.table``) belongs to it, nothing else does.
        ``isolation``: ``snapshot`` or ``serializable``; None: as SET TRANSACTION or settings say.
        """
        self._names()
        within = Session(self._client, self._compacting)
        within._spark = self._spark
        within._database = self._database
        chosen = isolation_named(isolation) or self._control.take_isolation()
        unit = within._control.begin(scoped=True, isolation=chosen)
        self._control.end_with_me(unit)
        return AcidTransaction(within, unit)

    def sql(self, text: str, args: Arguments | None = None) -> Any:
        """Runs one statement of Hive SQL.

        Queries, SHOW, DESCRIBE, EXPLAIN and SET without a value give a DataFrame (no Spark: a
        ``Listing``), DML its result, the rest None. ``args``: values of ``:name`` or ``?``.

        Raises:
            SqlSyntaxError: with line and column; also a parameter without a value.
            UnsupportedError: a statement that is known and not supported.
            AcidError: whatever the statement runs into.
        """
        return self._run(parse_one(text, setting_of=self.settings.get, args=args))

    def script(self, text: str) -> Iterator[tuple[str, Any]]:
        """Runs the statements of a script one by one: pairs of a statement's text and its result.

        Raises:
            SqlSyntaxError: before any statement runs; of one with variables when it is its turn.
            AcidError: as ``sql``, at the statement that fails.
        """
        yield from ((statement.text, self._run(statement)) for statement in parse(text))

    def _run(self, statement: Statement) -> Any:
        names, prefix = self._names()
        complete = resolved(statement, self.settings.get)
        return self._execute(bind(complete, names, prefix=prefix))

    def _names(self) -> tuple[CatalogNames, str]:
        """The catalog for one statement, and what its placeholders begin with."""
        if self._closed:
            raise InvalidInputError("The session is closed")
        names = CatalogNames(self._client.metastore, database=self._database, spark=self._spark)
        return names, f"{self._prefix}{next(self._statements)}_"

    def _execute(self, value: object) -> Any:
        if isinstance(value, Inserts):
            check_inserts(value.branches)
        if isinstance(value, (Query, *_DML)):
            return self._carry_out(value)
        if isinstance(value, TransactionStatement):
            listing = self._control.apply(value, commit=self._commit)
        elif isinstance(value, CompactionStatement):
            self._control.refuse_definition(value)
            listing = self._compacting.listing(value)
        else:
            listing = self._metadata(value)
        if listing is None or self._spark is None:
            return listing
        return listing_frame(self._spark, listing)

    def execute(self, statement: _Built) -> Any:
        """Carries out a statement built in Python: a DataFrame for a query, a result value for DML,
        a tuple of values for what is about compactions.

        Expression texts are read as Hive SQL: subqueries may name tables of ours.

        Raises:
            AcidError: whatever the statement runs into.
        """
        names, prefix = self._names()
        if isinstance(statement, (Analyze, TransactionStatement, LockStatement)):
            return self._execute(statement)
        if isinstance(statement, CompactionStatement):
            self._control.refuse_definition(statement)
            return self._compacting.execute(statement)
        if isinstance(statement, Query):
            statement = bind_query(statement, names, prefix=prefix)
        elif isinstance(statement, (Update, Delete, Merge)):
            statement = bind_texts(statement, names, prefix=prefix)
        return self._carry_out(statement)

    def _context(self, *, spark: bool, isolation: Isolation | None = None) -> ExecutionContext:
        from hiveacid.statements.run import ExecutionContext

        return ExecutionContext(
            client=self._client,
            spark=self.spark if spark else self._spark,
            settings=self.settings,
            database=self._database,
            unit=self._control.unit,
            isolation=isolation,
        )

    def _commit(self, unit: UnitOfWork) -> None:
        from hiveacid.statements.run import commit

        commit(self._context(spark=False), unit)

    def _carry_out(self, statement: _Change | Query | ddl.Truncate) -> Any:
        from hiveacid.statements.run import execute

        isolation = self._control.begin_where_it_must()
        context = self._context(spark=self._needs_spark(statement), isolation=isolation)
        with spark_errors_mapped(statement):
            return execute(context, statement)

    @staticmethod
    def _needs_spark(statement: object) -> bool:
        if isinstance(statement, Insert):
            return isinstance(statement.source, Query)
        return isinstance(statement, (Query, Inserts, Update, Delete, Merge))

    # ---------------------------------------------------------------- everything but DML

    def _metadata(self, value: object) -> Listing | None:
        metastore = self._client.metastore
        self._control.refuse_definition(value)
        if isinstance(value, ddl.SetProperty):
            return self._set(value)
        if isinstance(value, ddl.ResetProperties):
            self._reset(value)
        elif isinstance(value, ddl.UseDatabase):
            self._database = metastore.get_database(value.name).name
        elif isinstance(value, ddl.AbortTransactions):
            abort_transactions(metastore, value)
        elif isinstance(value, (ddl.DescribeTable, ddl.DescribeDatabase)):
            return describe(metastore, value)
        elif isinstance(value, ddl.Explain):
            with spark_errors_mapped(value.statement):
                return explain(self._context(spark=value.mode != "locks"), value)
        elif isinstance(value, ddl.CreateTable):
            self._create_table(value)
        elif isinstance(value, CreateView):
            self._create_view(value)
        elif isinstance(value, (Analyze, RepairTable)):
            return self._keep_up(value)
        elif isinstance(value, ddl.Truncate):
            self._carry_out(value)
        elif isinstance(value, ShowStatement):
            return show(metastore, value)
        else:
            assert isinstance(value, definitions.DefinitionStatement), value
            definitions.execute(self._ddl_context(), value)
            if isinstance(value, ddl.DropDatabase) and value.name == self._database:
                self._database = DEFAULT_DATABASE
        return None

    def _ddl_context(self) -> DdlContext:
        return DdlContext(self._client, self.settings)

    def _set(self, value: ddl.SetProperty) -> Listing | None:
        if value.key is None:
            rows = tuple((f"{name}={text}",) for name, text in self.settings.items())
            return Listing(("set",), rows)
        if value.value is None:
            text = self.settings.get(value.key)
            shown = f"{value.key} is undefined" if text is None else f"{value.key}={text}"
            return Listing(("set",), ((shown,),))
        self._client.use_settings(self.settings.with_(value.key, value.value))
        if value.key.startswith("spark.") and self._spark is not None:
            self._spark.conf.set(value.key, value.value)
        return None

    def _reset(self, value: ddl.ResetProperties) -> None:
        settings = self._client.initial_settings
        if value.keys:
            settings = self.settings
            for key in value.keys:
                settings = settings.without(key)
        self._client.use_settings(settings)

    # ---------------------------------------------------------------- tables

    def _create_table(self, value: ddl.CreateTable) -> None:
        if value.query is None:
            definitions.create_table(self._ddl_context(), value)
            return
        frame = self._carry_out(value.query)
        self._create_from(value, frame)

    def _create_from(self, value: ddl.CreateTable, frame: DataFrame) -> None:
        """Makes the table with the frame's columns and puts its rows in; all or nothing."""
        columns = columns_of(frame.schema)
        check_query_columns(value, columns)
        names = [column.name for column in columns]
        plain = replace(value, query=None)
        table = definitions.create_table(self._ddl_context(), plain, columns=columns)
        if table is None:
            return
        try:
            self._carry_out(Insert(table.name, frame.toDF(*names), by_name=True))
        except BaseException:
            definitions.drop_table(self._ddl_context(), ddl.DropTable(table.name))
            raise

    def _keep_up(self, value: Analyze | RepairTable) -> Listing | None:
        if isinstance(value, RepairTable):
            return repair(self._ddl_context(), value)
        from hiveacid.statements.analyze import analyze

        with spark_errors_mapped(value):
            analyze(self._context(spark=not value.noscan), value)
        return None

    def _create_view(self, value: CreateView) -> None:
        from hiveacid.statements.select import query_schema

        assert value.query is not None
        with spark_errors_mapped(value.query):
            schema = query_schema(self._context(spark=True), value.query)
        create_view(self._ddl_context(), value, columns_of(schema))

    def create_table(
        self,
        name: str,
        schema: DataFrame | StructType | str,
        *,
        partitioned_by: Sequence[str] = (),
        bucketed_by: Sequence[str] = (),
        buckets: int | None = None,
        transactional: bool = True,
        properties: Mapping[str, str] = _NOTHING,
        comment: str | None = None,
        location: str | None = None,
        if_not_exists: bool = False,
    ) -> AcidTable:
        """Makes a table; from a DataFrame it also takes the rows. Returns its handle.

        ``schema`` is a DataFrame, a StructType or Hive's text (``"id int, name string"``), the
        partition columns included. ``transactional`` makes a full ACID table (``properties`` may
        say ``insert_only``).

        Raises:
            AlreadyExistsError: the table exists, and not ``if_not_exists``.
            InvalidInputError: the definition is refused.
        """
        self._control.refuse_definition(ddl.CreateTable)
        value = ddl.CreateTable(
            name=self.table_name(name),
            partition_names=tuple(column.lower() for column in partitioned_by),
            bucket=bucket_spec(bucketed_by, buckets),
            properties={**({"transactional": "true"} if transactional else {}), **properties},
            comment=comment,
            location=location,
            if_not_exists=if_not_exists,
        )
        if isinstance(schema, str):
            columns = parse_columns(schema)
            definitions.create_table(self._ddl_context(), value, columns=columns)
        elif hasattr(schema, "fieldNames"):
            from hiveacid.spark.types import hive_type

            fields = cast("StructType", schema).fields
            columns = tuple(Column(f.name.lower(), hive_type(f.dataType)) for f in fields)
            definitions.create_table(self._ddl_context(), value, columns=columns)
        else:
            self._create_from(value, cast("DataFrame", schema))
        return self.table(name)

    def table_name(self, name: str) -> TableName:
        """``table`` or ``database.table`` as a full name.

        Raises:
            SqlSyntaxError: it is neither.
        """
        found = parse_table_name(name)
        return found if found.database else TableName(self._database, found.table)

    def table_definition(self, name: TableName) -> Table:
        """The table as the catalog has it now.

        Raises:
            NotFoundError: 10001.
        """
        return self._client.metastore.get_table(name)

    def lease(self, name: TableName, *, keep: Keep) -> Lease:
        """A snapshot of a table without Spark, under a read transaction of its own.

        Raises:
            NotFoundError, LockError, AcidError: the table could not be read.
        """
        if self._closed:
            raise InvalidInputError("The session is closed")
        table = self._client.metastore.get_table(name)
        self._control.begin_where_it_must()
        if self._control.unit is not None:
            return lease_within(self._control.unit, table, keep=keep)
        return open_lease(self._client.transactions, table, keep=keep)

    def table(self, name: str) -> AcidTable:
        """The handle of a table of ours.

        Raises:
            NotFoundError: there is none of that name.
        """
        from hiveacid.table import AcidTable

        found = self.table_name(name)
        self._client.metastore.get_table(found)
        return AcidTable(self, found)
