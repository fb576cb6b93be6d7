"""``connect`` and ``Session``: the public door; SQL in, DataFrames and small values out.

A session has a current database and settings of its own; statements of several threads go to
several sessions. Spark may be left out: then DDL, SHOW and DESCRIBE work, and listings come back
as ``Listing``.
"""

from __future__ import annotations

import atexit
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, cast

from hiveacid.client import DEFAULT_DATABASE, Client, open_client
from hiveacid.compacting import Compacting, CompactionMethods
from hiveacid.errors import InvalidInputError, spark_needed
from hiveacid.model.history import AsOf
from hiveacid.model.tables import Isolation, Table, TableName
from hiveacid.past import PastMethods, TagMethods
from hiveacid.progress import statement_shown
from hiveacid.settings import Settings
from hiveacid.spark.jobs import is_stopped, jobs_described, jobs_described_once_asked, own_calls
from hiveacid.sql import (
    Arguments,
    ParsedStatement,
    bind,
    bind_answered,
    bind_query,
    bind_texts,
    parse,
    parse_columns,
    parse_one,
    parse_table_name,
    resolved,
    without_literals,
)
from hiveacid.statements.analyze import Analyze
from hiveacid.statements.arguments import checked, wrong_argument
from hiveacid.statements.compact import CompactionStatement
from hiveacid.statements.context import Answered, Bound, ExecutionContext
from hiveacid.statements.create_as import create
from hiveacid.statements.ddl.definitions import bucket_spec
from hiveacid.statements.ddl.tables import CreateTable, drop_temporary_tables
from hiveacid.statements.evolve import columns_of_struct, is_frame
from hiveacid.statements.handlers import handler_of, title_of, without_spark
from hiveacid.statements.history import text_of
from hiveacid.statements.load import Load
from hiveacid.statements.run import commit as commit_unit
from hiveacid.statements.session_state import (
    LockStatement,
    TransactionStatement,
)
from hiveacid.statements.spark_errors import spark_errors_mapped
from hiveacid.statements.values import (
    Delete,
    Insert,
    Inserts,
    Listing,
    Merge,
    Query,
    Update,
    listing_frame,
    shortened,
)
from hiveacid.streams import StreamingMethods
from hiveacid.takeover import TakeoverMethods
from hiveacid.transaction import AbortMethods, AcidTransaction, TransactionControl, isolation_named
from hiveacid.txn.manager import HandedOn
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from hiveacid.statements.driver_merge import ArrowChange
    from hiveacid.table import AcidTable

    _Bind = Callable[[Look], Any]
    _Change = Insert | Inserts | Update | Delete | Merge | Load | ArrowChange
    _Built = _Change | Query | Analyze | TransactionStatement | LockStatement | CompactionStatement

_SERIAL = itertools.count()
_NOTHING: Mapping[str, str] = {}


@checked
def connect(
    spark: SparkSession | str | PathLike[str] | None,
    url: str | PathLike[str] | None = None,
    *,
    warehouse: str | PathLike[str] | None = None,
    settings: Settings | Mapping[str, object] | None = None,
) -> Session:
    """Opens the metastore at ``url`` (``sqlite:///path``; made where it does not exist).

    ``warehouse`` is where new databases and tables go: an absolute path or a URL, needed for a new
    metastore; one that exists knows its own, and refuses another. ``settings`` is a ``Settings`` or
    names and texts as SQL's SET takes them. ``connect(url)`` alone goes without Spark.

    Example:
        >>> acid = connect(spark, "sqlite:///metastore.db", warehouse="/data/wh")  # doctest: +SKIP

    Raises:
        MetastoreError: nothing usable is at the URL.
        UnsupportedError: a kind of metastore that is not built yet.
        InvalidInputError: a wrong URL, location or setting.
        SparkNeededError: a package that Spark needs is not installed.
    """
    if url is None and isinstance(spark, str | PathLike):
        spark, url = None, spark
    if url is None:
        raise wrong_argument("url", "where the metastore is, as sqlite:///path", url)
    if isinstance(spark, str | PathLike):
        raise wrong_argument("spark", "a SparkSession or None", spark)
    chosen = settings if isinstance(settings, Settings) else Settings.of(settings or {})
    root = None if warehouse is None else fspath(warehouse)
    session = Session(open_client(fspath(url), warehouse=root, settings=chosen))
    if spark is not None:
        session.use_spark(spark)
    return session


