"""How a session of Spark's is spoken to: what it is asked, what it is set to for a moment, and what
stands in the text of a query.

That are names and literals; rows that the driver has; and, of files that Spark reads, a relation
that is kept for the next query of the same files, with what a scan chooses of it. Each is few calls
to Spark's JVM, where a DataFrame costs a dozen.

Spark need not be installed: statements are made without it.
"""

from __future__ import annotations

import logging
import re
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hiveacid.errors import ConversionError, InvalidInputError, UnsupportedError
from hiveacid.model.tables import Column
from hiveacid.storage.arrow_types import arrow_type, hive_type
from hiveacid.storage.failures import is_passing
from hiveacid.storage.locations import root_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ROW_ID_COLUMN: Final = "ROW__ID"
QUALIFIES: Final = "__hiveacid_qualifies"
"""The column of what QUALIFY says, which is left out again as only Spark 4 can."""
_AS_IT_IS: Final = re.compile(r"[A-Za-z0-9 ,.;:_/#@%&*()=<>!?|~^+-]*")
"""Texts of which no setting of Spark's takes a part for something else."""
BRACKETED: Final = reduce(
    lambda inner, _: rf"/\*(?:(?!/\*|\*/).|{inner})*\*/", range(5), r"/\*(?:(?!/\*|\*/).)*\*/"
)
"""A comment in brackets, with DOTALL: one within it ends for itself, to a depth of five."""
_STRING: Final = re.compile(
    rf"--[^\r\n]*|{BRACKETED}"
    r"""|`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\b[rR]"[^"]*"|"((?:[^"\\]|\\.)*)\"""",
    re.DOTALL,
)
_OTHERWISE: Final = ('"', "''", "\\\n")
"""Only texts with one of these may say something else to Spark."""
_IN_STRING: Final = re.compile(r"\\.|'", re.DOTALL)


def quoted(*names: str) -> str:
    """A name, or a path of names, in back-quotes."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def literal(value: str | None) -> str:
    """A string literal, or NULL."""
    if value is None:
        return "cast(null as string)"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def constant(value: str | None) -> str:
    """An expression of a text, or of NULL, which is the same whatever the session's settings are:
    some unescape no literals, some take a part of a text for a variable.
    """
    if value is None or _AS_IT_IS.fullmatch(value):
        return literal(value)
    return f"cast(X'{value.encode().hex()}' as string)"


def single_quoted(text: str) -> str:
    """A text of Hive's with its strings in single quotes: with Spark's
    ``spark.sql.ansi.doubleQuotedIdentifiers`` what stands in double quotes is a name. Between two
    strings stands a blank: Spark 4 reads ``'it''s'`` as ``it's``, Hive as ``its``. A comment loses
    its last backslash, after which Spark takes the next line for a part of it.
    """

    def one(found: re.Match[str]) -> str:
        at, said = found.start(), found[0]
        if said.startswith("--"):
            return said.rstrip("\\")
        if found[1] is not None:
            inside = _IN_STRING.sub(lambda part: "\\'" if part[0] == "'" else part[0], found[1])
            said = f"'{inside}'"
        touches = said[0] == "'" and text[max(at - 1, 0) : at] in ("'", '"')
        return f" {said}" if touches else said

    return _STRING.sub(one, text) if any(mark in text for mark in _OTHERWISE) else text


_KEPT_MAX: Final = 32
_FILES_MAX: Final = 1_000
"""A relation of more files is not kept: Spark holds the status of each."""
_KEPT: Final[OrderedDict[object, DataFrame]] = OrderedDict()
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a scan takes of a relation: select expressions, a condition."""

    frame: DataFrame
    columns: Sequence[str]
    where: str

    def over(self, name: str) -> str:
        """The query in brackets, where ``name`` is the relation: one analysis of Spark's in the
        place of three.
        """
        return f"(select {', '.join(self.columns)} from {name} where {self.where})"

    def rows(self) -> DataFrame:
        """The rows as a DataFrame."""
        return self.frame.where(self.where).selectExpr(*self.columns)


