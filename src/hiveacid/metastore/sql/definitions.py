"""Tables between ``model.tables`` and rows: storage classes, parameters, columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hiveacid.errors import MetastoreError
from hiveacid.metastore.sql.dialect import Row
from hiveacid.model.properties import STORAGE_CLASSES
from hiveacid.model.tables import BucketSpec, Column, FileFormat, Table, TableKind, TableName
from hiveacid.model.types import parse_type

_COMMENT: Final = "comment"
_BUCKETING_VERSION: Final = "bucketing_version"


_FORMATS: Final = {classes.input_format: kind for kind, classes in STORAGE_CLASSES.items()}


def stored_parameters(table: Table) -> dict[str, str]:
    """The TABLE_PARAMS of a table: its properties, comment and bucketing version."""
    parameters = dict(table.properties)
    if table.comment is not None:
        parameters[_COMMENT] = table.comment
    if table.bucket is not None:
        parameters[_BUCKETING_VERSION] = str(table.bucket.version)
    if table.kind is TableKind.EXTERNAL:
        parameters.setdefault("EXTERNAL", "TRUE")
    return parameters


def table_from_rows(
    name: TableName,
    head: Row,
    *,
    columns: list[Row],
    partition_columns: list[Row],
    parameters: Mapping[str, str],
    bucket_columns: list[Row],
    sort_columns: list[Row],
) -> Table:
    """Build a table; ``head`` is owner, create time, kind, a view's text and its expanded text,
    location, input format, buckets.
    """
    owner, created_s, kind, view_text, expanded, location, input_format, buckets = head
    properties = dict(parameters)
    comment = properties.pop(_COMMENT, None)
    bucket = None
    if bucket_columns and buckets > 0:
        version = int(properties.get(_BUCKETING_VERSION, "1"))
        bucket = BucketSpec(tuple(row[0] for row in bucket_columns), buckets, version)
    return Table(
        name=name,
        columns=tuple(_column(row) for row in columns),
        location=location or "",
        partition_columns=tuple(_column(row) for row in partition_columns),
        bucket=bucket,
        sort_columns=tuple(row[0] for row in sort_columns),
        format=_format(name, kind, input_format),
        kind=TableKind(kind),
        properties=properties,
        comment=comment,
        view_text=view_text,
        owner=owner or "",
        created_at_ms=created_s * 1000,
        view_expanded=expanded,
    )


def _column(row: Row) -> Column:
    name, type_text, comment = row
    return Column(name, parse_type(type_text), comment)


def _format(name: TableName, kind: str, input_format: str | None) -> FileFormat:
    if input_format is None or kind == TableKind.VIEW.value:
        return FileFormat.ORC
    found = _FORMATS.get(input_format)
    if found is None:
        raise MetastoreError(
            f"Table {name} has the input format {input_format}, which is not supported",
            table=str(name),
            found=input_format,
        )
    return found
