"""What a history of the past is asked, and what it has to answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulation.past_model import Columns, Rows, State, TableModel, in_columns, value_of

import hiveacid
from hiveacid.errors import AcidError, SnapshotExpiredError
from hiveacid.model.tables import FIRST_WRITE_ID_AFTER_CONVERSION

if TYPE_CHECKING:
    from tests.simulation.past_base import Base, Player

    from hiveacid.table import AcidTable

_ADDED = ("_change_type", "_commit_version", "_commit_timestamp", "_write_id")
_CAME = ("insert", "update_postimage")
MODES: tuple[dict[str, Any], ...] = (
    {},
    {"deduplication": "none"},
    {"deduplication": "netChanges"},
    {"key": True},
    {"key": True, "deduplication": "none"},
    {"key": True, "deduplication": "netChanges"},
    {"key": True, "updates": False},
)


def check_state(history: Base, model: TableModel, rows: Rows) -> None:
    """A table is what it should be now."""
    found = hiveacid.read_arrow(history.world.acid.table(model.name)).read_all().to_pylist()
    assert_same(in_columns(model.columns, found), rows, f"{model.name} now")


def assert_same(found: Rows, wanted: Rows, what: str) -> None:
    """Rows are those that there have to be."""
    if found != wanted:
        more, less = found - wanted, wanted - found
        raise AssertionError(f"{what}: too many {_shown(more)}, too few {_shown(less)}")


def _shown(rows: Rows) -> list[tuple[Any, ...]]:
    return sorted((tuple(sorted(row, key=str)) for row in rows.elements()), key=str)


def check_all(history: Base, *, asked: int) -> None:
    """Ask for some of everything."""
    for model in history.tables:
        table = history.world.acid.table(model.name)
        places = {history.place(model) for _ in range(asked)} | {0, model.last}
        for place in sorted(places):
            _check_version(history, model, place)
        for name, pin in model.tags.items():
            _check_asked(history, model, pin.place, {"as_of_tag": name})
        for _ in range(asked):
            since, until = sorted((history.place(model), history.place(model)))
            _check_feed(history, model, table, since, until)
        if asked > 2:
            _check_listing(model, table)
            for number in (1, 2):
                _explain(history, model, number)


# -------------------------------------------------------------------- versions


def _expired(history: Base, model: TableModel, place: int, error: AcidError) -> None:
    """An error in place of a version is right, and names a version that is there."""
    assert isinstance(error, SnapshotExpiredError), error
    now = history.now_ms
    assert not model.has_to_be_there(place, now), f"place {place}, now {now}: {error}"
    assert not model.has_pin(place, now), f"a tag did not keep {place}: {error}"
    oldest = error.context.get("oldest")
    if oldest is not None:
        named = model.place_of(int(str(oldest)))
        assert named > place, f"{error} is no later one"
        version = model.versions[named]
        wanted = {"as_of_write_id": version.write_id}
        _check_rows(history, model, version, wanted)


def _check_rows(
    history: Base, model: TableModel, version: State, wanted: Mapping[str, Any]
) -> None:
    table = history.world.acid.table(model.name)
    found = hiveacid.read_arrow(table, **wanted).read_all()
    what = f"{model.name} as of {wanted}"
    assert_same(in_columns(version.columns, found.to_pylist()), version.rows, what)


def _check_asked(history: Base, model: TableModel, place: int, wanted: Mapping[str, Any]) -> None:
    try:
        _check_rows(history, model, model.versions[place], wanted)
    except AcidError as error:
        _expired(history, model, place, error)


def _check_version(history: Base, model: TableModel, place: int) -> None:
    """By write id, by time, by transaction."""
    version = model.versions[place]
    ways: list[Any] = [{"as_of_write_id": version.write_id}]
    after = model.versions[place + 1].at_ms if place < model.last else version.at_ms + 1_000
    if after > version.at_ms and (place or not model.is_of_hive):
        for at_ms in {version.at_ms, after - 1} if place else {max(model.made_ms, after - 1)}:
            if not place and after <= model.made_ms:
                continue
            ways.append({"as_of_time": datetime.fromtimestamp(at_ms / 1000, timezone.utc)})
    for wanted in ways:
        _check_asked(history, model, place, wanted)
    if version.txn:
        past = history.world.acid.at(version.txn)
        for other in history.tables:
            if other.made_after > version.sequence:
                continue
            seen = [i for i, one in enumerate(other.versions) if one.sequence <= version.sequence]
            then = other.versions[seen[-1]]
            if other.is_of_hive and not seen[-1]:
                continue  # no time, and no place among the commits
            try:
                found = hiveacid.read_arrow(past.table(other.name)).read_all().to_pylist()
            except AcidError as error:
                _expired(history, other, seen[-1], error)
                continue
            what = f"{other.name} at transaction {version.txn}"
            assert_same(in_columns(then.columns, found), then.rows, what)


# -------------------------------------------------------------------- changes


def _check_feed(history: Base, model: TableModel, table: AcidTable, since: int, until: int) -> None:
    low, high = model.versions[since], model.versions[until]
    for mode in history.random.sample(MODES, 2):
        asked = dict(mode)
        if asked.get("key"):
            asked["key"] = dict(model.columns)[1]
        read = partial(
            hiveacid.read_changes, table, since=low.write_id, until=high.write_id, **asked
        )
        try:
            found = read().read_all().to_pylist()
        except SnapshotExpiredError as error:
            _not_told(history, model, since, error)
            continue
        check_changes(model, found, since, until, asked)


def _not_told(history: Base, model: TableModel, since: int, error: SnapshotExpiredError) -> None:
    is_there = model.has_to_be_there(since, history.now_ms) and since > model.moved_up_to
    assert not is_there, error
    oldest = error.context.get("write_id")
    if oldest is None:
        return
    named = model.place_up_to(int(str(oldest)))
    assert named > since, f"{error} is no later one"
    table = history.world.acid.table(model.name)
    found = hiveacid.read_changes(table, since=int(str(oldest))).read_all().to_pylist()
    check_changes(model, found, named, model.last, {})


def check_changes(
    model: TableModel,
    found: list[dict[str, Any]],
    since: int,
    until: int,
    asked: Mapping[str, Any],
) -> None:
    """Applied to one state they lead to the next."""
    columns = model.columns
    is_net = asked.get("deduplication") == "netChanges"
    state = Counter(of_today(columns, model.versions[since].rows))
    what = f"changes of {model.name} since place {since} until {until}, {asked}"
    told = {row["_commit_version"] for row in found}
    ids = {one.write_id for one in model.versions[since + 1 : until + 1]}
    assert told <= ids, f"{what}: versions {told}, not of {ids}"
    for place in [until] if is_net else range(since + 1, until + 1):
        version = model.versions[place]
        here = [row for row in found if is_net or row["_commit_version"] == version.write_id]
        for row in here:
            values = {key: one for key, one in row.items() if key not in _ADDED}
            (only,) = in_columns(columns, [values])
            state[only] += 1 if row["_change_type"] in _CAME else -1
            assert row["_write_id"] == row["_commit_version"]
            at = next(v.at_ms for v in model.versions if v.write_id == row["_commit_version"])
            assert int(row["_commit_timestamp"].timestamp() * 1000) == at, what
        assert min(state.values(), default=0) >= 0, f"{what}: {here} is of rows that are not there"
        wanted = of_today(columns, version.rows)
        assert_same(+state, wanted, f"{what}: after {version.write_id}")
        state = Counter(wanted)
    _check_images(found, asked, what)


def _check_images(found: Iterable[Mapping[str, Any]], asked: Mapping[str, Any], what: str) -> None:
    """Images come in pairs of one key and version, and only where they are asked for."""
    key = asked.get("key")
    images: Counter[Any] = Counter()
    singles: Counter[Any] = Counter()
    is_net = asked.get("deduplication") == "netChanges"
    for row in found:
        kind = row["_change_type"]
        of = (None if is_net else row["_commit_version"], row.get(key or ""))
        (images if kind.startswith("update_") else singles)[(of, kind)] += 1
    if key is None or asked.get("updates") is False:
        assert not images, f"{what}: images without a key"
    for (of, kind), count in images.items():
        other = {"update_preimage": "update_postimage", "update_postimage": "update_preimage"}[kind]
        assert count == images[(of, other)] == 1, f"{what}: images of {of} are no pair"
    if key is not None and asked.get("updates") is not False:
        for of, kind in singles:
            if kind == "insert" and of[1] is not None:
                pair = singles[(of, "insert")] == singles[(of, "delete")] == 1
                assert not pair, f"{what}: {of} is an update that is not told as one"


def of_today(columns: Columns, rows: Rows) -> Rows:
    """Rows of then in columns of now."""
    known = {number for number, _ in columns}
    found: Rows = Counter()
    for row, count in rows.items():
        found[frozenset(one for one in row if one[0] in known)] += count
    return found


def check_consumed(history: Base, player: Player, model: TableModel, name: str) -> None:
    """A consumer reads on, in the transaction of a client or outside of one."""
    history._see(player)
    known = model.consumers.get(name)
    begin = known.place if known else history.place(model)
    since = None if known else model.versions[begin].write_id
    assert player.before is not None
    what = f"{history._who(player)} consumer {name} of {model.name} since {begin}"

    def read() -> list[dict[str, Any]]:
        table = player.table(model)
        if player.txn is not None:
            return list(table.changes(consumer=name, since=since).to_pylist())
        found = hiveacid.read_changes(table, consumer=name, since=since).read_all()
        return list(found.to_pylist())

    try:
        found = read()
    except SnapshotExpiredError as error:
        history.note(f"{what}: {error}")
        kept = known is not None and not known.is_lost and begin > model.moved_up_to
        assert not kept or known is None or (known.expires_ms or 0) <= history.now_ms, error
        if known is None:
            _not_told(history, model, begin, error)
        else:
            history.world.acid.table(model.name).drop_consumer(name)
            del model.consumers[name]
    except AcidError as error:
        history.note(f"{what}: {type(error).__name__}: {error}")
        assert player.txn is not None, error
    else:
        moved = _moved_to(player, model, name)
        end = model.place_of(moved)
        history.note(f"{what} until {end}: {len(found)} changes")
        seen = max(begin, player.places.get(model, 0))
        assert end == seen, f"{what}: it was held back at {end}, there is {seen}"
        check_changes(model, found, begin, end, {})
        if known is None:
            model.consumers[name] = _pinned(history, begin)
        if player.txn is None:
            model.consumers[name] = _pinned(history, end)
        else:
            player.consumed[(model, name)] = end
    if player.txn is None:
        player.forget()


def _moved_to(player: Player, model: TableModel, name: str) -> int:
    """The version that a consumer has read to, or will have by a commit."""
    if player.txn is not None:
        moves = player.txn._unit.txn.pending.consumed
        return int(
            next(
                one.after.write_id
                for one in reversed(moves)
                if one.after.name == name and one.after.table.table == model.name
            )
        )
    (found,) = (one for one in player.session.show_consumers(model.name) if one.name == name)
    return int(found.version)


def _pinned(history: Base, place: int) -> Any:
    from tests.simulation.past_model import Pinned

    return Pinned(place, history.now_ms + 7 * 24 * 3_600_000)


# -------------------------------------------------------------------- listings


def _check_listing(model: TableModel, table: AcidTable) -> None:
    """The history has the versions, the last first; with what is left of Hive's by number."""
    found = [int(one.write_id) for one in table.history() if one.sequence is not None]
    wanted = [one.write_id for one in reversed(model.versions[1:])]
    assert (sorted(found) == sorted(wanted)) if model.is_of_hive else found == wanted


