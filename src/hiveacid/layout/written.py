"""Whether all is there that commits wrote: files by write id, as far as directories tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hiveacid.layout.directories import AcidDirectory
from hiveacid.model.history import CommitFacts


class WrittenFiles:
    """Counts the files of what is read of a table's partitions, which are added one by one."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._together: set[tuple[int, int]] = set()
        self.base = 0
        """Up to this write id a base has the rows of some partition, and files tell nothing."""

    def add(self, directory: AcidDirectory) -> None:
        """What is read of a partition."""
        if directory.base is not None:
            self.base = max(self.base, int(directory.base.name.write_id))
        for delta in directory.deltas:
            name = delta.name
            if name.min_write_id == name.max_write_id and not name.visibility_txn:
                self._counts[name.min_write_id] += len(delta.files)
            else:
                self._together.add((name.min_write_id, name.max_write_id))

    def missing(self, wrote: Iterable[CommitFacts]) -> Iterator[tuple[CommitFacts, int]]:
        """Of what commits wrote that of which fewer files are there, with how many are. Not what a
        compaction has put together in any partition, nor where rows were not counted: LOAD takes
        files as they are, empty ones, too.
        """
        for one in wrote:
            write_id = int(one.write_id)
            there = self._counts[write_id]
            is_told = write_id > self.base and not any(
                low <= write_id <= high for low, high in self._together
            )
            if is_told and one.inserted is not None and there < one.files:
                yield one, there
