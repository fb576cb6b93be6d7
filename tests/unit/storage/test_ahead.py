"""Items made ahead by a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hiveacid.storage.merge.bucket_rewrite import made_ahead


def counted(made: list[int], *, until: int) -> Iterator[int]:
    for number in range(1, until + 1):
        made.append(number)
        yield number


@pytest.mark.parametrize("count", [1, 3, 50])
def test_the_same_items_in_order(count: int) -> None:
    assert list(made_ahead(counted([], until=20), count=count)) == list(range(1, 21))
    assert list(made_ahead(counted([], until=0), count=count)) == []


def test_another_thread_makes_them_and_no_more_than_asked_for() -> None:
    made: list[int] = []
    names: set[str] = set()

    def items() -> Iterator[int]:
        for number in counted(made, until=100):
            names.add(threading.current_thread().name)
            yield number

    ahead = made_ahead(items(), count=3)
    assert [next(ahead), next(ahead)] == [1, 2]
    ahead.close()
    assert len(made) <= 2 + 3
    assert threading.current_thread().name not in names


def test_an_error_comes_where_its_item_would() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    ahead = made_ahead(items(), count=4)
    assert next(ahead) == 1
    with pytest.raises(OSError, match="no more"):
        next(ahead)
