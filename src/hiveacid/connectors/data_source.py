"""``HiveAcidDataSource``: what Spark asks ``format("hiveacid")`` for.

Importing this module costs nothing but PySpark's own base class: Spark does it in every application
that looks for Python data sources, with whatever is installed there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from hiveacid.connectors.options import READ, SINK, SOURCE, WRITE, Options, changes_asked

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class HiveAcidDataSource(DataSource):
    """A table of ours: the options name it and its metastore."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "hiveacid"

    def schema(self) -> StructType:
        """The columns of the table, partition columns last; of changes then what they are.

        Raises:
            AcidError: there is no such table, or an option is wrong.
        """
        from hiveacid.connectors.batch_read import table_schema, with_change_types

        options = Options.of(self.options, tuple(dict.fromkeys((*READ, *SOURCE))))
        of_changes = changes_asked(options)
        schema = table_schema(options)
        return with_change_types(schema) if of_changes else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the table as it is when the query is planned, or what changed in it."""
        from hiveacid.connectors.batch_read import BatchReader, ChangesReader

        options = Options.of(self.options, READ)
        return (ChangesReader if changes_asked(options) else BatchReader)(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What inserts the rows of a DataFrame, in one transaction."""
        from hiveacid.connectors.write import BatchWriter

        return BatchWriter(Options.of(self.options, WRITE), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """What inserts the rows of micro-batches, each in one transaction, once.

        Raises:
            UnsupportedError: the stream is to replace what the table has.
        """
        from hiveacid.connectors.write import stream_writer

        return stream_writer(Options.of(self.options, SINK), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """What reads the rows that are appended, write id by write id, or what changed."""
        from hiveacid.connectors.stream_read import LimitedStreamReader
        from hiveacid.connectors.table_stream import LimitedChangeStreamReader

        options = Options.of(self.options, SOURCE)
        made = LimitedChangeStreamReader if changes_asked(options) else LimitedStreamReader
        return made(options, schema)