def kept(
    spark: SparkSession,
    scan: Hashable,
    files: Sequence[tuple[str, int, int]],
    load: Callable[[], DataFrame],
) -> DataFrame:
    """What ``load`` makes of files, or made of them for the same ``scan`` before, which says all
    else that it depends on. Each file has its path, length and time of change, as a listing of now
    says them: another file of the same name is another relation.
    """
    known_times = all(modified_ns for _, _, modified_ns in files)
    if not known_times or len(files) > _FILES_MAX:
        return load()
    key = (spark, scan, tuple(files))
    with _LOCK:
        if key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
    frame = load()
    with _LOCK:
        _KEPT[key] = frame
        while len(_KEPT) > _KEPT_MAX:
            _KEPT.popitem(last=False)
    return frame


CELLS_MAX: Final = 1_000
"""More values than these are handed over as a DataFrame."""
_IS_ROW: Final = "__hiveacid_row"


@dataclass(frozen=True, slots=True)
class InlineColumn:
    """A column with its type as Spark writes it."""

    name: str
    type: str
    values: pa.ChunkedArray


def rows_text(columns: Sequence[InlineColumn], wanted: Sequence[str]) -> str | None:
    """A query in brackets that gives rows: the expressions ``wanted`` over ``columns``; None where
    they are many, or of a type whose values are not written as text.

    Columns may be NULL, as those of files: a row of nothing but NULL, which is left out again, says
    so, and says the types.
    """
    kinds = [column.type.partition("(")[0] for column in columns]
    if not columns or not _CELLS.keys() >= set(kinds):
        return None
    rows = len(columns[0].values)
    if rows * len(columns) > CELLS_MAX:
        return None
    cells = [["true"] * rows]
    for column, kind in zip(columns, kinds, strict=True):
        values = column.values.cast(pa.int32()) if kind == "date" else column.values
        cell = _CELLS[kind]
        try:
            cells.append(["null" if one is None else cell(one) for one in values.to_pylist()])
        except OverflowError:  # a year that Python's times do not have
            return None
    nothing = ", ".join(f"cast(null as {column.type})" for column in columns)
    lines = [f"(false, {nothing})", *(f"({', '.join(row)})" for row in zip(*cells, strict=True))]
    names = ", ".join(quoted(name) for name in (_IS_ROW, *(column.name for column in columns)))
    return (
        f"(select {', '.join(wanted)} from values {', '.join(lines)} as {_IS_ROW}s({names})"
        f" where {_IS_ROW})"
    )


_CELLS: Final[Mapping[str, Callable[..., str]]] = {
    "boolean": lambda value: "true" if value else "false",
    "tinyint": "{}Y".format,
    "smallint": "{}S".format,
    "int": "{}".format,
    "bigint": "{}L".format,
    "float": "cast('{!r}' as float)".format,
    "double": "cast('{!r}' as double)".format,
    "decimal": "{:f}BD".format,
    "date": "date_from_unix_date({})".format,
    "timestamp_ntz": "timestamp_ntz'{}'".format,
    "string": constant,
    "binary": lambda value: f"X'{value.hex()}'",
}


_LOG: Final = logging.getLogger(__name__)
_UTC = frozenset({"UTC", "Z", "GMT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu"})
_SUBSTITUTE: Final = "spark.sql.variable.substitute"
_REACHED: weakref.WeakKeyDictionary[SparkSession, dict[str, bool]] = weakref.WeakKeyDictionary()
_HEAP_SHARE: Final = 32
_JVM_ZONES: weakref.WeakKeyDictionary[SparkSession, str] = weakref.WeakKeyDictionary()
_NAMES_LOCAL_TIMES: weakref.WeakKeyDictionary[SparkSession, bool] = weakref.WeakKeyDictionary()


def names_local_times(spark: SparkSession) -> bool:
    """Whether Spark reads ORC files with a column of ``timestamp with local time zone``: its reader
    parses that name, which the grammar of older versions has not. Asks the session once.
    """
    from pyspark.errors import ParseException

    if spark not in _NAMES_LOCAL_TIMES:
        try:
            spark.sql("select cast(null as timestamp with local time zone)")
            _NAMES_LOCAL_TIMES[spark] = True
        except ParseException:
            _NAMES_LOCAL_TIMES[spark] = False
    return _NAMES_LOCAL_TIMES[spark]


