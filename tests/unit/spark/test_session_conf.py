"""The session's configuration where threads set it at once, as streaming queries of one session."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from hiveacid.spark.session import session_conf

ARROW = "spark.sql.execution.arrow.pyspark.enabled"


class _Configuration(dict[str, str]):
    """As that of a Spark session."""

    set = dict.__setitem__
    unset = dict.__delitem__


class _Spark:
    def __init__(self, **values: str) -> None:
        self.conf = _Configuration(values)


def test_a_name_stays_set_until_the_last_block_ends() -> None:
    spark: Any = _Spark()
    first, second = ExitStack(), ExitStack()
    for block in (first, second):
        block.enter_context(session_conf(spark, {ARROW: "true"}))
    first.close()
    assert spark.conf == {ARROW: "true"}
    second.close()
    assert spark.conf == {}


def test_what_it_was_comes_back_whichever_block_ends_first() -> None:
    spark: Any = _Spark(size="1")
    first, second = ExitStack(), ExitStack()
    first.enter_context(session_conf(spark, {"size": "2"}))
    second.enter_context(session_conf(spark, {"size": "3"}))
    assert spark.conf == {"size": "3"}
    first.close()
    assert spark.conf == {"size": "3"}
    with session_conf(spark, {"size": "4"}):
        assert spark.conf == {"size": "4"}
    assert spark.conf == {"size": "3"}
    second.close()
    assert spark.conf == {"size": "1"}
