"""What a table holds and how it is: figures, what keeps files that nobody reads any more, and what
to do about it.

Nothing is decided here: what would be compacted is the initiator's verdict, why replaced files stay
is the cleaner's rule.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hiveacid.client import Client
from hiveacid.compaction.cleaner import is_below
from hiveacid.compaction.cleaning import keeps_all
from hiveacid.compaction.initiator import Examined, Initiator, Verdict
from hiveacid.layout.changes import WrittenFiles
from hiveacid.layout.directories import AcidDirectory, DataFile, is_hidden, parse_directory
from hiveacid.layout.resolve import resolve
from hiveacid.model.compactions import CompactionInfo, CompactionState, CompactionType
from hiveacid.model.history import Commit
from hiveacid.model.readable import HtmlFields, moment
from hiveacid.model.tables import NO_CLEANUP, AcidMode, Table, TableName
from hiveacid.model.transactions import TxnInfo, TxnState, TxnType
from hiveacid.spark.session import quoted
from hiveacid.storage.orc.tails import tail_of
from hiveacid.txn.manager import retained_until_ms, retention_s

SMALL_BYTES: Final = 16 * 1024 * 1024
"""A file of rows that is smaller costs a reader more to open than to read."""
_DELETE_FILES_MAX: Final = 1_000
"""Of more delete files the tails are not read to count what they delete."""
_COMMITS_MAX: Final = 1_000
"""Of so many, the last ones, the files are counted."""
_DONE: Final = (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to be mended: ``risk`` is what it costs as it is, ``evidence`` what was seen,
    ``command`` the statement or command that mends it.
    """

    kind: str
    table: TableName | None
    partition: str | None
    risk: str
    evidence: str
    command: str


@dataclass(frozen=True, slots=True)
class Holder:
    """What keeps replaced files from being removed: a ``reader``, a ``transaction``, a ``tag``, a
    ``consumer``, the ``retention`` or the property ``no_cleanup``; ``mend`` is what ends it.
    """

    kind: str
    what: str
    since_ms: int | None
    until_ms: int | None
    mend: str


@dataclass(frozen=True, slots=True)
class TableDetail(HtmlFields):
    """A table's health; sizes are bytes, times epoch milliseconds, None is what nobody knows.

    ``rows`` are by its statistics, where those are of now. ``size_bytes`` and ``files`` are what a
    reader reads now, ``kept_bytes`` and ``kept_files`` what nobody reads who comes now;
    ``small_files`` are those under 16 MiB that a compaction would join with others.
    ``bucket_skew`` is the largest bucket by their average. ``verdicts`` are the compactions that
    thresholds ask for, ``why_none`` says what is missing where there are none.
    """

    name: TableName
    location: str
    format: str
    partition_columns: tuple[str, ...]
    buckets: int | None
    partitions: int
    rows: int | None
    deleted_rows: int | None
    files: int
    size_bytes: int
    deltas: int
    delete_deltas: int
    small_files: int
    bucket_skew: float | None
    kept_files: int
    kept_bytes: int
    aborted_bytes: int
    last_write_ms: int | None
    last_compaction_ms: int | None
    verdicts: tuple[Verdict, ...] = field(repr=False)
    why_none: str | None
    holders: tuple[Holder, ...]
    findings: tuple[Finding, ...]


def table_detail(client: Client, initiator: Initiator, table: Table) -> TableDetail:
    """Look at all of a table's directories once.

    Raises:
        MetastoreError: the metastore failed.
        StorageError: a directory could not be listed.
        FormatError: a ``_metadata_acid`` that decides is not one.
    """
    queue = client.metastore.show_compactions(table=table.name)
    figures = _Figures(client, table)
    for one in initiator.examine(table, queue):
        figures.add(one)
    rows = None
    if table.acid_mode is not AcidMode.NONE:
        (valid,) = client.metastore.valid_write_ids((table.name,))
        rows = client.own.row_count(table.name, valid)
    uncounted = rows is None and not client.own.is_served_by_hive()  # which counts for itself
    due = tuple(one for one in figures.verdicts if one.decision.type is not None)
    reasons = Counter(one.decision.reason for one in figures.verdicts).most_common(1)
    commonest = reasons[0][0] if reasons else "it has no partitions"
    holders = _holders(client, table, queue) if figures.kept_bytes or figures.kept_files else ()
    finished_ms = [one.committed_ms or one.ended_ms for one in queue if one.state in _DONE]
    return TableDetail(
        name=table.name,
        location=table.location,
        format=table.format.value.lower(),
        partition_columns=table.partition_keys,
        buckets=table.bucket.count if table.bucket is not None else None,
        partitions=len(figures.verdicts) if table.partition_columns else 0,
        rows=rows,
        deleted_rows=figures.deleted_rows(),
        files=figures.files,
        size_bytes=figures.size_bytes,
        deltas=figures.deltas,
        delete_deltas=figures.delete_deltas,
        small_files=figures.small_files,
        bucket_skew=figures.skew(),
        kept_files=figures.kept_files,
        kept_bytes=figures.kept_bytes,
        aborted_bytes=figures.aborted_bytes,
        last_write_ms=figures.written_ms(),
        last_compaction_ms=max((at for at in finished_ms if at is not None), default=None),
        verdicts=due,
        why_none=None if due else commonest,
        holders=holders,
        findings=tuple(_findings(table, figures, due, queue, uncounted=uncounted)),
    )


