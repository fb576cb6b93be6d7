"""What a transaction needs of the manager it comes from, and the manager of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from hiveacid.clock import Clock
from hiveacid.metastore.api import Metastore
from hiveacid.model.ids import LockId, TxnId
from hiveacid.model.tables import TableName
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import Files


class Managed(Protocol):
    """What the manager needs of a transaction that it keeps alive."""

    @property
    def id(self) -> TxnId:
        """Its id."""

    @property
    def is_read_only(self) -> bool:
        """Whether it is a lease."""

    @property
    def is_committed(self) -> bool:
        """Whether it is known to be committed."""

    @property
    def written_tables(self) -> frozenset[TableName]:
        """The tables of which it has write ids."""

    def lost(self) -> None:
        """The metastore has ended it."""

    def close(self) -> None:
        """End it, a lease."""


class Manager(Protocol):
    """What a transaction needs of the manager it comes from, and the manager of it."""

    @property
    def metastore(self) -> Metastore:
        """Where the transaction is."""

    @property
    def clock(self) -> Clock:
        """The time."""

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""

    @property
    def files(self) -> Files:
        """What its snapshots are read from."""

    @property
    def user(self) -> str:
        """Whom it belongs to."""

    @property
    def host(self) -> str:
        """The machine it runs on."""

    @property
    def agent_info(self) -> str | None:
        """What its lock requests name as their session."""

    @property
    def hive_cleans(self) -> bool:
        """Whether a cleaner of Hive may work on the metastore."""

    @property
    def held_locks(self) -> Collection[LockId]:
        """The client's own locks, which do not stand in its transactions' way."""

    def open_txn(self, *, read_only: bool) -> TxnId:
        """Open a bare transaction."""

    def keep_alive(self, transaction: Managed) -> None:
        """Send heartbeats for the transaction until it is forgotten."""

    def forget(self, transaction: Managed) -> None:
        """Send no more heartbeats for the transaction."""
