"""``enable``: a Spark session whose own methods know tables of ours; ``disable`` takes it back.

Methods of Spark's classes are replaced once a process, those of the classes that the session and
its DataFrames have. What stands there asks which session a call belongs to: one that is not enabled
goes straight to Spark. ``_PATCHES`` lists them; what they do for tables of ours is in ``sql``,
``frames`` and ``catalog``.

The state of a session is a mark in its Spark configuration, which its clones inherit (that of
``foreachBatch``, Spark Connect's ``cloneSession``) and ``newSession`` does not; a Python session is
asked for it once.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from operator import attrgetter
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from hiveacid import functions
from hiveacid.connectors import frames, namespaces, sql, writers
from hiveacid.errors import InvalidInputError
from hiveacid.session import Session, connect
from hiveacid.settings import Settings
from hiveacid.spark.jobs import is_own_call, is_stopped
from hiveacid.statements.arguments import checked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MARK: Final = "spark.hiveacid.session"
_KNOWN: Final = "_hiveacid_known"
"""The attribute of a Python session that says what answers for it."""
_NUMBERS: Final = itertools.count()
_LOCK: Final = threading.RLock()


@dataclass(frozen=True)
class _Enabled:
    """A session that is enabled: its mark, what it was enabled with, what answers for it."""

    mark: str
    url: str
    warehouse: str | None
    settings: Settings
    acid: Session


@dataclass
class _State:
    """All that is enabled in this process."""

    enabled: dict[str, _Enabled] = field(default_factory=dict)
    """By mark."""
    change: object = field(default_factory=object)
    """Another one after each change of ``enabled``. A Python session itself keeps what answers for
    it, since which change: each micro-batch has one of its own, which goes with the batch.
    """
    originals: dict[tuple[type, str], Any] = field(default_factory=dict)
    """What a class had in the place of what stands there now."""


_STATE: Final = _State()


@checked
def enable(
    spark: SparkSession,
    url: str | PathLike[str],
    *,
    warehouse: str | PathLike[str] | None = None,
    settings: Settings | Mapping[str, object] | None = None,
) -> Session:
    """Lets ``spark.sql``, ``spark.table``, ``df.write`` and the like of this session work on the
    tables of a metastore as on Spark's own; returns the session that answers for them, which is
    ``spark.acid`` from now on. Arguments as those of ``connect``.

    The same call again returns the same session.

    Example:
        >>> acid = hiveacid.enable(spark, "sqlite:////data/m.db", warehouse="/d")  # doctest: +SKIP
        >>> spark.sql("update emp set pay = pay + 1 where id = 5")  # doctest: +SKIP

    Raises:
        InvalidInputError: not a Spark session, one that is stopped, or one that is enabled with
            another metastore; besides as ``connect``.
        MetastoreError: nothing usable is at the URL.
    """
    if is_stopped(spark):
        raise InvalidInputError("The Spark session is stopped")
    where = fspath(url), None if warehouse is None else fspath(warehouse)
    chosen = settings if isinstance(settings, Settings) else Settings.of(settings or {})
    with _LOCK:
        there = _enabled(spark)
        if there is not None:
            if (there.url, where[1] or there.warehouse) == (where[0], there.warehouse):
                if settings is not None and chosen != there.settings:
                    raise InvalidInputError(
                        f"The Spark session is enabled with other settings of {there.acid!r}",
                        note="SET name = value changes them; hiveacid.disable(spark) begins anew.",
                    )
                return there.acid
            raise InvalidInputError(
                f"The Spark session is enabled with {there.acid!r} already",
                note="hiveacid.disable(spark) first",
            )
        acid = connect(spark, url, warehouse=warehouse, settings=chosen)
        mark = f"{os.getpid()}-{next(_NUMBERS)}"
        try:
            spark.conf.set(_MARK, mark)
            frames_class = type(spark.range(0))
            functions.register(acid)
        except BaseException:
            acid.close()
            raise
        _STATE.enabled[mark] = _Enabled(mark, *where, chosen, acid)
        _STATE.change = object()
        _install(type(spark), _SESSION, lambda spark: spark)
        _install(frames_class, _FRAME, attrgetter("sparkSession"))
        return acid


@checked
def disable(spark: SparkSession) -> None:
    """Gives the session Spark's own methods back and closes what answered for its tables; where it
    is not enabled nothing happens.
    """
    with _LOCK:
        there = _enabled(spark)
        if there is None:
            return
        del _STATE.enabled[there.mark]
        _STATE.change = object()
        if not _STATE.enabled:
            _restore()
    if not is_stopped(spark):
        functions.unregister(spark)
        spark.conf.unset(_MARK)
    there.acid.close()


# -------------------------------------------------------------------- whose call it is


def acid_of(spark: Any) -> Session | None:
    """What answers for a Spark session; None where it is not enabled, or hiveacid itself calls."""
    if not _STATE.enabled or is_own_call():
        return None
    known: tuple[object, Session | None] = getattr(spark, _KNOWN, (None, None))
    if known[0] is _STATE.change:
        return known[1]
    with _LOCK:
        there = _enabled(spark)
        acid = None if there is None else there.acid
        if acid is not None and not _is_same(acid.spark, spark):  # a clone of it
            acid = acid.over(spark)
        setattr(spark, _KNOWN, (_STATE.change, acid))
        return acid


def enabled_acid(spark: Any) -> Session:
    """What answers for a Spark session.

    Raises:
        InvalidInputError: it is not enabled.
    """
    acid = acid_of(spark)
    if acid is None:
        raise InvalidInputError(
            "The Spark session is not enabled", note="hiveacid.enable(spark, url) first"
        )
    return acid


def _enabled(spark: Any) -> _Enabled | None:
    if not _STATE.enabled or is_stopped(spark):
        return next((one for one in _STATE.enabled.values() if one.acid.spark is spark), None)
    return _STATE.enabled.get(spark.conf.get(_MARK, ""))


def _is_same(one: Any, other: Any) -> bool:
    """Whether two Python sessions are one of Spark's: that of a Connect server, or of a JVM."""
    name = "session_id" if hasattr(one, "session_id") else "_jsparkSession"
    return one is other or bool(getattr(one, name) == getattr(other, name))


