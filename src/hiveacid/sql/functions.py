"""Functions of Hive's that Spark lacks, spells otherwise, or answers otherwise.

A call ``name(arguments)`` becomes ``opening arguments closing``; the arguments stay as they are.
What cannot be said so is in docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")

FUNCTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "AES_DECRYPT": ("aes_decrypt(", ", 'ECB', 'PKCS')"),  # Spark's default is GCM
    "AES_ENCRYPT": ("aes_encrypt(", ", 'ECB', 'PKCS')"),
    "APPROX_DISTINCT": ("approx_count_distinct(", ")"),
    "IS_NOT_DISTINCT_FROM": ("equal_null(", ")"),
    "ISFALSE": ("coalesce(not (", "), false)"),
    "ISNOTFALSE": ("coalesce(", ", true)"),
    "ISNOTTRUE": ("(not coalesce(", ", false))"),
    "ISTRUE": ("coalesce(", ", false)"),
    "LOGGED_IN_USER": ("current_user(", ")"),
    "MASK_HASH": ("sha2(", ", 256)"),
    "MID": ("substring(", ")"),
    "SIZE": ("coalesce(size(", "), -1)"),  # of NULL; Spark's answer depends on its ANSI mode
    "TO_EPOCH_MILLI": ("unix_millis(", ")"),
    **{f"FLOOR_{unit}": (f"date_trunc('{unit}', ", ")") for unit in _UNITS},
}
WORDS: Final[Mapping[str, str]] = {"GROUPING__ID": "grouping_id()"}
"""Names that stand for a call."""