class _Figures:
    """Counts what lies in a table's directories."""

    def __init__(self, client: Client, table: Table) -> None:
        self._client = client
        self._table = table
        self._txns = client.metastore.valid_txns()
        (self._valid,) = client.metastore.valid_write_ids((table.name,), self._txns)
        self._buckets: Counter[int] = Counter()
        self._delete_files: list[tuple[str, tuple[DataFile, ...]]] = []
        self._delete_file_count = 0
        self.written = WrittenFiles()
        self.verdicts: list[Verdict] = []
        self.files = self.size_bytes = self.small_files = 0
        self.deltas = self.delete_deltas = 0
        self.kept_files = self.kept_bytes = self.aborted_bytes = 0
        self.no_cleanup = 0
        self.written_ns = 0

    def add(self, found: Examined) -> None:
        """Count a partition."""
        self.verdicts.append(found.verdict)
        directory = found.directory
        if self._valid.open:  # a compactor's list ends below them, a reader's does not
            directory = resolve(found.entries, self._valid, self._txns, mode=self._table.acid_mode)
        rows = directory.row_files
        for file in rows:
            self._buckets[file.bucket] += file.size_bytes
        small = [file.bucket for file in rows if file.size_bytes < SMALL_BYTES]
        self.small_files += len(small) - len(set(small))
        deletes = directory.delete_deltas
        files = (*rows, *(file for one in deletes for file in one.files))
        self.files += len(files)
        self.size_bytes += sum(file.size_bytes for file in files)
        self.deltas += len(directory.insert_deltas)
        self.delete_deltas += len(deletes)
        if deletes and self._delete_file_count <= _DELETE_FILES_MAX:
            deleted = tuple(file for one in deletes for file in one.files)
            self._delete_files.append((found.partition.location, deleted))
            self._delete_file_count += len(deleted)
        self.written.add(directory)
        self._note_written(found)
        if directory.obsolete or directory.aborted:
            self._add_kept(found, directory)

    def _note_written(self, found: Examined) -> None:
        """A write's directory has no suffix of a compaction; what lies in none is a write's."""
        for entry in found.entries:
            if entry.modified_ns > self.written_ns and not entry.is_directory:
                first = entry.path.partition("/")[0]
                name = parse_directory(first)
                if not is_hidden(first) if name is None else not name.visibility_txn:
                    self.written_ns = entry.modified_ns

    def written_ms(self) -> int | None:
        """When the last write was, by the files that are there and the commits that are known."""
        recorded = self._client.own.commits(self._table.name, limit=1, latest=True)
        return max([self.written_ns // 1_000_000, *(one.committed_ms for one in recorded)]) or None

    def missing_files(self) -> Iterable[tuple[Commit, int]]:
        """Commits of whose files fewer are there than they wrote, with how many are: of those that
        no compaction or overwrite has replaced in any partition.
        """
        if self._table.acid_mode is AcidMode.NONE:
            return
        name, own = self._table.name, self._client.own
        commits = {
            int(one.write_id): one
            for one in own.commits(name, above=self.written.base, limit=_COMMITS_MAX, latest=True)
            if self._valid.is_valid(one.write_id)
        }
        for one, there in self.written.missing(one.facts for one in commits.values()):
            write_id = int(one.write_id)
            if not own.version(name, write_id=write_id).dropped:  # a partition took files along
                yield commits[write_id], there

    def _add_kept(self, found: Examined, directory: AcidDirectory) -> None:
        kept, aborted = frozenset(directory.obsolete), frozenset(directory.aborted)
        for entry in found.entries:
            if entry.is_directory:
                continue
            if is_below(entry.path, aborted):
                self.aborted_bytes += entry.size_bytes
            elif is_below(entry.path, kept):
                self.kept_files += 1
                self.kept_bytes += entry.size_bytes
        self.no_cleanup += keeps_all(self._table, found.partition)

    def deleted_rows(self) -> int | None:
        """How many delete events there are, by the files' tails."""
        if self._delete_file_count > _DELETE_FILES_MAX:
            return None
        total = 0
        for location, deleted in self._delete_files:
            fs, root = self._client.files.at(location)
            total += sum(tail_of(fs, root, file).rows for file in deleted)
        return total

    def skew(self) -> float | None:
        """The largest bucket by the average."""
        bucket = self._table.bucket
        count = len(self._buckets) if bucket is None else bucket.count
        total = self._buckets.total()
        if count < 2 or not total:
            return None
        return round(max(self._buckets.values()) * count / total, 2)


def _holders(client: Client, table: Table, queue: Sequence[CompactionInfo]) -> tuple[Holder, ...]:
    """What keeps what was replaced, by the compactions that wait for their cleaning."""
    waiting = [one for one in queue if one.state is CompactionState.READY_FOR_CLEANING]
    found: list[Holder] = []
    if keeps_all(table, None):
        mend = f"ALTER TABLE {table.name} UNSET TBLPROPERTIES ('{NO_CLEANUP}')"
        found.append(Holder(NO_CLEANUP, f"the property {NO_CLEANUP}", None, None, mend))
    kept_s = retention_s(table, client.settings)
    until = [retained_until_ms(one, kept_s) for one in waiting]
    longest = max((one for one in until if one is not None), default=0)
    if longest > client.clock.now_ms():
        mend = f"PURGE TABLE {table.name}"
        found.append(Holder("retention", "the table's retention", None, longest, mend))
    found += _pinning(client, table)
    last = max((one.next_txn or 0 for one in waiting), default=0)
    opened = (one for one in client.metastore.show_txns() if one.state is TxnState.OPEN)
    found += (_of_txn(one) for one in opened if one.id <= last)
    return tuple(found)


def _pinning(client: Client, table: Table) -> Iterable[Holder]:
    """Tags and consumers of another version than that of now."""
    pins = client.own.pins(table.name, in_force=True)
    if not pins:
        return
    (now,) = client.metastore.valid_write_ids((table.name,))
    for one in pins:
        if not one.shows(now):
            mend = f"DROP {one.kind.name} {quoted(one.name)} ON {table.name}"
            yield Holder(
                one.kind.value,
                f"{one} of version {one.write_id}",
                one.made_ms or None,
                one.expires_ms,
                mend,
            )


def _of_txn(txn: TxnInfo) -> Holder:
    kind = "reader" if txn.type is TxnType.READ_ONLY else "transaction"
    what = f"transaction {txn.id} of {txn.user}@{txn.host}"
    return Holder(kind, what, txn.started_ms, None, f"ABORT TRANSACTIONS {txn.id}")


def _findings(
    table: Table,
    figures: _Figures,
    asked: Sequence[Verdict],
    queue: Iterable[CompactionInfo],
    *,
    uncounted: bool,
) -> Iterable[Finding]:
    name = table.name
    if asked:
        yield _due(table, asked)
    for one in _latest(queue):
        if one.state is CompactionState.FAILED:
            risk = "it grows slower and larger with each write"
            evidence = f"compaction {one.id} failed: {one.error}"
            yield Finding("failed compaction", name, one.partition, risk, evidence, _compact(one))
    if table.acid_mode is AcidMode.FULL and uncounted and figures.files:
        risk = "count(*) reads files"
        evidence = "the number of rows as of now is not known"
        command = f"ANALYZE TABLE {name} COMPUTE STATISTICS"
        yield Finding("statistics", name, None, risk, evidence, command)
    for commit, there in figures.missing_files():
        risk = "rows are missing, and no reader of files can tell"
        wrote = f"version {commit.write_id}, of {moment(commit.committed_ms)},"
        evidence = f"{there} of {commit.facts.files} files of {wrote} are there"
        command = f"bring the files back, or RESTORE TABLE {name} TO VERSION AS OF another one"
        yield Finding("missing files", name, None, risk, evidence, command)
    if figures.aborted_bytes:
        evidence = f"{figures.aborted_bytes} bytes left by aborted transactions"
        command = f"hiveacid clean {name}"
        yield Finding("aborted files", name, None, "space that nobody reads", evidence, command)


def _due(table: Table, asked: Sequence[Verdict]) -> Finding:
    first, others = asked[0], len(asked) - 1
    where = "" if first.partition is None else f" in {first.partition}"
    also = f", and in {others} more" if others else ""
    return Finding(
        "compaction",
        table.name,
        None if others else first.partition,
        "each read puts deltas together",
        f"{first.decision.reason}{where}{also}",
        f"ALTER TABLE {table.name} COMPACT 'major'" if others else _compact(first),
    )


def _latest(queue: Iterable[CompactionInfo]) -> Iterable[CompactionInfo]:
    """The last compaction of each partition."""
    found: dict[str | None, CompactionInfo] = {}
    for one in sorted(queue, key=lambda entry: entry.id):
        found[one.partition] = one
    return found.values()


def _compact(of: Verdict | CompactionInfo) -> str:
    kind = of.decision.type if isinstance(of, Verdict) else of.type
    option = "" if kind is not CompactionType.MINOR else " --minor"
    partition = "" if of.partition is None else f" --partition {shlex.quote(of.partition)}"
    return f"hiveacid compact {of.table}{option}{partition} --wait"
