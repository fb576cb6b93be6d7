from __future__ import annotations

import pytest

from hiveacid.errors import FormatError
from hiveacid.model.compactions import format_map, parse_map


def test_the_text_is_that_of_hive() -> None:
    assert format_map({"a": "bc", "compactor.x": ""}) == "2:1:a2:bc11:compactor.x0:"
    assert parse_map("2:1:a2:bc11:compactor.x0:") == {"a": "bc", "compactor.x": ""}


@pytest.mark.parametrize(
    "values", [{}, {"k:1": "7:x"}, {"ü": "naïve"}, {"\U0001f600": "a\U0001f600b"}]
)
def test_what_is_written_is_read(values: dict[str, str]) -> None:
    assert parse_map(format_map(values)) == values


def test_lengths_count_as_java_does() -> None:
    assert format_map({"\U0001f600": "x"}) == "1:2:\U0001f6001:x"


def test_a_null_is_empty() -> None:
    assert parse_map("1:1:a-1:") == {"a": ""}
    assert parse_map(None) == {}


@pytest.mark.parametrize("text", ["x", "1:", "1:1:a", "1:5:a1:b", "0:x", "1:1:a1:bc", ":"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="Not a map"):
        parse_map(text)
