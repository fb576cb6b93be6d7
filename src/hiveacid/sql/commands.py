"""Grammar of the statements that have a form of their own: LOAD, LOCK, ANALYZE, MSCK, COMPACT,
those that begin and end transactions, SHOW, DESCRIBE and ABORT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.compactions import CompactionId
from hiveacid.model.history import PinKind
from hiveacid.model.tables import Isolation, LockId, TableName, TxnId
from hiveacid.sql.columns import property_keys, property_list
from hiveacid.sql.conditions import listed_filters, partition_filter
from hiveacid.sql.cursor import Cursor, TokenKind
from hiveacid.sql.dml import optional_pairs, optional_partition
from hiveacid.sql.expressions import Fragment, Scope
from hiveacid.sql.forms import TABLE, after, form, refused, said, whole
from hiveacid.sql.moments import show_pins
from hiveacid.sql.query import QueryParser
from hiveacid.statements.analyze import Analyze
from hiveacid.statements.compact import AbortCompactions, Clean, Compact, ShowCompactions, SortItem
from hiveacid.statements.ddl.partitions import RepairTable
from hiveacid.statements.describe import DescribeDatabase, DescribeTable
from hiveacid.statements.history import DescribeHistory
from hiveacid.statements.load import Load
from hiveacid.statements.partition_values import PartitionText
from hiveacid.statements.session_state import (
    AbortLocks,
    AbortTransactions,
    Begin,
    Commit,
    LockDatabase,
    LockTable,
    ReleaseSavepoint,
    Rollback,
    SetAutocommit,
    SetTransaction,
    UnlockDatabase,
    UnlockTable,
)
from hiveacid.statements.show import (
    ShowColumns,
    ShowCreateDatabase,
    ShowCreateTable,
    ShowDatabases,
    ShowLocks,
    ShowPartitions,
    ShowTableProperties,
    ShowTables,
    ShowTransactions,
    ShowViews,
)
from hiveacid.statements.values import Command, DescribeDetail

_T = TypeVar("_T")
_PARTITION: Final = ("partition", optional_partition)

parse_load: Final = form(
    Load,
    "DATA",
    ("local", said("LOCAL")),
    "INPATH",
    ("path", lambda cursor: cursor.string("load statement")),
    ("overwrite", said("OVERWRITE")),
    "INTO TABLE",
    TABLE,
    _PARTITION,
    ("", refused("LOAD DATA ... INPUTFORMAT is not supported", "INPUTFORMAT", "SERDE")),
)
"""LOAD DATA [LOCAL] INPATH 'path' [OVERWRITE] INTO TABLE name [PARTITION (...)]"""


def _exclusive(cursor: Cursor) -> bool:
    mode = cursor.accept_any("SHARED", "EXCLUSIVE")
    if mode is None:
        raise cursor.unrecognized("lock mode")
    return mode == "EXCLUSIVE"


def _of_database_or_table(
    database: Callable[[Cursor], _T], table: Callable[[Cursor], _T]
) -> Callable[[Cursor], _T]:
    """What is said of DATABASE | SCHEMA name, or of a table."""
    return lambda cursor: (database if said("DATABASE", "SCHEMA")(cursor) else table)(cursor)


parse_lock: Final = _of_database_or_table(
    form(
        LockDatabase,
        ("schema", lambda cursor: cursor.small_name("lock statement")),
        ("exclusive", _exclusive),
    ),
    form(LockTable, "TABLE", TABLE, _PARTITION, ("exclusive", _exclusive)),
)
"""LOCK TABLE name [PARTITION (...)] mode, LOCK DATABASE | SCHEMA name mode"""
parse_unlock: Final = _of_database_or_table(
    form(UnlockDatabase, ("schema", lambda cursor: cursor.small_name("unlock statement"))),
    form(UnlockTable, "TABLE", TABLE, _PARTITION),
)
"""UNLOCK TABLE name [PARTITION (...)], UNLOCK DATABASE | SCHEMA name"""


def parse_analyze(cursor: Cursor) -> Analyze:
    """ANALYZE TABLE name [PARTITION (...)] COMPUTE STATISTICS ..."""
    cursor.expect("TABLE")
    name = cursor.table_name()
    pairs = optional_pairs(cursor)
    partition = tuple((column, text) for column, text, given in pairs if given)
    cursor.expect("COMPUTE")
    if cursor.key == "INCREMENTAL":
        raise UnsupportedError("COMPUTE INCREMENTAL STATISTICS is not supported")
    cursor.expect("STATISTICS")
    if cursor.accept("NOSCAN"):
        return Analyze(name, partition, noscan=True)
    if not (cursor.accept("FOR", "COLUMNS") or cursor.accept("FOR", "ALL", "COLUMNS")):
        return Analyze(name, partition)
    names = () if cursor.at_end() else cursor.listed(lambda _: cursor.small_name("column name"))
    return Analyze(name, partition, names)


def parse_repair(cursor: Cursor) -> RepairTable:
    """MSCK [REPAIR] TABLE name [ADD | DROP | SYNC PARTITIONS [(filters)]]"""
    repair = cursor.accept("REPAIR")
    cursor.expect("TABLE")
    name = cursor.table_name()
    kind = cursor.accept_any("ADD", "DROP", "SYNC") or "ADD"
    if not cursor.at_end():
        cursor.expect("PARTITIONS")
    where = listed_filters(cursor) if cursor.key == "(" else None
    return RepairTable(name, repair, add=kind != "DROP", drop=kind != "ADD", where=where)


_AUTOCOMMIT = re.compile(r"set\s+autocommit(?:(?:\s*=\s*|\s+)(\S+))?\s*", re.IGNORECASE)
_ON = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


def parse_set_transaction(cursor: Cursor) -> SetTransaction:
    """SET TRANSACTION ISOLATION LEVEL level"""
    cursor.expect("TRANSACTION")
    isolation = _modes(cursor)
    if isolation is None:
        raise cursor.unrecognized("isolation level")
    return SetTransaction(isolation)


def autocommit(text: str) -> SetAutocommit | None:
    """SET autocommit [[=] value]; None for another SET.

    Raises:
        InvalidInputError: the value is neither true nor false.
    """
    found = _AUTOCOMMIT.fullmatch(text)
    if found is None or found.group(1) is None:
        return None if found is None else SetAutocommit()
    on = _ON.get(found.group(1).lower())
    if on is None:
        raise InvalidInputError(f"autocommit is true or false, not {found.group(1)}")
    return SetAutocommit(on)


def _modes(cursor: Cursor) -> Isolation | None:
    """The level of a list of modes, None where it has none."""
    found: Isolation | None = None
    while not cursor.at_end():
        level = next(
            (one for one in Isolation if cursor.accept("ISOLATION", "LEVEL", one.name)), None
        )
        found = level or found
        if level is None and not cursor.accept("READ", "WRITE"):
            if cursor.key in ("ISOLATION", "READ"):
                raise UnsupportedError(
                    "A transaction is READ WRITE at ISOLATION LEVEL SNAPSHOT or SERIALIZABLE, "
                    "nothing else is supported"
                )
            raise cursor.unrecognized("transaction statement")
        cursor.accept(",")
    return found


def _savepoint(cursor: Cursor) -> str:
    if cursor.peek(1).kind is not TokenKind.END:
        cursor.accept("SAVEPOINT")
    return cursor.name("savepoint")


_WORK: Final = ("", said("TRANSACTION", "WORK"))
_ISOLATION: Final = ("isolation", _modes)

parse_start: Final = form(Begin, "TRANSACTION", _ISOLATION)
"""START TRANSACTION [ISOLATION LEVEL level | READ WRITE]"""
parse_begin: Final = form(Begin, _WORK, _ISOLATION)
"""BEGIN [TRANSACTION | WORK] [ISOLATION LEVEL level | READ WRITE]"""
parse_commit: Final = form(Commit, _WORK)
"""COMMIT [TRANSACTION | WORK]"""
parse_rollback: Final = form(Rollback, _WORK, ("savepoint", after("TO", _savepoint)))
"""ROLLBACK [TRANSACTION | WORK] [TO [SAVEPOINT] name]"""
parse_release: Final = form(ReleaseSavepoint, ("name", _savepoint))
"""RELEASE [SAVEPOINT] name"""

_FILTERS = ("POOL", "TYPE", "STATUS", "ORDER", "LIMIT")


def _buckets(cursor: Cursor) -> int:
    count = cursor.integer("number of buckets")
    cursor.expect("BUCKETS")
    return count


def parse_compact(cursor: Cursor, name: TableName, partition: PartitionText) -> Compact:
    """What follows COMPACT; the clauses have one order."""
    found = _COMPACT(cursor)
    if cursor.key == "WHERE":
        raise UnsupportedError(
            "COMPACT ... WHERE is not supported: Hive has it for Iceberg tables only",
            note="PARTITION (...) chooses a partition.",
        )
    return Compact(name, partition=partition, **found)


def parse_sort_items(text: str) -> tuple[SortItem, ...]:
    """The order of a rebalance as a user gives it in Python.

    Raises:
        SqlSyntaxError: the text is not a list of sort items.
        UnsupportedError: an expression is in it.
        InvalidInputError: it is no text.
    """
    return whole(text, lambda cursor: cursor.listed(_sort_item))


def _sort_item(cursor: Cursor) -> SortItem:
    column = cursor.small_name("order by")
    if cursor.key not in (",", "ASC", "DESC", "NULLS", "WHERE") and not cursor.at_end():
        raise UnsupportedError("COMPACT ... ORDER BY is supported with columns only")
    descending, nulls_first = cursor.descending(), cursor.nulls_first()
    return SortItem(column, descending, descending if nulls_first is None else nulls_first)


_POOL: Final = ("pool", after("POOL", lambda cursor: cursor.string("compaction pool")))
_COMPACT: Final[Callable[[Cursor], dict[str, Any]]] = form(
    dict,
    ("kind", lambda cursor: cursor.string("compaction type").lower()),
    ("buckets", after("CLUSTERED INTO", _buckets)),
    ("wait", said("AND WAIT")),
    _POOL,
    ("properties", after("WITH OVERWRITE TBLPROPERTIES", property_list, {})),
    ("order_by", after("ORDER BY", lambda cursor: cursor.listed(_sort_item), ())),
)


_LIMIT: Final = ("limit", after("LIMIT", lambda cursor: cursor.integer("limit clause")))


def optional_order(cursor: Cursor) -> tuple[tuple[str, bool], ...]:
    """ORDER BY columns of the answer, if it is there: Hive passes any text on to its database."""
    return cursor.listed(_order_item) if cursor.accept("ORDER", "BY") else ()


def _order_item(cursor: Cursor) -> tuple[str, bool]:
    if cursor.token.kind is TokenKind.STRING:
        return cursor.string().lower(), cursor.descending()
    return cursor.sort_key()


def _shown_table(cursor: Cursor) -> TableName | None:
    return None if cursor.at_end() or _at_filter(cursor) else cursor.table_name()


_FILTER: Final = (
    _POOL,
    ("kind", after("TYPE", lambda cursor: cursor.string("compaction type"))),
    ("status", after("STATUS", lambda cursor: cursor.string("compaction status"))),
    ("order", optional_order),
    _LIMIT,
)
_compactions: Final = _of_database_or_table(
    form(
        ShowCompactions, ("schema", lambda cursor: cursor.small_name("show compactions")), *_FILTER
    ),
    form(ShowCompactions, ("name", _shown_table), _PARTITION, *_FILTER),
)
_compaction: Final = form(
    ShowCompactions,
    "=",
    ("compaction", lambda cursor: CompactionId(cursor.integer("compaction id"))),
)


def _at_filter(cursor: Cursor) -> bool:
    """At a clause, not at a table that happens to be called so."""
    follower = cursor.peek(1)
    if cursor.key == "ORDER":
        return follower.key == "BY"
    kind = TokenKind.NUMBER if cursor.key == "LIMIT" else TokenKind.STRING
    return cursor.key in _FILTERS and follower.kind is kind


def ids(cursor: Cursor) -> tuple[int, ...]:
    """Whole numbers up to the end, with or without commas."""
    found = [cursor.integer("ids")]
    while not cursor.at_end():
        cursor.accept(",")
        found.append(cursor.integer("ids"))
    return tuple(found)


# -------------------------------------------------------------------- SHOW, DESCRIBE, ABORT


def parse_show(cursor: Cursor) -> Command | Fragment:
    """SHOW ..."""
    word = cursor.key
    for words, read in _SHOWN.items():
        if cursor.accept(*words):
            return read(cursor)
    raise UnsupportedError(f"SHOW {word} is not supported")


def _database(cursor: Cursor) -> str | None:
    if cursor.accept_any("IN", "FROM") is None:
        return None
    return cursor.small_name("show statement")


def _type(cursor: Cursor) -> str | None:
    """WHERE table_type = 'type', the only condition that Hive knows."""
    if not cursor.accept("WHERE"):
        return None
    if cursor.small_name("show statement") != "table_type":
        raise UnsupportedError("SHOW TABLES is supported with WHERE table_type = 'type' only")
    cursor.expect("=")
    return cursor.string("show statement")


def _as_it_stands(cursor: Cursor, start: int) -> Fragment:
    """Spark's own statement, from this token to the end."""
    cursor.at = len(cursor.tokens) - 1
    return QueryParser(cursor).fragment(Scope(), start)


