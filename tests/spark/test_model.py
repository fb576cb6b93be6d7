"""Any sequence of statements against a dictionary: scan, ``read_arrow`` and the model agree."""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pytest
from tests.sampling import sampled

import hiveacid
from hiveacid.model.ids import bucket_id_of
from hiveacid.model.types import parse_type
from hiveacid.reading.export import dump
from hiveacid.storage.merge.column_hashing import bucket_ids

ACID = "stored as orc tblproperties ('transactional'='true')"
PARTS = ("a", "b b", None)
DEFAULT = "__HIVE_DEFAULT_PARTITION__"
"""How a NULL partition reads in SQL, as in Hive."""
SHAPES = {
    "partitioned and bucketed": (
        "create table t (id int, v string) partitioned by (p string)"
        f" clustered by (id) into 3 buckets {ACID}"
    ),
    "plain": f"create table t (id int, v string, p string) {ACID}",
}
SEEDS = (1, 20240229)
ROOMS = ("spark", "storage", "statements", "sql")
STEPS = 7


def literal(value):
    return "cast(null as string)" if value is None else f"'{value}'"


class Model:
    """id -> (v, p), and the statements that change it."""

    def __init__(self, chance: random.Random, *, partitioned: bool):
        self.rows: dict[int, tuple[str, str | None]] = {}
        self.chance = chance
        self.partitioned = partitioned
        self.next = 0

    def fresh(self, count):
        made = []
        for _ in range(count):
            made.append((self.next, f"v{self.chance.randrange(100)}", self.chance.choice(PARTS)))
            self.next += 1
        return made

    def step(self) -> str:
        kinds = ["values", "insert", "update", "delete", "merge", "merge", "overwrite"]
        return getattr(self, self.chance.choice(kinds[: 2 if not self.rows else None]))()

    def values(self):
        made = self.fresh(self.chance.randrange(1, 4))
        self.rows.update({i: (v, p) for i, v, p in made})
        texts = [f"({i}, '{v}', {'null' if p is None else repr(p)})" for i, v, p in made]
        return "insert into t values " + ", ".join(texts)

    def insert(self):
        made = self.fresh(self.chance.randrange(5, 20))
        self.rows.update({i: (v, p) for i, v, p in made})
        return "insert into t " + self.select(made)

    def select(self, made):
        return " union all ".join(
            f"select {i} as id, '{v}' as v, {literal(p)} as p" for i, v, p in made
        )

    def update(self):
        by, rest = self.chance.randrange(2, 5), self.chance.randrange(2)
        for i, (v, p) in list(self.rows.items()):
            if i % by == rest:
                self.rows[i] = (v + "u", p)
        return f"update t set v = concat(v, 'u') where id % {by} = {rest}"

    def delete(self):
        part = self.chance.choice(PARTS)
        by = self.chance.randrange(2, 6)
        self.rows = {
            i: (v, p) for i, (v, p) in self.rows.items() if not (p == part and i % by == 0)
        }
        shown = DEFAULT if part is None and self.partitioned else part
        return f"delete from t where p <=> {literal(shown)} and id % {by} = 0"

    def merge(self):
        known = self.chance.sample(sorted(self.rows), min(len(self.rows), 8))
        source = [(i, f"m{i}", self.chance.choice(PARTS)) for i in known] + self.fresh(3)
        for i, v, p in source:
            if i not in self.rows:
                self.rows[i] = (v, p)
            elif i % 3 == 0:
                del self.rows[i]
            else:
                self.rows[i] = (v, self.rows[i][1])
        return (
            f"merge into t using ({self.select(source)}) s on t.id = s.id"
            " when matched and s.id % 3 = 0 then delete when matched then update set v = s.v"
            " when not matched then insert values (s.id, s.v, s.p)"
        )

    def overwrite(self):
        made = self.fresh(self.chance.randrange(1, 6))
        gone = {p for _, _, p in made}
        self.rows = {
            i: (v, p) for i, (v, p) in self.rows.items() if self.partitioned and p not in gone
        }
        self.rows.update({i: (v, p) for i, v, p in made})
        return "insert overwrite table t " + self.select(made)

    def sorted(self):
        return sorted((i, v, p) for i, (v, p) in self.rows.items())


@pytest.mark.parametrize("seed", sampled(SEEDS, *ROOMS, group=type))
@pytest.mark.parametrize("shape", sampled(SHAPES, *ROOMS, group=type))
def test_any_sequence_of_statements(acid, tmp_path, shape, seed):
    acid.sql("set hive.exec.dynamic.partition.mode=nonstrict")
    acid.sql(SHAPES[shape])
    partitioned = shape != "plain"
    model = Model(random.Random(seed), partitioned=partitioned)
    history = []
    for _ in range(STEPS):
        history.append(model.step())
        told = f"seed {seed}, {shape}:\n" + ";\n".join(history)
        try:
            acid.sql(history[-1])
        except Exception as error:
            raise AssertionError(told) from error
        found = acid.sql("select id, v, p, row__id from t").collect()
        got = [(row.id, row.v, None if row.p == DEFAULT else row.p) for row in found]
        assert sorted(got) == model.sorted(), told
        ids = [(row.p if partitioned else "", *row["row__id"]) for row in found]
        assert len(set(ids)) == len(ids), told
        table = hiveacid.read_arrow(str(tmp_path / "wh" / "t")).read_all()
        columns = (table.column(name).to_pylist() for name in ("id", "v", "p"))
        assert sorted(zip(*columns, strict=True)) == model.sorted(), told
        if partitioned:
            check_buckets(found, tmp_path / "wh" / "t", told)


def check_buckets(found, root, told):
    """Rows carry their bucket in the identity; files are named for the buckets they hold."""
    keys = pa.array([row.id for row in found], pa.int32())
    numbers = bucket_ids([keys], [parse_type("int")], n=3, version=2).to_pylist()
    for row, number in zip(found, numbers, strict=True):
        assert bucket_id_of(row["row__id"].bucketid) == number, told
    for path in root.rglob("bucket_*"):
        name = int(re.match(r"bucket_(\d{5})", path.name).group(1))
        assert {bucket_id_of(one["bucket"]) for one in dump(str(path))} <= {name}, (told, path)
