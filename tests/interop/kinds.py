"""What a kind of table is: its definition, our statements, then Hive's. The lists of kinds stand
in ``kinds_full``, ``kinds_types``, ``kinds_files``, ``kinds_compacted`` and ``kinds_past``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from hiveacid.session import Session


class Mode(Enum):
    """The table properties a table is created with."""

    FULL = "'transactional'='true'"
    INSERT_ONLY = "'transactional'='true', 'transactional_properties'='insert_only'"
    PLAIN = ""
    """a statement converts it later"""


@dataclass(frozen=True)
class Workplace:
    """What a step that is no SQL works with: our session with Spark, one without, the table."""

    acid: Session
    without_spark: Session
    table: str
    scratch: Path
    """a directory for files of the step's own"""


Step = str | Callable[[Workplace], None]
"""SQL with ``{t}`` for the table, or anything else that writes it."""


@dataclass(frozen=True)
class Kind:
    """One table.

    ``statements`` are ours; those that begin with ALTER TABLE are run by Hive, too, before it gets
    the files. The views ``numbers`` (id 0..2999) and ``changes`` (id, op) are there for ours.
    ``hive_turn`` is run by Hive on top, and by us to know what should come of it. ``compact`` are
    the partitions that Hive compacts, ``""`` is the table.
    """

    name: str
    columns: str
    statements: tuple[Step, ...]
    hive_turn: tuple[str, ...]
    partitioned_by: str = ""
    clustered_by: str = ""
    stored_as: str = "orc"
    mode: Mode = Mode.FULL
    properties: str = ""
    compact: tuple[str, ...] = ("",)
    shown: str = "t.*"
    exported: Callable[[], None] | None = None
    """what we do once the files are copied for Hive"""
    ci: bool = False
    """stands for its like in the short run"""
    hive_3: bool = True
    """Hive 3.1 can read it"""

    @property
    def has_row_ids(self) -> bool:
        """Whether rows have row ids: full ACID, converted or from the start."""
        return self.mode is Mode.FULL or (
            self.mode is Mode.PLAIN and not any("insert_only" in ddl for ddl in self.alterations)
        )

    @property
    def alterations(self) -> tuple[str, ...]:
        """Our statements that Hive has to run, too."""
        return tuple(
            step
            for step in self.statements
            if isinstance(step, str) and step.startswith("alter table")
        )

    def create(self, table: str, *, more: str = "") -> str:
        """CREATE TABLE, the same for both sides; ``more`` are further properties."""
        parts = [f"create table {table} ({self.columns})"]
        parts += [f"partitioned by ({self.partitioned_by})"] if self.partitioned_by else []
        parts += [f"clustered by {self.clustered_by} buckets"] if self.clustered_by else []
        parts += [f"stored as {self.stored_as}"]
        found = ", ".join(text for text in (self.mode.value, self.properties, more) if text)
        return " ".join([*parts, f"tblproperties ({found})"] if found else parts)
