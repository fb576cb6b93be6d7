"""The settings that decide when to compact, and how the queue of compactions behaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hiveacid.setting import setting

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
