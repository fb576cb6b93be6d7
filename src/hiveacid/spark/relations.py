"""Files that Spark reads, as few calls to its JVM as they can be: a relation that is kept for the
next query of the same files, and what a scan chooses of it as text in the query.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEPT_MAX: Final = 32
_FILES_MAX: Final = 1_000
"""A relation of more files is not kept: Spark holds the status of each."""
_KEPT: Final[OrderedDict[object, DataFrame]] = OrderedDict()
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a scan takes of a relation: select expressions, a condition."""

    frame: DataFrame
    columns: Sequence[str]
    where: str

    def over(self, name: str) -> str:
        """The query in brackets, where ``name`` is the relation: one analysis of Spark's in the
        place of three.
        """
        return f"(select {', '.join(self.columns)} from {name} where {self.where})"

    def rows(self) -> DataFrame:
        """The rows as a DataFrame."""
        return self.frame.where(self.where).selectExpr(*self.columns)


def kept(
    spark: SparkSession,
    schema: str,
    files: Sequence[tuple[str, int, int]],
    load: Callable[[], DataFrame],
) -> DataFrame:
    """The relation of files, each with its path, length and time of change, all of which a listing
    of now says: another file of the same name is another relation.
    """
    known_times = all(modified_ns for _, _, modified_ns in files)
    if not known_times or len(files) > _FILES_MAX:
        return load()
    key = (spark, schema, tuple(files))
    with _LOCK:
        if key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
    frame = load()
    with _LOCK:
        _KEPT[key] = frame
        while len(_KEPT) > _KEPT_MAX:
            _KEPT.popitem(last=False)
    return frame
