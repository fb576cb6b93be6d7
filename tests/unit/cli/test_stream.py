"""``hiveacid stream``: lines of a pipe become rows while the pipe is open."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.unit.cli.running import Done, run

import hiveacid
from hiveacid import read_arrow
from hiveacid.cli import query


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path}/m.db"
    with hiveacid.connect(None, made, warehouse=str(tmp_path / "wh")) as acid:
        acid.sql(
            "create table t (id int, v string) partitioned by (k int) stored as orc"
            " tblproperties ('transactional'='true')"
        )
    return made


def ids(url: str) -> list[int]:
    with hiveacid.connect(None, url) as acid:
        return sorted(read_arrow(acid.table("t"), columns=["id"]).read_all()["id"].to_pylist())


def stream(url: str, *options: str, lines: bytes) -> Done:
    read, write = os.pipe()
    os.write(write, lines)
    os.close(write)
    with open(read, encoding="utf-8") as source, patch.object(sys, "stdin", source):
        return run("stream", "t", "--metastore", url, *options)


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (("--partition", "k=1"), b'{"id": 1}\n\n{"id": 2, "v": "x"}'),
        (("--format", "delimited", "--delimiter", "|"), b"1|a|1\n2|b|2\n"),
        (("--format", "regex", "--pattern", r"(\d+) (\w) (\d)"), b"1 a 1\n2 b 2\n"),
        (("--rejected", "bad", "--commit-rows", "1"), b'{"id":1,"k":1}\nno\n{"id":2,"k":2}\n'),
        (
            ("--rejected", "bad", "--partition", "k=1"),
            b'{"id":1}\n' + b"[" * 9_999 + b'\n{"v":' + b"[" * 400 + b"]" * 400 + b'}\n{"id":2}\n',
        ),
    ],
)
def test_lines_become_rows(url: str, options: tuple[str, ...], lines: bytes) -> None:
    done = stream(url, *options, lines=lines)
    assert done.returncode == 0, done.stderr
    assert "2 rows in" in done.stderr and ids(url) == [1, 2]


@pytest.mark.parametrize(
    ("options", "lines", "expected"),
    [
        (("--delimiter", "\t"), b"a\tb\n\t\n\nc\td\r\n\r\n", [("a", "b"), ("", ""), ("c", "d")]),
        (("--delimiter", " "), b"a b\n \n", [("a", "b"), ("", "")]),
    ],
)
def test_a_line_of_delimiters_is_a_row_though_they_are_blank(
    url: str, options: tuple[str, ...], lines: bytes, expected: list[tuple[str, str]]
) -> None:
    with hiveacid.connect(None, url) as acid:
        acid.sql("drop table t")
        acid.create_table("t", "a string, b string")
        done = stream(url, "--format", "delimited", *options, lines=lines)
        found = read_arrow(acid.table("t")).read_all().to_pylist()
    assert done.returncode == 0, done.stderr
    assert [tuple(row.values()) for row in found] == expected


def test_a_line_that_does_not_fit_ends_it(url: str) -> None:
    lines = b'{"id": 1, "k": 1}\n{"id": "x", "k": 1}\n'
    done = stream(url, "--commit-rows", "1", lines=lines)
    assert done.returncode == 1 and "record 0" in done.stderr and "Traceback" not in done.stderr
    assert ids(url) == [1]


def test_an_input_that_is_closed(url: str) -> None:
    with patch.object(sys, "stdin", None):
        done = run("stream", "t", "--metastore", url)
    assert done.returncode == 2 and "there is no standard input" in done.stderr


def test_a_partition_that_is_none(url: str) -> None:
    done = stream(url, "--partition", "nonsense", lines=b"")
    assert done.returncode == 1 and "--partition is p=x or p=x/q=y" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_input_and_what_was_read_is_committed(
    url: str, number: signal.Signals
) -> None:
    take, before = query._Often.take, signal.getsignal(number)

    def interrupted(often: query._Often, line: bytes) -> None:
        take(often, line)
        if b"2" in line:
            signal.raise_signal(number)

    read, write = os.pipe()
    os.write(write, b'{"id": 1, "k": 1}\n{"id": 2, "k": 1}\n{"id": 3')
    with (
        open(read, encoding="utf-8") as source,
        patch.object(sys, "stdin", source),
        patch.object(query._Often, "take", interrupted),
    ):
        done = run("stream", "t", "--metastore", url)
    os.close(write)
    assert done.returncode == 0 and "2 rows in" in done.stderr, done.stderr
    assert ids(url) == [1, 2] and signal.getsignal(number) is before
