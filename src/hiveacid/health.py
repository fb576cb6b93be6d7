"""What a table's handle offers about its files: how it is, what would be compacted, cleaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hiveacid.model.history import Commit, UnrecordedCommit
from hiveacid.model.readable import html_table, moment
from hiveacid.model.tables import TableName
from hiveacid.statements.arguments import checked
from hiveacid.statements.compact import Clean, WhyCompact
from hiveacid.statements.health import DescribeDetail, Purge
from hiveacid.statements.history import history
from hiveacid.statements.values import Expression, Listing

if TYPE_CHECKING:
    from hiveacid.compaction.cleaning_report import CleanedPath
    from hiveacid.compaction.detail import TableDetail
    from hiveacid.compaction.initiator import Verdict
    from hiveacid.compaction.purge import PurgeReport
    from hiveacid.doctor import Examination
    from hiveacid.statements.context import OpenSession


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
        *,
        where: Expression | None = None,
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
            InvalidInputError: ``retain_hours`` is shorter than the table's retention.
        """
        value = Clean.of(self.name, dry_run, retain_hours)
        return cast("tuple[CleanedPath, ...]", self.session.execute(value))

    def why_compact(self) -> tuple[Verdict, ...]:
        """For each partition the compaction that its thresholds ask for, or what is missing."""
        return cast("tuple[Verdict, ...]", self.session.execute(WhyCompact(self.name)))


@checked
class HealthMethods:
    """The part of a session about the health of tables."""

    def doctor(self, *, fix: bool = False) -> Examination:
        """Looks at the metastore and all of its tables for what is wrong or will be; with ``fix``
        it times out what is dead, compacts what is due and removes what nobody can need.

        Raises:
            MetastoreError: the metastore failed.
        """
        from hiveacid.doctor import examine

        session = cast("OpenSession", self)
        return examine(session.client, session.compacting.compactor(), fix=fix)

    def purged(self, statement: Purge, *, has_spark: bool) -> PurgeReport:
        """Carries out PURGE."""
        from hiveacid.purging import purge

        return purge(cast("OpenSession", self), statement, has_spark=has_spark)


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
