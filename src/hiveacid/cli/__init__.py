"""The command line: text in, text out.

What lives here: ``output``: the group of commands, shared options, how errors are spelled, tables,
CSV and JSON; a module for each kind of command (``app``: statements, and how tables are; ``files``;
``administration``: also of compactions). What never comes in: decisions about tables; a command
calls the public handles or one function of a lower room and prints the answer. Every command
imports what it needs when it runs, so that those without Spark start at once. Read ``output.py``
first.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Final

_OF_OUTPUT: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a file says that can take no more, whose name nobody knows."""


def main() -> None:
    """Run the command line; exit status 1 after an error of ours, 2 after wrong usage."""
    from hiveacid.cli.app import app
    from hiveacid.errors import AcidError

    if any(0xDC80 <= ord(letter) <= 0xDCFF for text in sys.argv for letter in text):
        print(f"error: an argument is no text in {sys.getfilesystemencoding()}", file=sys.stderr)
        sys.exit(2)
    try:
        try:
            app(prog_name="hiveacid")
        except AcidError as error:
            with suppress(OSError, UnicodeEncodeError):  # which is told after it
                _flush()
            print(f"error: {error}", file=sys.stderr)
            for note in getattr(error, "__notes__", ()):
                print(f"  {note}", file=sys.stderr)
            sys.exit(1)
        finally:
            _flush()
    except (OSError, UnicodeEncodeError) as error:
        if isinstance(error, OSError) and (error.filename or error.errno not in _OF_OUTPUT):
            raise
        # Of a reader (head, less) that has gone there is nothing to tell.
        if not isinstance(error, BrokenPipeError):
            print(f"error: the output cannot be written: {error}", file=sys.stderr)
        # Keep the interpreter from flushing once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _flush() -> None:
    if sys.stdout is not None:  # which Python has not where it was closed
        sys.stdout.flush()
