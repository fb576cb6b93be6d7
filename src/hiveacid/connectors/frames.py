"""``spark.table`` and ``spark.read`` on a session that is enabled, and what readers and writers
have in common: Spark's own objects get a class of ours above their own, which keeps what they were
told and takes over where a table is one of ours.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from hiveacid.connectors.options import TRAVEL, version_asked
from hiveacid.connectors.paths import FORMAT, is_table_of_ours, required_at
from hiveacid.errors import (
    InvalidInputError,
    SqlSyntaxError,
    UnsupportedError,
)
from hiveacid.model.tables import TableName
from hiveacid.session import Session
from hiveacid.sql import parse_table_name
from hiveacid.table import AcidTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALIAS: Final = "_hiveacid_alias"


def table_named(acid: Session, name: object) -> AcidTable | None:
    """The table or view of ours that a name in Python means."""
    try:
        written = parse_table_name(name) if isinstance(name, str) else None
    except SqlSyntaxError:  # three parts: of another catalog
        return None
    if written is None or not is_table_of_ours(acid.look(), written):
        return None
    return acid.table(written_text(written))


def written_text(name: TableName) -> str:
    """The name as Python's methods take it."""
    return f"`{name.database}`.`{name.table}`" if name.database else f"`{name.table}`"


# -------------------------------------------------------------------- in the place of Spark's


def table(acid: Session, original: Callable[[str], DataFrame], tableName: str) -> DataFrame:
    """``SparkSession.table``."""
    ours = table_named(acid, tableName)
    return original(tableName) if ours is None else ours.df()


def read(acid: Session, original: Any, spark: object) -> Any:
    """``SparkSession.read``."""
    return dressed(_Reader, original, acid, owner=spark)


def alias(acid: Session, original: Callable[[str], Any], alias: str) -> Any:
    """``DataFrame.alias``: a source of MERGE is called so, which only Spark's plan would tell."""
    del acid
    made = original(alias)
    setattr(made, ALIAS, alias)
    return made


def dressed(ours: type, value: Any, acid: Session, *, owner: Any) -> Any:
    """The same object of Spark's, its methods below those of ``ours``; ``owner`` is the session or
    the DataFrame that it belongs to.
    """
    made = copy.copy(value)
    sparks: type = type(value)
    made.__class__ = _class(ours, sparks)
    made._acid, made._owner, made._told, made._given = acid, owner, {}, {}
    return made


@cache
def _class(ours: type, sparks: type) -> type:
    return type(sparks.__name__, (ours, sparks), {})


class Told:
    """What a reader or writer was told: its format, mode and options."""

    _acid: Session
    _owner: Any
    _told: dict[str, Any]
    _given: dict[str, Any]
    """Options, by their names in lower case."""

    def format(self, source: str) -> Any:
        """As Spark's."""
        self._told["format"] = source
        return super().format(source)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        """As Spark's."""
        self._given[key.lower()] = value
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        """As Spark's."""
        for key, value in options.items():
            self.option(key, value)
        return self

    @property
    def is_ours(self) -> bool:
        """Whether it was told our format."""
        return str(self._told.get("format", "")).lower() == FORMAT

    def known_options(self, known: Sequence[str]) -> Mapping[str, str]:
        """The options that were given, by the names in ``known``.

        Raises:
            UnsupportedError: another one.
        """
        names = {name.lower(): name for name in known}
        for key in self._given:
            if key not in names:
                others = f"; they take {', '.join(known)}" if known else ""
                raise UnsupportedError(
                    f"Tables of ours take no option {key} here{others}", option=key
                )
        given = {key: value for key, value in self._given.items() if value is not None}
        return {names[key]: str(value) for key, value in given.items()}


# -------------------------------------------------------------------- reading


class _Reader(Told):
    def table(self, tableName: str) -> DataFrame:
        ours = table_named(self._acid, tableName)
        if ours is None:
            return super().table(tableName)  # type: ignore[misc,no-any-return]
        return self._rows(ours)

    def load(
        self,
        path: str | PathLike[str] | list[str] | None = None,
        format: str | None = None,
        schema: Any = None,
        **options: Any,
    ) -> DataFrame:
        if format is not None:
            self.format(format)
        if not self.is_ours or "metastore" in self._given or "metastore" in options:
            return super().load(path, schema=schema, **options)  # type: ignore[misc,no-any-return]
        self.options(**options)
        name, where = self._given.pop("table", None), path or self._given.pop("path", None)
        if isinstance(where, list | tuple) and len(where) == 1:
            where = where[0]
        if schema is not None or (name is None) is (where is None) or isinstance(where, list):
            raise InvalidInputError(
                "format('hiveacid') reads one table: .load(path), or .option('table', name).load(),"
                " without a schema"
            )
        if where is None:
            return self._rows(self._acid.table(str(name)))
        place: Any = where
        return self._rows(required_at(self._acid, fspath(place)))

    def _rows(self, ours: AcidTable) -> DataFrame:
        given = self.known_options(TRAVEL)
        wanted = version_asked({name.lower(): text for name, text in given.items()})
        return ours.df() if wanted is None else ours.as_of(wanted).df()
