"""Apache Hive's ACID transactional tables for PySpark: no jar, no Hive needed.

    import hiveacid
    acid = hiveacid.connect(spark, "sqlite:///metastore.db", warehouse="/data/warehouse")

The public names are fetched when they are first asked for: importing the package costs nothing and
needs no PySpark. Errors are in ``hiveacid.errors``. The map of the house is docs/ARCHITECTURE.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from hiveacid.version import VERSION as __version__

if TYPE_CHECKING:
    from hiveacid.connectors.enable import disable, enable
    from hiveacid.connectors.micro_batches import foreach_batch
    from hiveacid.errors import AcidError
    from hiveacid.reading.arrow_dataset import dataset
    from hiveacid.reading.changes import read_changes
    from hiveacid.reading.rows import read_arrow
    from hiveacid.session import Session, connect
    from hiveacid.table import AcidTable
    from hiveacid.writing import delete_arrow, merge_arrow, write_arrow

_HOMES = {
    "connect": "hiveacid.session",
    "Session": "hiveacid.session",
    "AcidTable": "hiveacid.table",
    "read_arrow": "hiveacid.reading.rows",
    "read_changes": "hiveacid.reading.changes",
    "dataset": "hiveacid.reading.arrow_dataset",
    "write_arrow": "hiveacid.writing",
    "delete_arrow": "hiveacid.writing",
    "merge_arrow": "hiveacid.writing",
    "foreach_batch": "hiveacid.connectors.micro_batches",
    "enable": "hiveacid.connectors.enable",
    "disable": "hiveacid.connectors.enable",
    "AcidError": "hiveacid.errors",
}
"""Public name -> the module it lives in."""

__all__ = [
    "AcidError",
    "AcidTable",
    "Session",
    "__version__",
    "connect",
    "dataset",
    "delete_arrow",
    "disable",
    "enable",
    "foreach_batch",
    "merge_arrow",
    "read_arrow",
    "read_changes",
    "write_arrow",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value: object = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'hiveacid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
