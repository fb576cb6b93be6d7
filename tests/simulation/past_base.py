"""What a history of the past is made of: clients, the model of each table, and the comparison of
both after whatever may have committed.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.compaction.world import World
from tests.golden.tables import golden_meta
from tests.recorded import golden_path
from tests.simulation.past_checks import check_state
from tests.simulation.past_model import (
    Pinned,
    Rows,
    State,
    TableModel,
    changed,
    in_columns,
    value_of,
)

import hiveacid
from hiveacid.errors import (
    AcidError,
    InternalError,
)
from hiveacid.model.tables import LONG_MAX, TableName
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.table import AcidTable
from hiveacid.transaction import AcidTransaction

HOUR_MS = 3_600_000
KINDS = ("full", "buckets", "partitions", "insert-only")
RETENTIONS_H = (0, 1, 24)
IDS = range(7)
STEPS = (25, 45)
GOLDEN = (
    *("e01_converted", "e02_converted_dml", "e03_minor_preclean", "e05_major_clean"),
    *("e08_major_only_originals", "h01_aborted", "i01_overwrite", "i02_truncate", "i05_load"),
    *("i07_load_major", "i11_union_all", "k01_closed", "k02_aborted_open", "k05_open_plus_sql"),
    *("k06_open_minor", "l01_many", "l02_many_auto_preclean", "v3_08_converted_major"),
    *("v3_16_stream", "f04_orc_overwrite", "f07_orc_minor_preclean"),
    "v3_10_insert_only_overwrite",
)
"""Tables that Hive wrote, of the two columns that others here begin with."""
_CLAUSES = {"partitions": " partitioned by (p int)", "buckets": " clustered by (id) into 2 buckets"}


@dataclass(eq=False)
class Player:
    """A client, and its open transaction: what it sees, and what it would leave."""

    session: Session
    txn: AcidTransaction | None = None
    before: dict[TableModel, Rows] | None = None
    now: dict[TableModel, Rows] = field(default_factory=dict)
    places: dict[TableModel, int] = field(default_factory=dict)
    consumed: dict[tuple[TableModel, str], int] = field(default_factory=dict)
    marks: list[tuple[str, dict[TableModel, Rows], dict[Any, int]]] = field(default_factory=list)
    replaces: set[TableModel] = field(default_factory=set)

    def forget(self) -> None:
        """The transaction has ended."""
        self.txn = self.before = None
        for one in (self.now, self.places, self.consumed, self.marks, self.replaces):
            one.clear()

    def view(self, model: TableModel) -> Rows:
        """What it sees of a table."""
        assert self.before is not None
        return self.now.get(model, self.before.get(model, Counter()))

    def table(self, model: TableModel) -> AcidTable:
        """The table within the transaction, where there is one."""
        found: AcidTable = (self.txn or self.session).table(model.name)
        return found


class Base:
    """The clients, the tables, and what is compared after each step."""

    def __init__(self, seed: int, root: Path, *, url: str) -> None:
        self.random = Random(f"past {seed}")
        self.trace: list[str] = []
        self.golden = Random(f"golden {seed}") if seed % 3 == 0 else None  # Hive wrote its tables
        self.has_streams = seed % 2 == 1  # they leave many write ids that nobody commits
        settings = Settings(retention_s=86_400.0, lock_timeout_s=1, compactor_auto="off")
        self.world = World(url, root / "warehouse", settings)
        self.players = [Player(Session(self.world.connect())) for _ in range(3)]
        self.tables: list[TableModel] = []
        self.tokens = 0
        self.erased: set[str] = set()

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.world.clock.now_ms()

    def note(self, what: str) -> None:
        """A line of the trace."""
        self.trace.append(what)

    def place(self, model: TableModel) -> int:
        """A version of a table."""
        return self.random.randrange(len(model.versions))

    def _try(self, what: str, action: Callable[[], Any]) -> tuple[bool, Any]:
        """Whether it was done, and its answer or error."""
        try:
            answer = action()
        except InternalError:
            raise
        except AcidError as error:
            self.note(f"{what}: {type(error).__name__}: {error}")
            return False, error
        self.note(f"{what}: {answer if answer is not None else 'done'}")
        return True, answer

    def _create(self, name: str) -> None:
        kind, hours = self.random.choice(KINDS), self.random.choice(RETENTIONS_H)
        only = ", 'transactional_properties'='insert_only'" if kind == "insert-only" else ""
        self.world.acid.sql(
            f"create table {name} (id int, v string){_CLAUSES.get(kind, '')} stored as orc"
            f" tblproperties ('transactional'='true', 'orc.compress'='NONE',"
            f" 'hiveacid.retention'='{hours}h'{only})"
        )
        columns = ((1, "id"), (2, "v"), *(((0, "p"),) if kind == "partitions" else ()))
        after = self.world.client.own.sequence_of(time_ms=LONG_MAX) or 0
        made = TableModel(name, kind, columns, hours * HOUR_MS, self.now_ms, after)
        self.tables.append(made)
        self.note(f"create {name}: {kind}, kept for {hours} h")

    def _attach(self, name: str, chosen: str) -> None:
        """A table that Hive wrote, with its rows: the version that all others follow."""
        meta = golden_meta(chosen)
        location = f"{self.world.warehouse}/of_hive_{name}"
        shutil.copytree(golden_path(chosen) / "data", location)
        mode = meta["parameters"]["transactional_properties"]
        self.world.acid.attach(
            location,
            name=name,
            valid_write_ids=meta["valid_write_id_list"],
            valid_txns=meta["valid_txn_list"],
            schema="id int, v string",
            properties={"transactional_properties": mode, "hiveacid.retention": "24h"},
        )
        after = self.world.client.own.sequence_of(time_ms=LONG_MAX) or 0
        kind, columns = "insert-only" if mode == "insert_only" else "full", ((1, "id"), (2, "v"))
        model = TableModel(name, kind, columns, 24 * HOUR_MS, self.now_ms, after)
        found = hiveacid.read_arrow(self.world.acid.table(name)).read_all().to_pylist()
        (valid,) = self.world.client.metastore.valid_write_ids((TableName("default", name),))
        last = next(one for one in range(valid.hwm, -1, -1) if valid.is_valid(one))
        model.versions = [State(last, in_columns(columns, found), columns, 0)]
        model.is_of_hive = True
        self.tables.append(model)
        self.note(f"attach {name}: {chosen}, {len(found)} rows, version {last}")

    def _sql(self, text: str) -> bool:
        done, _ = self._try(text, partial(self.world.acid.sql, text))
        return done

    def _who(self, player: Player) -> str:
        number = self.players.index(player)
        return f"{number}" if player.txn is None else f"{number} (txn {player.txn.id})"

    def _see(self, player: Player) -> None:
        if player.before is None:
            player.before = {one: one.rows for one in self.tables}
            player.places = {one: one.last for one in self.tables}

    def _committed(self, player: Player, *, was: bool, kind: str = "") -> None:
        """Compare what is there with what the transaction should have left."""
        for model in self.tables:
            after = model.rows
            if was and model in player.now and player.before is not None:
                after = changed(model.rows, player.before.get(model, Counter()), player.now[model])
            self.sync(model, after, replaces=was and model in player.replaces)
        if was:
            for (model, name), place in player.consumed.items():
                model.consumers[name] = Pinned(place, self.now_ms + 7 * 24 * HOUR_MS)
        player.forget()

    def sync(self, model: TableModel, after: Rows, *, replaces: bool = False) -> None:
        """A table after something may have committed: at most one version, with these rows."""
        store = self.world.client.own
        known = model.versions[-1]
        name = TableName("default", model.name)
        commits = [one for one in store.commits(name) if one.sequence > known.sequence]
        if replaces and (commits or after != model.rows):
            model.replaced.append((self.now_ms, model.last))
        is_purge = all(one.facts.kind == "PURGE" for one in commits)  # it may look again
        assert len(commits) <= 1 or is_purge, f"several commits at once: {commits}"
        for one in commits:
            assert one.committed_ms >= known.at_ms, "time went back"
            facts = one.facts
            assert facts.deleted is None or not replaces or not model.has_ids, facts
            if facts.inserted is not None and facts.deleted is not None:
                grown = sum(after.values()) - sum(model.rows.values())
                assert facts.inserted - facts.deleted == grown, f"{facts} but {grown:+} rows"
            model.versions.append(
                State(
                    int(one.write_id),
                    after,
                    model.columns,
                    one.committed_ms,
                    one.sequence,
                    int(one.txn),
                )
            )
        check_state(self, model, after)
        if not commits:
            assert after == model.rows, f"rows of {model.name} changed without a commit"
        if model.has_partitions:
            model.partitions |= {value_of(row, 0) for row in after}

    def _new_commits(self, model: TableModel) -> list[Any]:
        name = TableName("default", model.name)
        return list(self.world.client.own.commits(name, after=model.versions[-1].sequence))


def with_column(model: TableModel, number: int, name: str) -> tuple[tuple[int, str], ...]:
    place = len(model.columns) - model.has_partitions
    return (*model.columns[:place], (number, name), *model.columns[place:])