def _pattern(cursor: Cursor) -> str | None:
    if cursor.accept("LIKE") or cursor.token.kind is TokenKind.STRING:
        return cursor.string("pattern")
    return None


_partitions: Final = form(
    ShowPartitions,
    TABLE,
    _PARTITION,
    ("where", after("WHERE", partition_filter)),
    ("order", optional_order),
    _LIMIT,
)


def _columns(cursor: Cursor) -> ShowColumns:
    if cursor.accept_any("IN", "FROM") is None:
        raise cursor.unrecognized("show columns")
    name = cursor.table_name()
    if cursor.accept_any("IN", "FROM") is not None:
        name = TableName(cursor.name("show columns"), name.table)
    return ShowColumns(name, _pattern(cursor))


def _has_name(cursor: Cursor) -> bool:
    return cursor.token.is_name and cursor.key != "EXTENDED"


_EXTENDED: Final = ("extended", said("EXTENDED"))
_locks: Final = _of_database_or_table(
    form(ShowLocks, ("schema", lambda cursor: cursor.small_name("show locks")), _EXTENDED),
    form(
        ShowLocks,
        ("name", lambda cursor: cursor.table_name() if _has_name(cursor) else None),
        _PARTITION,
        _EXTENDED,
    ),
)


def _shown_properties(cursor: Cursor) -> ShowTableProperties:
    name = cursor.table_name()
    keys = property_keys(cursor) if cursor.key == "(" else (None,)
    return ShowTableProperties(name, keys[0])