def _explain(history: Base, model: TableModel, number: int) -> None:
    """What happened to a row leads to what it is."""
    columns = model.columns
    name = dict(columns)[1]
    try:
        told = history.world.acid.explain_row(model.name, where=f"{name} = {number}", key=name)
    except SnapshotExpiredError as error:
        assert model.last == 0 or model.moved_up_to >= model.last, error
        return
    first = model.versions[0].write_id
    since = int(told.since or 0)
    if 0 < since < first or (not since and first + 1 >= FIRST_WRITE_ID_AFTER_CONVERSION):
        return  # from a version of Hive's on, or with rows of before all versions
    begin = model.place_up_to(since) if since or not first else None

    def of_key(rows: Rows) -> Rows:
        return Counter({row: n for row, n in rows.items() if value_of(row, 1) == number})

    begun = Counter() if begin is None else model.versions[begin].rows
    state = Counter(of_key(of_today(columns, begun)))
    for one in told.changes:
        for row, by in ((one.before, -1), (one.after, 1)):
            if row is not None:
                (only,) = in_columns(columns, [row])
                state[only] += by
        if one.version > first:
            assert one.commit is not None
            assert int(one.commit.write_id) == one.version
    assert_same(+state, of_key(of_today(columns, model.rows)), f"{model.name} explained {told}")


def check_erased(history: Base, model: TableModel, report: Any) -> None:
    """No file has a text that no row has."""
    root = Path(history.world.warehouse) / Path(report_location(history, model)).name
    live = {one for row in model.rows for _, one in row if isinstance(one, str)}
    for path in root.rglob("*"):
        if path.is_file():
            texts = {one.decode() for one in re.findall(rb"tok\d{5};", path.read_bytes())}
            assert texts <= live, f"{path} still has {texts - live}"


def report_location(history: Base, model: TableModel) -> str:
    """Where the table is."""
    return history.world.acid.table(model.name).definition.location
