"""Rows as the command line prints them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.cli.output import Format, print_rows
from hiveacid.errors import InvalidInputError


@pytest.mark.slow
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


def test_columns_of_one_name_are_no_object_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInputError, match="Several columns are called id"):
        print_rows(["id", "v", "id"], [(1, "a", 2)], form=Format.JSON)
    print_rows(["id", "ID"], [(1, 2)], form=Format.JSON)
    print_rows(["id", "id"], [(1, 2)], form=Format.CSV)
    assert capsys.readouterr().out == '{"id": 1, "ID": 2}\nid,id\n1,2\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "out", "encoding", "said"),
    [
        ("table", "/dev/full", "utf-8", "No space left on device"),
        ("csv", "/dev/full", "utf-8", "No space left on device"),
        ("csv", os.devnull, "ascii", "can't encode"),
    ],
)
def test_output_that_cannot_be_written_is_one_line(
    tmp_path: Path, form: str, out: str, encoding: str, said: str
) -> None:
    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=str(tmp_path / "wh")) as acid:
        acid.create_table("t", "v string").write_arrow(pa.table({"v": ["\u00e9"]}))
    command = ["read", "t", "--metastore", url, "--format", form]
    with Path(out).open("w") as to:
        done = subprocess.run(
            [sys.executable, "-m", "hiveacid.cli", *command],
            stdout=to,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output cannot be written: "), done.stderr
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def _shell(text: str, *arguments: bytes | str) -> subprocess.CompletedProcess[str]:
    """A command line of the shell in which ``hiveacid`` is ours."""
    ours = f'hiveacid() {{ "{sys.executable}" -m hiveacid.cli "$@"; }}; {text}'
    command = ["sh", "-c", ours, "sh", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_an_output_that_is_closed_is_no_error() -> None:
    closed = _shell("hiveacid --version >&-")
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.slow
def test_an_argument_that_is_no_text_is_not_taken_for_output() -> None:
    done = _shell('hiveacid read "$1"', b"x\xff.csv")
    assert done.returncode == 2
    assert done.stderr.startswith("error: an argument is no text in utf-8"), done.stderr
