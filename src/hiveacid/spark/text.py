"""Names and literals in SQL of Spark, which need not be installed: statements are made without."""

from __future__ import annotations

from typing import Final

ROW_ID_COLUMN: Final = "ROW__ID"


def quoted(*names: str) -> str:
    """A name, or a path of names, in back-quotes."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def literal(value: str | None) -> str:
    """A string literal, or NULL."""
    if value is None:
        return "cast(null as string)"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
