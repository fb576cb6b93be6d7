"""What Hive refuses to compile, from the table's definition alone."""

from __future__ import annotations

import pytest

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import BucketSpec, Column, Table, TableName
from hiveacid.model.types import PrimitiveType
from hiveacid.statements.checks import check, check_inserts, columns_named, names_in
from hiveacid.statements.values import (
    Delete,
    Insert,
    Literals,
    MatchedDelete,
    MatchedUpdate,
    Merge,
    NotMatchedBySourceDelete,
    NotMatchedInsert,
    Query,
    Update,
)

NAME = TableName("default", "t")
INT = PrimitiveType("int")


def table(**properties: str) -> Table:
    """t (id, v, n) partitioned by (p, q), bucketed by n."""
    columns = tuple(Column(name, INT) for name in ("id", "v", "n"))
    partition = tuple(Column(name, INT) for name in ("p", "q"))
    bucket = BucketSpec(("n",), 2)
    return Table(NAME, columns, "/t", partition, bucket, properties=properties)


ACID = table(transactional="true")
PLAIN = table()
INSERT_ONLY = table(transactional="true", transactional_properties="insert_only")


def merge(*clauses: object, source_alias: str = "s", on: str = "t.id = s.id") -> Merge:
    return Merge(NAME, Query("x"), on, clauses, source_alias=source_alias)  # type: ignore[arg-type]


def rows(*widths: int) -> Literals:
    return Literals(tuple((1,) * width for width in widths))


UPDATE_V = (("v", "1"),)

REFUSED = [
    (Update(NAME, (("V", "1"), ("p", "2"))), ACID, 10292),
    (Update(NAME, (("N", "1"),)), ACID, 10302),
    (Update(NAME, (("nosuch", "1"),)), ACID, 10408),
    (Update(NAME, (("row__id", "1"),)), ACID, 10408),
    (Update(NAME, (("v", "1"), ("V", "2"))), ACID, None),
    (Update(NAME, UPDATE_V), PLAIN, 10297),
    (Update(NAME, UPDATE_V), INSERT_ONLY, 10414),
    (Delete(NAME, "id=1"), PLAIN, 10297),
    (Delete(NAME, "id=1"), INSERT_ONLY, 10414),
    (merge(MatchedDelete()), PLAIN, 10297),
    (merge(MatchedUpdate(UPDATE_V)), INSERT_ONLY, 10414),
    (merge(MatchedUpdate((("q", "1"),))), ACID, 10292),
    (merge(MatchedUpdate((("nosuch", "1"),))), ACID, 10408),
    (merge(MatchedUpdate(UPDATE_V), MatchedDelete()), ACID, 10404),
    (merge(MatchedDelete(), MatchedDelete()), ACID, 10405),
    (merge(MatchedUpdate(UPDATE_V), MatchedUpdate(UPDATE_V)), ACID, 10406),
    (merge(NotMatchedBySourceDelete(), NotMatchedBySourceDelete("x")), ACID, 10404),
    (merge(NotMatchedInsert(values=("1",))), ACID, 10044),
    (merge(NotMatchedInsert(("id", "v"), ("1",))), ACID, 10044),
    (merge(NotMatchedInsert(("nosuch",), ("1",))), ACID, None),
    (merge(MatchedDelete(), source_alias="T"), ACID, 10008),
    (Insert(NAME, rows(5, 4)), ACID, 10044),
    (Insert(NAME, rows(4), ("id",), {"p": "1"}, ("q",)), ACID, 10044),
    (Insert(NAME, rows(3), partition={"p": "1"}, dynamic_partition=("q",)), ACID, 10044),
    (Insert(NAME, rows(1), ("nosuch",)), ACID, None),
    (Insert(NAME, rows(2), ("id", "ID")), ACID, None),
    (Insert(NAME, rows(1), ("p",), {"p": "1"}, ("q",)), ACID, None),
    (Insert(NAME, rows(4), partition={"zz": "1"}), ACID, 10098),
    (Insert(NAME, rows(4), partition={"p": "1"}), ACID, 10006),
    (Insert(NAME, rows(4), partition={"q": "1"}, dynamic_partition=("p",)), ACID, 10094),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "target", "code"), REFUSED)
