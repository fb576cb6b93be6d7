"""Natural mistakes on the command line: each ends in one error that speaks of its options."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from tests.unit.cli.running import run

import hiveacid
from hiveacid.cli.app import app
from hiveacid.cli.output import spelled

LIST = "it has the form table:hwm:minOpen:open:aborted"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Path:
    """``m.db`` with a table ``t``, a table's directory ``a02``, and ``gap`` with a write id that
    only lists can tell about.
    """
    root = tmp_path_factory.mktemp("mistakes")
    with hiveacid.connect(None, f"sqlite:///{root}/m.db", warehouse=str(root / "wh")) as acid:
        acid.create_table("t", "id int")
    shutil.copytree(project / "tests/data/cli/a02_update_delete", root / "a02")
    (bucket, *_) = (root / "a02").glob("delta*/bucket*")
    (root / "latin.sql").write_bytes("select 'é'".encode("latin-1"))
    (root / "gap/delta_0000009_0000009_0000").mkdir(parents=True)
    shutil.copy(bucket, root / "gap/delta_0000009_0000009_0000/bucket_00000")
    return root


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("sql -e SET --metastore {root}/none.db", 1, "`hiveacid sql --warehouse DIR`"),
        ("sql -e SELEC --metastore {url}", 1, "line 1:0 cannot recognize input"),
        ("sql -e SET --metastore {url} --warehouse /other", 1, "leave --warehouse out"),
        ("sql -e SET --metastore {url} --arg x", 2, "'x' is not NAME=VALUE"),
        ("sql -e SET --metastore {url} --hivevar =1", 2, "'=1' is not NAME=VALUE"),
        ("read '' --metastore {url}", 2, "Invalid value for 'PATH|TABLE': it is empty"),
        ("clean '' --metastore {url}", 2, "Invalid value for '[TABLE]': it is empty"),
        ("dump ''", 2, "Invalid value for 'FILE': it is empty"),
        ("sql -f {root} --metastore {url}", 2, "is a directory"),
        ("sql -f {root}/latin.sql --metastore {url}", 2, "latin.sql is not text in UTF-8"),
        ("attach {root}/gap --name g --metastore {url}", 1, "or --accept-all-write-ids to read"),
        ("attach {root}/gap --name g --metastore {url}", 1, "(--valid-write-ids, --valid-txns;"),
        (
            "attach {root}/a02 --name x --partitioned-by p --metastore {url}",
            1,
            "--partitioned-by goes with --schema",
        ),
        ("attach {root}/a02 --metastore {url}", 2, "Missing option '--name'"),
        ("detach nosuch --metastore {url}", 1, "Table not found default.nosuch"),
        ("ls {root}/a02 --valid-write-ids zz", 1, f"Not a list of valid ids: 'zz'; {LIST}"),
        ("ls {root}/a02 --valid-txns t:1:2::", 1, "it has the form hwm:minOpen:open:aborted"),
        ("ls t", 1, "to look at a table by name, give --metastore"),
        ("read t", 1, "to look at a table by name, give --metastore"),
        ("read {root}/a02 --to {root}", 1, "is a directory: name a file"),
        ("read {root}/a02 --to {root}/new.csv/", 1, "is a directory: name a file"),
        ("read {root}/a02 --to {root}/no/x.csv", 1, "there is no directory {root}/no"),
        ("read {root}/a02 --to {root}/x.txt", 1, "ends in none of .parquet, .arrow, .csv"),
        ("read {root}/a02 --limit 1 --to x.csv", 2, "--limit is for rows that are printed"),
        (
            "changes t --metastore {url}",
            1,
            "--since names the version (write id) or the time after",
        ),
        ("clean t --retain-hours 1e400 --metastore {url}", 1, "from 0 to 1e+09, not inf"),
        ("clean t --retain-hours -1 --metastore {url}", 2, "Invalid value for '--retain-hours'"),
        ("read {root}/a02 --limit 9223372036854775808", 2, "Invalid value for '--limit'"),
        (
            "history t --limit 9223372036854775808 --metastore {url}",
            2,
            "Invalid value for '--limit'",
        ),
        ("stream t --commit-s inf --metastore {url}", 2, "Invalid value for '--commit-s'"),
        ("stream t --commit-s nan --metastore {url}", 2, "Invalid value for '--commit-s'"),
        ("demo --scale nan", 2, "'nan' is not a number"),
        ("read s3://", 1, "Missing bucket name in S3 URI"),
        ("read {root}/m.db", 1, "{root}/m.db is a file: a table is read by its directory"),
        ("dump {root}/a02", 1, "`hiveacid ls` shows what is in one"),
        ("dump {root}/m.db", 1, "is not a complete ORC file"),
        ("txns", 2, "give --metastore or set HIVEACID_METASTORE"),
        ("abort --metastore {url}", 2, "give ids of transactions, or --lock ID"),
        ("abort --lock 99 --metastore {url}", 1, "`hiveacid locks` lists them"),
        ("abort 99 --metastore {url}", 1, "No such transaction: 99"),
        ("compact t --buckets 3 --metastore {url}", 1, "--buckets and --order-by are for"),
        ("compact t --partition p --metastore {url}", 1, "--partition is p=x or p=x/q=y"),
        ("compactions list --status zz --metastore {url}", 1, "Known are: initiated"),
        ("compactor run --once --set hiveacid.x=1 --metastore {url}", 1, "no setting hiveacid.x"),
        ("metastore check {root}/none.db", 1, "`hiveacid metastore init` makes one"),
        ("demo --scale 0", 2, "is not in the range"),
    ],
)
def test_a_mistake_is_told_in_the_words_of_the_command_line(
    command: str, status: int, said: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIVEACID_METASTORE", raising=False)
    names = {"root": str(place), "url": f"sqlite:///{place}/m.db"}
    done = run(*shlex.split(command.format(**names)))
    assert done.returncode == status, done.stdout + done.stderr
    assert said.format(**names) in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.parametrize(
    ("text", "in_sql", "expected"),
    [
        ("give order_by=True or retry_s", False, "give --order-by or retry_s"),
        (
            "hiveacid.order_by stays, order_by.x too",
            False,
            "hiveacid.order_by stays, order_by.x too",
        ),
        ("order_by is a column", True, "order_by is a column"),
        ('Say it as partition={"year": 1995}.', False, "Say it as --partition year=1995."),
        ("SHOW LOCKS", True, "SHOW LOCKS"),
        (
            "hiveacid.connect(spark, url, warehouse='/data/warehouse')",
            True,
            "give --warehouse /data/warehouse",
        ),
    ],
)
def test_arguments_of_python_are_spelled_as_options(text: str, in_sql: bool, expected: str) -> None:
    assert spelled(text, {"order_by": "--order-by"}, in_sql=in_sql) == expected


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_one_round_says_what_it_did_and_what_it_left(workers: int, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    settings = {"hiveacid.compactor.auto": "off"}
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh", settings=settings) as acid:
        table = acid.create_table("t", "id int")
        for number in range(2):
            acid.sql(f"insert into t values ({number})")
        table.compact("major")
        done = run("compactor", "run", "--once", "--workers", str(workers), "--metastore", url)
        states = [one.state.phrase for one in acid.compactions("t")]
    assert done.returncode == 0, done.stderr
    if workers:
        assert "MAJOR default.t: compacted in" in done.stdout
        assert "1 compactions of the default pool were done, 0 wait" in done.stdout
        assert states[0] != "initiated"
    else:
        assert done.stdout.startswith("0 compactions of the default pool were done, 1 wait")
        assert states == ["initiated"]


def test_every_command_explains_itself() -> None:
    def check(words: list[str], command: object) -> None:
        done = run(*words, "--help")
        assert (done.returncode, "Usage: hiveacid" in done.stdout) == (0, True), words
        for name, below in getattr(command, "commands", {}).items():
            check([*words, name], below)

    check([], app)
