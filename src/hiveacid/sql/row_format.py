"""Grammar of ROW FORMAT: the properties that it stands for."""

from __future__ import annotations

from typing import Final

from hiveacid.errors import UnsupportedError
from hiveacid.model.row_format import COLLECTION, ESCAPE, FIELD, LINE, MAP_KEY, NULL_TEXT
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.properties import property_list

_LAZY_SIMPLE: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_OF_FORMATS: Final = (
    _LAZY_SIMPLE,
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)
_CLAUSES: Final = (
    (("COLLECTION", "ITEMS", "TERMINATED", "BY"), COLLECTION),
    (("MAP", "KEYS", "TERMINATED", "BY"), MAP_KEY),
    (("LINES", "TERMINATED", "BY"), LINE),
    (("NULL", "DEFINED", "AS"), NULL_TEXT),
)


def parse_row_format(cursor: Cursor) -> dict[str, str]:
    """What follows ROW FORMAT: DELIMITED with its clauses, or a SerDe of a format that is known.

    Raises:
        UnsupportedError: another SerDe, or lines that do not end with a newline.
    """
    if cursor.accept("SERDE"):
        name = cursor.string()
        if name not in _OF_FORMATS:
            raise UnsupportedError(f"ROW FORMAT SERDE '{name}' is not supported")
        return property_list(cursor) if cursor.accept("WITH", "SERDEPROPERTIES") else {}
    cursor.expect("DELIMITED")
    found: dict[str, str] = {}
    if cursor.accept("FIELDS", "TERMINATED", "BY"):
        found[FIELD] = found["serialization.format"] = cursor.string()
        if cursor.accept("ESCAPED", "BY"):
            found[ESCAPE] = cursor.string()
    for words, key in _CLAUSES:
        if cursor.accept(*words):
            found[key] = cursor.string()
    if found.get(LINE, "\n") not in ("\n", "10"):
        raise UnsupportedError("LINES TERMINATED BY only supports newline '\\n' right now")
    return found
