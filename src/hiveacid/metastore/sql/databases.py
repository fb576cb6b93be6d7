"""The catalog's databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import bindparam, delete, select, update

from hiveacid.errors import AlreadyExistsError, InvalidInputError
from hiveacid.metastore.api import Catalog
from hiveacid.metastore.sql.beside_hive import delete_dependents
from hiveacid.metastore.sql.catalog_schema import (
    CTLGS,
    DATABASE_PARAMS,
    DBS,
    TABLE_PARAMS,
    TBLS,
)
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.objects import (
    CATALOG,
    database_id,
    find_database,
    take_ids,
)
from hiveacid.metastore.sql.tables import delete_table
from hiveacid.model import tables as model
from hiveacid.model.tables import TableName

_D = DBS.c
_DP = DATABASE_PARAMS.c
_DATABASE_NAMES: Final = select(_D.NAME).where(_D.CTLG_NAME == CATALOG).order_by(_D.NAME)
_GET_DATABASE: Final = (
    select(_D.DB_ID, _D.DB_LOCATION_URI, _D.DESC, _D.DB_MANAGED_LOCATION_URI, CTLGS.c.LOCATION_URI)
    .join_from(DBS, CTLGS, CTLGS.c.NAME == _D.CTLG_NAME, isouter=True)
    .where(_D.NAME == bindparam("name"), _D.CTLG_NAME == CATALOG)
)
_DATABASE_HELD: Final = _GET_DATABASE.with_for_update(of=DBS)
_DATABASE_PARAMS: Final = select(_DP.PARAM_KEY, _DP.PARAM_VALUE).where(_DP.DB_ID == bindparam("db"))
_UPDATE_DATABASE: Final = (
    update(DBS)
    .where(_D.DB_ID == bindparam("db"))
    .values(DB_LOCATION_URI=bindparam("location"), DESC=bindparam("comment"))
)
_DELETE_DATABASE: Final = delete(DBS).where(_D.DB_ID == bindparam("db"))
_DELETE_DATABASE_PARAMS: Final = delete(DATABASE_PARAMS).where(_DP.DB_ID == bindparam("db"))
_TABLES_IN_DATABASE: Final = (
    select(TBLS.c.TBL_NAME, TBLS.c.TBL_TYPE)
    .where(TBLS.c.DB_ID == bindparam("db"))
    .order_by(TBLS.c.TBL_NAME)
)
_HAVING: Final = select(TBLS.c.TBL_NAME).where(
    TBLS.c.DB_ID == bindparam("db"),
    TABLE_PARAMS.c.TBL_ID == TBLS.c.TBL_ID,
    TABLE_PARAMS.c.PARAM_KEY == bindparam("key"),
)

_NO_LOCATION: Final = "TBD"
"""That of the catalog, until a service of Hive has begun on a schema that was upgraded."""
_DEFAULT: Final = "default"


class SqlDatabases(Part, Catalog):
    """The part of ``Catalog`` about databases."""

    def create_database(self, database: model.Database, *, if_not_exists: bool = False) -> bool:
        name = database.name.lower()
        with self._db.write() as unit:
            if find_database(unit, name) is not None:
                if if_not_exists:
                    return False
                raise AlreadyExistsError(f"Database {name} already exists", database=name)
            (found,) = take_ids(unit, "MDatabase", 1)
            row = {
                "DB_ID": found,
                "NAME": name,
                "DB_LOCATION_URI": database.location,
                "DESC": database.comment,
                "CTLG_NAME": CATALOG,
                "CREATE_TIME": unit.now_ms // 1000,
                "OWNER_TYPE": "USER",
            }
            unit.insert(DBS, [row])
            _set_database_params(unit, found, database)
            return True

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        with self._db.write() as unit:
            found = database_id(unit, name)
            tables = [row[0] for row in unit.rows(_TABLES_IN_DATABASE, db=found)]
            if tables and not cascade:
                raise InvalidInputError(
                    f"Database {name.lower()} is not empty. One or more tables exist.",
                    database=name.lower(),
                )
            for table in tables:
                delete_table(unit, TableName(name, table))
            delete_dependents(unit, DB_ID=(found,))
            unit.ask(_DELETE_DATABASE_PARAMS, db=found)
            unit.ask(_DELETE_DATABASE, db=found)

    def alter_database(
        self, name: str, change: Callable[[model.Database], model.Database]
    ) -> model.Database:
        with self._db.write() as unit:
            unit.ask(_DATABASE_HELD, name=name.lower())
            found = database_id(unit, name)
            database = change(_read_database(unit, name))
            unit.ask(
                _UPDATE_DATABASE, db=found, location=database.location, comment=database.comment
            )
            unit.ask(_DELETE_DATABASE_PARAMS, db=found)
            _set_database_params(unit, found, database)
            return database

    def list_databases(self) -> tuple[str, ...]:
        with self._db.read() as unit:
            return tuple(row[0] for row in unit.rows(_DATABASE_NAMES))

    def get_database(self, name: str) -> model.Database:
        with self._db.read() as unit:
            return _read_database(unit, name)

    def list_tables(
        self, database: str, *, kind: model.TableKind | None = None, without: str | None = None
    ) -> tuple[str, ...]:
        with self._db.read() as unit:
            found = database_id(unit, database)
            rows = unit.rows(_TABLES_IN_DATABASE, db=found)
            having = () if without is None else unit.rows(_HAVING, db=found, key=without)
            hidden = {row[0] for row in having}
            kinds = {row[1] for row in rows} if kind is None else {kind.value}
            return tuple(name for name, its in rows if its in kinds and name not in hidden)


def _read_database(unit: Unit, name: str) -> model.Database:
    database_id(unit, name)
    name = name.lower()
    found, location, comment, managed, root = unit.rows(_GET_DATABASE, name=name)[0]
    params: dict[str, str] = dict(unit.rows(_DATABASE_PARAMS, db=found))
    if managed is None and root not in (None, _NO_LOCATION):
        managed = root if name == _DEFAULT else f"{root.rstrip('/')}/{name}.db"
    return model.Database(name, location, comment, params, managed)


def _set_database_params(unit: Unit, found: int, database: model.Database) -> None:
    unit.insert(
        DATABASE_PARAMS,
        [
            {"DB_ID": found, "PARAM_KEY": key, "PARAM_VALUE": value}
            for key, value in database.properties.items()
        ],
    )
