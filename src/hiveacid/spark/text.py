"""Names and literals in SQL of Spark, which need not be installed: statements are made without."""

from __future__ import annotations

import re
from typing import Final

ROW_ID_COLUMN: Final = "ROW__ID"
QUALIFIES: Final = "__hiveacid_qualifies"
"""The column of what QUALIFY says, which is left out again as only Spark 4 can."""
_AS_IT_IS: Final = re.compile(r"[A-Za-z0-9 ,.;:_/#@%&*()=<>!?|~^+-]*")
"""Texts of which no setting of Spark's takes a part for something else."""
_STRING: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\b[rR]"[^"]*"|"((?:[^"\\]|\\.)*)\"""",
    re.DOTALL,
)
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
    ``spark.sql.ansi.doubleQuotedIdentifiers`` what stands in double quotes is a name.
    """

    def one(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        inside = _IN_STRING.sub(lambda part: "\\'" if part[0] == "'" else part[0], found[1])
        return f"'{inside}'"

    return _STRING.sub(one, text) if '"' in text else text
