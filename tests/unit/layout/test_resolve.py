"""Resolve on listings computed by hand from format.md 2."""

from __future__ import annotations

import pytest

from hiveacid.errors import FormatError, InternalError, SnapshotExpiredError
from hiveacid.layout.directories import AcidDirectory, parse_directory
from hiveacid.layout.resolve import Entry, may_be_raw, resolve
from hiveacid.model.ids import ListKind, ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import AcidMode

ALL = "t:100:9223372036854775807::"
COMPACTED = '{"thisFileVersion":"0","dataFormat":"compacted"}'
TRUNCATED = '{"dataFormat":"TRUNCATED","thisFileVersion":"0"}'


def choose(
    *paths: str | Entry,
    valid: str = ALL,
    txns: str | None = "100:9223372036854775807::",
    kind: ListKind = ListKind.READER,
    mode: AcidMode = AcidMode.FULL,
) -> AcidDirectory:
    entries = [Entry(path, 500) if isinstance(path, str) else path for path in paths]
    return resolve(
        entries,
        ValidWriteIdList.parse(valid, kind=kind),
        None if txns is None else ValidTxnList.parse(txns),
        mode=mode,
    )


def deltas(found: AcidDirectory) -> list[str]:
    return [delta.path for delta in found.deltas]


def test_nothing_listed_is_an_empty_directory() -> None:
    found = choose()
    assert found == AcidDirectory(None, (), (), (), (), ())


def test_visibility_suffix_zero_is_no_suffix() -> None:
    found = choose("base_5_v0/bucket_0", "delta_6_6_v0000/bucket_0", txns="0:1::")
    assert found.base is not None and found.base.path == "base_5_v0"
    assert deltas(found) == ["delta_6_6_v0000"]


def test_no_transaction_list_counts_every_compaction_as_committed() -> None:
    found = choose("base_5_v90/bucket_0", "delta_5_5_0/bucket_0", txns=None)
    assert found.base is not None and found.obsolete == ("delta_5_5_0",)


def test_a_compaction_counts_for_nobody_while_one_of_its_directories_is_being_published() -> None:
    listing = ["delta_1_1_0/bucket_0", "delta_2_2_0/bucket_0", "delete_delta_3_3_0/bucket_0"]
    merged = ["delta_1_3_v9/bucket_0", "delete_delta_1_3_v9/bucket_0"]
    for directory in ("delta_1_3_v9", "delete_delta_1_3_v9"):
        found = choose(*listing, *merged, f"{directory}/_hiveacid_publishing", txns=None)
        assert deltas(found) == ["delta_1_1_0", "delta_2_2_0", "delete_delta_3_3_0"]
        assert found.ignored == ("delete_delta_1_3_v9", "delta_1_3_v9")
    assert deltas(choose(*listing, *merged, txns=None)) == ["delete_delta_1_3_v9", "delta_1_3_v9"]


def test_an_aborted_compaction_goes_although_it_was_never_completed() -> None:
    found = choose("base_5_v9/bucket_0", "base_5_v9/_hiveacid_publishing", txns="9:1::9")
    assert found.aborted == ("base_5_v9",)


def test_compaction_later_than_the_watermark_is_ignored() -> None:
    found = choose("base_5_v90/bucket_0", "delta_5_5_0/bucket_0", txns="50:50:50:")
    assert found.base is None
    assert found.ignored == ("base_5_v90",)
    assert deltas(found) == ["delta_5_5_0"]


def test_hive_3_compacted_base_needs_every_lower_id_decided() -> None:
    marker = Entry("base_10/_metadata_acid", 48, marker=COMPACTED)
    listing = ["base_10/bucket_0", marker, "base_5/bucket_0", "delta_8_8_0/bucket_0"]
    found = choose(*listing, valid="t:10:7:7:")
    assert found.base is not None and found.base.path == "base_5"
    assert found.ignored == ("base_10",)
    found = choose(*listing)
    assert found.base is not None and found.base.path == "base_10"
    assert found.obsolete == ("base_5", "delta_8_8_0")


def test_overwrite_base_counts_although_lower_ids_are_open() -> None:
    found = choose("base_10/bucket_0", "delta_8_8_0/bucket_0", valid="t:10:7:7:")
    assert found.base is not None and found.base.path == "base_10"


def test_truncate_base_follows_the_overwrite_rule_and_has_no_files() -> None:
    marker = Entry("base_10/_metadata_acid", 48, marker=TRUNCATED)
    found = choose(marker, "delta_8_8_0/bucket_0", valid="t:10:7:7:")
    assert found.base is not None and found.base.files == ()
    assert found.obsolete == ("delta_8_8_0",)


def test_hive_3_compacted_base_of_an_aborted_id_is_not_aborted() -> None:
    marker = Entry("base_10/_metadata_acid", 48, marker=COMPACTED)
    found = choose("base_10/bucket_0", marker, valid="t:12:9223372036854775807::10")
    assert found.base is not None and found.aborted == ()