def is_utc(spark: SparkSession) -> bool:
    """Whether the session's time zone and the JVM's are UTC; asks the JVM by a query, once.

    ORC's Java library takes a wall clock for one of the JVM's time zone, Spark shows it in the
    session's. Where both are UTC nothing is lost on the way; elsewhere some wall clocks do not
    exist or stand for two times, and those of before 1900 depend on the library.
    """
    if not shows_utc(spark):
        return False
    if spark not in _JVM_ZONES:
        zone = "java_method('java.time.ZoneId', 'systemDefault')"
        _JVM_ZONES[spark] = spark.sql(f"select {zone}").collect()[0][0]
    return _JVM_ZONES[spark] in _UTC


def shows_utc(spark: SparkSession) -> bool:
    """Whether the session's time zone is UTC."""
    return spark.conf.get("spark.sql.session.timeZone") in _UTC


def reads_files(spark: SparkSession, location: str) -> bool:
    """Whether Spark itself reads files of the place where a location is, which exists.

    Asked once for each bucket or name node and session, by having Spark look: its JVM may lack the
    library (``hadoop-aws``), or the credentials that are known here.
    """
    root = root_of(location)
    if root == "/":
        return True
    known = _REACHED.setdefault(spark, {})
    if root not in known:
        reader = spark.read.format("text").schema("value string")
        # of one path that it does not reach Spark logs a Java trace
        paths = 2 * [no_glob(spark_path(location))]
        try:
            known[root] = bool(reader.load(paths).schema)
        except Exception as error:  # PySpark's, or py4j's: whatever it is, Spark does not reach it
            text = "Spark reads no files of %s, so hiveacid does: %s"
            _LOG.info(text, root, str(error).partition("\n")[0], extra={"root": root})
            if is_passing(error):  # nobody knows until it answers
                return False
            known[root] = False
    return known[root]


def spark_path(location: str) -> str:
    """A location as Spark must be told it: a bare path is a local file, whatever the default file
    system, and Hadoop's name for S3 is ``s3a``.
    """
    if location.startswith("/"):
        return f"file://{location}"
    return re.sub("^s3n?:", "s3a:", location)


def no_glob(path: str) -> str:
    """A path as a reader of Spark must be told it, with the letters of a glob escaped: Spark
    Connect does not know the option that turns globs off, and with it Spark (3.5 to 4.3) takes all
    paths anew for each one that looks like a glob.
    """
    return re.sub(r"[{}\[\]*?\\]", r"\\\g<0>", path)


@dataclass
class _Held:
    """A name that blocks have set: what it was before, is now, and what each block wants."""

    before: str | None
    now: str | None
    wanted: list[str] = field(default_factory=list)


@dataclass
class _SessionsNames:
    lock: threading.Lock = field(default_factory=threading.Lock)
    held: dict[str, _Held] = field(default_factory=dict)


_NAMES: weakref.WeakKeyDictionary[SparkSession, _SessionsNames] = weakref.WeakKeyDictionary()


