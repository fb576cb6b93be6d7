"""Tables of random definition with random statements, from a seed (``--random SEED``): as kinds of
ours, and as a script for Hive.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.interop.hive_tool import statements
from tests.interop.kinds import Kind, Mode, Step, Workplace

VALUES: Final = {
    "int": ("0", "-7", "2147483647", "null"),
    "bigint": ("0", "9223372036854775807", "null"),
    "smallint": ("1", "-32768", "null"),
    "string": ("''", "'a'", "'ä€'", "'a b'", "'NULL'", "null"),
    "varchar(5)": ("'abc'", "''", "'abcde'", "null"),
    "char(4)": ("'ab'", "'abcd'", "null"),  # Hive 4.1 makes NULL of an empty one in some MERGEs
    "double": ("0.0", "-1.5", "1e300", "null"),
    "float": ("0.5", "-1.25", "null"),
    "decimal(10,2)": ("0.00", "-1.50", "99999999.99", "null"),
    "decimal(20,4)": ("1.5", "-123456789012345.6789", "null"),
    "date": ("date '2020-02-29'", "date '1969-12-31'", "date '1500-01-01'", "null"),
    "timestamp": ("timestamp '2020-02-29 12:34:56.789'", "timestamp '1960-01-01 00:00:00'", "null"),
    "boolean": ("true", "false", "null"),
}
WIDER: Final = {
    "smallint": "int",
    "int": "bigint",
    "float": "double",
    "varchar(5)": "string",
    "char(4)": "string",
    "decimal(10,2)": "decimal(20,4)",
}
KEYS: Final = {
    "int": ("1", "2", "null"),
    "string": ("'x'", "'a/b'", "null"),
    "date": ("date '2020-01-01'", "date '2021-12-31'"),
}
"""Values of partition columns."""
FORMATS: Final = {"orc": tuple(VALUES), "parquet": ("int", "bigint", "string", "double")}
"""Types of columns; Hive's Parquet has bugs with others."""


@dataclass(frozen=True)
class RolledBack:
    """A statement that does not come to its commit."""

    sql: str

    def __call__(self, place: Workplace) -> None:
        """Roll it back on our side."""
        with suppress(_NotWantedError), place.acid.transaction() as transaction:
            transaction.sql(self.sql.replace("{t}", place.table))
            raise _NotWantedError

    def in_hive(self, key: str | None) -> list[str]:
        """Let it fail in Hive."""
        del key
        return ["!hook fail", self.sql, "!hook off"]


class _NotWantedError(Exception):
    pass


@dataclass(frozen=True)
class Compacted:
    """A compaction, and perhaps the cleaner's turn."""

    kind: str
    cleans: bool

    def __call__(self, place: Workplace) -> None:
        """All partitions on our side."""
        place.acid.table(place.table).compact(self.kind, wait=True)
        if self.cleans:
            place.acid.clean()

    def in_hive(self, key: str | None) -> list[str]:
        """In Hive the first partition."""
        where = "" if key is None else " p=" + KEYS[key][0].split(" ")[-1].strip("'")
        return [f"!compact {{t}} {self.kind}{where}", *(["!cleaner"] if self.cleans else [])]


