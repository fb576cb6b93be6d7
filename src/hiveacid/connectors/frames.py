"""Reading and writing by DataFrames on a session that is enabled: ``spark.table``, ``spark.read``,
``df.write``. Spark's own readers and writers get a class of ours above their own, which keeps what
they were told and takes over where a table is one of ours.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from hiveacid.connectors.sql import is_table_of_ours
from hiveacid.errors import AlreadyExistsError, SqlSyntaxError
from hiveacid.model.tables import TableName
from hiveacid.session import Session
from hiveacid.sql import parse_table_name
from hiveacid.table import AcidTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMAT: Final = "hiveacid"
_OPTIONS: Final = frozenset({"path", "mergeschema", "overwriteschema", "replacewhere"})


def table(acid: Session, original: Callable[[str], DataFrame], tableName: str) -> DataFrame:
    """``SparkSession.table``."""
    ours = table_named(acid, tableName)
    return original(tableName) if ours is None else ours.df()


def table_named(acid: Session, name: object) -> AcidTable | None:
    """The table or view of ours that a name in Python means."""
    written = _name(name)
    if written is None or not is_table_of_ours(acid, written):
        return None
    return acid.table(str(written) if written.database else written.table)


def _name(name: object) -> TableName | None:
    try:
        return parse_table_name(name) if isinstance(name, str) else None
    except SqlSyntaxError:
        return None


def read(acid: Session, original: Any) -> Any:
    """``SparkSession.read``."""
    return _with(_Reader, original, acid)


def write(acid: Session, original: Any) -> Any:
    """``DataFrame.write``."""
    return _with(_Writer, original, acid)


def _with(ours: type, value: Any, acid: Session) -> Any:
    """The same object of Spark's, its methods below those of ``ours``."""
    made = copy.copy(value)
    sparks: type = type(value)
    made.__class__ = _class(ours, sparks)
    made._acid, made._told = acid, {}
    return made


@cache
def _class(ours: type, sparks: type) -> type:
    return type(sparks.__name__, (ours, sparks), {})


class _Told:
    """What a reader or writer was told: its format, mode and options."""

    _acid: Session
    _told: dict[str, Any]

    def format(self, source: str) -> Any:
        self._told["format"] = source
        return super().format(source)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        self._told.setdefault("options", {})[key.lower()] = value
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        for key, value in options.items():
            self.option(key, value)
        return self

    @property
    def _is_ours(self) -> bool:
        return str(self._told.get("format", "")).lower() == FORMAT

    @property
    def _options(self) -> Mapping[str, str]:
        told = self._told.get("options", {})
        return {key: str(value) for key, value in told.items() if value is not None}


class _Reader(_Told):
    def table(self, tableName: str) -> DataFrame:
        ours = table_named(self._acid, tableName)
        if ours is None:
            return super().table(tableName)  # type: ignore[misc,no-any-return]
        return ours.df()


class _Writer(_Told):
    def mode(self, saveMode: str | None) -> Any:
        if saveMode is not None:
            self._told["mode"] = saveMode.lower()
        return super().mode(saveMode)  # type: ignore[misc]

    def partitionBy(self, *cols: Any) -> Any:
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        self._told["partitioned_by"] = tuple(names)
        return super().partitionBy(*cols)  # type: ignore[misc]

    def saveAsTable(
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,
        **options: Any,
    ) -> None:
        self.mode(mode).options(**options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        ours = table_named(self._acid, name)
        if ours is None and not self._is_ours:
            super().saveAsTable(name)  # type: ignore[misc]
            return
        self._save(name, ours)

    def _save(self, name: str, ours: AcidTable | None) -> None:
        frame, mode = self._frame, self._told.get("mode", "error")
        if ours is None:
            self._acid.create_table(
                name,
                frame,
                partitioned_by=self._told.get("partitioned_by", ()),
                location=self._options.get("path"),
            )
        elif mode == "append":
            ours.insert(frame)
        elif mode == "overwrite":
            ours.overwrite(frame)
        elif mode != "ignore":
            raise AlreadyExistsError(f"Table {ours.name} already exists", table=str(ours.name))

    @property
    def _frame(self) -> DataFrame:
        return self._df  # type: ignore[attr-defined,no-any-return]
