"""Writers at once: four threads, ten UPDATEs each of rows of their own in one table."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import hiveacid
from benchmarks.meter import OURS
from benchmarks.stages import Bench, collect, equal
from hiveacid.errors import ConflictError
from hiveacid.model.transactions import TxnState
from hiveacid.session import Session

THREADS: Final = 4
UPDATES: Final = 10
_ROWS: Final = 4_000
_TABLE: Final = "at_once"


def updates_at_once(bench: Bench) -> None:
    """All commit, none is aborted, none runs again."""
    url = bench.ours.acid.client.metastore.url
    warehouse = bench.ours.acid.client.warehouse
    for turn in range(bench.rounds + 1):
        bench.ours.create(_TABLE, "id bigint, part int, amount double")
        rows = bench.spark.range(_ROWS).selectExpr(
            "id", f"cast(id div {_ROWS // THREADS} as int)", "cast(0 as double)"
        )
        bench.ours.load(_TABLE, rows.toDF("id", "part", "amount").coalesce(1))
        sessions = [hiveacid.connect(bench.spark, url, warehouse=warehouse) for _ in range(THREADS)]
        done = bench.meter.measure(
            "at_once", OURS, partial(_update, sessions), rows=THREADS * UPDATES, kept=turn > 0
        )
        print(f"  {done.commits} commits, {done.aborts} aborts, {done.retries} retries", flush=True)
        for one in sessions:
            one.close()
        found = (done.commits, done.aborts, done.retries)
        equal("commits, aborts, retries", found, (THREADS * UPDATES, 0, 0))
        ended = bench.ours.acid.client.metastore.show_txns()
        opened_anew = [one.id for one in ended if one.state is TxnState.ABORTED]
        equal("transactions opened anew", opened_anew, [])
        total = collect(bench.ours.query("select count(*), sum(amount) from {table}", _TABLE))
        equal("rows and sum", total, [(_ROWS, float(THREADS * UPDATES))])
    bench.ours.drop(_TABLE)


class _Done:
    """What came of all statements."""

    def __init__(self) -> None:
        self.commits = self.aborts = self.retries = 0
        self._lock = threading.Lock()

    def run(self, session: Session, text: str) -> None:
        try:
            retries = session.sql(text).retries
        except ConflictError as error:
            with self._lock:
                self.aborts += 1
                self.retries += int(str(error.context["retries"]))
        else:
            with self._lock:
                self.commits += 1
                self.retries += retries


def _update(sessions: list[Session]) -> _Done:
    done = _Done()

    def work(own: int) -> None:
        first = own * (_ROWS // THREADS)
        for n in range(UPDATES):
            text = f"update {_TABLE} set amount = amount + 1 where id = {first + n * 7}"
            done.run(sessions[own], text)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(len(sessions))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return done


RUN: Final[dict[str, Callable[[Bench], None]]] = {"concurrent": updates_at_once}
