"""The commands that need no JVM, as a shell runs them: output, exit status, speed."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.running import run as hiveacid
from tests.unit.cli.running import run_apart

import hiveacid as hiveacid_of_python
from hiveacid.clock import SystemClock
from hiveacid.metastore.connect import connect
from hiveacid.model.transactions import LockComponent, LockType

START_S_MAX = 1.0


def children_s() -> float:
    """Seconds of the processor that ended child processes have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture
def table(tmp_path: Path, project: Path) -> Path:
    """A table directory that Hive wrote: insert, update, delete."""
    return Path(shutil.copytree(project / "tests/data/cli/a02_update_delete", tmp_path / "t"))


@pytest.fixture
def metastore_url(tmp_path: Path) -> str:
    """A metastore with an open transaction that holds a lock."""
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with connect(url, clock=SystemClock()) as metastore:
        (txn,) = metastore.open_txns(1, user="ann", host="here")
        lock = LockComponent(type=LockType.SHARED_READ, database="default", table="t")
        metastore.lock([lock], txn=txn, user="ann", host="here")
    return url


def test_ls_prints_what_resolve_chose_in_its_order(table: Path) -> None:
    done = hiveacid("ls", str(table), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "base": None,
        "originals": [],
        "deltas": [
            "delta_0000001_0000001_0000",
            "delete_delta_0000002_0000002_0000",
            "delta_0000002_0000002_0001",
            "delete_delta_0000003_0000003_0000",
        ],
        "obsolete": [],
        "aborted": [],
    }


def test_ls_with_valid_write_ids_leaves_out_what_they_do_not_cover(table: Path) -> None:
    valid = "default.t:3:9223372036854775807::2"
    done = hiveacid("ls", str(table), "--json", "--valid-write-ids", valid)
    answer = json.loads(done.stdout)
    assert answer["deltas"] == ["delta_0000001_0000001_0000", "delete_delta_0000003_0000003_0000"]
    assert answer["aborted"] == ["delete_delta_0000002_0000002_0000", "delta_0000002_0000002_0001"]


def test_ls_with_valid_txns_leaves_out_compactions_not_committed(table: Path) -> None:
    (table / "base_0000003_v0000009").mkdir()
    (table / "base_0000003_v0000009" / "bucket_00000").touch()
    open_txn = hiveacid("ls", str(table), "--json", "--valid-txns", "9:9:9:")
    assert json.loads(open_txn.stdout)["base"] is None
    committed = hiveacid("ls", str(table), "--json", "--valid-txns", "9:9223372036854775807::")
    answer = json.loads(committed.stdout)
    assert answer["base"] == "base_0000003_v0000009"
    assert len(answer["obsolete"]) == 4


def test_ls_of_a_partitioned_root_is_a_list_with_partitions(table: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("p=1", "p=2"):
        shutil.copytree(table, root / name)
    answer = json.loads(hiveacid("ls", str(root), "--json").stdout)
    assert [part["partition"] for part in answer] == ["p=1", "p=2"]
    assert all(len(part["deltas"]) == 4 for part in answer)


def test_ls_of_a_table_has_the_partitions_of_the_metastore_wherever_they_lie(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    with hiveacid_of_python.connect(None, url, warehouse=f"{tmp_path}/wh") as acid:
        acid.sql(
            "create table t (i int) partitioned by (p int) stored as orc"
            " tblproperties ('transactional'='true')"
        )
        acid.sql(f"alter table t add partition (p=2) location '{tmp_path}/elsewhere'")
        acid.sql("insert into t values (1, 1), (2, 2)")
    answer = json.loads(hiveacid("ls", "t", "--json", "--metastore", url).stdout)
    assert [(one["partition"], len(one["deltas"])) for one in answer] == [("p=1", 1), ("p=2", 1)]


def test_ls_without_json_is_a_tree(table: Path) -> None:
    done = hiveacid("ls", str(table))
    assert "delete_delta_0000003_0000003_0000" in done.stdout
    assert "bucket_00000_0" in done.stdout


def test_names_with_brackets_are_in_the_tree_as_they_are(table: Path, tmp_path: Path) -> None:
    for name in ("p=[red]", "p=[x]", "p=[%2Fx]"):
        shutil.copytree(table, tmp_path / ("odd [bold]" + "x" * 100) / name)
    done = hiveacid("ls", str(tmp_path / ("odd [bold]" + "x" * 100)))
    assert done.returncode == 0, done.stderr
    assert all(text in done.stdout for text in ("odd [bold]" + "x" * 100, "p=[red]", "p=[x]"))


def test_dump_prints_an_event_a_line(table: Path) -> None:
    rows = hiveacid("dump", str(table / "delta_0000001_0000001_0000" / "bucket_00000_0"))
    events = [json.loads(line) for line in rows.stdout.splitlines()]
    assert events[2] == {
        "operation": 0,
        "originalTransaction": 1,
        "bucket": 536870912,
        "rowId": 2,
        "currentTransaction": 1,
        "row": {"id": 3, "name": "three", "val": None},
    }
    gone = hiveacid("dump", str(table / "delete_delta_0000003_0000003_0000" / "bucket_00000_0"))
    (event,) = map(json.loads, gone.stdout.splitlines())
    assert (event["operation"], event["row"]) == (2, None)


def test_txns_and_locks_show_what_the_metastore_holds(metastore_url: str) -> None:
    txns = json.loads(hiveacid("txns", "--metastore", metastore_url, "--json").stdout)
    assert [(txn["txnid"], txn["state"], txn["user"]) for txn in txns] == [(1, "OPEN", "ann")]
    locks = json.loads(hiveacid("locks", "--metastore", metastore_url, "--json").stdout)
    assert [(lock["table"], lock["lock_type"]) for lock in locks] == [("t", "SHARED_READ")]
    assert "SHARED_READ" in hiveacid("locks", "--metastore", metastore_url).stdout


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["ls", "no/such/dir"], 1, "error: there is no directory no/such/dir"),
        (["ls", "some_table"], 1, "give --metastore"),
        (["dump", "no-such-file"], 1, "error: file "),
        (["dump", __file__], 1, "error: "),
        (["txns"], 2, "HIVEACID_METASTORE"),
        (["txns", "--metastore", "sqlite:////no/such.db"], 1, "error: There is no metastore"),
        (["locks", "--metastore", __file__], 1, "error: "),
        (["ls"], 2, "Missing argument"),
        (["sql"], 2, "either -e or -f"),
        (["sql", "-e", "select 1"], 2, "HIVEACID_METASTORE"),
        (["demo", "--scale", "0"], 2, "scale"),
    ],
)
def test_bad_input_gets_one_line_and_a_status(args: list[str], status: int, said: str) -> None:
    done = hiveacid(*args)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_bad_valid_lists_are_refused(table: Path) -> None:
    for option in ("--valid-write-ids", "--valid-txns"):
        done = hiveacid("ls", str(table), option, "nonsense")
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")


