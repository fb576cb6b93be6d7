"""Resolve is total, does not depend on listing order, and shows what was committed, once.

The last is checked against histories: statements that write, overwrite, abort or stay open, with
compactions and cleanings between them, and readers of every moment.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.errors import AcidError
from hiveacid.layout.compaction import plan_cleaning, plan_major, plan_minor
from hiveacid.layout.directories import (
    AcidDirectory,
    BaseName,
    DeltaName,
    format_base,
    format_delta,
)
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.ids import ListKind, ValidTxnList, ValidWriteIdList

pytestmark = pytest.mark.long("compaction", "layout", "metastore", "storage", "txn")

SMALL = st.integers(0, 12)
MARKERS = ('{"thisFileVersion":"0","dataFormat":"compacted"}', None)
DIRECTORIES = st.one_of(
    st.builds(
        lambda w, t: format_base(BaseName(w, t)), SMALL | st.just(-(2**63)), st.integers(0, 3)
    ),
    st.builds(
        lambda a, n, s, t, d: format_delta(DeltaName(a, a + n, s, t, d)),
        SMALL,
        st.integers(0, 4),
        st.integers(-1, 2),
        st.integers(0, 3),
        st.booleans(),
    ),
    st.builds("delta_{}_{}".format, SMALL, SMALL),
    st.sampled_from(["_tmp", ".hidden", "sub", "base_x", "delta_", "HIVE_UNION_SUBDIR_1"]),
)
FILES = st.sampled_from(
    ["bucket_0", "bucket_00001_2", "bucket_0_flush_length", "000000_0", "_orc_acid_version", "x"]
)
PATHS = st.one_of(
    FILES,
    st.builds("{}/{}".format, DIRECTORIES, FILES),
    st.builds("{}/{}/{}".format, DIRECTORIES, DIRECTORIES, FILES),
)
LISTINGS = st.lists(PATHS, max_size=25, unique=True).map(
    lambda paths: [Entry(path, len(path) % 3) for path in paths]
)
VALID = st.builds(
    lambda hwm, opened, aborted, kind: ValidWriteIdList.parse(
        str(ValidWriteIdList.of("t", hwm=hwm, open=opened, aborted=aborted)), kind=kind
    ),
    SMALL,
    st.sets(SMALL, max_size=5),
    st.sets(SMALL, max_size=5),
    st.sampled_from(ListKind),
)
TXNS = st.sampled_from(["9:9::", "2:2:2:", "3:9::1,2", "1:9::"]).map(ValidTxnList.parse)


def answer(
    entries: list[Entry], valid: ValidWriteIdList, txns: ValidTxnList
) -> AcidDirectory | str:
    try:
        return resolve(entries, valid, txns)
    except AcidError as error:
        return error.kind


@given(LISTINGS, VALID, TXNS, st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_total_and_independent_of_listing_order(
    entries: list[Entry], valid: ValidWriteIdList, txns: ValidTxnList, shuffler: random.Random
) -> None:
    found = answer(entries, valid, txns)
    shuffled = list(entries)
    shuffler.shuffle(shuffled)
    assert answer(shuffled, valid, txns) == found
    if isinstance(found, str):
        assert found == "snapshot-expired"
        return
    directories = [found.base] if found.base else []
    chosen = {d.path for d in [*directories, *found.deltas]}
    places = [*chosen, *(f.path for f in found.originals)]
    places += [*found.obsolete, *found.aborted, *found.ignored]
    assert len(places) == len(set(places))
    for entry in entries:
        home = [p for p in places if entry.path == p or entry.path.startswith(p + "/")]
        assert len(home) == 1


@dataclass(frozen=True)
class Step:
    """One transaction, and what the background does after it."""

    outcome: str
    overwrite: bool
    statements: tuple[bool, ...]
    compaction: str


STEPS = st.builds(
    Step,
    st.sampled_from("cccao"),
    st.integers(0, 6).map(lambda n: n == 0),
    st.lists(st.booleans(), min_size=1, max_size=3).map(tuple),
    st.sampled_from(["", "", "minor", "major"]),
)


@dataclass
class History:
    """A partition: the events (write id, statement) in each directory."""

    contents: dict[str, Counter[tuple[int, int]]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def play(self, step: Step) -> None:
        self.steps.append(step)
        write_id = len(self.steps)
        if step.overwrite:
            self.contents[format_base(BaseName(write_id))] = Counter([(write_id, 0)])
        else:
            for statement, is_delete in enumerate(step.statements):
                name = DeltaName(write_id, write_id, statement, is_delete=is_delete)
                self.contents[format_delta(name)] = Counter([(write_id, statement)])
        if step.compaction:
            self.compact(step.compaction)

    def listing(self) -> list[Entry]:
        return [Entry(f"{path}/bucket_00000", 9) for path in self.contents]

    def valid(self, moment: int) -> ValidWriteIdList:
        states = [(w, step.outcome) for w, step in enumerate(self.steps[:moment], start=1)]
        return ValidWriteIdList.of(
            "t",
            hwm=moment,
            open=[w for w, state in states if state == "o"],
            aborted=[w for w, state in states if state == "a"],
        )

    def compact(self, kind: str) -> None:
        txn = len(self.steps)
        valid = self.valid(txn).for_compactor()
        found = resolve(self.listing(), valid, ValidTxnList(txn - 1))
        if kind == "major":
            major = plan_major(found, txn=txn)
            if major is not None:
                self.contents[format_base(major.output)] = self.events(found, valid)
            return
        minor = plan_minor(found, txn=txn)
        if minor is None:
            return
        for output, deltas in (
            (minor.delta, found.insert_deltas),
            (minor.delete_delta, found.delete_deltas),
        ):
            if output is not None:
                only = AcidDirectory(None, (), deltas, (), (), ())
                self.contents[format_delta(output)] = self.events(only, valid)

    def events(self, found: AcidDirectory, valid: ValidWriteIdList) -> Counter[tuple[int, int]]:
        seen: Counter[tuple[int, int]] = Counter()
        if found.base is not None:
            seen += self.contents[found.base.path]
        for delta in found.deltas:
            seen += self.contents[delta.path]
        return Counter({event: count for event, count in seen.items() if valid.is_valid(event[0])})

    def committed(self, moment: int) -> Counter[tuple[int, int]]:
        expected: Counter[tuple[int, int]] = Counter()
        for write_id, step in enumerate(self.steps[:moment], start=1):
            if step.outcome != "c":
                continue
            if step.overwrite:
                expected.clear()
            count = 1 if step.overwrite else len(step.statements)
            expected += Counter((write_id, statement) for statement in range(count))
        return expected


@given(st.lists(STEPS, min_size=1, max_size=14))
@settings(max_examples=400)
def test_reader_of_any_moment_sees_what_was_committed_once(steps: list[Step]) -> None:
    history = History()
    for step in steps:
        history.play(step)
    for moment in range(1, len(steps) + 1):
        valid = history.valid(moment)
        found = resolve(history.listing(), valid, ValidTxnList(moment))
        assert history.events(found, valid) == history.committed(moment)


@given(st.lists(STEPS, min_size=1, max_size=14), st.data())
@settings(max_examples=200)
def test_cleaning_takes_nothing_that_a_later_reader_needs(
    steps: list[Step], data: st.DataObject
) -> None:
    history = History()
    for step in steps:
        history.play(step)
    oldest = data.draw(st.integers(1, len(steps)))
    plan = plan_cleaning(
        history.listing(),
        history.valid(oldest).for_cleaner(),
        ValidTxnList(oldest),
        aborted_only=False,
    )
    for path in plan.remove:
        del history.contents[path]
    for moment in range(oldest, len(steps) + 1):
        valid = history.valid(moment)
        found = resolve(history.listing(), valid, ValidTxnList(moment))
        assert history.events(found, valid) == history.committed(moment)
