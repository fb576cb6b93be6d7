"""The operations of behaviour vectors that do an initiator's, a worker's or a cleaner's turn.

The files of vectors hold no rows: what a worker rewrites is nothing, under the names that it
gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.metastores import NoThreads
from tests.vectors.compaction import Result

from hiveacid.client import Client
from hiveacid.compaction.cleaner import Cleaner, CleaningOutcome
from hiveacid.compaction.initiator import Initiator
from hiveacid.compaction.worker import Worker
from hiveacid.errors import StorageError
from hiveacid.layout.compaction import RewritePlan
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.target import WrittenFile
from hiveacid.testing import ManualClock
from hiveacid.txn.manager import TransactionManager

_HOUR_MS: Final = 3_600_000
_NEVER_S: Final = 1e12


class CompactorOperations:
    """Operations ``_op_...`` of an initiator, a worker and a cleaner."""

    _metastore: SqlMetastore
    _clock: ManualClock
    _warehouse: Path
    _config: Mapping[str, Any]

    def _op_worker_cycle(self) -> Result:
        done = Worker(self._client(), _nothing, name="worker").run_next()
        return {"outcome": None if done is None else done.outcome.value}

    def _op_cleaner_cycle(self, fail: str | None = None) -> Result:
        def removing(path: str) -> None:
            if fail is not None:
                raise StorageError(fail, path=path)

        done = Cleaner(self._client(), removing=removing).run()
        cleaned = [one.compaction.id for one in done if one.outcome is CleaningOutcome.CLEANED]
        return {"cleaned": cleaned}

    def _op_initiator_cycle(self) -> None:
        Initiator(self._client(), name="localhost-initiator").run_cycle()

    def _client(self) -> Client:
        config = self._config
        age_ms = config.get("aborted.time.threshold", 12 * _HOUR_MS)
        settings = Settings(
            retention_s=0,
            compactor_aborts_threshold=config.get("aborted.threshold", 1000),
            compactor_aborts_age_s=age_ms / 1000 if age_ms >= 0 else _NEVER_S,
            compactor_clean_aborts=config.get("clean.aborts.using.cleaner", True),
            compactor_delta_num_threshold=config.get("delta.num", 10),
            compactor_delta_pct_threshold=config.get("delta.pct", 0.1),
            compactor_insert_only=config.get("compact.mm", True),
            compactor_worker_timeout_s=config.get("worker.timeout", 24 * _HOUR_MS) / 1000,
        )
        manager = TransactionManager(self._metastore, self._clock, settings, threads=NoThreads())
        return Client(self._metastore, manager, self._clock, settings, str(self._warehouse))


def _nothing(fs: FileSystem, plan: RewritePlan) -> tuple[WrittenFile, ...]:
    del fs, plan
    return ()
