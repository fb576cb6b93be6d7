"""One setting: a field of a settings class, with its dotted name and what it means; the settings
that decide when to compact and how the queue of compactions behaves, and those that say how S3 is
reached: parts of ``Settings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hiveacid.errors import InvalidInputError

PREFIX: Final = "hiveacid."
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})
_UNITS_S: Final[Mapping[str, float]] = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}

_KIND_NAMES: Final[Mapping[type, str]] = {
    bool: "truth value",
    int: "whole number",
    float: "number of seconds",
}


def setting(
    default: Any,
    name: str,
    text: str,
    *,
    hive: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    pattern: str = "",
    fixed: str = "",
    as_is: bool = False,
    secret: bool = False,
) -> Any:
    """A field; ``hive`` are Hive's names for it, ``pattern`` a regular expression of its texts,
    ``fixed`` says why it cannot change while a session is connected. The case of a text counts
    where it is kept ``as_is``; what is ``secret`` is so, and never shown.
    """
    metadata = {
        "name": PREFIX + name,
        "text": text,
        "hive": hive,
        "choices": choices,
        "pattern": pattern,
        "fixed": fixed,
        "as_is": as_is or secret,
        "secret": secret,
    }
    return field(default=default, metadata=metadata, repr=not secret)


def parsed(name: str, text: str, kind: type) -> object:
    """The value that a text of SET stands for.

    Raises:
        InvalidInputError: it is none of that kind.
    """
    lower = text.lower()
    try:
        if kind is bool:
            if lower not in _TRUE | _FALSE:
                raise ValueError(text)
            return lower in _TRUE
        if kind is int:
            return int(text)
        if kind is float:
            return parse_seconds(lower)
    except ValueError as error:
        raise InvalidInputError(
            f"Setting {name} cannot be {text!r}: expected a {_KIND_NAMES[kind]}", setting=name
        ) from error
    return lower


def parse_seconds(text: str) -> float:
    """A length of time in seconds: a number, or one with a unit (``500ms``, ``12h``, ``7d``).

    Raises:
        ValueError: it is none, or negative.
    """
    text = text.strip().lower()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :]
    if unit and unit not in _UNITS_S:
        raise ValueError(text)
    seconds = float(number) * _UNITS_S.get(unit, 1.0)
    if not 0 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds


_DAY_S: Final = 86_400.0
_HOUR: Final = r"([01]?[0-9]|2[0-3])"


def _hive(name: str) -> tuple[str, ...]:
    """Hive's name for a setting of its metastore, and the older one."""
    return f"metastore.compactor.{name}", f"hive.compactor.{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactorSettings:
    """A part of ``Settings``."""

    compactor_delta_num_threshold: int = setting(
        10,
        "compactor.delta_num_threshold",
        "A table or partition with more deltas than this is compacted: minor, or major where it "
        "has no base. The table property `compactorthreshold.hive.compactor.delta.num.threshold` "
        "goes before it.",
        hive=("hive.compactor.delta.num.threshold",),
    )
    compactor_delta_pct_threshold: float = setting(
        0.1,
        "compactor.delta_pct_threshold",
        "A table or partition whose deltas hold more than this fraction of the bytes of its base "
        "is compacted, major. The table property "
        "`compactorthreshold.hive.compactor.delta.pct.threshold` goes before it.",
        hive=("hive.compactor.delta.pct.threshold",),
    )
    compactor_insert_only: bool = setting(
        True,
        "compactor.insert_only",
        "Insert-only tables are compacted without being asked, too.",
        hive=("hive.compactor.compact.insert.only",),
    )
    compactor_offpeak: str = setting(
        "",
        "compactor.offpeak",
        "The hours in which major compactions may begin without being asked, such as `22-6`: from "
        "22:00 to 6:00 where the compactor runs. Outside them many deltas are compacted minor. "
        "Empty: at any time.",
        pattern=f"|{_HOUR}-{_HOUR}",
    )
    compactor_clean_aborts: bool = setting(
        True,
        "compactor.clean_aborts",
        "With `true` the cleaner removes what aborted transactions left; with `false` they also "
        "cause compactions, as in Hive 3.",
        hive=_hive("clean.aborts.using.cleaner"),
    )
    compactor_worker_timeout_s: float = setting(
        _DAY_S,
        "compactor.worker_timeout_s",
        "A compaction that has been worked on for longer than this is given to another worker.",
        hive=("hive.compactor.worker.timeout",),
    )
    compactor_pool_timeout_s: float = setting(
        _DAY_S / 2,
        "compactor.pool_timeout_s",
        "A request of a named pool that has waited for so long is taken by the default pool; 0 for "
        "never.",
        hive=_hive("worker.pool.timeout"),
    )
    compactor_failed_threshold: int = setting(
        2,
        "compactor.failed_threshold",
        "After this many failed compactions in a row a table or partition is no longer compacted "
        "without being asked.",
        hive=_hive("initiator.failed.compacts.threshold"),
    )
    compactor_failed_retry_s: float = setting(
        7 * _DAY_S,
        "compactor.failed_retry_s",
        "How long a table or partition whose compactions failed too often is left alone; 0 is "
        "for ever.",
        hive=_hive("initiator.failed.retry.time"),
    )
    compactor_cleaner_retry_s: float = setting(
        300.0,
        "compactor.cleaner_retry_s",
        "The pause before a cleaning that failed is tried again; it doubles with each failure.",
        hive=("hive.compactor.cleaner.retry.retention.time",),
    )
    compactor_cleaner_attempts: int = setting(
        5,
        "compactor.cleaner_attempts",
        "How often a cleaning that fails is tried before it is given up.",
        hive=("hive.compactor.cleaner.retry.maxattempts",),
    )
    compactor_history_failed: int = setting(
        3,
        "compactor.history_failed",
        "How many failed compactions of a table or partition SHOW COMPACTIONS remembers.",
        hive=_hive("history.retention.failed"),
    )
    compactor_history_succeeded: int = setting(
        3,
        "compactor.history_succeeded",
        "How many compactions of a table or partition that succeeded, and how many that were "
        "refused, SHOW COMPACTIONS remembers.",
        hive=_hive("history.retention.succeeded"),
    )
    compactor_history_s: float = setting(
        7 * _DAY_S,
        "compactor.history_s",
        "How long SHOW COMPACTIONS remembers a compaction that did not succeed, where a later "
        "one did.",
        hive=_hive("history.retention.timeout"),
    )


