"""What a table's handle offers about its files: how it is, what would be compacted, cleaning.

``doctor`` tells the health of a whole metastore: what is wrong or will be, with risk, evidence and
command. Of tables it is what ``detail`` finds, and what a cleaner would sweep; of the metastore its
transactions, locks and its own safety. Mending is what the compactor and the housekeeping do by
themselves where they run: nothing is decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from hiveacid.client import Client
from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.cleaning_report import CleanedPath
from hiveacid.compaction.compactor import Compactor, run_once
from hiveacid.compaction.detail import Finding, TableDetail, table_detail
from hiveacid.compaction.initiator import Verdict
from hiveacid.compaction.purge import PurgeReport
from hiveacid.errors import AcidError, tolerated
from hiveacid.layout.directories import is_hidden
from hiveacid.model.history import Commit, UnrecordedCommit
from hiveacid.model.readable import duration, html_table, moment
from hiveacid.model.tables import AcidMode, Table, TableName
from hiveacid.model.transactions import TxnInfo, TxnState
from hiveacid.statements.arguments import checked
from hiveacid.statements.attached_files import unknown_directories
from hiveacid.statements.compact import Clean, WhyCompact
from hiveacid.statements.context import OpenSession
from hiveacid.statements.create_as import ASIDE
from hiveacid.statements.history import history
from hiveacid.statements.values import DescribeDetail, Expression, Listing, Purge
from hiveacid.storage.locations import one_name
from hiveacid.txn.view import TEMPORARY


@checked
class TableHealth:
    """The part of ``AcidTable`` about its files."""

    __slots__ = ()
    session: OpenSession
    name: TableName

    def _repr_html_(self) -> str:
        columns = (
            (one.name, one.type, one.comment)
            for one in self.session.table_definition(self.name).all_columns
        )
        return html_table((str(self.name), "type", "comment"), columns)

    def detail(self) -> TableDetail:
        """DESCRIBE DETAIL: what the table holds, what keeps files that nobody reads any more, and
        what to do about it.

        Raises:
            NotFoundError: the table was dropped.
            InvalidInputError: it is a view.
        """
        return cast("TableDetail", self.session.execute(DescribeDetail(self.name)))

    def history(self, *, limit: int | None = None) -> tuple[Commit | UnrecordedCommit, ...]:
        """DESCRIBE HISTORY: the commits that wrote to the table, the last first; of those of Hive's
        own what Hive's tables tell.

        Raises:
            NotFoundError: the table was dropped.
        """
        return history(self.session.client.metastore, self.name, limit)

    def purge(
        self,
        where: Expression | None = None,
        *,
        wait: float | None = None,
        drop_pins: bool = False,
    ) -> PurgeReport:
        """PURGE TABLE: delete the rows that meet ``where``, erase them and all that is deleted
        already in the partitions they may be in, and prove it. Without ``where`` no row is deleted.

        Files that readers or open writers may need are waited for, ``wait`` seconds; without it
        nothing is done while there are any, or while tags or consumers of the table are in force;
        ``drop_pins`` drops these.

        Raises:
            LockError: they are needed; the context names by whom.
            InvalidInputError: the table is not transactional, or cannot be compacted.
            SparkNeededError: the condition needs Spark.
        """
        value = Purge(self.name, where, None, wait, drop_pins)
        return cast("PurgeReport", self.session.execute(value))

    def clean(
        self, *, dry_run: bool = False, retain_hours: float | None = None
    ) -> tuple[CleanedPath, ...]:
        """VACUUM: remove what no reader can need any more; ``dry_run`` tells what would go, and why
        the rest stays. What was replaced within ``retain_hours`` stays, too.

        Raises:
            InvalidInputError: ``retain_hours`` is shorter than the table's retention, or below 0.
        """
        value = Clean.of(self.name, dry_run, retain_hours)
        return cast("tuple[CleanedPath, ...]", self.session.execute(value))

    def why_compact(self) -> tuple[Verdict, ...]:
        """For each partition the compaction that its thresholds ask for, or what is missing."""
        return cast("tuple[Verdict, ...]", self.session.execute(WhyCompact(self.name)))


@checked
class HealthMethods:
    """The part of a session about the health of tables."""

    def doctor(self: OpenSession, *, fix: bool = False) -> Examination:
        """Looks at the metastore and all of its tables for what is wrong or will be; with ``fix``
        it times out what is dead, compacts what is due and removes what nobody can need.

        Raises:
            MetastoreError: the metastore failed.
        """
        return examine(self.client, self.compacting.compactor(), fix=fix)

    def purged(self: OpenSession, statement: Purge, *, spark: Any) -> PurgeReport:
        """Carries out PURGE, its DELETE committed at once also where ``autocommit`` is off."""
        from hiveacid.purging import purge

        return purge(cast("Any", self).over(spark), statement, has_spark=spark is not None)


def detail_listing(found: TableDetail) -> Listing:
    """DESCRIBE DETAIL as one row; columns that Delta has are called as there."""
    cells: dict[str, object] = {
        "format": found.format,
        "name": found.name,
        "location": found.location,
        "lastModified": moment(found.last_write_ms),
        "partitionColumns": ",".join(found.partition_columns),
        "numFiles": found.files,
        "sizeInBytes": found.size_bytes,
        "numPartitions": found.partitions,
        "numBuckets": found.buckets,
        "numRows": found.rows,
        "numDeletedRows": found.deleted_rows,
        "numDeltas": found.deltas,
        "numDeleteDeltas": found.delete_deltas,
        "numSmallFiles": found.small_files,
        "bucketSkew": found.bucket_skew,
        "numKeptFiles": found.kept_files,
        "keptBytes": found.kept_bytes,
        "abortedBytes": found.aborted_bytes,
        "lastCompaction": moment(found.last_compaction_ms),
        "compaction": compaction_due(found),
        "keptBy": "; ".join(f"{one.what} ({one.mend})" for one in found.holders),
        "findings": "; ".join(f"{one.evidence} ({one.command})" for one in found.findings),
    }
    row = tuple(None if value is None else str(value) for value in cells.values())
    return Listing(tuple(cells), (row,))


def clean_listing(found: tuple[CleanedPath, ...]) -> Listing:
    """VACUUM: the paths that are gone, or would go, and those that stay, each with the reason."""
    rows = tuple((one.path, one.fate.value, one.reason) for one in found)
    return Listing(("path", "fate", "reason"), rows)


def compaction_due(found: TableDetail) -> str | None:
    """What thresholds ask for, or why they ask for nothing."""
    if not found.verdicts:
        return None if found.why_none is None else f"none: {found.why_none}"
    first = found.verdicts[0]
    kind = "" if first.decision.type is None else first.decision.type.name.lower()
    where = "" if first.partition is None else f"{first.partition}: "
    more = f"; {len(found.verdicts) - 1} more" if len(found.verdicts) > 1 else ""
    return f"{where}{kind}: {first.decision.reason}{more}"


_LOG: Final = logging.getLogger(__name__)
LONG_OPEN_MS: Final = 3_600_000
"""After so long an open transaction is named, though its heartbeat comes."""
OLD_TEMPORARY_MS: Final = 86_400_000
"""After so long a temporary table is named: few sessions last longer."""
_COMPACTED: Final = frozenset({"compaction", "failed compaction", "aborted files", "orphans"})
_TIMED_OUT: Final = frozenset({"lost heartbeat", "stale lock"})
MENDED: Final = _COMPACTED | _TIMED_OUT
"""The kinds of findings that ``fix`` mends."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What is wrong, what was mended, and advice: what is nothing wrong, or may be somebody's."""

    findings: tuple[Finding, ...]
    mended: tuple[Finding, ...] = ()
    advice: tuple[Finding, ...] = ()

    def _repr_html_(self) -> str:
        rows = (
            (one.kind, one.table, one.partition, one.evidence, one.risk, one.command)
            for one in self.findings
        )
        return html_table(("kind", "table", "partition", "evidence", "risk", "command"), rows)


