"""``df.write`` and ``df.writeTo`` on a session that is enabled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, partialmethod
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from hiveacid.connectors.frames import Told, dressed, make_found, table_named
from hiveacid.connectors.names import (
    location_of,
    name_for,
    name_of_new,
    table_at,
    written_text,
)
from hiveacid.connectors.strings import in_hives_words
from hiveacid.errors import (
    AlreadyExistsError,
    InvalidInputError,
    UnsupportedError,
    no_such_table,
)
from hiveacid.session import Session
from hiveacid.storage.locations import one_name
from hiveacid.table import AcidTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WRITE_OPTIONS: Final = (
    *("path", "mergeSchema", "overwriteSchema", "replaceWhere", "partitionOverwriteMode"),
    *("txnAppId", "txnVersion"),
)
_DYNAMIC: Final = "spark.sql.sources.partitionOverwriteMode"
_COLUMN: Final = re.compile(r"Column<b?['\"](.*)['\"]>", re.DOTALL)


def write_to(acid: Session, original: Callable[[str], Any], table: str) -> Any:
    """``DataFrame.writeTo``."""
    frame = original.__self__  # type: ignore[attr-defined]
    made = dressed(_WriterV2, acid, original(table), frame)
    made._name = table
    return made


def store(
    ours: AcidTable,
    acid: Session,
    frame: DataFrame,
    *,
    overwrite: bool,
    options: Mapping[str, str] = {},
    by_name: bool = True,
    condition: str | Column | None = None,
) -> None:
    """Append rows to a table, or let them take the place of all rows, of the partitions that they
    go to, or of those that meet a condition, which an option may say, too.

    Raises:
        InvalidInputError: options that do not go together, or have no such value.
    """
    evolve = _flag(options, "mergeSchema")
    where = options.get("replaceWhere") if condition is None else condition
    if where is not None and not overwrite:
        raise InvalidInputError(
            "replaceWhere says which rows an overwrite replaces, and this only adds rows",
            note="mode('overwrite') replaces rows.",
            option="replaceWhere",
        )
    mode = options.get("partitionOverwriteMode", "").lower()
    if mode not in ("", "static", "dynamic"):
        raise InvalidInputError(
            f"partitionOverwriteMode is static or dynamic, not {mode!r}",
            option="partitionOverwriteMode",
        )
    batch = _batch(options)

    def written(on: AcidTable) -> None:
        if not overwrite:
            on.insert(frame, by_name=by_name, evolve=evolve)
        elif where is not None:
            replace_where(on, frame, where, evolve=evolve)
        else:
            parts = mode or str(acid.spark.conf.get(_DYNAMIC)).lower()
            on.overwrite(frame, by_name=by_name, evolve=evolve, whole=parts != "dynamic")

    if acid.in_transaction or (where is None and batch is None):
        if batch is not None:
            raise InvalidInputError("txnAppId cannot stand in a transaction: use begin_batch of it")
        written(ours)
        return
    with acid.transaction() as txn:
        name = written_text(ours.name)
        if batch is not None and not txn.begin_batch(*batch, table=name):
            txn.rollback()
            return
        written(txn.table(name))


def replace_where(
    ours: AcidTable, frame: DataFrame, where: str | Column, *, evolve: bool = False
) -> None:
    """The rows that meet the condition are deleted and those of the frame inserted; they meet it.

    Raises:
        InvalidInputError: a row to insert does not.
        UnsupportedError: a text means one thing to Spark and another to Hive.
    """
    from pyspark.sql import functions as F

    condition = where
    if isinstance(where, str):
        where, condition = in_hives_words(frame.sparkSession, where), F.expr(where)
    if frame.filter(~F.coalesce(condition, F.lit(False))).limit(1).count():
        raise InvalidInputError(f"A row to write does not meet the condition {where}")
    ours.delete(where=where)
    ours.insert(frame, evolve=evolve)


def _batch(options: Mapping[str, str]) -> tuple[str, int] | None:
    """Whose write it is, and its version; None where that is not said."""
    app_id, version = options.get("txnAppId"), options.get("txnVersion")
    if app_id is None and version is None:
        return None
    if app_id is None or version is None or not version.isdecimal():
        raise InvalidInputError("txnAppId and txnVersion, a whole number, belong together")
    return app_id, int(version)


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"{name} is true or false, not {text!r}", option=name)
    return text == "true"


class _Writer(Told):
    def mode(self, saveMode: str | None) -> Any:
        if saveMode is not None:
            self._told["mode"] = saveMode.lower()
        return super().mode(saveMode)  # type: ignore[misc]

    def partitionBy(self, *cols: Any) -> Any:
        self.tell_partitions(cols)
        return super().partitionBy(*cols)  # type: ignore[misc]

    def bucketBy(self, numBuckets: int, col: Any, *cols: str) -> Any:
        first = tuple(col) if isinstance(col, list | tuple) else (col,)
        self._told["buckets"] = (numBuckets, (*first, *cols))
        return super().bucketBy(numBuckets, col, *cols)  # type: ignore[misc]

    def sortBy(self, col: Any, *cols: str) -> Any:
        self._told["refused"] = "sortBy"
        return super().sortBy(col, *cols)  # type: ignore[misc]

    def clusterBy(self, *cols: Any) -> Any:
        self._told["refused"] = "clusterBy"
        return super().clusterBy(*cols)  # type: ignore[misc]

    def save(
        self,
        path: str | PathLike[str] | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,
        **options: Any,
    ) -> None:
        self._tell(format, mode, partitionBy)
        if not self.is_ours or "metastore" in self._given or "metastore" in options:
            if self.is_ours:
                make_found(self._acid)
            super().save(path, **options)  # type: ignore[misc]
            return
        self.options(**options)
        name, where = self._given.pop("table", None), path or self._given.pop("path", None)
        if (name is None) is (where is None):
            raise InvalidInputError(
                "format('hiveacid') writes one table: .save(path), or .option('table', name).save()"
            )
        if where is None:
            self._save(str(name), table_named(self._acid, name, views_hide=False))
            return
        place = fspath(where)
        ours = table_at(self._acid, place)
        if ours is None:
            self._given["path"] = place
        self._save(name_for(self._acid, place) if ours is None else written_text(ours.name), ours)

    def saveAsTable(
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,
        **options: Any,
    ) -> None:
        self._tell(format, mode, partitionBy)
        self.options(**options)
        ours = table_named(self._acid, name, views_hide=False)
        other = self._told.get("format") and not self.is_ours
        if (ours is None and not self.is_ours) or (other and self._mode == "overwrite"):
            _refuse_other_format(ours)
            super().saveAsTable(name)  # type: ignore[misc]
            return
        self._save(name, ours)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        ours = table_named(self._acid, tableName)
        if ours is None:
            super().insertInto(tableName, overwrite)  # type: ignore[misc]
            return
        if overwrite is None:
            overwrite = self._mode == "overwrite"
        options = self.known_options(_WRITE_OPTIONS)
        store(ours, self._acid, self._owner, overwrite=overwrite, options=options, by_name=False)

    def _tell(self, format: str | None, mode: str | None, partition_by: Any) -> None:
        self.mode(mode)
        if partition_by is not None:
            self.partitionBy(partition_by)
        if format is not None:
            self.format(format)

    @property
    def _mode(self) -> str:
        return str(self._told.get("mode", "error"))

    def _save(self, name: str, ours: AcidTable | None) -> None:
        refused = self._told.get("refused")
        if refused is not None:
            raise UnsupportedError(f"{refused} is not supported for tables of ours")
        options = self.known_options(_WRITE_OPTIONS)
        batch = _batch(options)
        if ours is None and batch is not None:  # the commit of a definition keeps no version
            made = self._create(name, ours, options, rows=self._owner.limit(0))
            overwrite = self._mode == "overwrite"
            store(made, self._acid, self._owner, overwrite=overwrite, options=options)
        elif ours is None or (self._mode == "overwrite" and _flag(options, "overwriteSchema")):
            if batch is not None:
                raise InvalidInputError("overwriteSchema does not go with txnAppId, txnVersion")
            self._create(name, ours, options, rows=self._owner)
        elif self._mode in ("append", "overwrite"):
            keys, wanted = ours.definition.partition_keys, self._told.get("partitioned_by")
            if wanted is not None and tuple(name.lower() for name in wanted) != keys:
                raise InvalidInputError(
                    f"{ours.name} is partitioned by ({', '.join(keys)}), not ({', '.join(wanted)})",
                    table=str(ours.name),
                )
            _check_place(ours, options.get("path"))
            overwrite = self._mode == "overwrite"
            store(ours, self._acid, self._owner, overwrite=overwrite, options=options)
        elif self._mode != "ignore":
            raise AlreadyExistsError(f"Table {ours.name} already exists", table=str(ours.name))

    def _create(
        self, name: str, ours: AcidTable | None, options: Mapping[str, str], *, rows: DataFrame
    ) -> AcidTable:
        partitioned_by: Sequence[str] = self._told.get("partitioned_by", ())
        if ours is not None and "partitioned_by" not in self._told:
            partitioned_by = ours.definition.partition_keys
        buckets, bucketed_by = self._told.get("buckets", (None, ()))
        path = options.get("path")
        return self._acid.create_table(
            name_of_new(self._acid, name),
            rows,
            partitioned_by=partitioned_by,
            bucketed_by=bucketed_by,
            buckets=buckets,
            location=None if path is None else location_of(path),
            or_replace=ours is not None,
        )


def _check_place(ours: AcidTable, path: str | None) -> None:
    """As Spark, which writes to no other place than a table's own."""
    place = ours.definition.location
    if path is not None and one_name(location_of(path)) != one_name(place):
        raise InvalidInputError(
            f"The location of the existing table {ours.name} is {place}."
            f" It doesn't match the specified location {path}.",
            table=str(ours.name),
            path=path,
        )


