"""Tags: a version that has one is read as it was, whatever compactions and cleaners came since, and
files that no tag needs go.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.compaction.world import (
    ACID,
    DAY_MS,
    INSERT_ONLY,
    MAJOR,
    MINOR,
    T,
    World,
    changed_at_random,
    cleaned,
)

from hiveacid import read_arrow, read_changes
from hiveacid.compaction.cleaner import CleaningOutcome
from hiveacid.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    SnapshotExpiredError,
    UnsupportedError,
)
from hiveacid.model.history import Pin, PinKind
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import WriteId
from hiveacid.session import Session

pytestmark = pytest.mark.long(
    "compaction", "layout", "metastore", "model", "past", "storage", "txn"
)

KINDS = ["insert"] * 3 + ["overwrite"] + ["delete"] * 2


@pytest.fixture
def made(world_with: Callable[..., World]) -> World:
    """On each kind of database; nothing is retained."""
    return world_with()


def _ids(acid: Session, table: str = "t", **version: Any) -> list[int]:
    found = read_arrow(acid.table(table), columns=["id"], **version).read_all()
    return sorted(found["id"].to_pylist())


def _ids_or_none(acid: Session, write_id: int) -> list[int] | None:
    try:
        return _ids(acid, as_of_write_id=write_id)
    except SnapshotExpiredError:
        return None


def _files(made: World, table: str = "t") -> set[str]:
    root = Path(made.acid.table(table).definition.location)
    files = (one for one in root.rglob("[!_.]*") if one.is_file())
    return {str(one.relative_to(root)) for one in files}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("what", [ACID, INSERT_ONLY], ids=["full", "insert-only"])
def test_tagged_versions_stay_as_they_were_until_their_tags_go(
    made: World, what: str, seed: int
) -> None:
    acid, chance = made.acid, random.Random(seed)
    kinds = KINDS if what is ACID else ["insert"] * 3 + ["overwrite"]
    made.make(what=what)
    now: set[int] = set()
    tagged: dict[str, set[int]] = {}
    versions: dict[int, set[int]] = {}
    for number in range(18):
        now = changed_at_random(made, chance, now, kinds, cleans=0.5)
        versions[int(made.client.metastore.last_write_id(T))] = now
        if chance.random() < 0.3:
            acid.sql(f"create tag v{number} on t")
            tagged[f"v{number}"] = now
        for name, then in tagged.items():
            assert set(_ids(acid, as_of_tag=name)) == then, (seed, number, name)
        if tagged and chance.random() < 0.15:
            name = chance.choice(sorted(tagged))
            acid.sql(f"drop tag {name} on t")
            del tagged[name]
    made.insert(2000)
    made.compact(MAJOR)
    cleaned(made)
    kept = {name: set(_ids(acid, as_of_tag=name)) for name in tagged}
    assert kept == tagged
    assert set(_ids(acid)) == now | {2000}
    for write_id, then in versions.items():
        assert _ids_or_none(acid, write_id) in (sorted(then), None), (seed, write_id)
    for one in acid.tags():
        acid.table("t").drop_tag(one.name)
    cleaned(made)
    assert len({path.partition("/")[0] for path in _files(made)}) == 1


def test_what_no_tag_needs_goes_and_what_one_needed_goes_after_it(made: World) -> None:
    made.make()
    made.insert(1)
    made.acid.sql("create tag first on t")
    made.insert(2)
    made.compact(MAJOR)
    cleaned(made)
    assert {one.partition("/")[0] for one in _files(made)} == {
        "base_0000002_v0000004",
        "delta_0000001_0000001_0000",
    }
    with pytest.raises(SnapshotExpiredError):
        made.insert(3)
        made.compact(MAJOR)
        cleaned(made)
        _ids(made.acid, as_of_write_id=2)
    assert _ids(made.acid, as_of_tag="first") == _ids(made.acid, as_of_write_id=1) == [1]
    cleaner = made.cleaner()
    (waits,) = cleaner.run()
    assert (waits.outcome, waits.message) == (CleaningOutcome.WAITING, "kept by tag first")
    assert cleaner.run() == ()
    made.acid.sql("drop tag if exists first on t")
    made.acid.sql("drop tag if exists first on t")
    (done,) = cleaner.run()
    assert done.outcome is CleaningOutcome.CLEANED
    assert {one.partition("/")[0][:12] for one in _files(made)} == {"base_0000003"}
    with pytest.raises(NotFoundError, match="t has no tag first: it has none"):
        _ids(made.acid, as_of_tag="first")


@pytest.mark.parametrize("seed", [101, 104])
def test_changes_are_whole_or_an_error_where_tags_kept_a_part(made: World, seed: int) -> None:
    acid, chance = made.acid, random.Random(seed)
    made.make()
    now: set[int] = set()
    versions: dict[int, set[int]] = {}
    for number in range(18):
        now = changed_at_random(made, chance, now, KINDS, cleans=0.5)
        versions[int(made.client.metastore.last_write_id(T))] = now
        if chance.random() < 0.3:
            acid.table("t").tag(f"v{number}")
        elif acid.table("t").tags() and chance.random() < 0.15:
            acid.table("t").drop_tag(chance.choice(acid.table("t").tags()).name)
    made.insert(2000)
    versions[int(made.client.metastore.last_write_id(T))] = now | {2000}
    made.compact(MAJOR)
    cleaned(made)
    made.insert(3000)
    told = 0
    for write_id, then in versions.items():
        with suppress(SnapshotExpiredError):
            rows = read_changes(acid.table("t"), since=write_id).read_all().to_pylist()
            state = Counter(then)
            for row in rows:
                state[row["id"]] += 1 if row["_change_type"] == "insert" else -1
            assert +state == Counter(now | {2000, 3000}), (seed, write_id)
            told += 1
    assert told


def test_a_tag_that_expired_keeps_nothing(made: World) -> None:
    made.make()
    made.insert(1)
    made.acid.sql("create tag q3 on t retain 90 days")
    made.insert(2)
    made.compact(MAJOR)
    cleaned(made)
    made.clock.advance_ms(89 * DAY_MS)
    made.cleaner().run_all()
    assert _ids(made.acid, as_of_tag="q3") == [1]
    made.clock.advance_ms(DAY_MS)
    made.cleaner().run_all()
    with pytest.raises(SnapshotExpiredError, match=r"Version 1 .* is not there any more"):
        _ids(made.acid, as_of_tag="q3")
    made.acid.table("t").tag("q3")
    assert _ids(made.acid, as_of_tag="q3") == [1, 2]


def test_partitions_and_insert_only_tables_keep_what_a_tag_needs(made: World) -> None:
    made.make("p", f"partitioned by (k int) {ACID}", "id int, v string")
    made.make("i", INSERT_ONLY)
    made.insert(1, table="p", k="0")
    made.insert(1, table="i")
    made.acid.tag("close-2026", tables=["p", "i"])
    made.insert(2, table="p", k="0")
    made.insert(2, table="i")
    made.compact(MAJOR, "p", "k=0")
    made.compact(MAJOR, "i")
    cleaned(made)
    then = made.acid.at(tag="close-2026")
    for name in ("p", "i"):
        assert _ids(made.acid, name) == [1, 2]
        assert _ids(made.acid, name, as_of_tag="close-2026") == [1]
        assert read_arrow(then.table(name), columns=["id"]).read_all()["id"].to_pylist() == [1]
    dropped = made.acid.drop_tag("close-2026")
    assert [str(one.table) for one in dropped] == ["default.i", "default.p"]
    assert made.acid.tags() == ()


def test_a_minor_compaction_of_an_insert_only_table_takes_nothing_from_tags(made: World) -> None:
    made.make(what=INSERT_ONLY)
    for number in (1, 2, 3):
        made.insert(number)
    made.acid.sql("create tag two on t as of version 2")
    made.compact(MINOR)
    made.insert(4)
    made.acid.sql("create tag four on t")
    made.insert(5)
    made.compact(MINOR)
    cleaned(made)
    assert _ids(made.acid, as_of_tag="two") == [1, 2]
    assert _ids(made.acid, as_of_tag="four") == [1, 2, 3, 4]
    with pytest.raises(SnapshotExpiredError, match=r"Version 1 .* From version 5 on"):
        made.acid.sql("create tag one on t as of version 1")
    for name in ("two", "four"):
        made.acid.sql(f"drop tag {name} on t")
    made.insert(6)
    made.compact(MINOR)
    cleaned(made)
    assert len({path.partition("/")[0] for path in _files(made)}) == 1


def test_a_tag_of_what_may_just_be_cleaned_is_refused(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.make(what=INSERT_ONLY)
    made.insert(1)
    made.insert(2)
    made.compact(MINOR)
    cleaner = made.cleaner()
    made.clock.advance_ms(2_000)
    removed = type(cleaner)._remove
    seen: list[str] = []

    def tag_and_remove(*args: Any) -> None:
        with pytest.raises(SnapshotExpiredError, match="cannot be tagged now: a cleaner is"):
            made.acid.table("t").tag("late", as_of_write_id=1)
        seen.append("refused")
        removed(*args)

    monkeypatch.setattr(type(cleaner), "_remove", tag_and_remove)
    cleaner.run_all()
    assert seen == ["refused", "refused"]
    assert made.acid.tags() == ()


def test_aborted_rows_are_not_seen_by_a_tag_after_they_were_forgotten(made: World) -> None:
    made.make()
    made.insert(1)
    with pytest.raises(ZeroDivisionError), made.acid.transaction() as failed:
        failed.sql("insert into t values (2, 'gone')")
        raise ZeroDivisionError
    made.insert(3)
    made.acid.table("t").tag("q3")
    made.insert(4)
    made.compact(MAJOR)
    cleaned(made)
    assert _ids(made.acid, as_of_tag="q3") == [1, 3]


def test_a_cleaner_that_began_before_a_tag_leaves_its_files_or_it_is_refused(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.make()
    made.insert(1)
    made.insert(2)
    made.compact(MAJOR)
    cleaner = made.cleaner()
    made.clock.advance_ms(2_000)
    store = cleaner._store
    noted = store.note_floor
    pin = Pin(PinKind.TAG, "q3", T, WriteId(1), ValidWriteIdList.of("default.t", hwm=1))
    seen: list[str] = []

    def note_and_tag(*args: Any) -> None:
        store.add_pins([pin])  # before the floor is there: the files stay
        noted(*args)
        with pytest.raises(SnapshotExpiredError):  # after it: there is no tag
            made.acid.table("t").tag("late", as_of_write_id=1)
        seen.append("both")

    monkeypatch.setattr(type(store), "note_floor", lambda _, *args: note_and_tag(*args))
    cleaner.run_all()
    assert seen == ["both"]
    assert [one.name for one in made.acid.tags()] == ["q3"]
    assert any(one.startswith("delta_0000001_0000001_0000/bucket_00000_") for one in _files(made))
    with pytest.raises(SnapshotExpiredError):  # nobody has seen yet that its files are there
        _ids(made.acid, as_of_tag="q3")


def test_a_tag_of_what_is_there_no_more_is_refused(made: World) -> None:
    made.make()
    made.insert(1)
    made.insert(2)
    made.compact(MAJOR)
    cleaned(made)
    with pytest.raises(SnapshotExpiredError, match=r"Version 1 .* is not there any more"):
        made.acid.sql("create tag q3 on t as of version 1")
    assert made.acid.tags() == ()
    made.acid.sql("create tag q3 on t as of version 2")
    assert _ids(made.acid, as_of_tag="q3") == [1, 2]


def test_names_tables_and_services_are_checked(acid: Session, made: World) -> None:
    made.make()
    made.make("plain", "stored as orc")
    made.insert(1)
    acid.sql("create tag q3 on t")
    acid.sql("create tag if not exists Q3 on t")
    for text, error, words in (
        ("create tag q3 on t", AlreadyExistsError, "default.t has a tag q3 already"),
        ("create tag q4 on t as of version 9", NotFoundError, "no version 9"),
        ("create tag '7' on t", InvalidInputError, "not a number"),
        ("create tag q4 on plain", InvalidInputError, "plain is not transactional"),
        ("create tag q4 on t retain 3 fortnights", UnsupportedError, "DAYS, HOURS or MINUTES"),
        ("drop tag q4 on t", NotFoundError, "default.t has no tag q4"),
        ("show tags on nowhere", NotFoundError, "Table not found"),
    ):
        with pytest.raises(error, match=words):
            acid.sql(text)
    with pytest.raises(NotFoundError, match="has no tag q9: its tags are q3"):
        _ids(acid, as_of_tag="q9")
    with pytest.raises(InvalidInputError, match="retain= is a timedelta"):
        acid.table("t").tag("q4", retain=1e12)
    for text in ("0 days", "3000000 days"):
        with pytest.raises(InvalidInputError, match="more than no time, and at most 1,000 years"):
            acid.sql(f"create tag q4 on t retain {text}")
    with pytest.raises(AlreadyExistsError):
        made.make("u", ACID)
        acid.tag("q3", tables=["u", "t"])
    assert acid.table("u").tags() == ()


def test_beside_a_cleaner_of_hive_a_tag_is_refused(
    acid: Session, made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.make()
    monkeypatch.setattr(type(acid.client.own), "is_served_by_hive", lambda _: True)
    with pytest.raises(UnsupportedError, match="Hive's own cleaner"):
        acid.sql("create tag q3 on t")


def test_a_rename_keeps_tags_and_a_drop_takes_them(acid: Session, made: World) -> None:
    made.make()
    made.insert(1)
    acid.sql("create tag q3 on t retain 2 hours")
    acid.sql("alter table t rename to u")
    (row,) = acid.sql("show tags on u").rows
    assert row[:3] == ("q3", "default.u", "1")
    assert row[4] is not None
    made.insert(2, table="u")
    assert _ids(acid, "u", as_of_tag="q3") == [1]
    acid.sql("drop table u")
    made.make("u")
    assert acid.sql("show tags").rows == ()
