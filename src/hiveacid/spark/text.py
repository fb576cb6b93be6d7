"""Pieces of Spark SQL text.

Our own expressions are text: one call to Spark for a projection, where a tree of ``Column`` objects
costs several for every node.
"""

from __future__ import annotations


def quoted(*names: str) -> str:
    """A name, or a path of names, in back-quotes."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def literal(value: str | None) -> str:
    """A string literal, or NULL."""
    if value is None:
        return "cast(null as string)"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
