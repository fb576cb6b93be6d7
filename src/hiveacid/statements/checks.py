"""Compile-time checks of DML that need only the table's definition, with Hive's codes and words.

Shared by SQL and the Python builders: ``plan`` of each kind calls ``check`` before it asks for
locks, so that a refused statement uses up no write id (real-hive.md 9).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import AcidMode, Table, TableKind, check_mode
from hiveacid.statements.values import (
    Delete,
    Expression,
    Insert,
    Literals,
    MatchedDelete,
    MatchedUpdate,
    Merge,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    Update,
)

_TEXT: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*["]""", re.DOTALL)
_NAME: Final = re.compile(r"`([^`]+)`|(\w+)\b(?!\s*\()")
_WORDS: Final = re.compile(
    "and|or|not|is|null|true|false|in|like|between|case|when|then|else|end|as"
)
EVOLVE: Final = "evolve=True (SQL: SET hiveacid.schema.evolve=true), or ALTER TABLE ... ADD COLUMNS"
"""How columns that the data has more are added."""


def check(statement: Insert | Update | Delete | Merge, table: Table) -> None:
    """Refuses what Hive refuses to compile; ``table`` is the statement's target.

    Raises:
        InvalidInputError: 10090, 10402 (a view), 10292, 10297, 10302, 10404 to 10406, 10408, 10414,
        10044 or without a code.
    """
    check_mode(table)
    if isinstance(statement, Insert):
        check_insert(statement, table)
    elif isinstance(statement, Update):
        check_row_changes(table)
        check_assigned([name for name, _ in statement.assignments], table)
    elif isinstance(statement, Delete):
        check_row_changes(table, rows=statement.where is not None)
    else:
        check_merge(statement, table)


def check_row_changes(table: Table, *, rows: bool = True) -> None:
    """Rows of the table can be updated and deleted; without ``rows`` only all of them, or new ones
    inserted by a MERGE.

    Raises:
        InvalidInputError: 10402 (a view), 10297 (not transactional), 10414 (insert-only).
    """
    name = table.name.table
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(
            "You cannot update or delete records in a view", code=10402, view=str(table.name)
        )
    if not rows:
        return
    if table.acid_mode is AcidMode.NONE:
        raise InvalidInputError(
            f"Attempt to do update or delete on table {name} that is not transactional",
            code=10297,
            table=str(table.name),
            note="ALTER TABLE t SET TBLPROPERTIES ('transactional'='true') converts a table.",
        )
    if table.acid_mode is AcidMode.INSERT_ONLY:
        raise InvalidInputError(
            f"Attempt to do update or delete on table {name} that is insert-only transactional",
            code=10414,
            table=str(table.name),
        )


def check_assigned(columns: Sequence[str], table: Table) -> None:
    """The columns exist, may be updated, and none is there twice.

    Raises:
        InvalidInputError: 10292 (partition column), 10302 (bucketing column), 10408 (unknown).
    """
    known = {column.name for column in table.columns}
    partition = set(table.partition_keys)
    for column in (name.lower() for name in columns):
        if column in partition:
            raise InvalidInputError(
                "Updating values of partition columns is not supported",
                code=10292,
                table=str(table.name),
                column=column,
            )
        if column in table.bucket_columns:
            raise InvalidInputError(
                f"Updating values of bucketing columns is not supported. Column {column}.",
                code=10302,
                table=str(table.name),
                column=column,
            )
        if column not in known:
            whole = column.partition(".")[0]
            raise InvalidInputError(
                f'Target column "{column}" of set clause is not found in table "{table.name}".',
                code=10408,
                table=str(table.name),
                column=column,
                note=f"Fields are not set one by one: give {whole} a new value, named_struct(...)."
                if whole in known
                else None,
            )
    refuse_repeated([name.lower() for name in columns], "SET clause", table)


def refuse_repeated(columns: Sequence[str], where: str, table: Table) -> None:
    """No column is named twice.

    Raises:
        InvalidInputError: one is.
    """
    for number, column in enumerate(columns):
        if column in columns[:number]:
            raise InvalidInputError(
                f"Column {column} is named twice in the {where}",
                table=str(table.name),
                column=column,
            )


# -------------------------------------------------------------------- MERGE


