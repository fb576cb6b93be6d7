"""How a statement is carried out under its locks: a ``Work`` says how it writes, a ``Job`` is one
attempt to, a ``Reader`` reads the tables that it names.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar, cast

from hiveacid.layout.directories import Snapshot
from hiveacid.model.history import ChangeRange, Version
from hiveacid.model.predicates import ANYTHING, Predicate
from hiveacid.model.tables import Partition, StatementId, Table, TableName, WriteId
from hiveacid.model.transactions import OperationType
from hiveacid.model.types import HiveType
from hiveacid.spark.session import ROW_ID_COLUMN, Chosen
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.history import check_moves
from hiveacid.statements.values import Result, TableRef, VirtualColumn
from hiveacid.storage.filesystem import Files
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.storage.target import WriteResult, WriteTarget
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.past import partitions_then, past_snapshot
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.unit import UnitOfWork
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.spark.read import Given

_Given = TypeVar("_Given")
_VIEW_NUMBERS = itertools.count()


@dataclass(slots=True, kw_only=True)
class Reader:
    """Reads the tables of a view; one snapshot of every table, that of the transaction."""

    context: ExecutionContext
    txn: Transaction
    view: Look
    reads_later: bool = False
    """Whether a DataFrame made here reads files when it runs."""
    plans: list[ScanPlan] = field(default_factory=list)
    """What has been planned to be read so far; a table may be read in several ways."""
    _temporary: list[str] = field(default_factory=list)

    @property
    def files(self) -> Files:
        """The files of tables, as this process reaches them."""
        return self.context.files

    def plan(
        self,
        table: Table,
        *,
        predicate: Predicate = ANYTHING,
        columns: Iterable[str] | None = None,
        version: Version | None = None,
    ) -> ScanPlan:
        """What the transaction reads of a table, or of a version of it, for rows that meet
        ``predicate``: only the partitions left over are listed.
        """
        from hiveacid.storage.plan.planning import partitions_that_match, plan_scan

        partitions: tuple[Partition, ...] | None = None
        all_partitions: tuple[Partition, ...] | None = None
        if table.partition_columns:
            all_partitions = self.view.partitions(table)
            if version is not None:
                all_partitions = partitions_then(table, version, all_partitions)
            partitions = partitions_that_match(table, all_partitions, predicate)
        if version is None:
            snapshot = self.txn.snapshot(table, partitions=partitions, of=all_partitions)
        else:
            chosen = self.view.partitions(table) if partitions is None else partitions
            snapshot = self.snapshot_of(table, version, chosen, of=all_partitions)
        count = 1 if all_partitions is None else len(all_partitions)
        plan = plan_scan(
            snapshot,
            files=self.files,
            predicate=predicate,
            columns=columns,
            partitions_of=count,
        )
        self.plans.append(plan)
        return plan

    def plan_of(self, ref: TableRef) -> ScanPlan:
        """What the transaction reads of a table that a query names."""
        table = definition_of(self.view, ref)
        version = None if ref.as_of is None else self.view.version(table, ref.as_of)
        return self.plan(table, predicate=ref.predicate, columns=ref.columns, version=version)

    def snapshot_of(
        self,
        table: Table,
        version: Version,
        partitions: Sequence[Partition],
        *,
        of: Sequence[Partition] | None,
    ) -> Snapshot:
        """A version of a table, which has the columns of then: some ``of`` its partitions, which
        are None where it has none.

        Raises:
            SnapshotExpiredError: files of it were cleaned.
            MissingFileError: somebody else removed some.
        """
        return past_snapshot(
            self.context.client.metastore,
            table,
            version,
            partitions,
            files=self.files,
            valid_txns=self.txn.valid_txns,
            hive_cleans=self.txn.hive_cleans,
            is_whole=of is None or len(of) == len(partitions),
        )

    def scan(self, plan: ScanPlan, *, row_ids: bool = False) -> DataFrame:
        """The live rows of a plan."""
        from hiveacid.spark.read import read

        virtual = (ROW_ID_COLUMN,) if row_ids else ()
        return read(self.context.session(), plan, virtual=virtual).frame

    def scan_target(
        self, plan: ScanPlan, asked: Iterable[VirtualColumn] = ()
    ) -> tuple[DataFrame, bool]:
        """The rows to change, with ``ROW__ID`` and the virtual columns that are asked for, and
        whether they are few and here already.

        Raises:
            UnsupportedError: as ``check_partitions``.
        """
        from hiveacid.spark.read import read
        from hiveacid.spark.wall_clock import check_partitions

        bytes_here = self.context.settings.reads_local_bytes
        spark = self.context.session()
        check_partitions(spark, plan)
        virtual = {ROW_ID_COLUMN, *(column.value for column in asked)}
        rows = read(spark, plan, virtual=virtual, bytes_here=bytes_here)
        return rows.frame, rows.are_here

    def _relation(self, ref: TableRef) -> Given:
        from hiveacid.spark.read import read

        if ref.changes is not None:
            return self._changes_frame(ref.name, ref.changes)
        spark, plan = self.context.session(), self.plan_of(ref)
        virtual = {column.value for column in ref.virtual}
        bytes_here = self.context.settings.reads_local_bytes
        rows = read(spark, plan, virtual=virtual, options=ref.options, bytes_here=bytes_here)
        self.reads_later |= not rows.are_here
        return rows.given

    def _changes_frame(self, name: TableName, wanted: ChangeRange) -> DataFrame:
        from hiveacid.statements.changes import plan_changes

        check_moves(wanted, read_only=self.txn.is_read_only)
        own, table = self.context.client.own, self.view.definition(name)
        scan = plan_changes(self.txn, table, wanted, own=own, files=self.files)
        self.reads_later = True
        return scan.frame(self.context)

    def relations(self, tables: Mapping[str, TableRef]) -> Mapping[str, Given]:
        """For each placeholder in the text of a query, the rows of the table that it stands for."""
        from hiveacid.spark.read import OWN_TYPES

        if any("struct<" in str(kind) for ref in tables.values() for kind in self._types(ref)):
            tables = {
                placeholder: replace(ref, options=ref.options | {OWN_TYPES})
                for placeholder, ref in tables.items()
            }
        return {placeholder: self._relation(ref) for placeholder, ref in tables.items()}

    def _types(self, ref: TableRef) -> Iterable[HiveType]:
        """Those of the columns that it reads."""
        types = self.view.definition(ref.name).types
        return [kind for name, kind in types.items() if ref.columns is None or name in ref.columns]

    def temporary_views(self, tables: Mapping[str, TableRef]) -> Mapping[str, str]:
        """What texts of expressions have for each placeholder: the name of a temporary view that is
        made here, or a query.
        """
        from hiveacid.spark.read import relation_of

        names: dict[str, str] = {}
        for placeholder, rows in self.relations(tables).items():
            relation = relation_of(self.context.session(), rows)
            if isinstance(relation, str):
                names[placeholder] = relation
                continue
            name = f"{placeholder}_{next(_VIEW_NUMBERS)}"
            names[placeholder] = name
            if isinstance(relation, Chosen):
                names[placeholder] = relation.over(name)
                relation = relation.frame
            relation.createOrReplaceTempView(name)
            self._temporary.append(name)
        return names

    def drop_temporary_views(self) -> None:
        """Forget the temporary views; on Spark Connect DataFrames that name them are of no use
        then.
        """
        for name in self._temporary:
            self.context.session().catalog.dropTempView(name)
        self._temporary.clear()


@dataclass(slots=True, kw_only=True)
class Job(Reader):
    """One statement that writes to one table, inside a transaction that holds its locks."""

    unit: UnitOfWork
    table: Table
    write_id: WriteId
    """0 where the table is not transactional."""
    statement_ids: tuple[StatementId, ...]
    staging: str
    in_place: list[str] | None = None
    """As that of a ``WriteTarget``."""
    is_in_doubt: bool = False
    """Whether a write failed of which the store may yet get something, in its place."""
    after_commit: list[Callable[[], None]] = field(default_factory=list)
    """What the statement leaves to do once it is committed."""

    def target(self, **facts: object) -> WriteTarget:
        """Where this attempt writes; ``facts`` are further fields of the target."""
        return WriteTarget(
            files=self.files,
            table=self.table,
            write_id=self.write_id,
            staging=self.staging,
            in_place=self.in_place,
            **facts,  # type: ignore[arg-type]
        )


def definition_of(look: Look, ref: TableRef) -> Table:
    """The table that a query names, with the columns of then where it asks for a version.

    Raises:
        NotFoundError: there is none.
    """
    if ref.as_of is None:
        return look.definition(ref.name)
    return look.past_definition(ref.name, ref.as_of)


def with_views(given: _Given, views: Mapping[str, str]) -> _Given:
    """A text with the view's name in each placeholder's place; Columns of Spark's have none."""
    if not views or not isinstance(given, str):
        return given
    pattern = r"\b(" + "|".join(map(re.escape, views)) + r")\b"
    return cast("_Given", re.sub(pattern, lambda found: views[found.group(1)], given))


