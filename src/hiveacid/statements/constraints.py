"""Constraints as table properties.

Keys of ours: ``hiveacid.not_null.COLUMN`` = the constraint's name (``true`` for none given),
``hiveacid.default.COLUMN`` = the expression's text, ``hiveacid.default_name.COLUMN`` = its name if
one was given, ``hiveacid.check.NAME`` = the condition's text, ``hiveacid.key.NAME`` = a primary,
unique or foreign key as JSON, which is information only. A Metastore of Hive's keeps all
but the last in KEY_CONSTRAINTS. They are not shown as table properties.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from hiveacid.errors import InvalidInputError
from hiveacid.model.readable import decimal_text
from hiveacid.model.tables import CONSTRAINT_PREFIXES, Column, Table
from hiveacid.model.types import parse_type
from hiveacid.spark.session import single_quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints of columns or of a table; ``names`` are those given, by the column of a NOT NULL,
    by ``default.COLUMN`` and by the text of a CHECK.
    """

    not_null: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    keys: tuple[KeyConstraint, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


_NOT_NULL, _DEFAULT, _DEFAULT_NAME, _CHECK, _KEY = CONSTRAINT_PREFIXES


@dataclass(frozen=True, slots=True)
class KeyConstraint:
    """PRIMARY KEY, UNIQUE or FOREIGN KEY (``kind``), never enforced; ``name`` '' for none given.

    ``parent`` is the table, as text, that a foreign key refers to.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    rely: bool = False
    parent: str = ""
    parent_columns: tuple[str, ...] = ()


def not_null_columns(table: Table) -> tuple[str, ...]:
    """Columns that take no NULL, in table order."""
    return tuple(c.name for c in table.all_columns if f"{_NOT_NULL}{c.name}" in table.properties)


def column_default(table: Table, column: str) -> str | None:
    """The text of the column's default; None where it has none."""
    return table.properties.get(f"{_DEFAULT}{column}")


def default_expression(table: Table, column: str) -> str:
    """The column's default for Spark; ``null`` where it has none."""
    return single_quoted(column_default(table, column) or "null")


def check_conditions(table: Table) -> tuple[str, ...]:
    """The conditions that every row must meet (a NULL result meets it), for Spark."""
    return tuple(map(single_quoted, check_constraints(table).values()))


def not_null_constraints(table: Table) -> dict[str, str]:
    """The names of the NOT NULL constraints by their columns."""
    found = {column: table.properties[f"{_NOT_NULL}{column}"] for column in not_null_columns(table)}
    return {
        column: f"nn_{table.name.table}_{column}" if name == "true" else name
        for column, name in found.items()
    }


def default_constraints(table: Table) -> dict[str, tuple[str, str]]:
    """Name and text of the DEFAULT constraints by their columns."""
    found = {column.name: column_default(table, column.name) for column in table.all_columns}
    given = table.properties
    return {
        column: (given.get(f"{_DEFAULT_NAME}{column}", f"dc_{table.name.table}_{column}"), text)
        for column, text in found.items()
        if text is not None
    }


def check_constraints(table: Table) -> dict[str, str]:
    """The conditions by the names of the CHECK constraints."""
    found = {
        key.removeprefix(_CHECK): text
        for key, text in sorted(table.properties.items())
        if key.startswith(_CHECK)
    }
    return {
        f"ck_{table.name.table}_{name}" if name.isdigit() else name: text
        for name, text in found.items()
    }


def key_constraints(table: Table) -> tuple[KeyConstraint, ...]:
    """The primary, unique and foreign keys, by name."""
    found = []
    for key, text in sorted(table.properties.items()):
        if key.startswith(_KEY):
            values = json.loads(text)
            lists = {name: tuple(values[name]) for name in ("columns", "parent_columns")}
            found.append(KeyConstraint(**{**values, **lists, "name": key.removeprefix(_KEY)}))
    return tuple(found)


def shown_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without those of ours that users do not set, by key."""
    hidden = tuple(CONSTRAINT_PREFIXES)
    return {key: properties[key] for key in sorted(properties) if not key.startswith(hidden)}


def constraint_properties(wanted: Constraints) -> dict[str, str]:
    """The properties that keep these constraints."""
    given = wanted.names
    found = {f"{_NOT_NULL}{column}": given.get(column, "true") for column in wanted.not_null}
    found |= {f"{_DEFAULT}{column}": text for column, text in wanted.defaults.items()}
    for column in wanted.defaults:
        if f"default.{column}" in given:
            found[f"{_DEFAULT_NAME}{column}"] = given[f"default.{column}"]
    for number, text in enumerate(wanted.checks):
        found[f"{_CHECK}{given.get(text, f'{number:03d}')}"] = text
    for number, key in enumerate(wanted.keys):
        short = {"PRIMARY KEY": "pk", "FOREIGN KEY": "fk"}.get(key.kind, "uk")
        name = key.name or f"{short}_{'_'.join(key.columns)}_{number}"
        values = {
            "kind": key.kind,
            "columns": key.columns,
            "rely": key.rely,
            "parent": key.parent,
            "parent_columns": key.parent_columns,
        }
        found[f"{_KEY}{name}"] = json.dumps(values)
    return found


def check_constraint_texts(columns: Sequence[Column], wanted: Constraints) -> None:
    """A DEFAULT has its column's type, exactly; a CHECK is of one row: no query, no aggregate, no
    window, no function that makes rows.

    Raises:
        InvalidInputError: 10326.
    """
    types = {column.name: column.type for column in columns}
    for column, text in wanted.defaults.items():
        found = _default_type(text)
        kind = str(types.get(column, found))
        if found not in (None, kind):
            raise InvalidInputError(
                f"Invalid Constraint syntax Invalid type: {found} for default value: {text}. "
                f"Please make sure that the type is compatible with column type: {kind}",
                code=10326,
                column=column,
            )
    for text in wanted.checks:
        beyond = _BEYOND_A_ROW.search(_QUOTED.sub("''", text))
        if beyond is not None:
            what = "Subqueries" if beyond["query"] else f"{beyond['call']}(...)"
            raise InvalidInputError(
                f"Invalid Constraint syntax Invalid CHECK constraint expression: {text}. Invalid "
                f"Constraint syntax {what} are not allowed in Check Constraints",
                code=10326,
            )


_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
_BEYOND_A_ROW: Final = re.compile(
    r"(?P<query>\(\s*select\b)|\b(?P<call>over|count|sum|avg|min|max|collect_\w+|"
    r"std|stddev\w*|var_\w+|variance|percentile\w*|explode|posexplode|inline|stack|json_tuple|parse_url_tuple)\s*\(",
    re.IGNORECASE,
)
_DEFAULTS: Final = {
    kind: re.compile(form, re.IGNORECASE | re.DOTALL)
    for kind, form in {
        "string": r"['\"].*|current_user(\(\))?",
        "int": r"-?\d+",
        "bigint": r"-?\d+L",
        "smallint": r"-?\d+S",
        "tinyint": r"-?\d+Y",
        "double": r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+D?|D)",
        "boolean": "true|false",
        "void": "null",
        "date": r"date\s*'.*|current_date(\(\))?",
        "timestamp": r"timestamp\s*'.*|current_timestamp(\(\))?",
    }.items()
}
_DECIMAL: Final = re.compile(r"-?(\d*\.\d+|\d+(?=BD))(BD)?", re.IGNORECASE)
_CAST: Final = re.compile(r"cast\s*\([^()]*\bas ([^()]+(\([\d, ]+\))?)\)", re.IGNORECASE)


def _default_type(text: str) -> str | None:
    """The type of a default; None where it is not told from the text."""
    if cast := _CAST.fullmatch(text):
        return str(parse_type(cast[1].strip()))
    if number := _DECIMAL.fullmatch(text):
        digits = decimal_text(Decimal(number[1])).lstrip("0")
        whole, _, fraction = digits.partition(".")
        return f"decimal({max(len(whole + fraction), 1)},{len(fraction)})"
    return next((kind for kind, form in _DEFAULTS.items() if form.fullmatch(text)), None)


def check_are_conditions(table: Table, spark: SparkSession | None) -> None:
    """Each CHECK names columns of the table only, and is a boolean; not told without Spark.

    Raises:
        InvalidInputError: 10326.
    """
    checks = check_constraints(table)
    if spark is None or not checks:
        return
    from pyspark.errors import AnalysisException

    from hiveacid.spark.read import no_rows

    rows = no_rows(spark, table, virtual=())
    for text, given in zip(checks.values(), check_conditions(table), strict=True):
        try:
            kind = rows.selectExpr(given).schema[0].dataType.simpleString()
            found = f"Only boolean type is supported for CHECK constraint: {text}. Found: {kind}"
        except AnalysisException:
            kind, found = "", f"Invalid type for CHECK constraint: {text}"
        if kind != "boolean":
            raise InvalidInputError(
                f"Invalid Constraint syntax Invalid CHECK constraint expression: {text}. Invalid "
                f"Constraint syntax {found}",
                code=10326,
                table=str(table.name),
            )


def with_constraints(table: Table, added: Mapping[str, str]) -> dict[str, str]:
    """The table's properties with constraints (as ``constraint_properties`` gives them) added.

    Raises:
        InvalidInputError: a second primary key, or a name that is taken.
    """
    kept = dict(table.properties)
    if "PRIMARY KEY" in {one.kind for one in key_constraints(table)} and any(
        key.startswith(_KEY) and json.loads(text)["kind"] == "PRIMARY KEY"
        for key, text in added.items()
    ):
        raise InvalidInputError(
            f"Primary key already exists for: hive.{table.name}", table=str(table.name)
        )
    for key, text in added.items():
        place = key
        if key.startswith(_CHECK) and key.removeprefix(_CHECK).isdigit():
            numbers = [one.removeprefix(_CHECK) for one in kept if one.startswith(_CHECK)]
            place = f"{_CHECK}{max([int(n) for n in numbers if n.isdigit()], default=-1) + 1:03d}"
        elif key in kept and not key.startswith((_NOT_NULL, _DEFAULT, _DEFAULT_NAME)):
            raise InvalidInputError(
                f"Constraint name already exists: {key.rpartition('.')[2]}", table=str(table.name)
            )
        kept[place] = text
    return kept


def with_renamed_columns(table: Table, names: Mapping[str, str]) -> dict[str, str]:
    """The table's properties where columns get other names (by the old ones), '' where they go:
    constraints stay with their columns, as in Hive.

    Raises:
        InvalidInputError: the text of a CHECK has such a name.
    """
    new = {old: name for old, name in names.items() if old != name}
    kept: dict[str, str] = {}
    for key, text in table.properties.items():
        prefix = next((one for one in CONSTRAINT_PREFIXES if key.startswith(one)), "")
        name = key.removeprefix(prefix)
        if prefix in (_NOT_NULL, _DEFAULT, _DEFAULT_NAME):
            if new.get(name) != "":
                kept[prefix + new.get(name, name)] = text
        elif prefix == _KEY:
            values = json.loads(text)
            values["columns"] = [new.get(one, one) for one in values["columns"]]
            if "" not in values["columns"]:
                kept[key] = json.dumps(values)
        else:
            kept[key] = text
    for name, text in check_constraints(table).items():
        for old in new:
            if re.search(rf"\b{re.escape(old)}\b", text, re.IGNORECASE):
                raise InvalidInputError(
                    f"Column {old} of {table.name} is in the CHECK constraint {name}: {text}",
                    table=str(table.name),
                    column=old,
                    note=f"ALTER TABLE {table.name} DROP CONSTRAINT {name}, and add it again.",
                )
    return kept


def without_constraint(table: Table, name: str) -> dict[str, str]:
    """The table's properties without the constraint of this name.

    Raises:
        InvalidInputError: there is none.
    """
    wanted = name.lower()
    gone = {
        f"{_NOT_NULL}{column}"
        for column, found in not_null_constraints(table).items()
        if found.lower() == wanted
    }
    gone |= {
        f"{prefix}{column}"
        for column, (found, _) in default_constraints(table).items()
        for prefix in (_DEFAULT, _DEFAULT_NAME)
        if found.lower() == wanted
    }
    prefix = f"ck_{table.name.table}_"
    for found in check_constraints(table):
        if found.lower() == wanted:
            number = found.removeprefix(prefix)
            gone.add(f"{_CHECK}{number if number.isdigit() else found}")
    gone |= {f"{_KEY}{key.name}" for key in key_constraints(table) if key.name.lower() == wanted}
    if not gone:
        raise InvalidInputError(
            f"The constraint: {name} does not exist for the associated table: {table.name}",
            table=str(table.name),
        )
    return {key: value for key, value in table.properties.items() if key not in gone}
