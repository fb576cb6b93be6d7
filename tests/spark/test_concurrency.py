"""Two sessions in two threads on one metastore: same rows, other rows, other partitions."""

from __future__ import annotations

import threading

import pytest

import hiveacid
from hiveacid.errors import ConflictError
from hiveacid.model.transactions import TxnState

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def sessions(acid, spark, tmp_path):
    """More sessions beside ``acid``; ``retries`` sets how often they run a statement again."""
    opened = []

    def open_some(retries: int, *, count: int = 2, **settings: str):
        for _ in range(count):
            one = hiveacid.connect(
                spark,
                f"sqlite:///{tmp_path}/metastore.db",
                warehouse=str(tmp_path / "wh"),
                settings={
                    "hiveacid.conflict.retries": str(retries),
                    **{
                        f"hiveacid.{name.replace('__', '.')}": text
                        for name, text in settings.items()
                    },
                },
            )
            opened.append(one)
        return opened

    yield open_some
    for one in opened:
        one.close()


def together(sessions, statements):
    """Runs one statement in each session; both have their snapshots before either one commits."""
    both_read = threading.Barrier(2, timeout=300)
    outcomes = [None, None]

    def run(number):
        session, first = sessions[number], True
        begin = session.client.transactions.begin

        def begin_together(*args, **kwargs):
            nonlocal first
            txn = begin(*args, **kwargs)
            commit = txn.commit

            def commit_together(**names):
                nonlocal first
                if first:
                    first = False
                    both_read.wait()
                return commit(**names)

            object.__setattr__(txn, "commit", commit_together)
            return txn

        session.client.transactions.begin = begin_together
        try:
            outcomes[number] = session.sql(statements[number])
        except Exception as error:
            outcomes[number] = error
            both_read.abort()  # nobody waits for who has failed

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    assert not any(thread.is_alive() for thread in threads)
    return outcomes


def rows_of(result):
    return result if isinstance(result, Exception) else result.rows


@pytest.fixture
def table(acid):
    acid.sql(f"create table t (id int, n int) {ACID}")
    acid.sql("insert into t values (1, 0), (2, 0), (3, 0)")
    acid.sql(f"create table p (id int, n int) partitioned by (k string) {ACID}")
    acid.sql("insert into p values (1, 0, 'a'), (2, 0, 'b')")


def test_the_loser_of_a_conflict_runs_again(table, sessions, rows):
    two = sessions(retries=3)
    outcomes = together(two, ["update t set n = n + 1 where id = 1"] * 2)
    assert [rows_of(one) for one in outcomes] == [1, 1]
    assert sorted(one.retries for one in outcomes) == [0, 1]
    assert rows("select * from t") == [(1, 2), (2, 0), (3, 0)]


def test_without_retries_the_loser_is_told_who_won(table, sessions, rows, layout):
    two = sessions(retries=0)
    outcomes = together(two, ["update t set n = n + 1 where id = 1"] * 2)
    errors = [one for one in outcomes if isinstance(one, Exception)]
    (winner,) = [one for one in outcomes if not isinstance(one, Exception)]
    assert [type(error) for error in errors] == [ConflictError]
    assert winner.rows == 1
    assert "default.t" in str(errors[0]) or "default/t" in str(errors[0])
    assert "txn" in str(errors[0]).lower() or "transaction" in str(errors[0]).lower()
    assert rows("select * from t") == [(1, 1), (2, 0), (3, 0)]
    assert not [name for name in layout("t") if "staging" in name]
    assert {name.split("/")[0].split("_")[-2] for name in layout("t") if "delta" in name} == {
        "0000001",
        f"{winner.write_id:07d}",
    }


def test_different_rows_of_one_table_both_change(table, sessions, rows):
    two = sessions(retries=0)
    outcomes = together(two, [f"update t set n = n + 1 where id = {i}" for i in (1, 2)])
    assert [rows_of(one) for one in outcomes] == [1, 1]
    assert rows("select * from t") == [(1, 1), (2, 1), (3, 0)]


def test_writers_of_different_partitions_do_not_conflict(table, sessions, rows):
    two = sessions(retries=0)
    outcomes = together(two, [f"update p set n = n + 1 where k = '{k}'" for k in "ab"])
    assert [rows_of(one) for one in outcomes] == [1, 1]
    assert rows("select * from p") == [(1, 1, "a"), (2, 1, "b")]


def test_an_insert_and_an_update_do_not_conflict(table, sessions, rows):
    two = sessions(retries=0)
    outcomes = together(two, ["insert into t values (4, 0)", "update t set n = 9 where id = 1"])
    assert [rows_of(one) for one in outcomes] == [1, 1]
    assert rows("select * from t") == [(1, 9), (2, 0), (3, 0), (4, 0)]


@pytest.mark.parametrize(
    ("local_bytes", "updates"),
    [
        ("0", 2),
        pytest.param("262144", 10, marks=pytest.mark.long("metastore", "statements", "txn")),
    ],
)
def test_four_threads_that_update_rows_of_their_own_all_commit_without_a_retry(
    acid, sessions, rows, local_bytes, updates
):
    """Of one unpartitioned table; by the driver, and by Spark jobs."""
    acid.sql(f"create table t (id int, n int) {ACID}")
    acid.sql("insert into t select cast(id as int), 0 from range(40)")
    four = sessions(retries=0, count=4, reads__local_bytes=local_bytes)
    outcomes = []

    def work(own):
        try:
            for n in range(updates):
                found = four[own].sql(f"update t set n = n + 1 where id = {own * 10 + n}")
                outcomes.append((found.rows, found.retries))
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=500)
    assert outcomes == [(1, 0)] * (4 * updates)
    assert sorted(rows("select * from t")) == [(i, int(i % 10 < updates)) for i in range(40)]
    ended = acid.client.metastore.show_txns()
    assert [one for one in ended if one.state is TxnState.ABORTED] == []  # or opened anew


MERGE = """
merge into t using (select 7 as id, 1 as n) s on t.id = s.id
when matched then update set n = t.n + s.n when not matched then insert values (s.id, s.n)
"""


@pytest.mark.parametrize(
    ("isolation", "expected", "retries"),
    [("serializable", [(7, 2)], [0, 1]), ("snapshot", [(7, 1), (7, 1)], [0, 0])],
)
def test_two_merges_of_a_new_key(table, sessions, rows, isolation, expected, retries):
    """Serializable, the second finds the key of the first; at snapshot isolation it cannot."""
    two = sessions(retries=3, txn__isolation=isolation)
    outcomes = together(two, [MERGE] * 2)
    assert sorted(one.retries for one in outcomes) == retries
    assert [row for row in rows("select * from t") if row[0] == 7] == expected


def test_write_skew_of_two_statements_on_a_table_that_allows_none(acid, table, sessions, rows):
    """Each empties its row where the other's is not empty."""
    acid.sql("alter table t set tblproperties ('hiveacid.isolation'='serializable')")
    acid.sql("update t set n = 1 where id < 3")
    text = "update t set n = 0 where id = {} and {} in (select x.id from t x where x.n = 1)"
    outcomes = together(sessions(retries=3), [text.format(1, 2), text.format(2, 1)])
    assert sorted(one.rows for one in outcomes) == [0, 1]
    assert sum(row[1] for row in rows("select * from t")) == 1
