"""No two tables on one place where one of them is transactional.

Each would remove, compact or hide what it takes for its own files. Hive lets it happen; here it is
refused, also where one lies below the other, and however the place is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.errors import InvalidInputError
from hiveacid.layout.names import partition_name
from hiveacid.metastore.api import Catalog, Place
from hiveacid.model.tables import AcidMode, Partition, Table
from hiveacid.storage.filesystem import one_name


def check_place(catalog: Catalog, table: Table, *, but: Sequence[str] = ()) -> None:
    """The table's directory is its own; places of tables called as in ``but`` do not matter.

    Raises:
        InvalidInputError: a transactional table has the place, or the table would be one on the
            place of another.
    """
    names = {str(table.name), *but}
    places = [one for one in catalog.places() if str(one.table) not in names]
    _check(table, table.location, places)


def check_partitions(catalog: Catalog, table: Table, added: Sequence[Partition]) -> None:
    """Partitions that are not below their table have a directory of their own, too.

    Raises:
        InvalidInputError: as ``check_place``, or another partition of the table has the place.
    """
    root = one_name(table.location)
    keys = [column.name for column in table.partition_columns]
    places = [one for one in catalog.places() if one.table != table.name]
    values = {one.values for one in added}
    known = [one for one in catalog.list_partitions(table.name) if one.values not in values]
    for one in added:
        mine = one_name(one.location)
        if mine == f"{root}/{partition_name(keys, one.values)}":
            continue
        others = [other for other in (*known, *added) if other is not one]
        own = [Place(table.name, None, other.location, False) for other in others]
        if mine == root or root.startswith(f"{mine}/"):
            own.append(Place(table.name, None, table.location, False))
        _check(table, one.location, [*places, *own])


def _check(table: Table, location: str, places: Sequence[Place]) -> None:
    mine = one_name(location)
    for place in places:
        if not (place.transactional or table.acid_mode is not AcidMode.NONE):
            continue
        other = one_name(place.location)
        if other == mine or other.startswith(f"{mine}/") or mine.startswith(f"{other}/"):
            where = "" if place.partition is None else f", partition {place.partition}"
            raise InvalidInputError(
                f"{location}, for {table.name}, is not free: {place.location} belongs to "
                f"{place.table}{where}",
                table=str(table.name),
                other=str(place.table),
                location=place.location,
                note="Directories are shared, one with or within the other, only where none is "
                "that of a transactional table.",
            )
