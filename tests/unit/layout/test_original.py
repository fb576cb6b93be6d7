"""Row ids of original files: the worked example of format.md 6.2 and loaded deltas."""

from __future__ import annotations

import random

import pytest

from hiveacid.errors import InvalidInputError
from hiveacid.layout.directories import BaseName, DeltaName
from hiveacid.layout.events import OriginalFile, assign_row_ids

EXAMPLE = [
    ("000000_0", 2, 536870912, 0),
    ("000000_0_copy_1", 1, 536870912, 2),
    ("000001_0", 1, 536936448, 0),
    ("000002_0", 2, 537001984, 0),
    ("HIVE_UNION_SUBDIR_15/000000_0", 2, 536870912, 3),
    ("HIVE_UNION_SUBDIR_16/000000_0", 1, 536870912, 5),
    ("HIVE_UNION_SUBDIR_16/000001_0", 1, 536936448, 1),
]


@pytest.mark.parametrize("seed", range(5))
def test_worked_example(seed: int) -> None:
    files = [OriginalFile(path, rows) for path, rows, _, _ in EXAMPLE]
    random.Random(seed).shuffle(files)
    assigned = assign_row_ids(files)
    assert [(one.path, one.rows, one.bucket, one.first_row_id) for one in assigned] == EXAMPLE
    assert {one.write_id for one in assigned} == {0}


def test_tenth_copy_sorts_before_the_second() -> None:
    names = [f"000000_0_copy_{number}" for number in (2, 10)]
    assigned = assign_row_ids([OriginalFile(name, 3) for name in names])
    assert [(one.path, one.first_row_id) for one in assigned] == [
        ("000000_0_copy_10", 0),
        ("000000_0_copy_2", 3),
    ]


def test_loaded_delta_has_its_write_id_and_statement() -> None:
    (rows,) = assign_row_ids([OriginalFile("d/000001_0", 4)], directory=DeltaName(7, 7, 3))
    assert (rows.write_id, rows.bucket, rows.first_row_id) == (7, 536936448 + 3, 0)


def test_loaded_base_has_its_write_id() -> None:
    (rows,) = assign_row_ids([OriginalFile("b/000000_0", 4)], directory=BaseName(7))
    assert (rows.write_id, rows.bucket, rows.first_row_id) == (7, 536870912, 0)


def test_file_without_a_number_can_be_read_but_not_identified() -> None:
    (rows,) = assign_row_ids([OriginalFile("random", 4)])
    assert rows.bucket is None


def test_number_beyond_the_codec_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        assign_row_ids([OriginalFile("004096_0", 1)])
