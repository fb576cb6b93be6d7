"""Who follows tables by a consumer, and asks for versions that it has seen, while their definitions
change and their files are compacted and cleaned.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random

import hiveacid
from hiveacid.errors import SnapshotExpiredError
from hiveacid.session import Session

MOVED_PARTITIONS = (0, 1, 2)
"""Those of q that are never dropped."""


class Follower:
    """What it has seen, by the numbers of tables; each look is a transaction, within which a name
    is one table.
    """

    def __init__(self, session: Session, random: Random) -> None:
        self._session = session
        self._random = random
        self._states: dict[int, Counter[int]] = {}
        self._versions: dict[int, dict[int, Counter[int]]] = {}

    def look(self, name: str) -> None:
        """The state that was known, with the changes since, is that of now; a version that was seen
        is what it was, or an error.
        """
        with self._session.transaction() as txn:
            table = txn.table(name)
            rows = hiveacid.read_arrow(table).read_all().to_pylist()
            key = table.definition.id
            assert key is not None
            state = self._states.pop(key, None)
            try:
                found = table.changes(consumer="f", since=0 if state is None else None).to_pylist()
            except SnapshotExpiredError as error:
                assert state is None or name == "q", f"a consumer was not kept: {error}"
                if state is not None:
                    table.drop_consumer("f")
                return
            now = Counter(row["id"] for row in rows)
            after = Counter(state)
            for row in found:
                after[row["id"]] += 1 if row["_change_type"] == "insert" else -1
            assert after == now, f"{name}: {state} with {found} is {after}, not {now}"
            versions = self._versions.setdefault(key, {})
            if versions:
                version = self._random.choice(sorted(versions))
                with suppress(SnapshotExpiredError):
                    then = hiveacid.read_arrow(table, as_of_write_id=version).read_all()
                    self._check(then.to_pylist(), versions[version], f"{name} at {version}")
            moved = txn._unit.txn.pending.consumed[-1].after.write_id
        self._states[key] = now
        versions[int(moved)] = _kept(rows)

    @staticmethod
    def _check(found: list[dict[str, int]], wanted: Counter[int], what: str) -> None:
        assert _kept(found) == wanted, f"{what}: {found}, not {wanted}"


def _kept(rows: list[dict[str, int]]) -> Counter[int]:
    """Those that are in no partition that may be dropped."""
    return Counter(row["id"] for row in rows if row.get("k", 0) in MOVED_PARTITIONS)
