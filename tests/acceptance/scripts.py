"""Recorded SQL: a script's statements and, beside it, what Hive answered to each.

``NAME.out`` holds a block for each statement: ``# N ok``, ``# N rows`` with a line for each row
(cells separated by tabs; backslash, newline and carriage return of a value as ``\\\\``, ``\\n``,
``\\r``), or ``# N error`` with one line: Hive's error number or ``-``, the SQLSTATE, the message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_PIECE = re.compile(
    r"""(?P<comment>--[^\n]*)|(?P<end>;)|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|.""", re.S
)
_HEAD = re.compile(r"# (\d+) (ok|rows|error)")


class Answer(Enum):
    """How a statement ended in Hive."""

    OK = "ok"
    ROWS = "rows"
    ERROR = "error"


@dataclass(frozen=True)
class Recorded:
    """One statement; ``lines`` are Hive's rows, or the one line of its error."""

    number: int
    sql: str
    answer: Answer
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A script; where ``unordered``, ORDER BY is not looked at."""

    name: str
    unordered: bool
    statements: tuple[Recorded, ...]


def read_case(script: Path) -> Case:
    """The case of ``AREA/NAME.sql``.

    Raises:
        ValueError: it has more or fewer statements than there are answers.
    """
    text = script.read_text("utf-8")
    answers = read_answers(script.with_suffix(".out").read_text("utf-8"))
    statements = tuple(
        Recorded(number, sql, answer, lines)
        for number, (sql, (answer, lines)) in enumerate(
            zip(split(text), answers, strict=True), start=1
        )
    )
    unordered = re.search(r"^-- sort\b", text, re.M) is not None
    return Case(f"{script.parent.name}/{script.stem}", unordered, statements)


def split(text: str) -> list[str]:
    """The statements of a script, without comments."""
    found = [""]
    for piece in _PIECE.finditer(text):
        if piece["end"]:
            found.append("")
        elif not piece["comment"]:
            found[-1] += piece[0]
    return [sql.strip() for sql in found if sql.strip()]


def read_answers(text: str) -> list[tuple[Answer, tuple[str, ...]]]:
    """The blocks of an ``.out`` file; a row that looks like a head has another number."""
    blocks: list[tuple[Answer, list[str]]] = []
    for line in text.split("\n")[:-1]:
        head = _HEAD.fullmatch(line)
        if head and int(head[1]) == len(blocks) + 1:
            blocks.append((Answer(head[2]), []))
        else:
            blocks[-1][1].append(line)
    return [(answer, tuple(lines)) for answer, lines in blocks]