def test_too_much_compacted_for_this_reader_is_an_error() -> None:
    with pytest.raises(SnapshotExpiredError) as caught:
        choose("base_10_v20/bucket_0", "delta_11_11_0/bucket_0", valid="t:11:4:4:")
    assert str(caught.value).startswith("Not enough history available for (11,4).")
    with pytest.raises(SnapshotExpiredError, match=r"\(7,x\).*base_25_v20"):
        choose("base_25_v20/bucket_0", valid="t:7:9223372036854775807::")


def test_uncommitted_overwrite_alone_is_no_error() -> None:
    found = choose("base_10/bucket_0", "delta_3_3_0/bucket_0", valid="t:9:9223372036854775807::")
    assert found.base is None and found.ignored == ("base_10",)
    assert deltas(found) == ["delta_3_3_0"]


def test_newest_compaction_of_the_same_base_wins() -> None:
    found = choose("base_5_v30/bucket_0", "base_5_v9/bucket_0", "base_5/bucket_0")
    assert found.base is not None and found.base.path == "base_5_v30"
    assert found.obsolete == ("base_5", "base_5_v9")


def test_newest_compaction_of_the_same_range_wins_for_both_kinds() -> None:
    found = choose(
        "delta_1_5_v9/bucket_0",
        "delete_delta_1_5_v9/bucket_0",
        "delta_1_5_v30/bucket_0",
        "delete_delta_1_5_v30/bucket_0",
        "delta_1_5/bucket_0",
    )
    assert deltas(found) == ["delete_delta_1_5_v30", "delta_1_5_v30"]
    assert found.obsolete == ("delete_delta_1_5_v9", "delta_1_5", "delta_1_5_v9")


def test_compacted_delta_hides_the_statements_of_its_transaction() -> None:
    found = choose("delta_5_5_v9/bucket_0", "delta_5_5_0/bucket_0", "delta_5_5_1/bucket_0")
    assert deltas(found) == ["delta_5_5_v9"]
    assert found.obsolete == ("delta_5_5_0", "delta_5_5_1")


def test_statements_of_one_transaction_all_count_in_order() -> None:
    found = choose(
        "delta_5_5_0002/bucket_0",
        "delete_delta_5_5_0001/bucket_0",
        "delta_5_5_0000/bucket_0",
        "delete_delta_5_5_0002/bucket_0",
    )
    assert deltas(found) == [
        "delta_5_5_0000",
        "delete_delta_5_5_0001",
        "delete_delta_5_5_0002",
        "delta_5_5_0002",
    ]


def test_delta_after_an_overwrite_in_the_same_transaction_is_obsolete() -> None:
    found = choose("base_5/bucket_0", "delta_5_5_1/bucket_0")
    assert found.obsolete == ("delta_5_5_1",) and deltas(found) == []


def test_streaming_delta_with_open_and_aborted_ids_is_filtered_by_row() -> None:
    found = choose("delta_1_6/bucket_0", "delta_7_7_0/bucket_0", valid="t:7:6:6:2")
    assert [(delta.path, delta.all_valid) for delta in found.deltas] == [
        ("delta_1_6", False),
        ("delta_7_7_0", True),
    ]


def test_wholly_aborted_and_wholly_open_deltas_are_told_apart() -> None:
    found = choose("delta_1_2/bucket_0", "delta_3_4/bucket_0", valid="t:4:3:3,4:1,2")
    assert (found.aborted, found.ignored) == (("delta_1_2",), ("delta_3_4",))


def test_compactor_takes_whole_ranges_and_still_filters_aborted_rows() -> None:
    found = choose(
        "delta_1_4/bucket_0",
        "delta_5_8/bucket_0",
        valid="t:6:9223372036854775807::2",
        kind=ListKind.COMPACTOR,
    )
    assert [(delta.path, delta.all_valid) for delta in found.deltas] == [("delta_1_4", False)]
    assert found.ignored == ("delta_5_8",)


def test_cleaner_leaves_what_ends_above_its_watermark() -> None:
    listing = ("delta_1_8/bucket_0", "delta_2_2_0/bucket_0")
    found = choose(*listing, valid="t:6:9223372036854775807::", kind=ListKind.CLEANER)
    assert found.obsolete == () and found.ignored == ("delta_1_8",)


def test_delta_reaching_below_the_base_is_taken_whole() -> None:
    found = choose("base_50_v9/bucket_0", "delta_40_60_v12/bucket_0", "delta_40_50/bucket_0")
    assert deltas(found) == ["delta_40_60_v12"] and found.obsolete == ("delta_40_50",)


def test_negative_base_is_always_valid_and_lowest() -> None:
    found = choose(
        "base_-9223372036854775808_v0000023/bucket_00000",
        "delta_10000001_10000001_0000/bucket_00000_0",
        "000000_0",
        valid="t:10000001:9223372036854775807::",
    )
    assert found.base is not None and found.base.name.write_id == -(2**63)
    assert deltas(found) == ["delta_10000001_10000001_0000"]
    assert found.obsolete == ("000000_0",)


