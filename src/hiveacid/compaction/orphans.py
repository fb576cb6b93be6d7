"""Staging directories of transactions that have ended: what killed writers left."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.client import Client
from hiveacid.layout.names import STAGING_PREFIX, parse_staging_name
from hiveacid.model.ids import TxnId
from hiveacid.model.transactions import TxnState
from hiveacid.storage.filesystem import FileInfo


@dataclass(frozen=True, slots=True)
class Orphans:
    """Tells which hidden entries belong to nobody, by the transactions of one moment.

    A name that does not say whose it is goes by its age: ``unnamed_before_ns`` lies before all that
    is open.
    """

    open: frozenset[TxnId]
    hwm: TxnId
    unnamed_before_ns: int

    @classmethod
    def now(cls, client: Client) -> Orphans:
        """As of now.

        Raises:
            MetastoreError: the metastore failed.
        """
        found = client.metastore.get_open_txns()
        begun_ms = [
            one.started_ms for one in client.metastore.show_txns() if one.state is TxnState.OPEN
        ]
        oldest_ms = min([client.clock.now_ms(), *begun_ms])
        grace_ms = int(client.settings.compactor_aborts_age_s * 1000)
        return cls(frozenset(found.open), found.hwm, (oldest_ms - grace_ms) * 1_000_000)

    def has(self, info: FileInfo) -> bool:
        """Whether an entry of a table's or partition's directory is an orphan."""
        name = info.path.rpartition("/")[2]
        if not name.startswith(STAGING_PREFIX):
            return False
        txn = parse_staging_name(name)
        if txn is None:
            return 0 < info.modified_ns < self.unnamed_before_ns
        return txn <= self.hwm and txn not in self.open
