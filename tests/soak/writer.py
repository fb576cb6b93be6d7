"""One of the soak's writers: a process that moves money until it is killed."""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.bank import ACCOUNTS, Transfer, change, check, enter, everything

from hiveacid.errors import ConflictError, LockError, TransactionError
from hiveacid.session import Session, connect
from hiveacid.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 10.0
_IDS_A_WRITER = 1_000_000


def open_session(
    url: str,
    directory: str,
    *,
    spark: SparkSession | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Session:
    """A session whose transactions time out soon; on SQLite it compacts, too."""
    settings = Settings(
        txn_timeout_s=timeout_s,
        housekeeping_interval_s=2,
        lock_timeout_s=60,
        lock_poll_max_s=0.2,
        retention_s=0,
        compactor_embedded_pause_s=1,
    )
    return connect(spark, url, warehouse=directory, settings=settings)


def writer(url: str, directory: str, number: int) -> None:
    """Transfer until killed; the id of each transfer is noted once its commit is known."""
    sys.stderr = (Path(directory) / "errors").open("a", buffering=1)
    told = (Path(directory) / f"told{number}").open("a", buffering=1)
    chance = random.Random(number)
    session = open_session(url, directory)
    for id in range(number * _IDS_A_WRITER, (number + 1) * _IDS_A_WRITER):
        source, target = chance.sample(ACCOUNTS, 2)
        transfer = Transfer(id, source, target, chance.randint(1, 9))
        with suppress(ConflictError, LockError, TransactionError):
            with session.transaction() as txn:
                balances, ledger = everything(txn)
                check(balances, ledger)
                change(txn, balances, source, -transfer.amount, random=chance)
                change(txn, balances, target, transfer.amount, random=chance)
                enter(txn, transfer)
            print(id, file=told)
