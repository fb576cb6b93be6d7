"""Strings in the text of Spark's own calls, said as Hive says them."""

from __future__ import annotations

import re
from typing import Any, Final

from hiveacid.connectors.names import COMMENT
from hiveacid.errors import UnsupportedError
from hiveacid.spark.session import is_ansi, literal
from hiveacid.sql.cursor import SparksText

_QUOTED_NAMES: Final = "spark.sql.ansi.doubleQuotedIdentifiers"
_TWO_STRINGS: Final = "spark.sql.legacy.consecutiveStringLiterals.enabled"
_STRING: Final = re.compile(
    rf"""{COMMENT}|`(?:[^`]|``)*`|\b[rR](?:'[^']*'|"[^"]*")"""
    r"""|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""",
    re.DOTALL,
)
_OTHERWISE: Final = re.compile(r"""''|""|[rR]['"]|\\U""")
"""Only texts with one of these may say something else to Hive."""
_IN_STRING: Final = re.compile(
    r"""\\U(00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})|\\.|''|\"\"""", re.DOTALL
)


def in_hives_words(spark: Any, text: str) -> SparksText:
    r"""Text of a user of Spark's own calls as Hive would have it: from version 4 on, a quote that
    stands twice in a string is one to Spark, while Hive reads two strings, of which it makes one.
    Hive knows no raw strings (``r'\d'``) and no ``\U0001F600``.

    Raises:
        UnsupportedError: the session takes what stands in double quotes for names.
    """
    if (
        any(found[0][0] == '"' for found in _STRING.finditer(text))
        and is_ansi(spark)
        and spark.conf.get(_QUOTED_NAMES, "false") == "true"
    ):
        raise UnsupportedError(
            f"{_QUOTED_NAMES} is set: what stands in double quotes is a name for Spark, and a "
            "string for Hive",
            note="Write strings as 'x' and names as `x`.",
        )
    if _OTHERWISE.search(text) is None:
        return SparksText(text)
    is_one = not spark.version.startswith("3.") and spark.conf.get(_TWO_STRINGS, "false") != "true"

    def one(found: re.Match[str]) -> str:
        quote = found[0][0]
        if quote in "rR":
            return literal(found[0][2:-1])
        if quote not in "'\"":
            return found[0]

        def said(part: re.Match[str]) -> str:
            if part[1] is not None:
                return literal(chr(int(part[1], 16)))[1:-1]
            return "\\" + quote if is_one and part[0] == quote * 2 else part[0]

        return quote + _IN_STRING.sub(said, found[0][1:-1]) + quote

    return SparksText(_STRING.sub(one, text))