def test_refused(statement: Insert | Update | Delete | Merge, target: Table, code: int) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check(statement, target)
    assert caught.value.code == code


ACCEPTED = [
    (Update(NAME, (("ID", "1"), ("v", "2"))), ACID),
    (Delete(NAME), PLAIN),
    (Delete(NAME), INSERT_ONLY),
    (Delete(NAME, "id=1"), ACID),
    (merge(MatchedUpdate(UPDATE_V, "x"), MatchedDelete("y"), MatchedDelete()), ACID),
    (merge(NotMatchedInsert(("id",), ("1",), "c"), NotMatchedInsert(values=("1",) * 5)), ACID),
    (Insert(NAME, rows(5, 5)), PLAIN),
    (Insert(NAME, rows(2), ("Q", "id")), ACID),
    (Insert(NAME, rows(4), partition={"P": "1"}, dynamic_partition=("q",)), ACID),
    (Insert(NAME, rows(3), partition={"p": "1", "q": None}), ACID),
    (Insert(NAME, Query("select 1")), ACID),
    (merge(NotMatchedInsert(all_columns=True)), INSERT_ONLY),
    (merge(NotMatchedInsert(all_columns=True)), PLAIN),
    *(
        (merge(NotMatchedInsert(all_columns=True), on=on), ACID)
        for on in ("V = 99", "false", "s.id = 1")
    ),
    (merge(MatchedDelete(), on="true"), ACID),
]


@pytest.mark.parametrize(("statement", "target"), ACCEPTED)
def test_accepted(statement: Insert | Update | Delete | Merge, target: Table) -> None:
    check(statement, target)


def test_branches_of_a_multi_insert_go_to_different_places() -> None:
    static = Insert(NAME, rows(1), partition={"p": "1"})
    other = Insert(NAME, rows(1), partition={"p": "2"})
    check_inserts([static, other])
    for pair in ([static, static], [Insert(NAME, rows(1)), Insert(NAME, rows(2))]):
        with pytest.raises(InvalidInputError) as caught:
            check_inserts(pair)
        assert caught.value.code == 10087


def test_messages_are_hives() -> None:
    with pytest.raises(InvalidInputError) as caught:
        check(Update(NAME, (("nocol", "1"),)), ACID)
    assert str(caught.value) == (
        '[Error 10408]: Target column "nocol" of set clause is not found in table "default.t".'
    )
    with pytest.raises(InvalidInputError) as caught:
        check(Update(NAME, (("v.x", "1"),)), ACID)
    assert caught.value.__notes__ == [
        "Fields are not set one by one: give v a new value, named_struct(...)."
    ]
    with pytest.raises(InvalidInputError) as caught:
        check(Delete(NAME, "x"), PLAIN)
    assert str(caught.value) == (
        "[Error 10297]: Attempt to do update or delete on table t that is not transactional"
    )


def test_what_an_expression_says_or_is_called_by_names_no_column() -> None:
    """A column of that name would be lost without a word."""
    statement = merge(
        MatchedDelete("s.op = 'D' and upper(S.kind) IS NOT NULL"),
        MatchedUpdate(condition='case when `s`.`my day` > 1 then true else s.`end` = "x y" end'),
    )
    assert columns_named(statement) == {"id", "op", "kind", "my day", "1", "end"}
    assert names_in(["s.state = 'at'"], "t", "s") == {"state"}


@pytest.mark.parametrize("shown", ["Column<'(s.op = D)'>", "Column<'=(s.op, 'D')'>"])
def test_a_column_tells_its_names_as_pyspark_shows_it(shown):
    class Shown:
        def __str__(self):
            return shown

    assert "op" in names_in([Shown()], "t", "s")
    assert ("d" in names_in([Shown()], "t", "s")) is ("'D'" not in shown)
