"""Rows that the driver hands to PySpark 3.5, where threads do so at once."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from hiveacid.spark.session import local_frame

ROWS = pa.table({"n": [1]})


class _Configuration(dict[str, str]):
    """As that of a Spark session."""

    set = dict.__setitem__
    unset = dict.__delitem__


class _Spark:
    """A session of PySpark 3.5 that does something else while it makes a DataFrame."""

    version = "3.5.0"

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.conf = _Configuration()
        self._meanwhile = meanwhile

    def createDataFrame(self, *_: object) -> str:
        warnings.warn("of pandas", DeprecationWarning, stacklevel=1)
        self._meanwhile()
        return "a DataFrame"


@pytest.mark.slow
def test_filters_of_warnings_are_as_they_were_whichever_thread_ends_first() -> None:
    """Spoiled where the second begins within the first and ends after it."""
    second_is_in, first_is_done = threading.Event(), threading.Event()
    answers = []

    def hand_in(meanwhile: Callable[[], object]) -> None:
        spark: Any = _Spark(meanwhile)
        schema: Any = None
        answers.append(local_frame(spark, ROWS, schema))

    def within_the_first() -> None:
        second_is_in.set()
        first_is_done.wait(timeout=300)

    second = threading.Thread(target=hand_in, args=(within_the_first,))

    def while_the_second_comes() -> None:
        second.start()
        second_is_in.wait(timeout=0.5)  # in vain where it is kept out

    before = list(warnings.filters)
    with warnings.catch_warnings():
        hand_in(while_the_second_comes)
        first_is_done.set()
        second.join(timeout=300)
        assert warnings.filters == before
    assert answers == ["a DataFrame"] * 2
