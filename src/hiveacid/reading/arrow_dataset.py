"""``dataset``: a table as one object that DuckDB, Polars and Arrow read, each time as of then.

It is an Arrow dataset, so that DuckDB asks it for the columns and rows it needs (``scanner``). Its
rows exist only through the methods here: what Arrow's C++ code would open by itself is one file
that does not exist, an error and never an empty table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from hiveacid.errors import AcidError, MissingExtraError, UnsupportedError
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.predicates import (
    ANYTHING,
    Compare,
    In,
    IsNull,
    Op,
    Predicate,
    conjunction,
    disjunction,
)
from hiveacid.reading.rows import PartitionChoice, chosen_names, open_rows, schema_of
from hiveacid.reading.source import SessionTable, Source, source_of
from hiveacid.statements.arguments import checked
from hiveacid.statements.values import shortened

if TYPE_CHECKING:
    import polars as pl

_NO_FILE: Final = (
    "/a hiveacid dataset has no files of its own: use reader(), scanner() or to_table()"
)
_Columns: TypeAlias = "str | Sequence[str] | None"
_Filter: TypeAlias = "str | pc.Expression | Predicate | None"


@checked
def dataset(
    table: str | PathLike[str] | SessionTable,
    *,
    partitions: str | Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
    valid_write_ids: str | ValidWriteIdList | None = None,
    valid_txns: str | ValidTxnList | None = None,
) -> Dataset:
    """The table as an object to query; arguments as in ``read_arrow``.

    Example:
        >>> emp = dataset("/data/warehouse/emp")  # doctest: +SKIP
        >>> duckdb.sql("select name from emp where id = 5")  # doctest: +SKIP
        >>> emp.scan_polars().filter(pl.col("id") == 5).collect()  # doctest: +SKIP

    Raises:
        AcidError: as ``read_arrow`` before its first batch.
    """
    source = source_of(table, valid_write_ids=valid_write_ids, valid_txns=valid_txns)
    return Dataset(source, partitions)


class Dataset(ds.FileSystemDataset):  # type: ignore[misc]
    """A table. Every reading takes its own snapshot: of a path the files found when it was made,
    of a session's table those of now.
    """

    def __init__(self, source: Source, partitions: PartitionChoice = None) -> None:
        files, nowhere = ds.ParquetFileFormat(), fs.LocalFileSystem()
        schema = schema_of(source)
        no_file = files.make_fragment(_NO_FILE, filesystem=nowhere)
        super().__init__([no_file], schema, files, nowhere)
        self._source = source
        self._partitions = partitions
        self._schema = schema

    def __repr__(self) -> str:
        return f"<hiveacid.Dataset {shortened(', '.join(self._schema.names))}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (Dataset, (self._source, self._partitions))

    @property
    def schema(self) -> pa.Schema:
        """All columns, partition columns last."""
        return self._schema

    def reader(self, columns: _Columns = None, filter: _Filter = None) -> pa.RecordBatchReader:
        """A fresh stream of the rows, as ``read_arrow``."""
        return open_rows(self._source, columns=columns, filter=filter, partitions=self._partitions)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows as batches, at least one: ``polars.from_arrow`` asks this way."""
        reader, found = self.reader(), False
        for batch in reader:
            found = True
            yield batch
        if not found:
            yield pa.RecordBatch.from_pylist([], reader.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def scanner(
        self, columns: _Columns = None, filter: _Filter = None, **_options: object
    ) -> Scanner:
        """One reading, prepared; Arrow's further options are not needed here."""
        return Scanner(self, columns, filter)

    def to_batches(
        self, columns: _Columns = None, filter: _Filter = None, **_options: object
    ) -> Iterator[pa.RecordBatch]:
        """The rows as batches."""
        return iter(self.reader(columns, filter))

    def to_table(
        self, columns: _Columns = None, filter: _Filter = None, **_options: object
    ) -> pa.Table:
        """The rows, all in memory."""
        return self.reader(columns, filter).read_all()

    def head(
        self, num_rows: int, columns: _Columns = None, filter: _Filter = None, **_options: object
    ) -> pa.Table:
        """The first rows that are found."""
        return _first(self.reader(columns, filter), num_rows)

    def count_rows(self, filter: _Filter = None, **_options: object) -> int:
        """How many rows there are."""
        return sum(batch.num_rows for batch in self.reader([], filter))

    def _refused(self, *_arguments: object, **_options: object) -> None:
        raise UnsupportedError(
            "A dataset of hiveacid has no files that Arrow could look into",
            note="to_table(columns=..., filter=...) and scanner(...) read it; their tables can"
            " do the rest.",
        )

    filter = take = join = join_asof = sort_by = _refused

    def scan_polars(self) -> pl.LazyFrame:
        """The table as a Polars LazyFrame: columns, conditions and ``head`` reach the files.

        Raises:
            MissingExtraError: Polars is not installed.
        """
        try:
            import polars
            from polars.io.plugins import register_io_source
        except ImportError as error:
            raise MissingExtraError(
                "This needs Polars, which is not installed", note="pip install polars"
            ) from error

        def batches(
            columns: list[str] | None,
            condition: pl.Expr | None,
            rows: int | None,
            batch_rows: int | None,
        ) -> Iterator[pl.DataFrame]:
            del batch_rows
            weaker: Predicate = ANYTHING
            if condition is not None and rows is None:  # else: the first rows, then the condition
                weaker = _predicate(condition)
            left = rows
            for batch in self.reader(columns, weaker):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                frame = polars.DataFrame(polars.from_arrow(pa.Table.from_batches([batch])))
                yield frame if condition is None else frame.filter(condition)
                if left == 0:
                    return

        empty = polars.DataFrame(polars.from_arrow(self._schema.empty_table()))
        return register_io_source(batches, schema=empty.schema)


class Scanner:
    """One reading of a dataset: what DuckDB asks for."""

    def __init__(self, table: Dataset, columns: _Columns, filter: _Filter) -> None:
        self._table = table
        self._columns = columns
        self._filter = filter

    @property
    def dataset_schema(self) -> pa.Schema:
        """All columns."""
        return self._table.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that are read."""
        schema = self._table.schema
        return pa.schema([schema.field(name) for name in chosen_names(schema, self._columns)])

    def to_reader(self) -> pa.RecordBatchReader:
        """A fresh stream."""
        return self._table.reader(self._columns, self._filter)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as batches."""
        return iter(self.to_reader())

    def to_table(self) -> pa.Table:
        """The rows, all in memory."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """The first rows that are found."""
        return _first(self.to_reader(), num_rows)

    def count_rows(self) -> int:
        """How many rows it gives."""
        return self._table.count_rows(self._filter)


def _first(reader: pa.RecordBatchReader, rows: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    left = rows
    for batch in reader:
        if left <= 0:
            break
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
    return pa.Table.from_batches(batches, reader.schema)


# -------------------------------------------------------------------- Polars


_POLARS_OPS: Final = {
    "Eq": Op.EQ,
    "Lt": Op.LT,
    "LtEq": Op.LE,
    "Gt": Op.GT,
    "GtEq": Op.GE,
}


def _predicate(condition: pl.Expr) -> Predicate:
    """What is understood of a Polars condition, by which files are chosen; Polars tests each row.

    The form of the text is Polars' own and may change: then nothing is understood.
    """
    from polars.exceptions import PolarsError

    unknown = (ValueError, TypeError, KeyError, AttributeError, AcidError, PolarsError)
    try:
        return _polars_predicate(json.loads(condition.meta.serialize(format="json")))
    except unknown:  # an infinity, too: JSON has none
        return ANYTHING


def _polars_predicate(node: Mapping[str, Any]) -> Predicate:
    binary, function = node.get("BinaryExpr"), node.get("Function")
    if binary is not None:
        op = binary["op"]
        if op in ("And", "LogicalAnd", "Or", "LogicalOr"):
            parts = (_polars_predicate(binary["left"]), _polars_predicate(binary["right"]))
            return conjunction(parts) if op.endswith("And") else disjunction(parts)
        if op in _POLARS_OPS:
            left, right = binary["left"], binary["right"]
            if "Column" in left:
                return _polars_comparison(left["Column"], _POLARS_OPS[op], right)
            if "Column" in right:
                return _polars_comparison(right["Column"], _POLARS_OPS[op].mirrored, left)
    if function is not None and isinstance(function["function"], Mapping):
        what, given = function["function"].get("Boolean"), function["input"]
        if what in ("IsNull", "IsNotNull") and "Column" in given[0]:
            return IsNull(given[0]["Column"], negated=what == "IsNotNull")
        if isinstance(what, Mapping) and "IsIn" in what and "Column" in given[0]:
            values = _polars_literal(given[1])
            if values is not None and not what["IsIn"].get("nulls_equal"):
                found = frozenset(value for value in values if value is not None)
                return In(given[0]["Column"], found)
    return ANYTHING


def _polars_comparison(column: str, op: Op, literal: Mapping[str, Any]) -> Predicate:
    value = _polars_literal(literal)
    return ANYTHING if value is None else Compare(column, op, value)


def _polars_literal(node: Mapping[str, Any]) -> Any:
    """The value of a literal (a Series for a list), as Polars itself reads its text."""
    import io

    import polars

    if "Literal" not in node:
        return None
    expression = polars.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")
    return polars.select(expression).item()
