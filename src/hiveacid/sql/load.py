"""Grammar of LOAD DATA."""

from __future__ import annotations

from hiveacid.errors import UnsupportedError
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.ddl import optional_partition
from hiveacid.statements.values_load import Load


def parse_load(cursor: Cursor) -> Load:
    """LOAD DATA [LOCAL] INPATH 'path' [OVERWRITE] INTO TABLE name [PARTITION (...)]"""
    cursor.expect("LOAD", "DATA")
    local = cursor.accept("LOCAL")
    cursor.expect("INPATH")
    path = cursor.string("load statement")
    overwrite = cursor.accept("OVERWRITE")
    cursor.expect("INTO", "TABLE")
    name = cursor.table_name()
    partition = optional_partition(cursor)
    if cursor.key in ("INPUTFORMAT", "SERDE"):
        raise UnsupportedError("LOAD DATA ... INPUTFORMAT is not supported")
    return Load(name, path, local=local, overwrite=overwrite, partition=partition)