_REACHED: Final = "files are reached with it; give it to hiveacid.connect(settings=...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings(CompactorSettings):
    """What ``storage.stores`` takes before Spark's configuration and the environment."""

    s3_endpoint: str = setting(
        "",
        "s3.endpoint",
        "Where S3 is served, as `https://host:port`; where it is empty, Spark's `fs.s3a.endpoint`, "
        "then `AWS_ENDPOINT_URL` counts, and AWS itself else. So with the settings below.",
        as_is=True,
        fixed=_REACHED,
    )
    s3_region: str = setting("", "s3.region", "The region of S3.", as_is=True, fixed=_REACHED)
    s3_path_style: str = setting(
        "default",
        "s3.path_style",
        "Whether the bucket stands in the path of a request (`true`) or in the host's name. "
        "`default`: in the path where there is an endpoint.",
        choices=("default", "true", "false"),
        fixed=_REACHED,
    )
    s3_timeout_s: float = setting(
        0.0,
        "s3.timeout_s",
        "How long a server may be silent before a request is sent again; 0: a minute, or the time "
        "of the AWS library where it alone knows the keys.",
        fixed=_REACHED,
    )
    files_retry_s: float = setting(
        60.0,
        "files.retry_s",
        "For how long a file system or its server is asked again that is too busy, does not answer "
        "or is just being replaced; what it refuses is not asked again.",
        fixed=_REACHED,
    )
    s3_access_key: str = setting(
        "", "s3.access_key", "The name of the key to S3.", secret=True, fixed=_REACHED
    )
    s3_secret_key: str = setting(
        "", "s3.secret_key", "The key to S3; never shown.", secret=True, fixed=_REACHED
    )
    s3_session_token: str = setting(
        "",
        "s3.session_token",
        "What a key to S3 that was lent comes with; never shown.",
        secret=True,
        fixed=_REACHED,
    )