@pytest.mark.timing
def test_ls_dump_txns_and_locks_start_within_a_second(table: Path, metastore_url: str) -> None:
    file = table / "delta_0000001_0000001_0000" / "bucket_00000_0"
    for args in (
        ["ls", str(table)],
        ["dump", str(file)],
        ["txns", "--metastore", metastore_url],
        ["locks", "--metastore", metastore_url],
    ):
        # The best of three, of the processor: the machine may have other work.
        times = []
        for _ in range(3):
            begin = children_s()
            assert run_apart(*args).returncode == 0
            times.append(children_s() - begin)
        assert min(times) < START_S_MAX, f"{args[0]}: {times}"


@pytest.mark.slow
def test_commands_without_a_jvm_never_import_pyspark(table: Path) -> None:
    code = (
        "import sys\nfrom hiveacid.cli import main\n"
        f"sys.argv = ['hiveacid', 'ls', {str(table)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'pyspark', 'pandas', 'sqlglot'} & set(sys.modules), 'too much imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_statements_without_spark_import_neither_spark_nor_pandas(tmp_path: Path) -> None:
    code = (
        "import sys, hiveacid\n"
        f"acid = hiveacid.connect(None, 'sqlite:///{tmp_path}/m.db', warehouse='{tmp_path}/wh')\n"
        "acid.sql('create table t (id int) stored as orc')\n"
        "acid.sql('describe t')\n"
        "assert not {'pyspark', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys, hiveacid\n"
        "assert not {'pyspark', 'pyarrow', 'sqlalchemy'} & set(sys.modules)\n"
        "assert hiveacid.AcidError is not None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.java
@pytest.mark.long("cli", "session", "sql", "settings", "settings_parts")
def test_a_script_gets_values_and_variables(tmp_path: Path) -> None:
    places = ("--metastore", f"sqlite:///{tmp_path}/m.db", "--warehouse", str(tmp_path / "wh"))
    text = (
        "create table ${t} (id int, code string, n decimal(4,1)) ${hiveconf:tail};"
        "insert into ${hivevar:t} values (:id, :code, :n), (:none, 'x', null)"
    )
    done = run_apart(
        *("sql", "-e", text, *places, "-d", "t=emp", "--hiveconf", "tail=stored as orc"),
        *("--arg", "id=5", "--arg", "code=007'", "--arg", "n=2.5", "--arg", "none=null"),
    )
    assert done.returncode == 0, done.stderr
    printed = run_apart("read", "emp", "--format", "csv", *places[:2]).stdout
    assert printed == "id,code,n\n5,007',2.5\n,x,\n"
    wrong = run_apart("sql", "-e", "show tables", *places, "--arg", "id")
    assert (wrong.returncode, "'id' is not NAME=VALUE" in wrong.stderr) == (2, True)


@pytest.mark.java
@pytest.mark.long("cli", "session", "sql", "transaction")
def test_a_script_that_ends_in_a_transaction_says_that_it_is_rolled_back(tmp_path: Path) -> None:
    places = ("--metastore", f"sqlite:///{tmp_path}/m.db", "--warehouse", str(tmp_path / "wh"))
    table = "create table t (a int) stored as orc tblproperties ('transactional'='true')"
    for text, status in (
        (f"{table}; begin; show tables", 0),
        ("begin; insert into t values (1)", 1),
        ("set autocommit=false; insert into t values (1); commit; show locks", 0),
        ("set autocommit=false; insert into t values (2)", 1),
    ):
        done = run_apart("sql", "-e", text, *places)
        assert done.returncode == status, (text, done.stderr)
        assert ("without COMMIT: it is rolled back" in done.stderr) == bool(status)
    assert run_apart("read", "t", "--format", "csv", *places[:2]).stdout == "a\n1\n"


@pytest.mark.java
@pytest.mark.long("cli", "spark", "statements")
def test_what_a_query_runs_into_is_one_line(tmp_path: Path) -> None:
    places = ("--metastore", f"sqlite:///{tmp_path}/m.db", "--warehouse", str(tmp_path / "wh"))
    wrong = "select date_format(a, 'u') from values ('2024-01-05') v(a)"
    text = f"select interval 14 month i, 7 n; {wrong}"
    done = run_apart("sql", "-e", text, "--format", "csv", *places)
    assert done.stdout == "i,n\nINTERVAL '14' MONTH,7\n"
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert re.search(r"^error: .*Fail to recognize 'u' pattern", done.stderr, re.MULTILINE)