@contextmanager
def session_conf(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Sets ``values`` in the session's configuration for the length of a block.

    A name that this version of Spark does not know does no harm. Threads may share a session, as
    streaming queries do: what it was comes back when the last of them leaves.
    """
    names = _NAMES.setdefault(spark, _SessionsNames())
    with names.lock:
        for name, value in values.items():
            if name not in names.held:
                before = spark.conf.get(name, None)
                names.held[name] = _Held(before, before)
            names.held[name].wanted.append(value)
            _put(spark, name, names.held[name], value)
    try:
        yield
    finally:
        with names.lock:
            for name, value in values.items():
                held = names.held[name]
                held.wanted.remove(value)
                if not held.wanted:
                    del names.held[name]
                _put(spark, name, held, held.wanted[-1] if held.wanted else held.before)


def _put(spark: SparkSession, name: str, held: _Held, value: str | None) -> None:
    if held.now == value:
        return
    held.now = value
    if value is None:
        spark.conf.unset(name)
    else:
        spark.conf.set(name, value)


def is_ansi(spark: SparkSession) -> bool:
    """Whether Spark's casts and arithmetic raise errors (Spark 4's default) instead of giving
    NULL.
    """
    # with a default given, an unset name would answer that default, not Spark's
    return spark.conf.get("spark.sql.ansi.enabled") == "true"


def check_names(spark: SparkSession, columns: Iterable[Column]) -> None:
    """Columns of which Spark's SQL can say the names.

    Raises:
        UnsupportedError: in one of them, Spark would put the value of a variable, or nothing.
    """
    found = next((one.name for one in columns if "${" in one.name), None)
    if found is not None and spark.conf.get(_SUBSTITUTE, "true") == "true":
        raise UnsupportedError(
            f"Spark would take another name for column {found}: it replaces variables in its texts",
            column=found,
            note=f"SET {_SUBSTITUTE}=false",
        )


def driver_memory(spark: SparkSession) -> int:
    """The bytes of the driver's heap, as ``spark.driver.memory`` says; Spark's 1 GiB where it does
    not. A number without a unit means MiB, as to Spark.
    """
    return size_bytes(spark.conf.get("spark.driver.memory", "1g") or "1g", unit="m")


def size_bytes(text: str, *, unit: str) -> int:
    """The bytes that a setting of Spark's says, of which a number alone means ``unit`` (``b``,
    ``k``, ``m``, ``g``, ``t`` or ``p``); 1 GiB where it says none.
    """
    found = re.fullmatch(r"(\d+)([bkmgtp]?)b?", text.strip().lower())
    return int(found[1]) << 10 * "bkmgtp".index(found[2] or unit) if found else 1 << 30


def driver_share(spark: SparkSession) -> int:
    """How many bytes of rows a statement may collect into the driver: a fixed part of its heap,
    since rows are several times as large there as Spark's estimate, which may be that of files.
    """
    return driver_memory(spark) // _HEAP_SHARE


# -------------------------------------------------------------------- rows that the driver has
# Rows that the driver has, as DataFrames that need no Python workers.
#
# PySpark hands rows of Python's to its workers when they are looked at: two processes and a daemon
# of their own, a second or more for the first such statement.


_ARROW_FRAMES: Final = 4
"""Spark takes Arrow tables from this version on."""
_QUIET: Final = threading.Lock()
"""Filters of warnings are the process's: two threads would give back each other's."""


def takes_arrow(spark: SparkSession) -> bool:
    """Whether ``createDataFrame`` takes an Arrow table."""
    return int(spark.version.partition(".")[0]) >= _ARROW_FRAMES


def local_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """An Arrow table of numbers and texts without nulls, in the plan itself: no job, no Python
    workers.
    """
    if takes_arrow(spark):
        return spark.createDataFrame(rows, schema)
    arrow = {"spark.sql.execution.arrow.pyspark.enabled": "true"}
    with _QUIET, session_conf(spark, arrow), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, that PySpark 3.5 calls what it gives up
        return spark.createDataFrame(rows.to_pandas(), schema)


def given_rows(
    spark: SparkSession, given: Sequence[tuple[object, ...]], schema: StructType
) -> DataFrame:
    """Rows, at least one, of strings and numbers; by way of Python workers before Spark 4."""
    if not takes_arrow(spark):
        return spark.createDataFrame(list(given), schema)
    from pyspark.sql.pandas.types import to_arrow_schema

    types = to_arrow_schema(schema)
    columns = zip(zip(*given, strict=True), types.types, strict=True)
    arrays = [pa.array(column, type=its_type) for column, its_type in columns]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=types), schema)


def arrow_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """An Arrow table, its columns of the types that tables have; by way of Python workers before
    Spark 4.

    Raises:
        InvalidInputError: no column, or one of a type that no table has.
        ConversionError: a value that its type there cannot hold.
    """
    if not rows.schema.names:
        raise InvalidInputError("the rows have no columns")

    def stored(kind: pa.DataType) -> pa.DataType:
        kind = _WIDER.get(kind, kind)
        return kind if pa.types.is_null(kind) else arrow_type(hive_type(kind))

    try:
        rows = rows.cast(pa.schema([(field.name, stored(field.type)) for field in rows.schema]))
    except pa.ArrowInvalid as error:
        raise ConversionError(f"the rows cannot be handed to Spark: {error}") from error
    from pyspark.sql.pandas.types import from_arrow_schema

    # A wall clock may be one that the session's zone skips or has twice: no moment is made of it.
    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    if takes_arrow(spark):
        return spark.createDataFrame(rows, schema)
    given = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return spark.createDataFrame(given, schema)


_WIDER: Final = {pa.uint64(): pa.decimal128(20, 0), pa.float16(): pa.float32()}
"""Numbers of which Hive has no type, while each of them may fit a column."""


def without_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows, and no job: Spark sees by the condition that there is nothing to run."""
    return spark.createDataFrame([], schema).where("false")
