"""Session settings that a statement of ours needs for a moment, put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_DESCRIPTION: Final = "spark.job.description"


@contextmanager
def session_conf(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Sets ``values`` in the session's configuration for the length of a block.

    A name that this version of Spark does not know does no harm.
    """
    before: dict[str, str | None] = {}
    for name, value in values.items():
        old = spark.conf.get(name, None)
        if old == value:
            continue
        before[name] = old
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextmanager
def jobs_described(spark: SparkSession | None, text: str) -> Iterator[None]:
    """Lets Spark's web page call the jobs of a block ``text``, on Spark Connect by a tag."""
    context = getattr(spark, "_sc", None)
    if spark is None or context is None:
        with nullcontext() if spark is None else _tagged(spark, text.replace(",", ";")):
            yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


@contextmanager
def _tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    if tag in spark.getTags():
        yield
        return
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


def is_ansi(spark: SparkSession) -> bool:
    """Whether Spark's casts and arithmetic raise errors (Spark 4's default) instead of giving
    NULL.
    """
    # with a default given, an unset name would answer that default, not Spark's
    return spark.conf.get("spark.sql.ansi.enabled") == "true"