_SHOWN: Mapping[tuple[str, ...], Callable[[Cursor], Command | Fragment]] = {
    ("DATABASES",): lambda cursor: ShowDatabases(_pattern(cursor)),
    ("SCHEMAS",): lambda cursor: ShowDatabases(_pattern(cursor)),
    ("TABLES",): lambda cursor: ShowTables(_database(cursor), _pattern(cursor), _type(cursor)),
    ("MATERIALIZED", "VIEWS"): lambda cursor: ShowTables(
        _database(cursor), _pattern(cursor), "MATERIALIZED_VIEW"
    ),
    ("FUNCTIONS",): lambda cursor: _as_it_stands(cursor, cursor.at - 2),
    ("VIEWS",): lambda cursor: ShowViews(_database(cursor), _pattern(cursor)),
    ("PARTITIONS",): _partitions,
    ("COLUMNS",): _columns,
    ("TBLPROPERTIES",): _shown_properties,
    **dict.fromkeys(
        (("CREATE", "DATABASE"), ("CREATE", "SCHEMA")),
        lambda cursor: ShowCreateDatabase(cursor.small_name("show statement")),
    ),
    ("CREATE", "TABLE"): lambda cursor: ShowCreateTable(cursor.table_name()),
    ("TAGS",): lambda cursor: show_pins(cursor, PinKind.TAG),
    ("CONSUMERS",): lambda cursor: show_pins(cursor, PinKind.CONSUMER),
    ("TRANSACTIONS",): lambda _: ShowTransactions(),
    ("LOCKS",): _locks,
    ("COMPACTIONS", "COMPACTIONID"): _compaction,
    ("COMPACTIONS",): _compactions,
}


