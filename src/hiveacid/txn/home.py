"""What a transaction and the manager it comes from need of each other."""

from __future__ import annotations

from typing import Protocol

from hiveacid.clock import Clock
from hiveacid.metastore.api import Metastore
from hiveacid.model.ids import TxnId
from hiveacid.settings import Settings


class Kept(Protocol):
    """A transaction that heartbeats keep alive."""

    @property
    def id(self) -> TxnId:
        """Its id."""

    @property
    def is_read_only(self) -> bool:
        """Whether it is a lease, which ends by itself."""

    def lost(self) -> None:
        """Told that the metastore has ended it."""

    def close(self) -> None:
        """End it, where it is a lease."""


class Home(Protocol):
    """What a transaction needs of the manager it comes from."""

    @property
    def metastore(self) -> Metastore:
        """Where the transaction is."""

    @property
    def clock(self) -> Clock:
        """The time."""

    @property
    def settings(self) -> Settings:
        """The settings at the moment it began."""

    @property
    def user(self) -> str:
        """Whom it belongs to."""

    @property
    def host(self) -> str:
        """The machine it runs on."""

    def open_txn(self, *, read_only: bool) -> TxnId:
        """Open a bare transaction."""

    def keep_alive(self, transaction: Kept) -> None:
        """Send heartbeats for the transaction until it is forgotten."""

    def forget(self, transaction: Kept) -> None:
        """Send no more heartbeats for the transaction."""