def examine(client: Client, compactor: Compactor, *, fix: bool) -> Examination:
    """Look at the metastore and all of its tables; with ``fix`` mend what needs no decision.

    Raises:
        MetastoreError: the metastore failed.
    """
    advice = [_backup(client)]
    with tolerated(_LOG, "Directories without a table are not looked for: %s"):
        advice += _forgotten(client)
    found = tuple(_findings(client, compactor))
    kinds = {one.kind for one in found}
    if not fix or not kinds & MENDED:
        return Examination(found, (), tuple(advice))
    if kinds & _COMPACTED:
        run_once(compactor, pool=None, clock=client.clock)
        with tolerated(_LOG, "Not all is cleaned: %s"):  # what is left is told below
            compactor.clean_tables(None, dry_run=False)
    else:
        compactor.housekeep(always=True)
    left = tuple(_findings(client, compactor))
    again = {(one.kind, one.table, one.partition, one.evidence) for one in left}
    mended = (
        one for one in found if (one.kind, one.table, one.partition, one.evidence) not in again
    )
    return Examination(left, tuple(mended), tuple(advice))


def _findings(client: Client, compactor: Compactor) -> Iterator[Finding]:
    yield from _transactions(client)
    yield from _locks(client)
    for table in Cleaner(client).all_tables():
        try:
            yield from _of_table(client, compactor, table)
            yield from map(_unknown, unknown_directories(client.metastore, client.files, table))
        except AcidError as error:  # noqa: PERF203 - one table says nothing of others
            yield Finding(
                "unreadable",
                table.name,
                None,
                "nobody can read it",
                f"{type(error).__name__}: {error}",
                f"hiveacid ls {table.name}",
            )


