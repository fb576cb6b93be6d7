"""Which session a call belongs to, with sessions that are none of Spark's."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hiveacid
from hiveacid.connectors import enable as module
from hiveacid.errors import InvalidInputError


class Conf(dict[str, str]):
    """Counts how often it is asked."""

    asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        self.pop(key, None)


class Frame:
    """Has no methods of its own that could be replaced but one."""

    def __init__(self, session: SparkSession) -> None:
        self.sparkSession = session

    def alias(self, name: str) -> Frame:
        return Frame(self.sparkSession)


class SparkSession:
    """Answers every statement with its text."""

    sparkContext = SimpleNamespace(master="yarn")

    def __init__(self, conf: Conf | None = None) -> None:
        self.conf = Conf() if conf is None else conf
        self._jsparkSession = object()
        self.stopped = 0

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
        return sqlQuery

    def range(self, end: int) -> Frame:
        return Frame(self)

    @property
    def catalog(self) -> Any:
        return SimpleNamespace(functionExists=lambda _: True)

    def stop(self) -> None:
        self.stopped += 1

    def clone(self) -> SparkSession:
        return SparkSession(Conf(self.conf))


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[tuple[SparkSession, SparkSession]]:
    """Two sessions, the first enabled."""
    first, second = SparkSession(), SparkSession()
    enable(first, tmp_path)
    yield first, second
    for one in (first, second):
        hiveacid.disable(one)  # type: ignore[arg-type]


def enable(spark: SparkSession, root: Path) -> Any:
    where = str(root / "wh")
    return hiveacid.enable(spark, f"sqlite:///{root}/m.db", warehouse=where)  # type: ignore[arg-type]


def test_others_are_asked_once_and_go_straight_to_spark(
    sessions: tuple[SparkSession, SparkSession], tmp_path: Path
) -> None:
    first, second = sessions
    before = second.conf.asked
    for _ in range(5):
        assert second.sql("select * from emp") == "select * from emp"
    assert second.conf.asked == before + 1
    assert module.acid_of(first) is first.acid is enable(first, tmp_path)  # type: ignore[attr-defined]
    enable(second, tmp_path)
    assert second.acid is not first.acid  # type: ignore[attr-defined]


def test_what_a_class_had_is_back_with_the_last_session(
    sessions: tuple[SparkSession, SparkSession], tmp_path: Path
) -> None:
    first, second = sessions
    enable(second, tmp_path)
    assert hasattr(vars(SparkSession)["sql"], "__wrapped__")
    hiveacid.disable(first)  # type: ignore[arg-type]
    assert not hasattr(first, "acid")
    assert hasattr(vars(SparkSession)["sql"], "__wrapped__")
    hiveacid.disable(second)  # type: ignore[arg-type]
    assert not hasattr(vars(SparkSession)["sql"], "__wrapped__")
    assert "acid" not in vars(SparkSession)
    hiveacid.disable(second)  # type: ignore[arg-type]


def test_clones_have_a_session_of_their_own_on_the_same_metastore(
    sessions: tuple[SparkSession, SparkSession],
) -> None:
    first, _ = sessions
    clone = first.clone()
    acid: Any = clone.acid  # type: ignore[attr-defined]
    assert acid is not first.acid  # type: ignore[attr-defined]
    assert acid.client is first.acid.client  # type: ignore[attr-defined]
    assert acid.spark is clone
    clone.stop()
    assert hasattr(first, "acid") and clone.stopped
    hiveacid.disable(clone)  # type: ignore[arg-type]
    assert not hasattr(first, "acid")


def test_a_clone_that_is_gone_leaves_nothing(
    sessions: tuple[SparkSession, SparkSession],
) -> None:
    first, _ = sessions
    clone = first.clone()  # each micro-batch of foreachBatch has one
    gone = weakref.ref(clone)
    acid = module.acid_of(clone)
    assert acid is module.acid_of(clone) is not None
    del clone, acid
    gc.collect()
    assert gone() is None


def test_a_session_that_stops_is_disabled(sessions: tuple[SparkSession, SparkSession]) -> None:
    first, _ = sessions
    acid: Any = first.acid  # type: ignore[attr-defined]
    first.stop()
    assert first.stopped == 1 and not hasattr(first, "acid")
    with pytest.raises(InvalidInputError, match="closed"):
        acid.sql("show tables")


def test_a_session_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Failing(SparkSession):
        def range(self, end: int) -> Frame:
            raise ZeroDivisionError

    Failing.__name__ = "SparkSession"
    with pytest.raises(ZeroDivisionError):
        enable(Failing(), tmp_path)
    assert not module._STATE.enabled