write: Final = partial(dressed, _Writer)
"""``DataFrame.write``."""


def _refuse_other_format(ours: AcidTable | None) -> None:
    if ours is not None:
        raise UnsupportedError(
            f"{ours.name} is a table of ours: another format cannot take its place",
            note="DROP TABLE first, or leave .format(...) out",
        )


class _WriterV2(Told):
    _name: str

    def using(self, provider: str) -> Any:
        self._told["format"] = provider
        return super().using(provider)  # type: ignore[misc]

    def tableProperty(self, property: str, value: str) -> Any:
        self._told.setdefault("properties", {})[property] = value
        return super().tableProperty(property, value)  # type: ignore[misc]

    def partitionedBy(self, col: Any, *cols: Any) -> Any:
        self._told["partitioned_by"] = (col, *cols)
        return super().partitionedBy(col, *cols)  # type: ignore[misc]

    def clusterBy(self, col: str, *cols: str) -> Any:
        self._told["refused"] = "clusterBy"
        return super().clusterBy(col, *cols)  # type: ignore[misc]

    def append(self) -> None:
        self._store("append", overwrite=False)

    def overwrite(self, condition: Any) -> None:
        self._store("overwrite", condition, overwrite=True)

    def overwritePartitions(self) -> None:
        self._store("overwritePartitions", overwrite=True, partitionOverwriteMode="dynamic")

    def _store(self, how: str, *condition: Any, overwrite: bool, **more: str) -> None:
        """``how`` is what Spark calls it."""
        ours = self._ours
        if ours is None:
            getattr(super(), how)(*condition)
        else:
            options = {**self.known_options(_WRITE_OPTIONS), **more}
            where = condition[0] if condition else None
            store(
                ours,
                self._acid,
                self._owner,
                overwrite=overwrite,
                options=options,
                condition=where,
            )

    @property
    def _ours(self) -> AcidTable | None:
        return table_named(self._acid, self._name)

    def _make(self, how: str) -> None:
        ours = table_named(self._acid, self._name, views_hide=False)
        if not self.is_ours and (ours is None or "format" in self._told):
            _refuse_other_format(ours)
            getattr(super(), how)()
            return
        if "refused" in self._told:
            raise UnsupportedError("clusterBy is not supported for tables of ours")
        if how == "replace" and ours is None:
            raise no_such_table(self._name)
        path = self.known_options(("path",)).get("path")
        self._acid.create_table(
            name_of_new(self._acid, self._name),
            self._owner,
            partitioned_by=[_column_name(one) for one in self._told.get("partitioned_by", ())],
            properties=self._told.get("properties", {}),
            location=None if path is None else location_of(path),
            or_replace=how != "create",
        )

    create = partialmethod(_make, "create")
    replace = partialmethod(_make, "replace")
    createOrReplace = partialmethod(_make, "createOrReplace")


def _column_name(column: Any) -> str:
    """The name of a column that a ``Column`` stands for.

    Raises:
        UnsupportedError: it is an expression, such as ``years(day)``.
    """
    if isinstance(column, str):
        return column
    found = _COLUMN.fullmatch(repr(column))
    name = "" if found is None else found[1].strip("`")
    if not re.fullmatch(r"\w+", name):
        raise UnsupportedError(f"Tables of ours are partitioned by columns, not by {column}")
    return name
