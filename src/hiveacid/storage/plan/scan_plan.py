"""What to read of a snapshot: the partitions, files and stripes that a predicate leaves over.

Made by storage's ``planning``, read by every reader. A plan leaves out only what cannot hold a row
that meets the predicate; readers still apply the condition itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hiveacid.layout.directories import DataFile, Snapshot, SnapshotPart
from hiveacid.model.predicates import ANYTHING, Predicate
from hiveacid.storage.filesystem import Files


@dataclass(frozen=True, slots=True)
class Selection:
    """What to read of one partition directory.

    ``files`` maps the path of each file with rows that is to be read to the numbers of its
    stripes, None for all of them. ``predicate`` is what is left to decide by the rows: conditions
    on partition columns are settled. ``delete_files`` are the paths of the delete files that may
    matter; None for all of them.
    """

    files: Mapping[str, tuple[int, ...] | None]
    predicate: Predicate = ANYTHING
    delete_files: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """Chosen, and of how many: files, stripes in the files whose tails were read, bytes."""

    files: int = 0
    files_of: int = 0
    stripes: int = 0
    stripes_of: int = 0
    bytes: int = 0
    bytes_of: int = 0
    rows: int = 0
    """Rows of the chosen stripes, where the tails were read."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.files + other.files,
            self.files_of + other.files_of,
            self.stripes + other.stripes,
            self.stripes_of + other.stripes_of,
            self.bytes + other.bytes,
            self.bytes_of + other.bytes_of,
            self.rows + other.rows,
        )


@dataclass(frozen=True, slots=True)
class PartPlan:
    """One partition: all of its directory, and what to read of it.

    ``delete_files`` are those that may delete a row of the chosen files.
    """

    part: SnapshotPart
    selection: Selection
    delete_files: tuple[DataFile, ...]
    amount: Amount

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files to read, in the directory's order."""
        chosen = self.selection.files
        return tuple(file for file in self.part.directory.row_files if file.path in chosen)

    def only(self, files: Iterable[DataFile]) -> PartPlan:
        """The same with some of its files."""
        chosen = {file.path: self.selection.files[file.path] for file in files}
        return replace(self, selection=replace(self.selection, files=chosen))

    @property
    def reduced(self) -> SnapshotPart:
        """The partition as if it held nothing but the files chosen: for readers that need not
        count the rows of the others.
        """
        chosen = self.selection.files
        deleting = {file.path for file in self.delete_files}
        directory = self.part.directory

        def kept(files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
            return tuple(file for file in files if file.path in chosen or file.path in deleting)

        base = directory.base
        deltas = (replace(delta, files=kept(delta.files)) for delta in directory.deltas)
        return SnapshotPart(
            self.part.partition,
            replace(
                directory,
                base=None if base is None else replace(base, files=kept(base.files)),
                originals=kept(directory.originals),
                deltas=tuple(delta for delta in deltas if delta.files),
            ),
        )


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What to read of a snapshot.

    ``parts`` holds the partitions with something to read. ``partitions_of`` counts those that the
    table has. ``columns`` are the data and partition columns wanted, in the table's order.
    """

    files: Files
    snapshot: Snapshot
    columns: tuple[str, ...]
    predicate: Predicate
    parts: tuple[PartPlan, ...]
    partitions_of: int

    @property
    def amount(self) -> Amount:
        """Over all partitions read."""
        return sum((part.amount for part in self.parts), Amount())

    def summary(self) -> str:
        """What EXPLAIN says of it."""
        amount = self.amount
        texts = [
            f"partitions {len(self.parts)} of {self.partitions_of}",
            f"of those files {amount.files} of {amount.files_of}",
        ]
        if amount.stripes_of:
            texts.append(f"stripes {amount.stripes} of {amount.stripes_of}")
        texts.append(f"bytes {amount.bytes} of {amount.bytes_of}")
        deletes = sum(len(part.delete_files) for part in self.parts)
        deletes_of = sum(
            len(delta.files) for part in self.parts for delta in part.part.directory.delete_deltas
        )
        texts.append(f"delete files {deletes} of {deletes_of}")
        return ", ".join(texts)
