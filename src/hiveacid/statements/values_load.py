"""The value of LOAD DATA."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.model.tables import TableName


@dataclass(frozen=True, slots=True)
class Load:
    """LOAD DATA [LOCAL] INPATH path [OVERWRITE] INTO TABLE name [PARTITION (...)].

    ``path`` is a file, a directory of files, or either with ``*`` and ``?``. ``local`` files are of
    this machine and stay where they are; others are moved. ``partition`` holds (column, text).
    """

    name: TableName
    path: str
    local: bool = False
    overwrite: bool = False
    partition: tuple[tuple[str, str | None], ...] = ()