class Program:
    """One table; its name in the statements is ``{t}``, its first column an ascending ``id``."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.mode = random.choice([Mode.FULL, Mode.FULL, Mode.PLAIN, Mode.INSERT_ONLY])
        self.is_full = self.mode is not Mode.INSERT_ONLY
        self.format = "orc" if self.is_full else random.choice(list(FORMATS))
        types = random.choices(FORMATS[self.format], k=random.randint(1, 4))
        self._columns = {f"c{place}": kind for place, kind in enumerate(types)}
        self.columns = "id int, " + ", ".join(f"{c} {kind}" for c, kind in self._columns.items())
        self.key = random.choice([None, None, *KEYS])
        self.clustered_by = random.choice(["", "", "(id) into 2", "(id) into 3"])
        self._last_id = 0

    def steps(self) -> list[Step]:
        """INSERTs, a conversion where the table is plain, then whatever comes."""
        found: list[Step] = [self._insert() for _ in range(self._random.randint(1, 3))]
        if self.mode is Mode.PLAIN:
            found.append("alter table {t} set tblproperties ('transactional'='true')")
        for _ in range(self._random.randint(3, 9)):
            step = self._random.choices(
                [self.change, self._rolled_back, self._added, self._widened, self._compacted],
                [8, 2, 1, 1, 4],
            )[0]()
            found += [step] if step else []
        return found

    def change(self) -> str:
        """INSERT, INSERT OVERWRITE, UPDATE, DELETE or MERGE."""
        ways = [self._insert, self._insert, self._overwrite]
        if self.is_full:
            ways += [self._update, self._update, self._delete, self._merge, self._merge]
        return self._random.choice(ways)()

    def _insert(self) -> str:
        rows = " union all ".join(self._row() for _ in range(self._random.randint(1, 5)))
        return f"insert into {self._target()} {rows}"

    def _overwrite(self) -> str:
        return f"insert overwrite table {self._target()} {self._row()}"

    def _update(self) -> str:
        column = self._random.choice(list(self._columns))
        return f"update {{t}} set {column} = {self._value(column)} where {self._predicate()}"

    def _delete(self) -> str:
        return f"delete from {{t}} where {self._predicate()}"

    def _merge(self) -> str:
        first = self._random.randint(0, self._last_id + 1)
        ids = range(first, first + self._random.randint(1, 6))
        self._last_id = max(self._last_id, ids[-1])
        source = " union all ".join(self._row(at) for at in ids)
        columns = ["id", *self._columns, *(["p"] if self.key else [])]
        changed = self._random.choice(list(self._columns))
        also = " when matched and t.id % 3 = 0 then delete" if self._random.random() < 0.6 else ""
        return (
            f"merge into {{t}} t using ({source}) s on t.id = s.id{also}"
            f" when matched then update set {changed} = s.{changed}"
            f" when not matched then insert values ({', '.join(f's.{c}' for c in columns)})"
        )

    def _row(self, row_id: int | None = None) -> str:
        if row_id is None:
            self._last_id += 1
            row_id = self._last_id
        cells = [f"{row_id} id", *(f"{self._value(column)} {column}" for column in self._columns)]
        if self.key:
            cells.append(f"cast({self._random.choice(KEYS[self.key])} as {self.key}) p")
        return f"select {', '.join(cells)}"

    def _value(self, column: str) -> str:
        kind = self._columns[column]
        return f"cast({self._random.choice(VALUES[kind])} as {kind})"

    def _target(self) -> str:
        return "{t} partition (p)" if self.key else "{t}"

    def _predicate(self) -> str:
        column = self._random.choice(list(self._columns))
        found = self._random.randint(1, self._last_id + 1)
        return self._random.choice(
            [
                f"id % 3 = {found % 3}",
                f"id < {found}",
                f"id in ({found}, {found + 2})",
                f"{column} is null",
                f"{column} is not null",
                *(["p is null"] if self.key else []),
            ]
        )

    def _rolled_back(self) -> Step:
        return RolledBack(self.change())

    def _compacted(self) -> Step:
        return Compacted(self._random.choice(["minor", "major"]), self._random.random() < 0.6)

    def _added(self) -> str | None:
        if self.format != "orc":
            return None
        column, kind = f"c{len(self._columns)}", self._random.choice(FORMATS["orc"])
        self._columns[column] = kind
        return f"alter table {{t}} add columns ({column} {kind})" + self._cascade()

    def _widened(self) -> str | None:
        able = [column for column, kind in self._columns.items() if kind in WIDER]
        if self.format != "orc" or not able:
            return None
        column = self._random.choice(able)
        self._columns[column] = WIDER[self._columns[column]]
        change = f"alter table {{t}} change {column} {column} {self._columns[column]}"
        return change + self._cascade()

    def _cascade(self) -> str:
        return " cascade" if self.key else ""


def kinds(seed: int, count: int) -> tuple[Kind, ...]:
    """Tables of ours, with what Hive does on top."""
    found = []
    for number in range(count):
        random = Random(f"{seed}.{number}")
        program = Program(random)
        steps = tuple(program.steps())
        found.append(
            Kind(
                f"random_{seed}_{number}",
                program.columns,
                steps,
                tuple(program.change() for _ in range(random.randint(1, 3))),
                partitioned_by=f"p {program.key}" if program.key else "",
                clustered_by=program.clustered_by,
                stored_as=program.format,
                mode=program.mode,
                properties="'transactional'='false'" if program.mode is Mode.PLAIN else "",
                compact=(),
            )
        )
    return tuple(found)


def script(seed: int, count: int) -> str:
    """The same kinds of programs for Hive, each with its answers at some points and at its end."""
    lines = [
        "set hive.query.results.cache.enabled=false",
        "set hive.exec.dynamic.partition.mode=nonstrict",
    ]
    for kind in kinds(seed, count):
        random = Random(kind.name)
        key = kind.partitioned_by.removeprefix("p ") or None
        lines.append(kind.create(kind.name))
        turn = [*kind.statements, *kind.hive_turn]
        for number, step in enumerate(turn, start=1):
            said = [step] if isinstance(step, str) else step.in_hive(key)  # type: ignore[attr-defined]
            lines += [line.replace("{t}", kind.name) for line in said]
            is_plain = kind.mode is Mode.PLAIN and number < 5
            if number == len(turn) or (random.random() < 0.3 and not is_plain):
                lines.append(f"!snap {kind.name}_{number} {kind.name}")
    return statements(lines)