def check_merge(statement: Merge, table: Table) -> None:
    """The clauses fit together and to the table.

    Raises:
        InvalidInputError: 10008 (source and target have one name), 10404 to 10406 (a clause that
            can never apply), or as ``check_row_changes``, ``check_assigned``, ``check_insert``.
    """
    only_inserts = all(isinstance(clause, NotMatchedInsert) for clause in statement.clauses)
    check_row_changes(table, rows=not only_inserts)
    target = (statement.alias or statement.table.table).lower()
    if statement.source_alias is not None and statement.source_alias.lower() == target:
        raise InvalidInputError(
            f"Ambiguous table alias '{target}'", code=10008, table=str(statement.table)
        )
    _check_reachable(statement)
    for clause in statement.clauses:
        if isinstance(clause, NotMatchedInsert) and not clause.all_columns:
            columns = tuple(name.lower() for name in clause.columns)
            _check_column_list(columns, table)
            width = len(columns) or len(table.all_columns)
            check_width(len(clause.values), table, expected=width)
        elif isinstance(clause, (MatchedUpdate, NotMatchedBySourceUpdate)):
            check_assigned([name for name, _ in clause.assignments], table)


def _check_reachable(statement: Merge) -> None:
    groups: tuple[tuple[type, ...], ...] = (
        (MatchedUpdate, MatchedDelete),
        (NotMatchedBySourceUpdate, NotMatchedBySourceDelete),
        (NotMatchedInsert,),
    )
    for group in groups:
        clauses = [clause for clause in statement.clauses if isinstance(clause, group)]
        for number, clause in enumerate(clauses[:-1]):
            if clause.condition is None:
                code, text = _UNREACHABLE.get((type(clause), type(clauses[number + 1])), _BOTH)
                raise InvalidInputError(
                    f"{text} without a condition: a clause after one without a condition never"
                    " applies",
                    code=code,
                    table=str(statement.table),
                )


_BOTH: Final = (
    10404,
    'MERGE statement with both UPDATE and DELETE clauses requires "AND <boolean>" on the 1st WHEN'
    " MATCHED clause",
)
_UNREACHABLE: Final[Mapping[tuple[type, type], tuple[int, str]]] = {
    (MatchedDelete, MatchedDelete): (
        10405,
        "MERGE statement can have at most 1 WHEN MATCHED ... DELETE clause",
    ),
    (MatchedUpdate, MatchedUpdate): (
        10406,
        "MERGE statement can have at most 1 WHEN MATCHED ... UPDATE clause",
    ),
}
"""What Hive says of two clauses, the first of which has no condition."""


# -------------------------------------------------------------------- INSERT


def check_insert(statement: Insert, table: Table) -> None:
    """Column list, partition specification and, for literal rows, their width.

    Raises:
        InvalidInputError: 10044 (number of columns), 10094 (static below dynamic), 10096 or
        without code.
    """
    if table.kind is TableKind.VIEW:
        text = "A view cannot be used as target table for LOAD or INSERT"
        raise InvalidInputError(text, code=10090, view=str(table.name))
    columns = tuple(name.lower() for name in statement.columns)
    _check_column_list(columns, table)
    _check_partition(statement, table)
    static = {name.lower() for name in statement.partition}
    for column in columns:
        if column in static:
            raise InvalidInputError(
                f"'{column}' in insert schema specification is also a static partition column",
                table=str(table.name),
                column=column,
            )
    if isinstance(statement.source, Literals):
        for row in statement.source.rows:
            check_width(len(row), table, expected=insert_width(statement, table))


def insert_width(statement: Insert, table: Table) -> int:
    """How many columns the source of the INSERT must have."""
    if statement.columns:
        return len(statement.columns)
    return len(table.all_columns) - len(statement.partition)


def check_width(found: int, table: Table, *, expected: int) -> None:
    """The number of columns.

    Raises:
        InvalidInputError: 10044.
    """
    if found != expected:
        raise InvalidInputError(
            "Cannot insert into target table because column number/types are different "
            f"'{table.name.table}': Table insclause-0 has {expected} columns, but query has "
            f"{found} columns.",
            code=10044,
            table=str(table.name),
            expected=expected,
            found=found,
        )


def check_has_columns(found: Sequence[str], wanted: Sequence[str], table: Table) -> None:
    """Data that is matched by name has all columns that are written, and no others.

    Raises:
        InvalidInputError: 10004 columns are missing; it has others.
    """
    there = {name.lower() for name in found}
    refuse_extra(found, wanted, table)
    missing = [name for name in wanted if name not in there]
    if missing:
        raise InvalidInputError(
            f"The data for {table.name} lacks the columns {', '.join(missing)}; it has"
            f" {', '.join(found)}",
            code=10004,
            table=str(table.name),
            note="Name the columns that are given: insert(frame, columns=[...]).",
        )