def parse_describe(cursor: Cursor) -> Command | Fragment:
    """DESCRIBE | DESC [DATABASE | SCHEMA | TABLE] [EXTENDED | FORMATTED] name ..., QUERY query"""
    if cursor.key == "QUERY" and cursor.at_query(ahead=1):
        start, scope, parser = cursor.at - 1, Scope(), QueryParser(cursor)
        cursor.next()
        parser.query(scope)
        return parser.fragment(scope, start)  # Spark's own statement, over tables of ours
    if cursor.key in ("DATABASE", "SCHEMA") and cursor.peek(1).kind is not TokenKind.END:
        cursor.next()
        extended = cursor.accept("EXTENDED")
        return DescribeDatabase(cursor.small_name("describe database"), extended)
    if cursor.key == "FUNCTION" and cursor.peek(1).kind is TokenKind.WORD:
        return _as_it_stands(cursor, cursor.at - 1)
    named = cursor.peek(1).is_name
    if cursor.key == "HISTORY" and named:
        cursor.next()
        name = cursor.table_name()
        if cursor.accept("WHERE"):
            start = cursor.at
            cursor.at = len(cursor.tokens) - 1
            return DescribeHistory(name, where=cursor.between(start, cursor.at))
        limit = cursor.integer("limit") if cursor.accept("LIMIT") else None
        return DescribeHistory(name, limit)
    if cursor.key == "DETAIL" and named:
        cursor.next()
        return DescribeDetail(cursor.table_name())
    if cursor.key == "TABLE" and cursor.peek(1).kind is TokenKind.WORD:
        cursor.next()
    formatted = extended = False
    if cursor.key in ("FORMATTED", "EXTENDED") and cursor.peek(1).is_name:
        word = cursor.next().key
        formatted, extended = word == "FORMATTED", word == "EXTENDED"
    name = cursor.table_name()
    partition = optional_partition(cursor)
    column = () if cursor.at_end() else cursor.listed(_step, by=".")
    return DescribeTable(name, column, partition, formatted, extended)