# -------------------------------------------------------------------- in the place of what


def _stop(acid: Session, original: Callable[[], None]) -> None:
    there = _enabled(acid.spark)
    if there is not None and there.acid is acid:  # not of a clone
        disable(acid.spark)
    original()


_SESSION: Final[Mapping[str, tuple[Any, bool]]] = {
    "sql": (sql.sql, False),
    "table": (frames.table, False),
    "read": (frames.read, True),
    "readStream": (frames.read_stream, True),
    "catalog": (namespaces.catalog, True),
    "acid": (None, True),
    "stop": (_stop, False),
}
"""Methods of a session, and whether they are properties."""
_FRAME: Final[Mapping[str, tuple[Any, bool]]] = {
    "write": (writers.write, True),
    "writeStream": (frames.write_stream, True),
    "writeTo": (writers.write_to, False),
    "alias": (frames.alias, False),
    "mergeInto": (frames.merge_into, False),
}
"""Those of a DataFrame."""


def _install(
    of: type, replacements: Mapping[str, tuple[Any, bool]], session_of: Callable[[Any], Any]
) -> None:
    for name, (replacement, is_property) in replacements.items():
        holder = next((one for one in of.__mro__ if name in vars(one)), None)
        original = None if holder is None else vars(holder)[name]
        if (holder or of, name) in _STATE.originals or (original is None and name != "acid"):
            continue
        _STATE.originals[holder or of, name] = original
        call = _replaced(original, replacement, session_of, is_property=is_property)
        setattr(holder or of, name, property(call) if is_property else call)


def _restore() -> None:
    for (holder, name), original in _STATE.originals.items():
        if original is None:
            delattr(holder, name)
        else:
            setattr(holder, name, original)
    _STATE.originals.clear()


def _replaced(
    original: Any, replacement: Any, session_of: Callable[[Any], Any], *, is_property: bool
) -> Callable[..., Any]:
    """What stands in the place of a method: ``replacement`` gets what answers for the session, the
    original, bound, and the arguments; for a property its value, and whose it is.
    """

    def as_it_was(value: Any) -> Any:
        if original is None:
            raise AttributeError("The session is not enabled: hiveacid.enable(spark, url)")
        return original.__get__(value, type(value))

    def call(value: Any, *args: Any, **kwargs: Any) -> Any:
        acid = acid_of(session_of(value))
        if acid is None:
            bound = as_it_was(value)
            return bound if is_property else bound(*args, **kwargs)
        if original is None:
            return acid
        if is_property:
            return replacement(acid, as_it_was(value), value)
        return replacement(acid, as_it_was(value), *args, **kwargs)

    return call if original is None or is_property else wraps(original)(call)
