"""The Java classes that stand for a file format in Hive's catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hiveacid.model.tables import FileFormat, Table, TableKind


@dataclass(frozen=True, slots=True)
class StorageClasses:
    """Input format, output format and SerDe; a view has no SerDe."""

    input_format: str
    output_format: str
    serde: str | None


STORAGE_CLASSES: Final[Mapping[FileFormat, StorageClasses]] = {
    FileFormat.ORC: StorageClasses(
        "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
        "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
        "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
    ),
    FileFormat.PARQUET: StorageClasses(
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    ),
    FileFormat.TEXT: StorageClasses(
        "org.apache.hadoop.mapred.TextInputFormat",
        "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    ),
}
_TEXT: Final = STORAGE_CLASSES[FileFormat.TEXT]
_OF_VIEW: Final = StorageClasses(_TEXT.input_format, _TEXT.output_format, None)


def storage_classes(table: Table) -> StorageClasses:
    """Those of the table."""
    return _OF_VIEW if table.kind is TableKind.VIEW else STORAGE_CLASSES[table.format]
