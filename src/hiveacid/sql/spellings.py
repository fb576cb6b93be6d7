"""Functions and words that Spark spells otherwise than Hive, or has under one name with another
meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")

_LATER: Final = "if(to_date(d) = last_day(d), last_day(add_months(d, n)), add_months(d, n))"
_NOT_A_NUMBER: Final = "), double('NaN'))"
_SECONDS: Final = r", 'yyyy-M-d[ ][\'T\']H:m:s[.SSSSSSSSS]'))"
FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ACOS": ("nullif(acos(", _NOT_A_NUMBER),
    "ADD_MONTHS": ("zip_with(array(", f"), (d, n) -> {_LATER})[0]", "), array("),
    "AES_DECRYPT": ("aes_decrypt(", ", 'ECB', 'PKCS')"),  # Spark's default is GCM
    "AES_ENCRYPT": ("aes_encrypt(", ", 'ECB', 'PKCS')"),
    "ARRAY_CONTAINS": ("coalesce(array_contains(", "), false)"),
    "ASIN": ("nullif(asin(", _NOT_A_NUMBER),
    "APPROX_DISTINCT": ("approx_count_distinct(", ")"),
    "GREATEST": ("element_at(array_sort(array(", ")), -1)"),  # NULL where one is; Spark skips it
    "IS_NOT_DISTINCT_FROM": ("equal_null(", ")"),
    "ISFALSE": ("coalesce(not (", "), false)"),
    "ISNOTFALSE": ("coalesce(", ", true)"),
    "ISNOTTRUE": ("(not coalesce(", ", false))"),
    "ISTRUE": ("coalesce(", ", false)"),
    "LEAST": ("sort_array(array(", "))[0]"),
    "LOGGED_IN_USER": ("current_user(", ")"),
    "LTRIM": ("zip_with(array(", "), (d, n) -> ltrim(n, d))[0]", "), array("),
    "MASK_HASH": ("sha2(", ", 256)"),
    "MID": ("substring(", ")"),
    "PMOD": (
        "zip_with(array(",
        "), (d, n) -> if(n < 0, (d % n + n) % n, pmod(d, n)))[0]",
        "), array(",
    ),
    "RTRIM": ("zip_with(array(", "), (d, n) -> rtrim(n, d))[0]", "), array("),
    "SIZE": ("coalesce(size(", "), -1)"),  # of NULL; Spark's answer depends on its ANSI mode
    "SQRT": ("nullif(sqrt(", _NOT_A_NUMBER),
    "STD": ("stddev_pop(", ")"),  # of a sample in Spark, and so the next two
    "STDDEV": ("stddev_pop(", ")"),
    "TO_EPOCH_MILLI": ("unix_millis(", ")"),
    "TRIM": ("btrim(", ")", ", "),
    "VARIANCE": ("var_pop(", ")"),
    **{f"FLOOR_{unit}": (f"date_trunc('{unit}', ", ")") for unit in UNITS},
}
OF_ONE: Final[Mapping[str, tuple[str, str]]] = {
    "TO_UNIX_TIMESTAMP": ("unix_seconds(to_timestamp(", _SECONDS),
    "UNIX_TIMESTAMP": ("unix_seconds(to_timestamp(", _SECONDS),
}
"""Functions that have another meaning only where they are given one value."""
RANKING: Final = frozenset(
    {"CUME_DIST", "DENSE_RANK", "LAG", "LEAD", "NTILE", "PERCENT_RANK", "RANK", "ROW_NUMBER"}
)
"""Functions that Spark wants a window with an order for."""
COMPARISONS: Final = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">="})
QUANTIFIED: Final[Mapping[tuple[str, str], str]] = {
    **{(equal, word): "IN" for equal in ("=", "==") for word in ("ANY", "SOME")},
    **{(unequal, "ALL"): "NOT IN" for unequal in ("<>", "!=")},
}
"""Comparisons with the rows of a query that IN says as well."""
NEGATED: Final = {"ALL": "ANY", "ANY": "ALL", "SOME": "ALL"}
"""NOT LIKE ALL is to Hive what is not LIKE ALL, to Spark what is LIKE none of them."""
WORDS: Final[Mapping[str, str]] = {"GROUPING__ID": "grouping_id()"}
"""Names that stand for a call."""
