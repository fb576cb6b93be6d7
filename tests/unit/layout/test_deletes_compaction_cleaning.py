"""Which delete files apply, what a compaction takes and makes, what a cleaner removes."""

from __future__ import annotations

import pytest

from hiveacid.layout.compaction import Kept, plan_cleaning, plan_major, plan_minor
from hiveacid.layout.directories import AcidDirectory, DeltaName, format_base, format_delta
from hiveacid.layout.resolve import Entry, resolve
from hiveacid.model.ids import ListKind, ValidTxnList, ValidWriteIdList

ALL = "t:100:9223372036854775807::"


def choose(*paths: str, valid: str = ALL, kind: ListKind = ListKind.READER) -> AcidDirectory:
    entries = [Entry(path, 500) for path in paths]
    return resolve(entries, ValidWriteIdList.parse(valid, kind=kind), None)


def test_minor_names_span_the_inputs() -> None:
    found = choose("base_2/bucket_0", "delta_3_3_0/b", "delta_5_5_0/b", "delete_delta_4_4_0/b")
    plan = plan_minor(found, txn=17)
    assert plan is not None and plan.delta is not None and plan.delete_delta is not None
    assert format_delta(plan.delta) == "delta_0000003_0000005_v0000017"
    assert format_delta(plan.delete_delta) == "delete_delta_0000003_0000005_v0000017"


@pytest.mark.parametrize(
    "paths",
    [(), ("delta_1_1_0/b",), ("delta_1_1_0/b", "delete_delta_2_2_0/b"), ("base_5/b",)],
)
def test_minor_is_not_worth_it(paths: tuple[str, ...]) -> None:
    assert plan_minor(choose(*paths), txn=17) is None


def test_minor_of_deletes_alone_makes_no_delta() -> None:
    plan = plan_minor(choose("delete_delta_1_1_0/b", "delete_delta_2_2_0/b"), txn=17)
    assert plan is not None and plan.delta is None and plan.delete_delta is not None


def test_compaction_starts_at_its_lowest_input_beside_aborted_and_open_ids() -> None:
    valid = ValidWriteIdList.parse("t:9:8:8:5").for_compactor()
    entries = [Entry(f"delta_{n}_{n}_0/bucket_0", 500) for n in (3, 4, 5, 6, 8, 9)]
    directory = resolve(entries, valid, None)
    plan = plan_minor(directory, txn=17)
    assert plan is not None and plan.delta == DeltaName(3, 6, -1, 17)
    assert [delta.path for delta in directory.deltas] == [
        "delta_3_3_0",
        "delta_4_4_0",
        "delta_6_6_0",
    ]


def test_major_is_named_by_the_highest_input() -> None:
    plan = plan_major(choose("base_2/bucket_0", "delta_3_3_0/b", "delete_delta_5_5_0/b"), txn=9)
    assert plan is not None and format_base(plan.output) == "base_0000005_v0000009"


def test_major_of_originals_alone_has_the_lowest_write_id() -> None:
    plan = plan_major(choose("000000_0"), txn=23)
    assert plan is not None
    assert format_base(plan.output) == "base_-9223372036854775808_v0000023"


@pytest.mark.parametrize("paths", [(), ("base_5/b",), ("delta_5_5_0/b",)])
def test_major_is_not_worth_it(paths: tuple[str, ...]) -> None:
    assert plan_major(choose(*paths), txn=9) is None


def test_cleaner_takes_obsolete_and_aborted_and_says_why_others_stay() -> None:
    listing = [
        "000000_0",
        "_tmp/x",
        "base_5_v20/bucket_0",
        "base_9_v40/bucket_0",
        "delta_4_4_0/bucket_0",
        "delta_6_6_0/bucket_0",
        "delta_7_7_0/bucket_0",
        "delta_8_12/bucket_0",
    ]
    entries = [Entry(path, 500) for path in listing]
    valid = ValidWriteIdList.parse("t:12:9223372036854775807::6").for_cleaner(hwm=9)
    txns = ValidTxnList.parse("30:9223372036854775807::")
    plan = plan_cleaning(entries, valid, txns, aborted_only=False)
    assert plan.remove == ("000000_0", "delta_4_4_0", "delta_6_6_0")
    assert dict(plan.keep) == {
        "_tmp/x": Kept.NOT_OURS,
        "base_5_v20": Kept.CURRENT,
        "base_9_v40": Kept.COMPACTION_NOT_SEEN,
        "delta_7_7_0": Kept.CURRENT,
        "delta_8_12": Kept.NOT_DECIDED,
    }
    assert not plan.aborts_remain
    plan = plan_cleaning(entries, valid, txns, aborted_only=True)
    assert plan.remove == ("delta_6_6_0",)
    assert dict(plan.keep)["delta_4_4_0"] is Kept.OBSOLETE


def test_aborts_beside_committed_rows_remain() -> None:
    valid = ValidWriteIdList.parse("t:5:9223372036854775807::2").for_cleaner()
    plan = plan_cleaning(
        [Entry("delta_1_5/bucket_0", 9)], valid, ValidTxnList.everything(), aborted_only=False
    )
    assert plan.remove == () and plan.aborts_remain


def test_empty_directories_go_once_whoever_made_them_has_ended() -> None:
    ended = ["base_4", "base_5_v20", "delta_1_3", "delta_6_6_0", "p=1/delta_2_2", "base_5_v25"]
    not_yet = ["base_8", "base_5_v28", "delta_7_9", "delta_12_12_0"]
    hidden = ["_staging/delta_1_1"]
    entries = [Entry(path, 0, is_directory=True) for path in (*ended, *not_yet, *hidden)]
    entries += [Entry("delta_1_3/_hidden", 7), Entry("delta_10_10/bucket_0", 7)]
    valid = ValidWriteIdList.parse("t:11:8:8:6").for_cleaner()
    txns = ValidTxnList.parse("30:28:28:25")
    plan = plan_cleaning(entries, valid, txns, aborted_only=False)
    assert plan.remove == tuple(sorted(ended))
    assert {path for path, _ in plan.keep} == {*not_yet, *hidden, "delta_10_10"}