_RECORDED: Final = {
    WriteKind.OVERWRITE: (OperationType.UPDATE,),
    WriteKind.UPDATE: (OperationType.DELETE, OperationType.INSERT),
    WriteKind.DELETE: (OperationType.DELETE,),
    WriteKind.INSERT: (OperationType.INSERT,),
}
"""What is recorded of each way to write, the one with the strongest locks first."""


class Work(ABC):
    """How one statement writes, as the definitions of a look or of a view have it."""

    __slots__ = ()
    COUNTS_ROWS: ClassVar[bool] = True
    """Whether it knows how many rows each of its files has."""
    table: Table
    """The target."""

    @property
    @abstractmethod
    def does(self) -> frozenset[WriteKind]:
        """All kinds of writing that it does: a MERGE may insert, update and delete."""

    @property
    def reads(self) -> Sequence[TableName]:
        """Other tables of ours that are read."""
        return ()

    @property
    def partitions(self) -> tuple[str, ...] | None:
        """Names of the partitions that are locked; None where only the rows will tell."""
        return None

    @property
    def kind(self) -> WriteKind:
        """The kind of writing that decides its locks; INSERT where nothing else can happen."""
        return next((one for one in _RECORDED if one in self.does), WriteKind.INSERT)

    @property
    def statement_id_count(self) -> int:
        """How many statement ids it takes: two for updates, one for all else."""
        return len(self.does) + (WriteKind.UPDATE in self.does)

    @property
    def operations(self) -> Sequence[OperationType]:
        """What is recorded for each partition written, deletes first."""
        found = {operation for one in self.does for operation in _RECORDED[one]}
        return sorted(found, key=lambda operation: operation.value)

    def changes_target(self, job: Job) -> WriteTarget:
        """Where it writes; statement ids in Hive 4.1's order: deletes, deletes of updates, updates,
        inserts.
        """
        ids = iter(job.statement_ids)
        updates = WriteKind.UPDATE in self.does
        inserts = WriteKind.INSERT in self.does
        return job.target(
            delete_statement=next(ids) if WriteKind.DELETE in self.does else None,
            update_delete_statement=next(ids) if updates else None,
            update_insert_statement=next(ids) if updates else None,
            insert_statement=next(ids, StatementId(0)) if inserts else None,
        )

    @abstractmethod
    def write(self, job: Job) -> WriteResult:
        """Write staged files; nothing is visible yet."""

    @abstractmethod
    def result(self, written: WriteResult, write_id: WriteId) -> Result:
        """The statement's answer."""
