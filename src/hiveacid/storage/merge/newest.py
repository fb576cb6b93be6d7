"""Which events of one bucket count where deltas hold updates and deletes (Hive before 3).

All events of a row share its identity, and the newest valid one decides: a delete takes the row
away, an insert or update is the row (format.md 4.7). Needs five numbers for each event of the
bucket in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hiveacid.layout.events import Operation

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FileEvents:
    """The events of one file, in its order.

    ``identity`` is (originalTransaction, bucket, rowId); ``visible`` marks those of valid write
    ids, None stands for all; ``statement`` is the statement id of the file's directory, or -1.
    """

    identity: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int64]]
    current_write_id: npt.NDArray[np.int64]
    operation: npt.NDArray[np.int32]
    statement: int
    visible: Bools | None


def newest_rows(files: Sequence[FileEvents]) -> list[Bools]:
    """For each file, which of its events are rows that count."""
    counts = [len(file.operation) for file in files]
    keys = [np.concatenate([file.identity[i] for file in files]) for i in range(3)]
    current = np.concatenate([file.current_write_id for file in files])
    statement = np.repeat([file.statement for file in files], counts)
    visible = np.concatenate(
        [
            np.ones(n, bool) if f.visible is None else f.visible
            for f, n in zip(files, counts, strict=True)
        ]
    )
    order = np.lexsort((-statement, -current, ~visible, keys[2], keys[1], keys[0]))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    operation = np.concatenate([file.operation for file in files])
    keep = np.zeros(len(order), dtype=bool)
    keep[order[first]] = True
    keep &= visible & (operation != Operation.DELETE)
    return np.split(keep, np.cumsum(counts)[:-1])