@checked
class Session(
    AbstractContextManager["Session"],
    CompactionMethods,
    TakeoverMethods,
    StreamingMethods,
    PastMethods,
    TagMethods,
    AbortMethods,
):
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
        """Gives Spark to a session that was connected without, or whose Spark was stopped."""
        from hiveacid.spark.workers import prepare

        prepare(spark)
        self._spark = spark
        self._client.transactions.application = spark.conf.get("spark.app.name", None) or ""
        self._client.ask_of_stores(lambda name: spark.conf.get(name, None))

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
    def in_transaction(self) -> bool:
        """Whether statements belong to a transaction that is open: SQL's, or that of a ``with``."""
        return self._control.unit is not None

    @property
    def has_uncommitted(self) -> bool:
        """Whether SQL's transaction is open and has written something."""
        return self._control.has_written

    def close(self) -> None:
        """Rolls back what is open, drops temporary tables, gives back compactions, disconnects."""
        if not self._closed:
            self._control.close()
            drop_temporary_tables(self._context())
            atexit.unregister(self.close)
            self._closed = True
            self._compacting.close()
            self._client.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"database {self._database}"
        return f"<hiveacid.Session {shortened(self._client.metastore.url)} {shortened(state)}>"

    def over(self, spark: SparkSession | None) -> Session:
        """The same client and current database over another Spark session, such as a clone of its
        own, with SQL transactions of its own; close only the first.
        """
        session = Session(self._client, self._compacting)
        session._spark, session._database = spark, self._database
        return session

    def look(self) -> Look:
        """The catalog as it is now, with what the session's transaction adds to it."""
        return self._context().look()

    # ---------------------------------------------------------------- SQL

    def transaction(self, *, isolation: str | None = None) -> AcidTransaction:
        """Begins a transaction of several statements on any tables; use it in ``with``.

        What goes through it (``txn.sql``, ``txn.table``) belongs to it, nothing else does.
        ``isolation``: ``snapshot`` or ``serializable``; None: as SET TRANSACTION or settings say.
        """
        chosen = isolation_named(isolation) or self._control.take_isolation()
        return self._transaction(chosen, None)

    def take_over(self, handed: HandedOn) -> AcidTransaction:
        """A transaction that another process began, to be ended by this one."""
        return self._transaction(None, handed)

    def _transaction(self, isolation: Isolation | None, handed: HandedOn | None) -> AcidTransaction:
        self._context()  # which a closed session has not
        within = self.over(self._spark)
        unit = within._control.begin(scoped=True, isolation=isolation, handed=handed)
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
        return self.run(parse_one(text, setting_of=self.settings.get, args=args))

    def script(self, text: str) -> Iterator[tuple[str, Any]]:
        """Runs the statements of a script one by one: pairs of a statement's text and its result.

        Raises:
            SqlSyntaxError: before any statement runs; of one with variables when it is its turn.
            AcidError: as ``sql``, at the statement that fails.
        """
        yield from ((statement.text, self.run(statement)) for statement in parse(text))

    def run(
        self,
        statement: ParsedStatement,
        *,
        accept: Callable[[object], None] = lambda _: None,
        moment: AsOf | None = None,
    ) -> Any:
        """Carries out a statement that was read; ``accept`` may raise when it gets what the
        statement means, before anything is done. With ``moment`` a query of tables of then.

        Raises:
            AcidError: whatever the statement runs into.
        """
        prefix = self._prefix_of_statement()
        complete = resolved(statement, self.settings.get)

        def bind_to(look: Look) -> Any:
            look.moment = moment
            bound = bind(complete, look, prefix=prefix)
            if moment is not None and not isinstance(bound, Query):
                raise InvalidInputError(f"The past can be queried alone: {statement.text}")
            accept(bound)
            return bound

        answered = partial(bind_answered, complete, prefix=prefix) if moment is None else None
        return self._carry_out(bind_to, text=complete.text, answered=answered)

    def _prefix_of_statement(self) -> str:
        """What the placeholders of the next statement begin with."""
        return f"{self._prefix}{next(self._statements)}_"

    def _carry_out(self, bind_to: _Bind, text: str = "", answered: Answered | None = None) -> Any:
        """Carries out what ``bind_to`` makes of the catalog's definitions."""
        if self._spark is not None and is_stopped(self._spark):
            self._spark = None  # until it is given another
        bound = Bound.to(self.look(), bind_to, answered)
        statement, handler = bound.value, handler_of(bound.value)
        if isinstance(statement, CreateTable) and statement.temporary:
            atexit.register(self.close)  # whoever leaves that out leaves no tables
        if handler.changes_definitions:
            self._control.refuse_definition(statement)
        isolation = self._control.begin_where_it_must() if handler.joins_transaction else None
        on_spark = handler.needs_spark(statement)
        if self._spark is None and on_spark:
            raise spark_needed(title_of(statement), instead=without_spark(statement))
        what, told = title_of(statement), text_of(statement) or without_literals(text) or None
        context = replace(self._context(isolation=isolation), text=told)
        # The jobs of a query are those of whoever asks for its rows.
        named = None if isinstance(statement, Query) else self._spark
        with (
            own_calls(),
            jobs_described_once_asked(named, f"hiveacid: {what}") as describe,
            statement_shown(self._client, self._spark if on_spark else None, what),
            spark_errors_mapped(statement, bound.look),
        ):
            answer = handler.carry_out(replace(context, describe_jobs=describe), bound)
        if isinstance(answer, Listing) and self._spark is not None:
            with own_calls():
                return listing_frame(self._spark, answer)
        return answer

    def execute(self, statement: _Built | Callable[[Look], _Built]) -> Any:
        """Carries out a statement built in Python: a DataFrame for a query, a result value for DML,
        a tuple of values for what is about compactions.

        What depends on definitions is given as a function of them: it is called again where they
        were changed before the statement has its locks. Expression texts are read as Hive SQL:
        subqueries may name tables of ours.

        Raises:
            AcidError: whatever the statement runs into.
        """
        prefix = self._prefix_of_statement()
        if isinstance(statement, CompactionStatement):
            if handler_of(statement).changes_definitions:
                self._control.refuse_definition(statement)
            return self._compacting.execute(statement)

        def bind_to(look: Look) -> Any:
            built = statement(look) if callable(statement) else statement
            if isinstance(built, Query):
                return bind_query(built, look, prefix=prefix)
            if isinstance(built, (Update, Delete, Merge)):
                return bind_texts(built, look, prefix=prefix)
            return built

        return self._carry_out(bind_to)

    def _context(self, *, isolation: Isolation | None = None) -> ExecutionContext:
        if self._closed:
            raise InvalidInputError("The session is closed")
        return ExecutionContext(
            client=self._client,
            owner=self,
            spark=self._spark,
            settings=self.settings,
            database=self._database,
            unit=self._control.unit,
            isolation=isolation,
        )

    # ---------------------------------------------------------------- what statements change of it

    def use_database(self, name: str) -> None:
        """Makes it the current database; it must exist."""
        self._database = name

    def control(self, statement: TransactionStatement) -> Listing | None:
        """Begins or ends SQL's transaction, or goes back to a savepoint of it."""
        return self._control.apply(statement, commit=partial(commit_unit, self._context()))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A block at whose end the leases end of what was read in it: DataFrames made in it are
        done with. Needed only where reads have leases (``hiveacid.reads.lease``). Spark's web page
        calls the jobs of the block ``hiveacid: reading``.

        Example:
            >>> with acid.reading():  # doctest: +SKIP
            ...     rows = acid.sql("select * from t").collect()
        """
        described = jobs_described(self._spark, "hiveacid: reading")
        with described, self._client.transactions.reading():
            yield

    # ---------------------------------------------------------------- tables

    def definition_context(self, kind: type) -> ExecutionContext:
        """What a change of definitions needs; a statement of that ``kind`` is no part of a
        transaction.

        Raises:
            InvalidInputError, TransactionError: there is one.
        """
        self._control.refuse_definition(kind)
        return self._context()

    def create_table(
        self,
        name: str,
        schema: object,
        *,
        partitioned_by: Sequence[str] = (),
        bucketed_by: Sequence[str] = (),
        buckets: int | None = None,
        transactional: bool = True,
        properties: Mapping[str, str] = _NOTHING,
        comment: str | None = None,
        location: str | None = None,
        if_not_exists: bool = False,
        or_replace: bool = False,
    ) -> AcidTable:
        """Makes a table; from rows it also takes these. Returns its handle.

        ``schema`` is Hive's text (``"id int, name string"``), a StructType, or rows as
        ``AcidTable.insert`` takes them, the partition columns included. ``transactional`` makes
        a full ACID table (``properties`` may say ``insert_only``). With ``or_replace`` it takes the
        place of one that is there.

        Raises:
            AlreadyExistsError: the table exists, and not ``if_not_exists``.
            InvalidInputError: the definition is refused.
        """
        context = self.definition_context(CreateTable)
        value = CreateTable(
            name=self.table_name(name),
            partition_names=tuple(column.lower() for column in partitioned_by),
            bucket=bucket_spec(bucketed_by, buckets),
            properties={**({"transactional": "true"} if transactional else {}), **properties},
            comment=comment,
            location=location,
            if_not_exists=if_not_exists,
            or_replace=or_replace,
        )
        if isinstance(schema, str):
            create(context, value, columns=parse_columns(schema))
        elif not is_frame(schema) and hasattr(schema, "fieldNames"):
            create(context, value, columns=columns_of_struct(cast("StructType", schema)))
        else:
            from hiveacid.writing import frame_or_table

            with own_calls():
                create(context, value, rows=frame_or_table(schema, argument="schema"))
        return self.table(name)

    def table_name(self, name: str) -> TableName:
        """``table`` or ``database.table`` as the full name by which the metastore has the table.

        Raises:
            SqlSyntaxError: it is neither.
            InvalidInputError: the session is closed.
        """
        found = parse_table_name(name)
        return self.look().actual(TableName(found.database or self._database, found.table))

    def table_definition(self, name: TableName) -> Table:
        """The table as the catalog has it now, with what the session's transaction adds to it.

        Raises:
            NotFoundError: 10001.
        """
        return self.look().definition(name)

    def reading_context(self) -> ExecutionContext:
        """What a read outside of statements needs: it has a transaction of its own, or the one that
        is open.

        Raises:
            InvalidInputError: the session is closed.
        """
        if self._closed:
            raise InvalidInputError("The session is closed")
        self._control.begin_where_it_must()
        return self._context()

    def table(self, name: str) -> AcidTable:
        """The handle of a table of ours.

        Raises:
            NotFoundError: there is none of that name.
        """
        from hiveacid.table import AcidTable

        found = self.table_name(name)
        self._client.metastore.get_table(found)
        return AcidTable(self, found)
