"""The locks of each statement, as Hive 4.1 was seen to take them (real-hive.md 5)."""

from __future__ import annotations

import pytest

from hiveacid.model.tables import Column, Table, TableKind, TableName
from hiveacid.model.types import parse_type
from hiveacid.txn import footprint
from hiveacid.txn.footprint import Footprint, TableRead, TableWrite, WriteKind, lock_components


def _table(
    name: str, *, partitioned: bool = False, kind: TableKind = TableKind.MANAGED, acid: bool = True
) -> Table:
    return Table(
        TableName("default", name),
        (Column("a", parse_type("int")),),
        f"/w/{name}",
        (Column("k", parse_type("string")),) if partitioned else (),
        kind=kind,
        properties={"transactional": "true"} if acid else {},
    )


T, P = _table("t"), _table("p", partitioned=True)
PLAIN, EXT = _table("na", acid=False), _table("ext", kind=TableKind.EXTERNAL, acid=False)
VIEW = _table("v", kind=TableKind.VIEW, acid=False)


def _shown(value: Footprint) -> list[str]:
    return [
        f"{one.type.value} {one.table or '-'} {one.partition or '-'}"
        for one in lock_components(value)
    ]


def _write(
    table: Table, kind: WriteKind, partitions: tuple[str, ...] | None = None, *reads: Table
) -> Footprint:
    return Footprint(
        reads=tuple(TableRead(one) for one in reads), writes=(TableWrite(table, kind, partitions),)
    )


@pytest.mark.parametrize(
    ("statement", "locks"),
    [
        (Footprint(reads=(TableRead(T),)), ["r t -"]),
        (Footprint(reads=(TableRead(P, ("k=x",)),)), ["r p k=x"]),
        (Footprint(reads=(TableRead(PLAIN), TableRead(T))), ["r na -", "r t -"]),
        (Footprint(reads=(TableRead(EXT), TableRead(VIEW))), []),
        (_write(T, WriteKind.INSERT), ["w t -"]),
        (_write(T, WriteKind.INSERT, None, PLAIN), ["r na -", "w t -"]),
        (_write(P, WriteKind.INSERT, None, PLAIN), ["r na -", "w p -"]),
        (_write(P, WriteKind.INSERT, ("k=x",)), ["w p k=x"]),
        (_write(T, WriteKind.UPDATE, None, T), ["w t -"]),
        (_write(T, WriteKind.DELETE), ["w t -"]),
        (_write(P, WriteKind.UPDATE, ("k=x",)), ["w p k=x", "w p -"]),
        (_write(P, WriteKind.DELETE, ("k=z", "k=y")), ["w p k=z", "w p k=y"]),
        (_write(T, WriteKind.OVERWRITE, None, PLAIN), ["r na -", "x t -"]),
        (_write(P, WriteKind.OVERWRITE, ("k=x",)), ["x p k=x"]),
        (_write(P, WriteKind.OVERWRITE), ["x p -"]),
        (_write(T, WriteKind.CREATE, None, PLAIN), ["r na -", "r - -", "x t -"]),
        (_write(PLAIN, WriteKind.INSERT), ["r na -"]),
        (Footprint(definitions=footprint.create_table("default")), ["r - -"]),
        (Footprint(definitions=footprint.drop_table(T.name)), ["e t -", "r - -"]),
        (Footprint(definitions=footprint.alter_table(T.name)), ["e t -"]),
        (Footprint(definitions=footprint.drop_partitions(P.name, ["k=n"])), ["e p k=n"]),
        (Footprint(definitions=footprint.use_table(P.name)), ["r p -"]),
        (Footprint(definitions=footprint.drop_database("dd")), ["e - -"]),
    ],
)
def test_locks_are_hives(statement: Footprint, locks: list[str]) -> None:
    assert _shown(statement) == locks


def test_each_lock_is_requested_once() -> None:
    assert _shown(Footprint(reads=(TableRead(T), TableRead(T)))) == ["r t -"]


def test_only_transactional_tables_need_write_ids() -> None:
    both = Footprint(writes=tuple(TableWrite(one, WriteKind.INSERT) for one in (T, PLAIN, T, P)))
    assert both.written_tables == (T.name, P.name)
