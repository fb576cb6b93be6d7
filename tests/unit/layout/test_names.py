"""Names as Hive writes and reads them."""

from __future__ import annotations

import pytest

from hiveacid.errors import InvalidInputError
from hiveacid.layout.directories import (
    BaseName,
    BucketFileName,
    DeltaName,
    OriginalFileName,
    bucket_of_file,
    format_base,
    format_bucket_file,
    format_delta,
    format_original_file,
    is_hidden,
    parse_base,
    parse_delta,
    parse_directory,
    parse_partition_name,
    partition_name,
    path_order,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("base_0000005", BaseName(5)),
        ("base_5_v17", BaseName(5, 17)),
        ("base_1234567880", BaseName(1234567880)),
        ("base_-9223372036854775808_v0000023", BaseName(-(2**63), 23)),
        ("base_5_v0000000", BaseName(5)),
        ("base_9223372036854775808", None),
        ("base_", None),
        ("base_5_6", None),
        ("base_5_v", None),
        ("base_+5", None),
        ("base_\u0665", None),
        ("Base_5", None),
        ("base_5\n", None),
    ],
)
def test_parse_base(text: str, name: BaseName | None) -> None:
    assert parse_base(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("delta_025_030", DeltaName(25, 30)),
        ("delta_0060_60_4", DeltaName(60, 60, 4)),
        ("delete_delta_0000001_0000005_v0000010", DeltaName(1, 5, -1, 10, True)),
        ("delta_0000002_0000002_0001_v0000009", DeltaName(2, 2, 1, 9)),
        ("delta_5_3", None),
        ("delta_5", None),
        ("delta_-5_3", None),
        ("delta_1_2_3_4", None),
        ("delete_base_5", None),
        ("xdelta_1_1", None),
    ],
)
def test_parse_delta(text: str, name: DeltaName | None) -> None:
    assert parse_delta(text) == name
    assert parse_directory(text) == name


def test_directories_are_padded_exactly() -> None:
    assert format_base(BaseName(5)) == "base_0000005"
    assert format_base(BaseName(-(2**63), 23)) == "base_-9223372036854775808_v0000023"
    assert format_delta(DeltaName(1, 1234567880, 3)) == "delta_0000001_1234567880_0003"
    assert format_delta(DeltaName(1, 5, -1, 10, True)) == "delete_delta_0000001_0000005_v0000010"
    assert format_delta(DeltaName(1, 1, 12345)) == "delta_0000001_0000001_12345"


@pytest.mark.parametrize(
    ("name", "bucket"),
    [
        ("bucket_00000", 0),
        ("bucket_00012_3", 12),
        ("bucket_0", 0),
        ("bucket_123456", 123456),
        ("bucket_00000_flush_length", -1),
        ("bucket_00000_0_flush_length", -1),
        ("bucket_", -1),
        ("000003_0", 3),
        ("000003_0_copy_11", 3),
        ("000003_0_copy_f0796c02aef8435d", 3),
        ("000003_0_copy_f079", -1),
        ("000003", -1),
        ("random", -1),
        ("part-00000", -1),
    ],
)
def test_bucket_of_file(name: str, bucket: int) -> None:
    assert bucket_of_file(name) == bucket


def test_file_names_are_padded_exactly() -> None:
    assert format_bucket_file(BucketFileName(3)) == "bucket_00003"
    assert format_bucket_file(BucketFileName(3, 0)) == "bucket_00003_0"
    assert format_original_file(OriginalFileName(3)) == "000003_0"
    assert format_original_file(OriginalFileName(3, 0, "10")) == "000003_0_copy_10"


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("_tmp", True),
        (".hive-staging_1", True),
        ("_orc_acid_version", False),
        ("_metadata_acid", False),
        ("bucket_0", False),
        ("_delta_1_1", True),
        ("-tmp.delta_0000001_0000001_0000", True),
        ("-1", False),
    ],
)
def test_hidden(name: str, hidden: bool) -> None:
    assert is_hidden(name) is hidden


def test_partition_names_escape_what_hive_escapes_and_no_more() -> None:
    value = "a#b{c}[d]^e%f/g=h:i\\j'k\"l*m?n é\t\x7f"
    assert partition_name(["P"], [value]) == (
        "p=a%23b%7Bc}%5Bd%5D%5Ee%25f%2Fg%3Dh%3Ai%5Cj%27k%22l%2Am%3Fn é%09%7F"
    )
    assert parse_partition_name(partition_name(["p"], [value])) == (("p", value),)


def test_partition_of_null_and_of_the_empty_text_is_the_default_one() -> None:
    name = partition_name(["p", "q"], [None, ""])
    assert name == "p=__HIVE_DEFAULT_PARTITION__/q=__HIVE_DEFAULT_PARTITION__"
    assert parse_partition_name(name) == (("p", None), ("q", None))


def test_partition_name_of_another_form_is_none() -> None:
    assert parse_partition_name("p") is None
    assert parse_partition_name("p=1/x") is None
    assert parse_partition_name("p=") is None
    assert parse_partition_name("p=100%") == (("p", "100%"),)
    with pytest.raises(InvalidInputError):
        partition_name(["p"], [])


def test_path_order_is_that_of_quoted_uris() -> None:
    # A blank is compared as %20, so it sorts after an exclamation mark.
    assert sorted(["a b/0", "a!b/0"], key=path_order) == ["a!b/0", "a b/0"]
    # UTF-16 code units: a surrogate pair sorts before U+FFFD.
    assert sorted(["\ufffd", "\U0001f600"], key=path_order) == ["\U0001f600", "\ufffd"]
