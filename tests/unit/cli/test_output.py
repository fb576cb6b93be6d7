"""Rows as the command line prints them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hiveacid.cli.output import Format, print_rows


def test_a_long_table_does_not_wait_for_its_last_row(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []

    def rows() -> Iterator[tuple[int, str]]:
        for n in range(2_500):
            if n == 1_500:
                printed.append(capsys.readouterr().out)
            yield n, "x" * (n // 1_000 + 1)

    print_rows(["n", "v"], rows(), form=Format.TABLE)
    printed.append(capsys.readouterr().out)
    assert "999" in printed[0] and "1000" not in printed[0]
    lines = [line for line in "".join(printed).splitlines() if "│" in line]
    assert [line.split("│")[1].strip() for line in lines] == [str(n) for n in range(2_500)]


def test_a_table_without_rows_has_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["n"], [], form=Format.TABLE)
    assert "n" in capsys.readouterr().out
