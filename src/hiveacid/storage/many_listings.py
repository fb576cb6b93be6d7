"""Many directories of a bucket listed together: of a large table one page holds many partitions.

A bucket lists its objects by name, a thousand at a time, from any name on. So a page that begins
with one directory goes on with those after it, and the next page begins with the next one wanted:
never more requests than directories, nor than pages of all that lies between the first and the
last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from itertools import pairwise
from posixpath import commonpath
from typing import Final
from urllib.parse import unquote

from hiveacid.storage.s3_requests import Requests, element, epoch_ms

_OBJECT: Final = re.compile(
    "<Contents>.*?<Key>(?P<key>.*?)</Key>(?P<rest>.*?)</Contents>", re.DOTALL
)

Found = tuple[str, int, int]
"""Path, size in bytes and time of change in nanoseconds."""


def are_apart(directories: Sequence[str]) -> bool:
    """Whether no directory lies within another one."""
    ordered = sorted(f"{one.rstrip('/')}/" for one in directories)
    return not any(below.startswith(above) for above, below in pairwise(ordered))


def list_together(requests: Requests, directories: Sequence[str]) -> dict[str, list[Found]]:
    """All objects below each directory, markers of directories included; directories are
    ``are_apart``.

    Raises:
        OSError: the server refused, or failed.
    """
    above = len(requests.bucket) + 1
    wanted = sorted(f"{one.rstrip('/')}/" for one in directories)
    found: dict[str, list[Found]] = {one: [] for one in wanted}
    common = commonpath([wanted[0][above:], wanted[-1][above:]])
    prefix = f"{common}/" if common else ""
    number, after = 0, wanted[0]
    while number < len(wanted):
        text = _page(requests, prefix=prefix, after=after[above:])
        for path, size_bytes, modified_ns in _objects(requests.bucket, text):
            after = path
            while number < len(wanted) and path > wanted[number]:
                if path.startswith(wanted[number]):
                    found[wanted[number]].append((path, size_bytes, modified_ns))
                    break
                number += 1
        if element(text, "IsTruncated") != "true":
            break
        after = max(after, wanted[min(number, len(wanted) - 1)])
    return {one: found[f"{one.rstrip('/')}/"] for one in directories}


def with_directories(root: str, found: Iterable[Found]) -> list[tuple[str, bool, int, int]]:
    """The objects below a directory as files, and the directories that their names are in: path,
    whether it is a directory, size, and time of change; sorted.
    """
    infos: dict[str, tuple[str, bool, int, int]] = {}
    above = len(root.rstrip("/"))
    for path, size_bytes, modified_ns in found:
        file = path.rstrip("/")
        if file == path:
            infos[file] = (file, False, size_bytes, modified_ns)
        at = file.rfind("/") if file == path else len(file)
        while at > above and file[:at] not in infos:
            infos[file[:at]] = (file[:at], True, 0, 0)
            at = file.rfind("/", 0, at)
    return [infos[path] for path in sorted(infos)]


def _page(requests: Requests, *, prefix: str, after: str) -> str:
    query = {"list-type": "2", "prefix": prefix, "start-after": after, "encoding-type": "url"}
    return requests.asked("GET", requests.bucket, query).body.decode()


def _objects(bucket: str, text: str) -> Iterator[Found]:
    plain = unquote if "<EncodingType>url<" in text else unescape
    for one in _OBJECT.finditer(text):
        rest = one["rest"]
        modified_ns = epoch_ms(element(rest, "LastModified")) * 1_000_000
        yield f"{bucket}/{plain(one['key'])}", int(element(rest, "Size")), modified_ns
