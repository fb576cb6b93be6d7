"""NOT NULL, DEFAULT and CHECK as table properties.

Keys of ours (a Hive metastore keeps them in KEY_CONSTRAINTS): ``hiveacid.not_null.COLUMN`` =
``true``, ``hiveacid.default.COLUMN`` = the expression's text, ``hiveacid.check.N`` = the
condition's text. They are not shown as table properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hiveacid.model.tables import BY_POSITION, Table

CONSTRAINT_PREFIXES: Final = ("hiveacid.not_null.", "hiveacid.default.", "hiveacid.check.")
_NOT_NULL, _DEFAULT, _CHECK = CONSTRAINT_PREFIXES


def not_null_columns(table: Table) -> tuple[str, ...]:
    """Columns that take no NULL, in table order."""
    return tuple(c.name for c in table.all_columns if f"{_NOT_NULL}{c.name}" in table.properties)


def column_default(table: Table, column: str) -> str | None:
    """The text of the column's default; None where it has none."""
    return table.properties.get(f"{_DEFAULT}{column}")


def checks(table: Table) -> tuple[str, ...]:
    """The conditions that every row must meet (a NULL result meets it)."""
    return tuple(text for key, text in sorted(table.properties.items()) if key.startswith(_CHECK))


def shown_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without those of ours that users do not set, by key."""
    hidden = (*CONSTRAINT_PREFIXES, BY_POSITION)
    return {key: properties[key] for key in sorted(properties) if not key.startswith(hidden)}


def constraint_properties(
    *, not_null: tuple[str, ...], defaults: Mapping[str, str], checks: tuple[str, ...]
) -> dict[str, str]:
    """The properties that keep these constraints."""
    found = {f"{_NOT_NULL}{column}": "true" for column in not_null}
    found |= {f"{_DEFAULT}{column}": text for column, text in defaults.items()}
    found |= {f"{_CHECK}{number:03d}": text for number, text in enumerate(checks)}
    return found