def check_has_partition_columns(
    found: Collection[str], table: Table, *, static: Collection[str] | None = None
) -> None:
    """Data has the partition columns that are not ``static`` (None: there is no such way): they
    have no default.

    Raises:
        InvalidInputError: one is missing.
    """
    given = {name.lower() for name in (*found, *(static or ()))}
    missing = [column.name for column in table.partition_columns if column.name not in given]
    if missing:
        raise InvalidInputError(
            f"data for {table.name} lacks the partition columns {', '.join(missing)}",
            table=str(table.name),
            note="Give them as columns." if static is None else "Or give them by partition={...}.",
        )


def columns_named(statement: Merge) -> set[str]:
    """The names in a MERGE's expressions: what they name is not lost where a clause takes all."""
    texts: list[Expression] = [statement.on]
    for clause in statement.clauses:
        given = [value for _, value in getattr(clause, "assignments", ())]
        texts += [
            *([] if clause.condition is None else [clause.condition]),
            *given,
            *getattr(clause, "values", ()),
        ]
    return names_in(texts, statement.alias or statement.table.table, statement.source_alias)


def names_in(texts: Sequence[Expression], *aliases: str | None) -> set[str]:
    """The names of columns in expressions, in lower case: no word of a text that they hold, no
    alias before a dot, no function and no word of SQL itself.
    """
    # A Column is shown as ``Column<'(s.op = D)'>``; some versions put quotes around the text in it.
    shown = [
        text if isinstance(text, str) else str(text)[len("Column<'") : -len("'>")] for text in texts
    ]
    said = [_TEXT.sub(" ", text) for text in shown]
    either = "|".join(map(re.escape, filter(None, aliases)))
    qualifier = re.compile(rf"(?<![\w.])`?(?:{either})`?\s*\.", re.IGNORECASE)
    names = _NAME.findall(qualifier.sub(" ", " ".join(said)).lower())
    return {quoted or word for quoted, word in names if quoted or not _WORDS.fullmatch(word)}


def refuse_extra(names: Sequence[str], wanted: Collection[str], table: Table) -> None:
    """The data has no column but those ``wanted``, each once: another would be lost.

    Raises:
        InvalidInputError: it has others.
    """
    lost = [name for name in names if name.lower() not in wanted]
    if not lost:
        refuse_repeated([name.lower() for name in names], "data", table)
        return
    known = ", ".join(table.column_names)
    raise InvalidInputError(
        f"The data has columns that would be lost: {', '.join(lost)}; {table.name} has {known}",
        table=str(table.name),
        columns=tuple(lost),
        note=f"Leave them out of the data, or add them to the table: {EVOLVE}.",
    )


def _check_column_list(columns: Sequence[str], table: Table) -> None:
    known = set(table.column_names)
    for column in columns:
        if column not in known:
            raise InvalidInputError(
                f"'{column}' in insert schema specification is not found among regular columns of "
                f"{table.name} nor dynamic partition columns.",
                table=str(table.name),
                column=column,
                note="SET hiveacid.schema.evolve=true lets INSERT INTO t (columns) SELECT add it.",
            )
    refuse_repeated(columns, "column list", table)


def _check_partition(statement: Insert, table: Table) -> None:
    named = [name.lower() for name in (*statement.partition, *statement.dynamic_partition)]
    if not named:
        return
    order = list(table.partition_keys)
    for name in named:
        if name not in order:
            raise InvalidInputError(
                f"{table.name} has no partition column {name}: its partition columns are {order}",
                code=10098,
                table=str(table.name),
                column=name,
            )
    refuse_repeated(named, "partition specification", table)
    missing = [name for name in order if name not in named]
    if missing:
        raise InvalidInputError(
            f"Partition columns {missing} are missing in the partition specification",
            code=10006,
            table=str(table.name),
        )
    static = {name.lower() for name in statement.partition}
    dynamic_seen = False
    for name in order:
        if name not in static:
            dynamic_seen = True
        elif dynamic_seen:
            raise InvalidInputError(
                "Dynamic partition cannot be the parent of a static partition",
                code=10094,
                table=str(table.name),
                column=name,
            )


def check_inserts(branches: Sequence[Insert]) -> None:
    """The branches of a multi-insert write to different places.

    Raises:
        InvalidInputError: 10087.
    """
    seen: set[tuple[object, ...]] = set()
    for branch in branches:
        place = (branch.table, *sorted(branch.partition.items()))
        if place in seen:
            raise InvalidInputError(
                f"The same output cannot be present multiple times: {branch.table.table}",
                code=10087,
                table=str(branch.table),
            )
        seen.add(place)
