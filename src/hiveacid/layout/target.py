"""Where to write, and what was written: the second pair of values in which the planes meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from hiveacid.model.ids import StatementId, WriteId
from hiveacid.model.tables import Table


class FileKind(Enum):
    """What a written file holds, hence its directory's name."""

    INSERT = "insert"
    """row events in ``delta_W_W_S``"""
    DELETE = "delete"
    """delete events in ``delete_delta_W_W_S``"""
    BASE = "base"
    """row events in ``base_W``: INSERT OVERWRITE"""
    PLAIN = "plain"
    """rows without events, in the partition directory itself, of a table without transactions"""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where one statement writes.

    ``table.location`` is the root. The statement ids are those of the directories (and bucket
    properties) for each kind of event; a statement that makes no such events leaves its id None.
    ``overwrite`` sends inserted rows to ``base_W``. ``staging`` is a hidden directory below the
    table's root, unique to the statement, in which files wait for publication.
    ``static_partition`` gives the texts of partition columns that are constant.
    """

    table: Table
    write_id: WriteId
    staging: str
    delete_statement: StatementId | None = None
    """delete events of rows that go"""
    update_delete_statement: StatementId | None = None
    """delete events of rows that change"""
    update_insert_statement: StatementId | None = None
    """new images of rows that change"""
    insert_statement: StatementId | None = None
    """new rows"""
    overwrite: bool = False
    static_partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One staged file.

    ``partition`` as in ``Partition.values``; ``directory`` as ``delta_0000001_0000001_0000``.
    """

    partition: tuple[str | None, ...]
    directory: str
    name: str
    staged_path: str
    kind: FileKind
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WriteResult:
    """All that one statement wrote."""

    files: tuple[WrittenFile, ...]
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
