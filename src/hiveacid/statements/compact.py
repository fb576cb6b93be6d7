"""ALTER TABLE ... COMPACT: a request for the compactor."""

from __future__ import annotations

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.metastore.api import Catalog
from hiveacid.model.tables import AcidMode
from hiveacid.statements.values_ddl import Compact


def request_compaction(catalog: Catalog, value: Compact) -> None:
    """Check the request; there is no compactor yet.

    Raises:
        InvalidInputError: 10286, 10282 as Hive.
        UnsupportedError: always, where it is right.
    """
    table = catalog.get_table(value.name)
    if table.acid_mode is AcidMode.NONE:
        raise InvalidInputError(
            f"Compaction is not allowed on non-ACID table {table.name}",
            code=10286,
            table=str(table.name),
        )
    if value.kind not in ("major", "minor", "rebalance"):
        raise InvalidInputError(
            "Invalid compaction type, supported values are 'major' and 'minor'", code=10282
        )
    raise UnsupportedError("ALTER TABLE ... COMPACT is not supported yet")
