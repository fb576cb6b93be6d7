"""``Session.attach`` and ``Session.detach``: tables change the metastore, their files stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hiveacid.errors import InvalidInputError
from hiveacid.sql import parse_columns
from hiveacid.statements.arguments import checked
from hiveacid.statements.attach import ACCEPT_ALL, VALID_TXNS, VALID_WRITE_IDS
from hiveacid.statements.ddl.definitions import bucket_spec
from hiveacid.statements.ddl.tables import CreateTable, DropTable, make_table

if TYPE_CHECKING:
    from hiveacid.model.tables import TableName
    from hiveacid.model.valid import ValidTxnList, ValidWriteIdList
    from hiveacid.statements.context import ExecutionContext
    from hiveacid.statements.detach import Detached
    from hiveacid.table import AcidTable

_NOTHING: Mapping[str, str] = {}


@checked
class TakeoverMethods:
    """What a session has of it."""

    if TYPE_CHECKING:

        def definition_context(self, kind: type) -> ExecutionContext: ...

        def table_name(self, name: str) -> TableName: ...

        def table(self, name: str) -> AcidTable: ...

    def attach(
        self,
        path: str | Path,
        *,
        name: str,
        valid_write_ids: str | ValidWriteIdList | None = None,
        valid_txns: str | ValidTxnList | None = None,
        accept_all_write_ids: bool = False,
        schema: str | None = None,
        partitioned_by: Sequence[str] = (),
        bucketed_by: Sequence[str] = (),
        buckets: int | None = None,
        properties: Mapping[str, str] = _NOTHING,
    ) -> AcidTable:
        """Makes a directory that holds a transactional table a table of this metastore.

        ``valid_write_ids`` (``db.t:hwm:minOpen:open:aborted``) and ``valid_txns``
        (``hwm:minOpen:open:aborted``) are the lists of the Hive that wrote it; open ids count as
        aborted. Without them a history is taken only where the names of its directories decide what
        counts, or, with ``accept_all_write_ids``, as if everything had been committed.

        ``schema`` (Hive's text, partition columns included) is checked against the files; without
        it the columns come from them, and partition columns are strings. The files do not say
        whether a table is bucketed. ``properties`` may say ``transactional_properties``.

        Raises:
            InvalidInputError: what counts cannot be told, or is said of another table; what is
                declared is not what the files hold; the place belongs to another table.
            AlreadyExistsError: there is a table of that name.
            NotFoundError: no such directory.
            FormatError, StorageError: the files cannot be read.
        """
        context = self.definition_context(CreateTable)
        given = {VALID_WRITE_IDS: valid_write_ids, VALID_TXNS: valid_txns}
        lists = {key: str(value) for key, value in given.items() if value is not None}
        if "transactional_properties" in properties:
            lists["transactional"] = "true"
        columns = None if schema is None else parse_columns(schema)
        if columns is None and partitioned_by:
            raise InvalidInputError("partitioned_by goes with a schema, which has these columns")
        value = CreateTable(
            name=self.table_name(name),
            partition_names=tuple(column.lower() for column in partitioned_by),
            bucket=bucket_spec(bucketed_by, buckets),
            location=str(Path(path).absolute()) if _is_local(path) else str(path),
            properties={**properties, **lists, ACCEPT_ALL: str(accept_all_write_ids).lower()},
        )
        make_table(context, value, columns=columns)
        return self.table(name)

    def detach(self, name: str | TableName) -> Detached:
        """Lets the metastore forget a table and keeps its files; the answer has the lists of valid
        ids, for ``attach`` elsewhere, and the statement that does it.

        Raises:
            NotFoundError: no such table.
            InvalidInputError: a view; a partition that is not below the table's directory.
            CompactionError: the table is being compacted.
            LockError: somebody uses the table.
        """
        from hiveacid.statements.detach import detach

        context = self.definition_context(DropTable)
        return detach(context, self.table_name(name) if isinstance(name, str) else name)


def _is_local(path: str | Path) -> bool:
    return "://" not in str(path) and not str(path).startswith("file:")
