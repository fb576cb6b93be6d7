"""Locations as texts: the root of their file system, the path below it, and the one name of all
that mean the same directory.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from hiveacid.errors import InvalidInputError

LOCAL: Final = "/"
"""The root of this machine's files."""
_URI: Final = re.compile(
    r"(?P<root>[A-Za-z][A-Za-z0-9+.-]*://[^/?]*)(?P<path>/[^?]*)?(?P<query>\?.*)?"
)


def one_name(location: str) -> str:
    """The one name of all locations of a directory: without ``file:``, symbolic links and doubled
    slashes, which may be there or not; the directory need not exist.

    Raises:
        InvalidInputError: no file system of that scheme, or a relative path.
    """
    root, path = split(location)
    if root == LOCAL:
        return str(Path(f"/{path.strip('/')}").resolve())
    parts = [part for part in path.split("/") if part]
    return "/".join([root.partition("?")[0].rstrip("/"), *parts])


def root_of(location: str) -> str:
    """What locations of one file system have in common: ``/`` is this machine's.

    Raises:
        InvalidInputError: a relative path.
    """
    return split(location)[0]


@lru_cache(maxsize=256)  # a partition is asked for several times in a row
def split(location: str) -> tuple[str, str]:
    """The root of a location and its path below it.

    Raises:
        InvalidInputError: a relative path.
    """
    if location.startswith(("/", "file:")):
        return LOCAL, location.removeprefix("file:")
    match = _URI.fullmatch(location)
    if match is None:
        raise InvalidInputError(f"location {location!r} is not absolute", location=location)
    root = re.sub("^s3[an]:", "s3:", match["root"])
    return f"{root}/{match['query'] or ''}", match["path"] or ""