def test_hidden_and_side_files_never_count() -> None:
    found = choose(
        "delta_1_5/bucket_00000",
        "delta_1_5/bucket_00000_flush_length",
        "delta_1_5/_orc_acid_version",
        "delta_1_5/.bucket_00000.crc",
        "_tmp_9/base_7/bucket_00000",
        ".hive-staging_1/000000_0",
        "_tmp.delta_0000001_0000001_0000/manifest",
        "-tmp.delta_0000002_0000002_0000/000000_0.manifest",
        "_orc_acid_version",
    )
    assert [file.path for file in found.deltas[0].files] == ["delta_1_5/bucket_00000"]
    assert found.base is None and found.originals == ()
    assert len(found.ignored) == 5


def test_directory_with_hidden_files_only_does_not_exist() -> None:
    found = choose("base_7/_empty", "delta_6_6_0/bucket_0", Entry("delta_9_9_0", 0, True))
    assert found.base is None and deltas(found) == ["delta_6_6_0"]
    assert found.ignored == ("base_7", "delta_9_9_0")


def test_version_file_makes_a_directory_visible() -> None:
    found = choose("base_7/_orc_acid_version", "delta_6_6_0/bucket_0")
    assert found.base is not None and found.obsolete == ("delta_6_6_0",)


def test_files_below_a_delta_belong_to_it() -> None:
    found = choose("delta_1_1_0/HIVE_UNION_SUBDIR_1/000000_0", "sub/dir/000001_0")
    assert [file.path for file in found.deltas[0].files] == [
        "delta_1_1_0/HIVE_UNION_SUBDIR_1/000000_0"
    ]
    assert [(file.path, file.bucket) for file in found.originals] == [("sub/dir/000001_0", 1)]


def test_originals_come_in_path_order_without_empty_ones() -> None:
    found = choose(
        "000000_0_copy_2",
        "000000_0_copy_10",
        "000001_0",
        "HIVE_UNION_SUBDIR_15/000000_0",
        "000000_0",
        Entry("000002_0", 0),
    )
    assert [file.path for file in found.originals] == [
        "000000_0",
        "000000_0_copy_10",
        "000000_0_copy_2",
        "000001_0",
        "HIVE_UNION_SUBDIR_15/000000_0",
    ]
    assert found.ignored == ("000002_0",)


def test_plain_file_called_like_a_delta_is_an_original() -> None:
    assert [file.path for file in choose("delta_1_1").originals] == ["delta_1_1"]


def test_directory_with_a_foreign_name_is_left_alone() -> None:
    found = choose("base_old/000000_0", "delta_5_3/bucket_0", "delta_1_1_1_1/bucket_0")
    assert found.ignored == ("base_old", "delta_1_1_1_1", "delta_5_3")


def test_full_acid_delta_reads_event_files_or_else_raw_ones() -> None:
    found = choose(
        "delta_1_1_0/bucket_00000_0",
        "delta_1_1_0/000000_0",
        "delta_2_2_0/000000_0",
        "delta_2_2_0/data",
        "delta_3_3_0/data",
    )
    assert [[file.path for file in delta.files] for delta in found.deltas] == [
        ["delta_1_1_0/bucket_00000_0"],
        ["delta_2_2_0/000000_0", "delta_2_2_0/data"],
        [],
    ]


def test_insert_only_table_reads_any_file_of_a_delta_and_none_outside() -> None:
    found = choose(
        "delta_1_1_0/part-0.parquet",
        Entry("delta_1_1_0/000001_0", 0),
        "000000_0",
        mode=AcidMode.INSERT_ONLY,
    )
    assert [file.path for file in found.deltas[0].files] == ["delta_1_1_0/part-0.parquet"]
    assert found.originals == () and found.ignored == ("000000_0",)


def test_marker_that_says_nothing_is_an_error_only_where_it_decides() -> None:
    with pytest.raises(FormatError):
        choose("base_7/bucket_0", Entry("base_7/_metadata_acid", 2, marker="{}"))
    with pytest.raises(InternalError):
        choose("base_7/bucket_0", "base_7/_metadata_acid")
    assert choose("base_7_v3/bucket_0", Entry("base_7_v3/_metadata_acid", 2, marker="{}")).base


@pytest.mark.parametrize(
    ("directory", "files", "expected"),
    [
        ("delta_3_3_0", ["delta_3_3_0/000000_0"], True),
        ("base_3", ["base_3/000000_0_copy_12"], True),
        ("base_3_v9", ["base_3_v9/000000_0"], False),
        ("delta_3_4", ["delta_3_4/000000_0"], False),
        ("delete_delta_3_3_0", ["delete_delta_3_3_0/000000_0"], False),
        ("delta_3_3_0", ["delta_3_3_0/bucket_00000"], False),
    ],
)
def test_may_be_raw_by_name(directory: str, files: list[str], expected: bool) -> None:
    name = parse_directory(directory)
    assert name is not None
    assert may_be_raw(name, files) is expected