def _forgotten(client: Client) -> Iterator[Finding]:
    """Directories beside those of tables: what a DROP left whose process was killed."""
    names = [client.metastore.get_database(one) for one in client.metastore.list_databases()]
    places = [(database, one) for database in names for one in database.locations]
    locations = [one.location for one in client.own.places()] + [one for _, one in places]
    known = [one_name(location) for location in locations]
    for database, place in places:
        fs, root = client.files.at(place)
        for info in fs.list_directory(root):
            path = fs.location_of(info.path)
            mine = f"{one_name(path)}/"
            if not info.is_directory or is_hidden(info.name):
                continue
            if not any(f"{one}/".startswith(mine) for one in known):
                yield Finding(
                    "no table",
                    None,
                    None,
                    f"a new table {database.name}.{info.name} is refused",
                    f"{path} is no table's, as where the process was killed that dropped it",
                    "remove it, or take it over (docs/takeover.md)",
                )


def _unknown(line: str) -> Finding:
    return Finding(
        "unknown directory",
        None,
        None,
        "its rows are not seen, and will be when the metastore gives that number out",
        line,
        "restore the metastore that made it, or move the directory away",
    )


def _of_table(client: Client, compactor: Compactor, table: Table) -> Iterable[Finding]:
    age_ms = client.clock.now_ms() - table.created_at_ms
    name = table.name.table
    if (TEMPORARY.fullmatch(name) or ASIDE.fullmatch(name)) and age_ms > OLD_TEMPORARY_MS:
        yield Finding(
            "temporary table",
            table.name,
            None,
            "nobody drops it where the process that made it was killed",
            f"made by {table.owner} {duration(age_ms)} ago",
            f"hiveacid sql -e 'DROP TABLE {table.name}'",
        )
    if table.acid_mode is not AcidMode.NONE:
        fs, root = client.files.at(table.location)
        if not fs.is_object_store and not fs.is_directory(root):
            yield Finding(
                "no directory",
                table.name,
                None,
                "it reads as empty",
                f"{table.location} is not there, as where another metastore had it, too,"
                " and dropped it",
                f"bring the directory back, or hiveacid sql -e 'DROP TABLE {table.name}'",
            )
        yield from table_detail(client, compactor.initiator, table).findings
    orphans = Cleaner(client, dry=True).sweep((table,))
    if orphans:
        yield Finding(
            "orphans",
            table.name,
            None,
            "space that nobody reads",
            f"{len(orphans)} directories of writers that were killed: {orphans[0]}",
            f"hiveacid clean {table.name}",
        )


def _transactions(client: Client) -> Iterator[Finding]:
    now_ms = client.clock.now_ms()
    lost_ms = int(client.settings.txn_timeout_s * 1000)
    for one in client.metastore.show_txns():
        if one.state is not TxnState.OPEN:
            continue
        silent_ms = now_ms - one.last_heartbeat_ms
        if silent_ms > lost_ms:
            evidence = f"{_who(one)} has sent no heartbeat for {duration(silent_ms)}"
            yield _held("lost heartbeat", one, evidence)
        elif now_ms - one.started_ms > LONG_OPEN_MS:
            evidence = f"{_who(one)} is open for {duration(now_ms - one.started_ms)}"
            yield _held("long transaction", one, evidence)


def _held(kind: str, txn: TxnInfo, evidence: str) -> Finding:
    risk = "no replaced file of any table goes while it is open"
    return Finding(kind, None, None, risk, evidence, f"hiveacid abort {txn.id}")


def _who(txn: TxnInfo) -> str:
    return f"transaction {txn.id} of {txn.user}@{txn.host}, begun {moment(txn.started_ms)} UTC"


def _locks(client: Client) -> Iterator[Finding]:
    """Those of LOCK TABLE whose client is gone; others end with their transaction."""
    lost_ms = client.clock.now_ms() - int(client.settings.txn_timeout_s * 1000)
    seen: dict[int, Any] = {}
    for one in client.metastore.show_locks():
        if not one.txn_id and (one.last_heartbeat_ms or 0) < lost_ms:
            seen.setdefault(one.lock_id, one)
    for lock, one in seen.items():
        yield Finding(
            "stale lock",
            None,
            None,
            "others wait for it",
            f"lock {lock} of {one.user}@{one.host} on {one.database}.{one.table or '*'} has sent "
            f"no heartbeat since {moment(one.last_heartbeat_ms)} UTC",
            f"hiveacid abort --lock {lock}",
        )


def _backup(client: Client) -> Finding:
    url = client.metastore.url
    path = url.partition("///")[2]
    is_file = url.startswith("sqlite")
    of_libpq = "postgresql" + url[url.index("://") :]  # without the driver
    return Finding(
        "backup",
        None,
        None,
        "without the metastore nobody knows which rows of the files count",
        f"{url} is the only place that knows",
        f"sqlite3 {path} \".backup 'COPY'\"" if is_file else f"pg_dump --format=custom {of_libpq}",
    )