def _step(cursor: Cursor) -> str:
    """A field, or what is inside a list or map: $elem$, $key$, $value$."""
    mark = "$" * cursor.accept("$")
    name = cursor.small_name("describe statement")
    if mark:
        cursor.expect("$")
    return f"{mark}{name}{mark}"


def parse_vacuum(cursor: Cursor) -> Clean:
    """VACUUM [TABLE] name [RETAIN n HOURS] [DRY RUN]."""
    if cursor.key == "TABLE" and cursor.peek(1).is_name:
        cursor.next()
    name = cursor.table_name()
    retain_s = None
    if cursor.accept("RETAIN"):
        retain_s = cursor.integer("hours to retain") * 3600.0
        cursor.expect("HOURS")
    return Clean(name, cursor.accept("DRY", "RUN"), retain_s)


def parse_abort(cursor: Cursor) -> AbortTransactions | AbortLocks | AbortCompactions:
    """ABORT TRANSACTIONS id ..., ABORT LOCKS id ..., ABORT COMPACTIONS id ..."""
    if cursor.accept("COMPACTIONS"):
        return AbortCompactions(tuple(map(CompactionId, ids(cursor))))
    if cursor.accept("LOCKS"):
        return AbortLocks(tuple(map(LockId, ids(cursor))))
    cursor.expect("TRANSACTIONS")
    return AbortTransactions(tuple(map(TxnId, ids(cursor))))
