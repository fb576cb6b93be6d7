"""All settings of a session, as one frozen value; ``docs/settings.md`` lists them.

A setting has a dotted name (``hiveacid.lock.timeout_s``) for SQL's SET; Hive's names for the same
thing are understood, all other names are kept as text and have no effect on hiveacid itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from hiveacid.errors import InvalidInputError
from hiveacid.settings_parts import PREFIX, S3Settings, parsed
from hiveacid.settings_parts import setting as _setting

_LOG: Final = logging.getLogger(__name__)
_SECRET: Final = re.compile(
    r"secret|password|token|credential|(access|account|sas|api|private)[._]?key", re.IGNORECASE
)
"""In names of settings of other programs: what is set is not listed. As Spark hides it."""
_HIVE: Final = ("hive.", "metastore.", "datanucleus.", "tez.", "mapred.", "mapreduce.", "orc.")
"""What names that Hive knows begin with."""
HIVE_ONLY: Final[Mapping[str, tuple[str, str]]] = {
    "hive.acid.direct.insert.enabled": (
        "true",
        "Files are staged, then renamed; in object stores the driver writes them where they stay.",
    ),
    "hive.compactor.initiator.on": ("", "`hiveacid.compactor.auto` says who compacts."),
    "hive.compactor.worker.threads": ("", "`hiveacid compactor run --workers` says how many."),
    "hive.exec.dynamic.partition": ("true", "Partitions that the rows decide are always allowed."),
    "hive.exec.dynamic.partition.mode": ("nonstrict", "All partitions may be dynamic."),
    "hive.lock.numretries": ("", "`hiveacid.lock.timeout_s` says how long a lock is waited for."),
    "hive.merge.cardinality.check": ("true", "MERGE always checks it."),
    "hive.metastore.uris": ("", "The URL given to `hiveacid.connect` is the metastore."),
    "hive.metastore.warehouse.dir": ("", "`hiveacid.connect(..., warehouse=...)` says where."),
    "hive.query.reexecution.enabled": ("true", "`hiveacid.conflict.retries` says how often."),
    "hive.stats.autogather": ("true", "Row counts are always kept; ANALYZE counts the rest."),
    "hive.support.concurrency": ("true", "Transactions are always on."),
    "hive.txn.manager": (
        "org.apache.hadoop.hive.ql.lockmgr.dbtxnmanager",
        "Transactions are always on.",
    ),
    "hive.txn.strict.locking.mode": (
        "false",
        "Writers of tables without transactions never wait for each other; LOCK TABLE keeps them "
        "apart.",
    ),
    "hive.txn.xlock.iow": ("false", "Of two overwrites of a table one ends in a ConflictError."),
    "hive.txn.xlock.write": ("false", "`hiveacid.conflict.unit` says what writers exclude."),
    "hive.vectorized.execution.enabled": ("true", "Spark carries queries out."),
}
"""Settings of Hive's that change nothing here: the value that asks for what is done anyway, and
what to do instead.
"""


def _warn_of_what_changes_nothing(name: str, text: str) -> None:
    anyway, instead = HIVE_ONLY.get(name, ("", ""))
    if name.startswith(_HIVE) and text != anyway:
        text = f"{name} changes nothing in hiveacid. {instead}".strip()
        _LOG.warning("%s", text, extra={"setting": name})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(S3Settings):
    """Settings with their defaults; seconds and counts are checked to be sensible.

    Example:
        >>> Settings().with_("hiveacid.lock.timeout_s", "5").lock_timeout_s
        5.0

    Raises:
        InvalidInputError: a value out of range.
    """

    lock_timeout_s: float = _setting(
        300.0, "lock.timeout_s", "How long a statement waits for its locks before it fails."
    )
    lock_poll_min_s: float = _setting(
        0.02,
        "lock.poll_min_s",
        "How long a statement that waits for a lock pauses before it looks again the first time; "
        "the pause doubles each time.",
    )
    lock_poll_max_s: float = _setting(
        2.0,
        "lock.poll_max_s",
        "Longest pause between two looks at a lock.",
        hive=("hive.lock.sleep.between.retries",),
    )
    lock_zero_wait_reads: bool = _setting(
        False,
        "lock.zero_wait_reads",
        "With `true` a query of a table that another transaction has locked exclusively fails at "
        "once, as in Hive 4 by default; with `false` it waits for the lock.",
    )
    txn_timeout_s: float = _setting(
        300.0,
        "txn.timeout_s",
        "A transaction without a heartbeat for so long is aborted by whoever comes next; "
        "heartbeats are sent at half of it. Give all clients of a metastore the same: one with a "
        "shorter time aborts what others keep alive at their pace.",
        hive=("hive.txn.timeout", "metastore.txn.timeout"),
        fixed="heartbeats are under way at its pace; give it to hiveacid.connect(settings=...)",
    )
    alter_checks_types: bool = _setting(
        True,
        "alter.checks_types",
        "With `false` ALTER TABLE may give a column any type; values that the new type does not "
        "hold are read as NULL.",
        hive=(
            "hive.metastore.disallow.incompatible.col.type.changes",
            "metastore.disallow.incompatible.col.type.changes",
        ),
    )
    msck_path_validation: str = _setting(
        "throw",
        "msck.path_validation",
        "What MSCK REPAIR does with a directory that is a partition by other columns than the "
        "table's: `throw` is an error, `skip` and `ignore` pass over it.",
        hive=("hive.msck.path.validation", "metastore.msck.path.validation"),
        choices=("throw", "skip", "ignore"),
    )
    conflict_retries: int = _setting(
        3,
        "conflict.retries",
        "How often a statement is run again, on a fresh snapshot, after another transaction won. "
        "Never inside an explicit transaction.",
        hive=("hive.query.reexecution.max.count",),
    )
    conflict_backoff_s: float = _setting(
        0.1,
        "conflict.backoff_s",
        "How long a statement that lost to another transaction pauses before it is run again the "
        "first time; the pause doubles each time.",
    )
    conflict_unit: str = _setting(
        "row",
        "conflict.unit",
        "What two concurrent transactions must not both change: a row, or a partition (or an "
        "unpartitioned table) as in Hive.",
        choices=("partition", "row"),
    )
    isolation: str = _setting(
        "snapshot",
        "txn.isolation",
        "The isolation of transactions where neither they nor a table name one. A `serializable` "
        "transaction fails at its commit where another one has written to what it read.",
        choices=("snapshot", "serializable"),
    )
    snapshot_retries: int = _setting(
        5,
        "snapshot.retries",
        "How often a transaction that has done nothing yet is opened anew because its snapshot "
        "was outdated when its locks were granted.",
        hive=("hive.txn.retrysnapshot.max.count",),
    )
    commit_retries: int = _setting(
        5, "commit.retries", "How often a commit whose reply was lost is looked up."
    )
    reads_lease_s: float = _setting(
        3600.0,
        "reads.lease_s",
        "How long the files under a query's result are kept, unless it is closed earlier.",
    )
    reads_lease: str = _setting(
        "auto",
        "reads.lease",
        "Whether a query's transaction stays open as a lease on its files, for which cleaners "
        "wait. `auto`: only where a table's retention is shorter than `hiveacid.reads.lease_s`; "
        "elsewhere the retention keeps the files. `always` where a cleaner works on the same "
        "metastore that goes by another retention, as of clients with a shorter "
        "`hiveacid.retention_s`; where a Hive service was seen, it is so by itself.",
        choices=("auto", "always"),
    )
    reads_local_bytes: int = _setting(
        256 * 1024,
        "reads.local_bytes",
        "A table of no more bytes than this is read by the driver at once, without a Spark job "
        "(PySpark 4); 0 for none.",
    )
    merge_local_bytes: int = _setting(
        67_108_864,
        "merge.local_bytes",
        "A MERGE whose source is of no more bytes than this and than a 32nd of "
        "`spark.driver.memory`, as Spark takes it, into 8 MiB of the table or more and at most 16 "
        "times this, is joined by the driver, which reads the table's keys alone: no shuffle "
        "(PySpark 4); 0 for none.",
    )
    progress: bool = _setting(
        True,
        "progress",
        "On a terminal or in a notebook a bar shows how far a statement's Spark jobs are, or the "
        "compactions that are waited for, when they take more than 3 seconds; not where Spark "
        "shows its own (`spark.ui.showConsoleProgress`).",
    )
    housekeeping_interval_s: float = _setting(
        60.0,
        "housekeeping.interval_s",
        "How often some process removes what no transaction needs any more.",
        hive=("metastore.acid.housekeeper.interval",),
    )
    store_assignment: str = _setting(
        "default",
        "store_assignment",
        "What a value that does not fit its column becomes: with `hive` what Hive makes of it "
        "(NULL, a text cut, an integer wrapped); with `ansi` the statement fails. `default` is "
        "`ansi` for rows that Python hands in (a DataFrame in `insert`, or as the source of "
        "`merge`) and `hive` for SQL.",
        choices=("default", "hive", "ansi"),
    )
    schema_evolve: bool = _setting(
        False,
        "schema.evolve",
        "SQL adds columns that its rows have and the table lacks: those that the column list of "
        "INSERT INTO t (...) SELECT names, those that MERGE assigns by name, and with INSERT * and "
        "UPDATE SET * those of the source that no condition names. In Python: `evolve=True`.",
    )
    count_from_statistics: bool = _setting(
        True,
        "count_from_statistics",
        "Answer count, min and max of a whole table from its statistics, the names of its "
        "partitions and the files' tails where these tell them exactly for the query's snapshot; "
        "so is such a query in a WHERE, which then chooses partitions and files.",
        hive=("hive.compute.query.using.stats",),
    )
    create_as_acid: bool = _setting(
        False,
        "create.as_acid",
        "CREATE TABLE without properties makes a full ACID table.",
        hive=("hive.create.as.acid",),
    )
    create_as_insert_only: bool = _setting(
        False,
        "create.as_insert_only",
        "CREATE TABLE without properties makes an insert-only transactional table.",
        hive=("hive.create.as.insert.only",),
    )
    compactor_auto: str = _setting(
        "default",
        "compactor.auto",
        "Who compacts without being asked: `embedded` is the session itself, in the background "
        "after its commits; with `off` a service or a cron job does. `default` is `embedded` on "
        "SQLite and `off` on PostgreSQL.",
        choices=("default", "embedded", "off"),
    )
    compactor_embedded_pause_s: float = _setting(
        10.0,
        "compactor.embedded_pause_s",
        "The shortest time between two looks of an embedded compactor at a table that is being "
        "written to.",
    )
    compactor_check_interval_s: float = _setting(
        300.0,
        "compactor.check_interval_s",
        "How often the services of a metastore look for what is worth compacting.",
        hive=("hive.compactor.check.interval",),
    )
    compactor_worker_pause_s: float = _setting(
        10.8,
        "compactor.worker_pause_s",
        "How long a service's worker waits when there is nothing to do.",
        hive=("hive.compactor.worker.sleep.time",),
    )
    compactor_cleaner_interval_s: float = _setting(
        5.0,
        "compactor.cleaner_interval_s",
        "How often a cleaner looks for what nobody needs any more.",
        hive=("hive.compactor.cleaner.run.interval",),
    )
    compactor_drain_s: float = _setting(
        10.0,
        "compactor.drain_s",
        "How long the end of a session or a service waits for compactions under way; what does "
        "not end by then is given back to the queue.",
    )
    compactor_wait_timeout_s: float = _setting(
        86400.0,
        "compactor.wait_timeout_s",
        "How long COMPACT ... AND WAIT waits for a compaction that another process does.",
        hive=("hive.compactor.wait.timeout",),
    )
    compactor_process_bytes: int = _setting(
        8 * 1024 * 1024,
        "compactor.process_bytes",
        "A compaction that reads more bytes than this, and is not done by Spark, is done by "
        "processes of its own, at low priority unless a statement waits for it; a smaller one by a "
        "thread.",
    )
    compactor_spark_bytes: int = _setting(
        256 * 1024 * 1024,
        "compactor.spark_bytes",
        "A compaction that reads more bytes than this is done by Spark where there is a session; "
        "in the background of an application by one on a cluster only.",
    )
    compactor_stripe_bytes: int = _setting(
        64 * 1024,
        "compactor.stripe_bytes",
        "A compaction copies stripes as they are where their average size is no less than this; "
        "smaller ones are decoded and written anew, as many small stripes are slow to read.",
    )
    retention_s: float = _setting(
        86400.0,
        "retention_s",
        "How long what a compaction replaced is kept, from its commit on, for time travel and "
        "`changes`; the table property `hiveacid.retention` goes before it. 0: until no reader "
        "needs it.",
    )
    history_retention_s: float = _setting(
        30 * 86400.0,
        "history.retention_s",
        "How long the records of commits are kept that `history()`, versions and changes go by, "
        "never shorter than the files, or than a tag needs them; the table property "
        "`hiveacid.history.retention` goes before it.",
    )
    compactor_aborts_threshold: int = _setting(
        1000,
        "compactor.aborts_threshold",
        "Files of aborted transactions are removed from a table or partition to which more "
        "aborted transactions than this have written.",
    )
    compactor_aborts_age_s: float = _setting(
        3600.0,
        "compactor.aborts_age_s",
        "Files of an aborted transaction are removed where it began longer ago than this; a "
        "writer that has lost its heartbeat needs the time to notice.",
    )
    passive: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Other names that SET was given, with their text: Hive's and Spark's."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0:
                raise InvalidInputError(
                    f"Setting {_name(one)} must not be negative: {value}", setting=_name(one)
                )
            choices = one.metadata.get("choices")
            pattern = one.metadata.get("pattern")
            if pattern and not re.fullmatch(pattern, value):
                raise InvalidInputError(
                    f"Setting {_name(one)} cannot be {value!r}",
                    setting=_name(one),
                    note=one.metadata["text"],
                )
            if choices and value not in choices:
                raise InvalidInputError(
                    f"Setting {_name(one)} must be one of {', '.join(choices)}: {value!r}",
                    setting=_name(one),
                )
        if self.txn_timeout_s <= 0:
            raise InvalidInputError("Setting hiveacid.txn.timeout_s must be positive")

    @staticmethod
    def of(texts: Mapping[str, object]) -> Settings:
        """The defaults with some changed, each as SET name=text does.

        Raises:
            InvalidInputError: as ``with_``.
        """
        settings = Settings()
        for name, text in texts.items():
            settings = settings.with_(name, str(text))
        return settings

    def assigns_ansi(self, *, handed_in: bool) -> bool:
        """Whether a value that does not fit its column is an error, in SQL or in rows that Python
        handed in.
        """
        return self.store_assignment == "ansi" or (handed_in and self.store_assignment == "default")

    def with_(self, name: str, text: str) -> Settings:
        """These settings with one changed, as SET name=text does.

        Raises:
            InvalidInputError: an unknown ``hiveacid.`` name, or a text that is no such value.
        """
        key = name.strip().lower()
        found = _BY_NAME.get(key)
        if found is None:
            if key.startswith(PREFIX):
                raise InvalidInputError(
                    f"There is no setting {key}",
                    setting=key,
                    note=f"Known are: {', '.join(sorted(self.names()))}",
                )
            if key not in self.passive:
                _warn_of_what_changes_nothing(key, text.strip().lower())
            return replace(self, passive={**self.passive, key: text.strip()})
        as_is = found.metadata["as_is"]
        value = text.strip() if as_is else parsed(key, text.strip(), type(found.default))
        changed: dict[str, Any] = {found.name: value}
        return replace(self, **changed)

    def check_unchanged(self, before: Settings) -> None:
        """Refuse a change of what is fixed while a session is connected.

        Raises:
            InvalidInputError: names the setting, and why.
        """
        for one in _ours():
            if one.metadata["fixed"] and getattr(self, one.name) != getattr(before, one.name):
                raise InvalidInputError(
                    f"Setting {_name(one)} cannot be changed while a session is connected: "
                    f"{one.metadata['fixed']}",
                    setting=_name(one),
                )

    def without(self, name: str) -> Settings:
        """These settings with one put back to its default, as RESET name does."""
        key = name.strip().lower()
        found = _BY_NAME.get(key)
        if found is not None:
            return replace(self, **{found.name: found.default})
        return replace(
            self, passive={other: text for other, text in self.passive.items() if other != key}
        )

    def get(self, name: str) -> str | None:
        """The text of a setting, None where it was never set and is none of ours."""
        key = name.strip().lower()
        found = _BY_NAME.get(key)
        if found is None:
            return self.passive.get(key)
        return self._shown(found)

    def items(self) -> tuple[tuple[str, str], ...]:
        """Name and text of all settings, sorted by name."""
        ours = {_name(one): self._shown(one) for one in _ours()}
        others = {key: "***" if _SECRET.search(key) else t for key, t in self.passive.items()}
        return tuple(sorted({**ours, **others}.items()))

    def _shown(self, one: Any) -> str:
        value = getattr(self, one.name)
        return "***" if value and one.metadata["secret"] else _text(value)

    @staticmethod
    def names() -> tuple[str, ...]:
        """The dotted names of hiveacid's own settings."""
        return tuple(_name(one) for one in _ours())


def _ours() -> tuple[Any, ...]:
    return tuple(one for one in fields(Settings) if "name" in one.metadata)


def _name(one: Any) -> str:
    return str(one.metadata.get("name", one.name))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


_BY_NAME: Final[Mapping[str, Any]] = {
    name: one for one in _ours() for name in (_name(one), *one.metadata["hive"])
}
