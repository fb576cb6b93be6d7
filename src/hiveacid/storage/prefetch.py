"""The next items of an iterator are made while one is in use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")


def made_ahead(items: Iterator[_Item], *, count: int) -> Iterator[_Item]:
    """The same items, made by a thread, which is up to ``count`` of them ahead.

    What the iterator raises is raised here. Left early, the thread ends with the item that it is
    making.
    """
    with ThreadPoolExecutor(1) as thread:
        coming = deque(thread.submit(next, items, None) for _ in range(count))
        try:
            while (item := coming.popleft().result()) is not None:
                coming.append(thread.submit(next, items, None))
                yield item
                del item
        finally:
            for one in coming:
                one.cancel()
