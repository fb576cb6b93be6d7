"""Texts inside tables: metadata, markers, the row event."""

from __future__ import annotations

import pytest

from hiveacid.errors import FormatError
from hiveacid.layout.events import (
    EVENT_FIELDS,
    VERSION_TEXT,
    AcidStats,
    DataFormat,
    file_metadata,
    format_key_index,
    format_marker,
    is_event_schema,
    is_positional_row,
    parse_key_index,
    parse_marker,
    parse_stats,
    usable_key_index,
)
from hiveacid.model.ids import RowId


def test_markers_are_hives_bytes() -> None:
    assert format_marker(DataFormat.COMPACTED) == (
        '{"thisFileVersion":"0","dataFormat":"compacted"}'
    )
    assert VERSION_TEXT == "2"


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "2", '{"thisFileVersion":"1","dataFormat":"compacted"}', '{"thisFile'],
)
def test_marker_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_marker(text, path="base_1/_metadata_acid")


def test_metadata_of_a_written_file() -> None:
    rows = [RowId(1, 536870912, 24999), RowId(1, 536870912, 99999)]
    assert file_metadata(format_key_index(rows), AcidStats(inserts=100000)) == {
        "hive.acid.key.index": b"1,536870912,24999;1,536870912,99999;",
        "hive.acid.stats": b"100000,0,0",
        "hive.acid.version": b"2",
    }
    assert format_key_index([]) == ""


def test_key_index_counts_only_with_an_entry_for_each_stripe() -> None:
    text = "1,536870912,2;"
    assert usable_key_index(text, stripes=1) == (RowId(1, 536870912, 2),)
    assert usable_key_index(text, stripes=2) is None
    assert usable_key_index(None, stripes=1) is None
    assert usable_key_index("", stripes=0) == ()


@pytest.mark.parametrize("text", ["1,2", "1,2,3,4;", "a,b,c;"])
def test_key_index_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_key_index(text)


@pytest.mark.parametrize("text", ["", "1,2", "1,2,x", "1,2,3,4"])
def test_stats_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_stats(text)


def test_event_schema_is_known_in_any_case_and_order() -> None:
    assert is_event_schema(EVENT_FIELDS)
    assert is_event_schema([name.lower() for name in reversed(EVENT_FIELDS)])
    assert not is_event_schema(EVENT_FIELDS[:-1])
    assert not is_event_schema([*EVENT_FIELDS, "x"])


def test_rows_of_old_files_go_by_position() -> None:
    assert is_positional_row(["_col0", "_col11"])
    assert not is_positional_row(["_col0", "v"])
    assert not is_positional_row([])
