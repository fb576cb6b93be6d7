"""What is known without reading rows is what the rows say, in histories and queries at random."""

from __future__ import annotations

import random

import pytest

from hiveacid.errors import AcidError

ACID = "stored as orc tblproperties ('transactional'='true')"
VALUES = {
    "string": ["'a'", "'b'", "'d 1'", "null"],
    "int": ["-3", "5", "10", "null"],
    "date": ["'2024-01-01'", "'2023-12-31'", "'1999-01-01'", "null"],
}
EMPTY = {
    "string": ("'A'", "'zz'"),
    "int": ("-99", "99"),
    "date": ("'1900-01-01'", "'2999-01-01'"),
}
AGGREGATES = ["max(p)", "min(p)", "max(id)", "min(v)", "count(*)", "count(p)"]
ALIASES = ["", " m", " as m", " as date", " day"]


@pytest.mark.long("sql", "statements", "storage")
@pytest.mark.parametrize("seed", range(6))
def test_with_and_without_what_is_known(acid, seed):
    chance = random.Random(seed)
    kind = ("string", "int", "string", "date")[seed % 4]
    acid.sql(f"create table r (id int, v bigint) partitioned by (p {kind}) {ACID}")
    for _ in range(chance.randint(4, 8)):
        _change(acid, chance, VALUES[kind])
    for place in EMPTY[kind]:
        acid.sql(f"alter table r add partition (p = {place})")

    def answer(text):
        try:
            return sorted((tuple(row) for row in acid.sql(text).collect()), key=str)
        except AcidError:  # types that cannot be compared: its words differ
            return "an error"

    plain = [f"select {one} from r" for one in AGGREGATES]
    for text in [*plain, *(_query(chance) for _ in range(8))]:
        known = answer(text)
        acid.sql("set hive.compute.query.using.stats=false")
        assert known == answer(text), text
        acid.sql("reset hive.compute.query.using.stats")


def _change(acid, chance, values):
    place = chance.choice([value for value in values if value != "null"])
    rows = ", ".join(
        f"({chance.randint(-5, 12)}, {chance.choice(['null', '3'])}, {chance.choice(values)})"
        for _ in range(3)
    )
    inserted = f"insert into r values {rows}"
    acid.sql(
        chance.choice(
            [
                inserted,
                inserted,
                f"alter table r add if not exists partition (p = {place})",
                f"alter table r drop if exists partition (p = {place})",
                f"delete from r where id {chance.choice('<=>')} {chance.randint(-5, 12)}",
                f"delete from r where p = {place}",
            ]
        )
    )


def _query(chance):
    one = chance.choice(AGGREGATES)
    item = chance.choice([one, one, f"coalesce({one}, {one})", f"cast({one} as string)"])
    query = f"(select {item}{chance.choice(ALIASES)} from r{chance.choice(['', ' z'])})"
    operator = chance.choice(["=", "in", "<", ">=", "<>", "not in"])
    return chance.choice(
        [
            f"select {one}, {chance.choice(AGGREGATES)} from r",
            f"select * from r where {chance.choice(['p', 'p', 'id', 'v'])} {operator} {query}",
        ]
    )
