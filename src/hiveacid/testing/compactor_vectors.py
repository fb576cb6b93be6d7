"""The operations of behaviour vectors that do a worker's or a cleaner's turn.

The files of vectors hold no rows: what a worker rewrites is nothing, under the names that it
gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hiveacid.compaction.cleaner import Cleaner, CleaningOutcome
from hiveacid.compaction.worker import Worker
from hiveacid.errors import StorageError
from hiveacid.layout.compaction import RewritePlan, RewrittenFile
from hiveacid.metastore.sql.metastore import SqlMetastore
from hiveacid.runtime import Runtime
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import FileSystem
from hiveacid.testing.clock import ManualClock
from hiveacid.testing.compaction_vectors import Result
from hiveacid.txn.manager import TransactionManager
from hiveacid.txn.threads import NoThreads

_HOUR_MS = 3_600_000


class CompactorOperations:
    """Operations ``_op_...`` of a worker and a cleaner."""

    _metastore: SqlMetastore
    _clock: ManualClock
    _warehouse: Path
    _config: Mapping[str, Any]

    def _op_worker_cycle(self) -> Result:
        done = Worker(self._runtime(), _nothing, name="worker").run_next()
        return {"outcome": None if done is None else done.outcome.value}

    def _op_cleaner_cycle(self, fail: str | None = None) -> Result:
        def removing(path: str) -> None:
            if fail is not None:
                raise StorageError(fail, path=path)

        done = Cleaner(self._runtime(), removing=removing).run()
        cleaned = [one.compaction.id for one in done if one.outcome is CleaningOutcome.CLEANED]
        return {"cleaned": cleaned}

    def _runtime(self) -> Runtime:
        age_ms = self._config.get("aborted.time.threshold", 12 * _HOUR_MS)
        settings = Settings(
            retention_s=0,
            compactor_aborts_threshold=self._config.get("aborted.threshold", 1000),
            compactor_aborts_age_s=age_ms / 1000,
        )
        manager = TransactionManager(self._metastore, self._clock, settings, threads=NoThreads())
        return Runtime(self._metastore, manager, self._clock, settings, str(self._warehouse))


def _nothing(fs: FileSystem, plan: RewritePlan) -> tuple[RewrittenFile, ...]:
    del fs, plan
    return ()
