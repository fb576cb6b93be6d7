"""Definitions that change in a history of the past, compactions and cleanings."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from tests.simulation.past_base import HOUR_MS, Base, with_column
from tests.simulation.past_model import (
    Rows,
    TableModel,
    value_of,
)

from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import Outcome, Worker
from hiveacid.model.compactions import CompactionRequest, CompactionType
from hiveacid.model.tables import TableName


class Definitions(Base):
    """What is done to tables, but for their rows."""

    def _definition(self) -> None:
        """ALTER, RENAME, DROP and CREATE."""
        model = self.random.choice(self.tables)
        actions = [self._add, self._change, self._rename, self._drop]
        if model.has_partitions:
            actions += [self._drop_partition, self._rename_partition, self._add_partition] * 2
        self.random.choice(actions)(model)

    def _add(self, model: TableModel) -> None:
        self.tokens += 1
        number = 100 + self.tokens
        name, kind = self.random.choice(((f"n{number}", "int"), (f"w{number}", "string")))
        if self._sql(f"alter table {model.name} add columns ({name} {kind})"):
            model.columns = with_column(model, number, name)
        self.sync(model, model.rows)

    def _change(self, model: TableModel) -> None:
        self.tokens += 1
        number, name = self.random.choice([one for one in model.columns if one[0] > 1])
        kind = "int" if name.startswith("n") else "string"
        new = f"{name[0]}{200 + self.tokens}"
        if self._sql(f"alter table {model.name} change column {name} {new} {kind}"):
            model.columns = tuple(
                (one, new if one == number else old) for one, old in model.columns
            )
        self.sync(model, model.rows)

    def _rename(self, model: TableModel) -> None:
        self.tokens += 1
        new = f"{model.name[0]}{self.tokens}"
        if self._sql(f"alter table {model.name} rename to {new}"):
            model.name = new
        self.sync(model, model.rows)

    def _drop(self, model: TableModel) -> None:
        if self.random.random() < 0.5 and self._sql(f"drop table {model.name}"):
            self.tables.remove(model)
            for player in self.players:
                player.now.pop(model, None)
            self._create(model.name)

    def _drop_partition(self, model: TableModel) -> None:
        place = self.random.randrange(3)
        there = self.world.client.metastore.list_partitions(TableName("default", model.name))
        model.partitions = {int(str(one.values[0])) for one in there}  # also those without rows
        if self._sql(f"alter table {model.name} drop if exists partition (p={place})"):
            if place in model.partitions:
                model.partitions.discard(place)
                self._moved(model, lost=True)
                self._without(model, place)
            self.sync(model, self._moved_rows(model, place, None))

    def _rename_partition(self, model: TableModel) -> None:
        place, new = self.random.sample(range(4), 2)
        text = f"alter table {model.name} partition (p={place}) rename to partition (p={new})"
        if self._sql(text):
            model.partitions.discard(place)
            model.partitions.add(new)
            self._moved(model, lost=False)
            self.sync(model, self._moved_rows(model, place, new))

    def _add_partition(self, model: TableModel) -> None:
        place = self.random.randrange(4)
        location = self.world.acid.table(model.name).definition.location
        has_files = Path(f"{location}/p={place}").exists()  # of an aborted write, say
        if self._sql(f"alter table {model.name} add if not exists partition (p={place})"):
            model.partitions.add(place)
            if has_files:
                self._moved(model, lost=False)
        self.sync(model, model.rows)

    def _moved(self, model: TableModel, *, lost: bool) -> None:
        model.moved_up_to = model.last
        if lost:
            model.let_go.update(range(model.last + 1))
            for pin in (*model.tags.values(), *model.consumers.values()):
                pin.is_lost = True

    def _moved_rows(self, model: TableModel, place: int, new: int | None) -> Rows:
        return _in_partition(model.rows, place, new)

    def _without(self, model: TableModel, place: int) -> None:
        for player in self.players:  # they have not come to the table yet, or it would be locked
            if player.before is not None and model in player.before:
                player.before[model] = _in_partition(player.before[model], place, None)

    # ---------------------------------------------------------------- compaction

    def _compact(self) -> None:
        model, client = self.random.choice(self.tables), self.world.client
        kinds = [CompactionType.MINOR, CompactionType.MAJOR]
        if model.kind == "full":
            kinds.append(CompactionType.REBALANCE)
        kind = self.random.choice(kinds)
        partition = None
        if model.has_partitions:
            partition = f"p={self.random.choice(sorted(model.partitions) or [0])}"
        request = CompactionRequest(TableName("default", model.name), partition, kind)
        what = f"compact {model.name} {partition or ''} {kind.name}"
        self._try(what, partial(client.metastore.compact, request))
        worker = Worker(client, partial(rewrite, settings=client.settings), name="h-1-1")
        while (found := worker.run_next()) is not None:
            self.note(f"{found.outcome.value} {found.directories} {found.message}")
            if found.outcome is Outcome.COMPACTED:
                model.replaced.append((self.now_ms, model.last))
                model.rebalanced |= kind is CompactionType.REBALANCE
            # a rebalance gives rows other ids, and waits for those who may delete them
            assert found.outcome is not Outcome.FAILED or kind is CompactionType.REBALANCE, found
        self.sync(model, model.rows)

    def _clean(self) -> None:
        self.world.clock.advance_ms(self.random.choice((2_000, HOUR_MS, 26 * HOUR_MS)))
        done = Cleaner(self.world.client).run_all()
        self.note(f"clean: {[(one.outcome.value, one.message) for one in done]}")
        for model in self.tables:
            model.cleaned(self.now_ms)
            self.sync(model, model.rows)

    def _vacuum(self) -> None:
        model = self.random.choice(self.tables)
        hours = self.random.choice(("", "", " retain 2 hours", " retain 48 hours"))
        is_dry = self.random.random() < 0.3
        done = self._sql(f"vacuum {model.name}{hours}{' dry run' if is_dry else ''}")
        if done and not is_dry:
            model.cleaned(self.now_ms)
        self.sync(model, model.rows)


def _in_partition(rows: Rows, place: int, new: int | None) -> Rows:
    """The rows, those of a partition in another one, or nowhere."""
    found: Rows = Counter()
    for row, count in rows.items():
        if value_of(row, 0) != place:
            found[row] += count
        elif new is not None:
            found[frozenset((*(one for one in row if one[0] != 0), (0, new)))] += count
    return found
