"""``df.mergeInto(...)`` of Spark 4 into a table of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hiveacid.connectors.frames import ALIAS, table_named
from hiveacid.table import AcidTable, MergeBuilder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from hiveacid.session import Session


def merge_into(
    acid: Session, original: Callable[[str, Column], Any], table: str, condition: Column
) -> Any:
    """``DataFrame.mergeInto``; ``original`` is bound to the source."""
    ours = table_named(acid, table)
    if ours is None:
        return original(table, condition)
    source: DataFrame = original.__self__  # type: ignore[attr-defined]
    return MergeInto(merge_of(ours, source, condition, alias=ours.name.table))


def merge_of(
    ours: AcidTable, source: DataFrame, condition: Any, *, alias: str, evolve: bool = False
) -> MergeBuilder:
    """A MERGE of rows under the name that they were given by ``alias``."""
    name = getattr(source, ALIAS, None) or "source"
    return ours.merge(source, on=condition, alias=alias, source_alias=name, evolve=evolve)


class MergeInto:
    """As ``pyspark.sql.MergeIntoWriter``: clauses change it, ``merge`` carries it out."""

    def __init__(self, builder: MergeBuilder) -> None:
        self._builder = builder

    def whenMatched(self, condition: Column | None = None) -> _Clause:
        """Rows that match: ``updateAll``, ``update``, ``delete``."""
        return _Clause(self, "when_matched", condition)

    def whenNotMatched(self, condition: Column | None = None) -> _Clause:
        """Rows of the source that match none: ``insertAll``, ``insert``."""
        return _Clause(self, "when_not_matched", condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> _Clause:
        """Rows of the table that match none: ``update``, ``delete``."""
        return _Clause(self, "when_not_matched_by_source", condition)

    def withSchemaEvolution(self) -> MergeInto:
        """Columns that the table lacks are added to it."""
        self._builder = self._builder.evolving()
        return self

    def merge(self) -> None:
        """Carry the MERGE out."""
        self._builder.run()

    def add(self, clause: str, *args: Any, where: Any) -> MergeInto:
        """One more clause, by the name that the builder has for it."""
        self._builder = getattr(self._builder, clause)(*args, where=where)
        return self


@dataclass(frozen=True)
class _Clause:
    """A clause that lacks what is to be done."""

    merge: MergeInto
    kind: str
    condition: Any

    def updateAll(self) -> MergeInto:
        return self._with("update_all")

    def update(self, assignments: Mapping[str, Any]) -> MergeInto:
        return self._with("update", assignments)

    def delete(self) -> MergeInto:
        return self._with("delete")

    def insertAll(self) -> MergeInto:
        return self._with("insert_all")

    def insert(self, assignments: Mapping[str, Any]) -> MergeInto:
        return self._with("insert", assignments)

    def _with(self, action: str, *args: Any) -> MergeInto:
        return self.merge.add(f"{self.kind}_{action}", *args, where=self.condition)
