"""What an entry of the queue is about, as the catalog has it now; and may its files be read."""

from __future__ import annotations

from collections.abc import Iterable

from hiveacid.errors import FormatError, NotFoundError
from hiveacid.layout.events import VERSION_TEXT
from hiveacid.layout.names import VERSION_FILE, parse_partition_name
from hiveacid.layout.resolve import Entry
from hiveacid.layout.snapshot import AcidDirectory
from hiveacid.metastore.api import Catalog
from hiveacid.model.compactions import CompactionInfo
from hiveacid.model.tables import Partition, Table
from hiveacid.storage.filesystem import FileSystem

_VERSIONS = frozenset({"0", "1", VERSION_TEXT})


def find_table(catalog: Catalog, entry: CompactionInfo) -> Table | None:
    """The entry's table, None where it is gone."""
    try:
        return catalog.get_table(entry.table)
    except NotFoundError:
        return None


def find_partition(catalog: Catalog, entry: CompactionInfo, table: Table) -> Partition | None:
    """The entry's partition, which stands for the whole of a table without; None where an entry
    about a partitioned table names none.

    Raises:
        NotFoundError: it is gone.
    """
    if not table.partition_columns:
        return Partition((), table.location)
    if entry.partition is None:
        return None
    parsed = parse_partition_name(entry.partition) or ()
    return catalog.get_partition(entry.table, tuple(value for _, value in parsed))


def check_versions(
    fs: FileSystem, root: str, directory: AcidDirectory, entries: Iterable[Entry]
) -> None:
    """Refuse to rewrite what a later Hive may have written in another way.

    Raises:
        FormatError: an ``_orc_acid_version`` says a version that is not known; names it.
        StorageError: it could not be read.
    """
    chosen = {delta.path for delta in directory.deltas}
    if directory.base is not None:
        chosen.add(directory.base.path)
    for entry in entries:
        parent, _, name = entry.path.rpartition("/")
        if name != VERSION_FILE or parent not in chosen:
            continue
        path = f"{root.rstrip('/')}/{entry.path}"
        text = fs.read_bytes(path).decode("utf-8", "replace").strip()
        if text not in _VERSIONS:
            raise FormatError(
                f"{path} says version {text[:20]!r}, known are versions up to {VERSION_TEXT}",
                path=path,
                expected=VERSION_TEXT,
                found=text[:200],
            )
