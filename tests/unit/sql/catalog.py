"""A small catalog for the SQL room's tests."""

from __future__ import annotations

from typing import cast

from hiveacid.metastore.api import Catalog
from hiveacid.model.history import AsOf, Version
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import BucketSpec, Column, Table, TableKind, TableName, WriteId
from hiveacid.model.types import PrimitiveType
from hiveacid.sql import bind, parse_one
from hiveacid.statements.constraints import Constraints, constraint_properties
from hiveacid.txn.view import Look

INT, STRING = PrimitiveType("int"), PrimitiveType("string")
T, S = TableName("default", "t"), TableName("d2", "s")


def table(name: TableName, columns: str, partition: str = "", **more: object) -> Table:
    """A table whose columns are all ints, named by blanks-separated words."""
    return Table(
        name,
        tuple(Column(word, INT) for word in columns.split()),
        f"/wh/{name.table}",
        tuple(Column(word, STRING) for word in partition.split()),
        **more,  # type: ignore[arg-type]
    )


class SmallCatalog(Look):
    """default.t (id, v, p), d2.s (id), d2.b (id, v) in 4 buckets by id, a view default.w, a
    temporary view view1.
    """

    def __init__(self) -> None:
        super().__init__(
            cast("Catalog", None),
            database="default",
            is_temporary=lambda name: name.lower() == "view1",
        )
        defaults = constraint_properties(Constraints(defaults={"v": "'none'"}))
        self.tables = {
            one.name: one
            for one in (
                table(T, "id v", "p", properties=defaults),
                table(S, "id"),
                table(TableName("d2", "b"), "id v", bucket=BucketSpec(("id",), 4)),
                table(TableName("default", "view1"), "x"),
                table(
                    TableName("default", "w"),
                    "x",
                    kind=TableKind.VIEW,
                    view_text="select id from t",
                ),
            )
        }

    def table(self, name: TableName) -> Table | None:
        return self.tables.get(name)

    def version(self, table: Table, wanted: AsOf) -> Version:
        write_id = WriteId(wanted.write_id or 0)
        return Version(write_id, ValidWriteIdList.of(str(table.name), hwm=write_id), 1, 1)

    def hide(self, name: TableName) -> TableName:
        return TableName(name.database, f"hidden_{name.table}")


def bound(text: str) -> object:
    """The value of one statement; placeholders are P0, P1, ..."""
    return bind(parse_one(text), SmallCatalog(), prefix="P")
