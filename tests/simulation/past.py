"""A seeded history of tables whose past is asked for: versions, times, tags, changes, consumers,
undo, RESTORE, PURGE, beside transactions of several clients, definitions that change, compactions
and cleanings, compared with a model that keeps the rows of every version.

Clients take turns statement by statement: what comes of a finer interleaving is for the others.
Each commit is read at once; the past is asked for at the end, and now and then.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from tests.simulation.past_base import GOLDEN, HOUR_MS, IDS, STEPS, Player, with_column
from tests.simulation.past_checks import check_all, check_consumed, check_erased
from tests.simulation.past_definitions import Definitions
from tests.simulation.past_model import (
    Pinned,
    Row,
    Rows,
    TableModel,
    changed,
    value_of,
)

from hiveacid.errors import (
    AcidError,
    AlreadyExistsError,
    ChangedSinceError,
    SnapshotExpiredError,
)
from hiveacid.model.tables import TableName


class PastHistory(Definitions):
    """One seed's history; ``run`` raises AssertionError where the past is another one."""

    def run(self) -> str:
        """All steps, then all questions; the digest of the trace."""
        try:
            for name in "tu"[: self.random.choice((1, 2, 2))]:
                if self.golden is None:
                    self._create(name)
                else:
                    self._attach(name, self.golden.choice(GOLDEN))
            for _ in range(self.random.randint(*STEPS)):
                self.step()
            for player in self.players:
                self._end(player)
            check_all(self, asked=4)
        finally:
            for player in self.players:
                player.session.close()
            self.world.close()
        text = "\n".join(self.trace).replace(self.world.warehouse, "")
        return hashlib.sha256(text.encode()).hexdigest()

    # ---------------------------------------------------------------- steps

    def step(self) -> None:
        """One statement of a client, or something of the world's."""
        self.world.clock.advance_ms(self.random.choice((1, 1, 40, 5_000)))
        steps: list[tuple[int, Callable[[], None]]] = [
            (30, self._write),
            (7, self._transaction),
            (6, self._definition),
            (6, self._compact),
            (6, self._clean),
            (3, self._time),
            (4, self._tag),
            (7, self._consume),
            (3, self._restore),
            (3, self._undo),
            (2, self._purge),
            (3, lambda: check_all(self, asked=1)),
        ]
        if self.has_streams:
            steps += [(5, self._stream), (2, self._vacuum)]
        weights, actions = zip(*steps, strict=True)
        (action,) = self.random.choices(actions, weights)
        action()

    def _time(self) -> None:
        """A while later, or earlier."""
        ms = self.random.choice((60_000, HOUR_MS // 2, 2 * HOUR_MS, 30 * HOUR_MS, -HOUR_MS))
        self.world.clock.advance_ms(ms)
        self.note(f"clock: {ms / HOUR_MS:+.2f} h")

    # ---------------------------------------------------------------- rows

    def _rows(self, model: TableModel, *, keys: bool = False) -> list[dict[str, Any]]:
        found = []
        chosen = self.random.sample(IDS, self.random.randint(1, 3))
        for number in chosen:
            row: dict[str, Any] = {}
            for column, name in model.columns:
                if column == 0:
                    row[name] = self.random.randrange(3)
                elif column == 1:
                    row[name] = None if not keys and self.random.random() < 0.1 else number
                elif name.startswith("n"):
                    row[name] = self.random.randrange(100)
                else:
                    self.tokens += 1
                    row[name] = self.random.choice(("a;", None, *(f"tok{self.tokens:05};",) * 4))
            found.append(row)
        return found

    def _write(self) -> None:
        """A statement, in the transaction of its client or by itself."""
        player, model = self.random.choice(self.players), self.random.choice(self.tables)
        kinds = ["insert", "insert", "merge", "merge", "delete", "overwrite", "truncate", "values"]
        kind = self.random.choice(kinds)
        if not model.has_ids and kind in ("merge", "delete"):
            kind = "insert"
        if kind in ("overwrite", "truncate") and self.random.random() < 0.5:
            kind = "insert"
        self._see(player)
        make, chance, tokens = getattr(self, f"_{kind}"), self.random.getstate(), self.tokens
        what, action, after, replaces = make(player, model, player.view(model))
        was = None if player.txn is None else player.txn.id
        done, _ = self._try(f"{self._who(player)} {what} of {model.name}", action)
        if done and was is not None and player.txn is not None and player.txn.id != was:
            # nothing that it did had come to be: it began anew, and sees what is there now
            player.before = None
            self._see(player)
            self.random.setstate(chance)
            self.tokens = tokens
            _, _, after, _ = make(player, model, player.view(model))
        if done:
            player.now[model] = after
            if replaces:
                player.replaces.add(model)
        if player.txn is None:
            self._committed(player, was=done)
        elif not player.txn.is_open:
            player.forget()

    def _insert(self, player: Player, model: TableModel, view: Rows) -> Any:
        rows = self._rows(model)
        after = view + Counter(map(model.row, rows))
        evolve = self.random.random() < 0.1 and player.txn is None
        if evolve:
            self.tokens += 1
            column = 100 + self.tokens
            name = f"n{column}"
            rows = [{**row, name: 7} for row in rows]
            new = Counter(frozenset((*model.row(_without(row, name)), (column, 7))) for row in rows)

            def write() -> Any:
                answer = player.table(model).write_arrow(rows, evolve=True)
                model.columns = with_column(model, column, name)
                return answer

            return f"insert with {name} {rows}", write, view + new, False
        write = partial(lambda: player.table(model).write_arrow(rows))
        return f"insert {rows}", write, after, False

    def _values(self, player: Player, model: TableModel, view: Rows) -> Any:
        rows = self._rows(model)
        names = ", ".join(name for _, name in model.columns)
        texts = ", ".join(f"({', '.join(map(_literal, row.values()))})" for row in rows)
        text = f"insert into {model.name} ({names}) values {texts}"
        after = view + Counter(map(model.row, rows))
        return text, lambda: (player.txn or player.session).sql(text), after, False

    def _stream(self) -> None:
        """Some transactions of a stream, closed with write ids left, which it aborts."""
        model = self.random.choice(self.tables)
        batch = self.random.choice((1, 2, 4))

        def write() -> None:
            with self.world.acid.stream(model.name, transactions_per_batch=batch) as stream:
                for _ in range(self.random.randint(1, 3)):
                    rows = self._rows(model)
                    stream.begin()
                    for row in rows:
                        stream.write(row)
                    if self.random.random() < 0.3:
                        stream.abort()
                        continue
                    stream.commit()
                    self.sync(model, model.rows + Counter(map(model.row, rows)))

        self._try(f"stream of {batch} into {model.name}", write)
        self.sync(model, model.rows)

    def _overwrite(self, player: Player, model: TableModel, view: Rows) -> Any:
        rows = self._rows(model)
        gone = view
        if model.has_partitions:
            places = {row["p"] for row in rows}
            gone = Counter({row: n for row, n in view.items() if value_of(row, 0) in places})
        after = view - gone + Counter(map(model.row, rows))
        write = partial(lambda: player.table(model).write_arrow(rows, overwrite=True))
        return f"overwrite {rows}", write, after, True

    def _truncate(self, player: Player, model: TableModel, view: Rows) -> Any:
        text, after = f"truncate table {model.name}", Counter[Row]()
        if model.has_partitions and model.partitions:
            place = self.random.choice(sorted(model.partitions))
            text += f" partition (p={place})"
            after = Counter({row: n for row, n in view.items() if value_of(row, 0) != place})
        return text, lambda: (player.txn or player.session).sql(text), after, True

    def _delete(self, player: Player, model: TableModel, view: Rows) -> Any:
        ids = self.random.sample(IDS, 2)
        after = Counter({row: n for row, n in view.items() if value_of(row, 1) not in ids})
        name = dict(model.columns)[1]
        condition = f"{name} in ({ids[0]}, {ids[1]})"
        return (
            f"delete where {condition}",
            lambda: player.table(model).delete_arrow(condition),
            after,
            False,
        )

    def _merge(self, player: Player, model: TableModel, view: Rows) -> Any:
        rows = self._rows(model, keys=self.random.random() < 0.8)
        keys = [name for number, name in model.columns if number in (0, 1)]
        numbers = [model.names[key] for key in keys]
        after = Counter(view)
        for row in rows:
            new, whole = model.row(row), row[dict(model.columns)[1]] is not None
            same = [
                one
                for one in view
                if whole and all(value_of(one, n) == value_of(new, n) for n in numbers)
            ]
            for one in same:
                after[new] += view[one]
                after[one] -= view[one]
            if not same:
                after[new] += 1
        merge = partial(lambda: player.table(model).merge_arrow(rows, on=keys))
        return f"merge {rows} on {keys}", merge, +after, False

    # ---------------------------------------------------------------- transactions

    def _transaction(self) -> None:
        """Begin one, or end it, or go back in it."""
        player = self.random.choice(self.players)
        if player.txn is None:
            player.txn = player.session.transaction()
            player.before = None
            self.note(f"{self._who(player)} begins")
            return
        how = self.random.choice(("commit", "commit", "commit", "rollback", "mark", "back"))
        if how in ("commit", "rollback"):
            self._end(player, how)
        elif how == "mark":
            name = f"m{len(player.marks)}"
            done, _ = self._try(f"{self._who(player)} {name}", partial(player.txn.savepoint, name))
            if done:
                player.marks.append((name, dict(player.now), dict(player.consumed)))
        elif player.marks:
            place = self.random.randrange(len(player.marks))
            name, now, consumed = player.marks[place]
            back = partial(player.txn.rollback_to, name)
            done, _ = self._try(f"{self._who(player)} back to {name}", back)
            if done:
                player.now, player.consumed = dict(now), dict(consumed)
                del player.marks[place + 1 :]

    def _end(self, player: Player, how: str = "commit") -> None:
        txn = player.txn
        if txn is None:
            return
        done, _ = self._try(f"{self._who(player)} {how}", getattr(txn, how))
        with suppress(AcidError):
            txn.rollback()
        player.txn = None
        self._committed(player, was=done and how == "commit")

    # ---------------------------------------------------------------- the past

    def _tag(self) -> None:
        model = self.random.choice(self.tables)
        table, name = self.world.acid.table(model.name), self.random.choice(("one", "two"))
        if name in model.tags and self.random.random() < 0.5:
            done, _ = self._try(f"drop tag {name}", partial(table.drop_tag, name))
            assert done
            del model.tags[name]
            return
        place = self.random.choice((model.last, self.place(model)))
        hours = self.random.choice((None, None, 2))
        version = model.versions[place].write_id if place != model.last else None
        make = partial(
            table.tag, name, as_of_write_id=version, retain=None if hours is None else hours / 24
        )
        done, answer = self._try(f"tag {name} on {model.name} at {version}, {hours} h", make)
        if done:
            expires = None if hours is None else self.now_ms + hours * HOUR_MS
            model.tags[name] = Pinned(place, expires)
        elif isinstance(answer, AlreadyExistsError):
            assert name in model.tags, answer
        else:
            assert isinstance(answer, SnapshotExpiredError), answer
            # before there is a next version nobody tells of partitions that moved
            assert not model.has_to_be_there(place, self.now_ms), answer

    def _consume(self) -> None:
        model, player = self.random.choice(self.tables), self.random.choice(self.players)
        name = self.random.choice(("crm", "dwh"))
        check_consumed(self, player, model, name)

    def _restore(self) -> None:
        player = Player(self.world.acid)
        model = self.random.choice(self.tables)
        place = self.place(model)
        self._see(player)
        version = model.versions[place]
        here = {number for number, _ in model.columns}
        rows: Rows = Counter()
        for row, count in version.rows.items():
            rows[frozenset(one for one in row if one[0] in here)] += count
        table = self.world.acid.table(model.name)
        restore = partial(table.restore, write_id=version.write_id)
        done, answer = self._try(f"restore {model.name} to {version.write_id}", restore)
        if done:
            player.now[model] = rows
            player.replaces.add(model)
        elif isinstance(answer, SnapshotExpiredError):
            assert not model.has_to_be_there(place, self.now_ms), answer
        self._committed(player, was=done)

    def _undo(self) -> None:
        """Take back what a commit did; where nobody wrote since that has to be possible."""
        model = self.random.choice(self.tables)
        place = self.random.choice((model.last, self.place(model)))
        txn = model.versions[place].txn
        if not txn:
            return
        player = Player(self.world.acid)
        self._see(player)
        undone = {}
        for one in self.tables:
            for at, version in enumerate(one.versions):
                if version.txn == txn:
                    undone[one] = at
        done, answer = self._try(f"undo {txn}", partial(self.world.acid.undo, txn))
        if done:
            for one, at in undone.items():
                old, new = one.versions[at - 1].rows, one.versions[at].rows
                player.now[one] = changed(one.rows, new, old)
                if not one.has_ids:
                    player.replaces.add(one)
        elif isinstance(answer, ChangedSinceError):
            last = all(at == one.last for one, at in undone.items())
            assert not last or any(one.rebalanced for one in undone), answer
        elif isinstance(answer, SnapshotExpiredError):
            assert any(
                not one.has_to_be_there(at - 1, self.now_ms) or at - 1 <= one.moved_up_to
                for one, at in undone.items()
            ), answer
        self._committed(player, was=done)

    def _purge(self) -> None:
        model = self.random.choice(self.tables)
        number = self.random.choice((None, *IDS))
        name = dict(model.columns)[1]
        where = None if number is None or not model.has_ids else f"{name} = {number}"
        player = Player(self.world.acid)
        self._see(player)
        before = model.rows
        table = self.world.acid.table(model.name)
        drop = self.random.random() < 0.6
        purge = partial(table.purge, where=where, drop_pins=drop)
        done, report = self._try(f"purge {model.name} where {where}", purge)
        if where is not None:
            left = {row: n for row, n in before.items() if value_of(row, 1) != number}
            player.now[model] = Counter(left)
        # what it deletes is committed before anything may go wrong
        committed = done or len(self._new_commits(model)) > 0
        kept = {pin.name for pin in self.world.client.own.pins(TableName("default", model.name))}
        for pins in (model.tags, model.consumers):
            for gone in set(pins) - kept:
                del pins[gone]
        self._committed(player, was=committed)
        if done:
            model.let_go.update(range(model.last))
            assert report.rows_found == 0, report
            check_erased(self, model, report)


def _without(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: one for key, one in row.items() if key != name}


def _literal(value: object) -> str:
    return "null" if value is None else repr(value)
