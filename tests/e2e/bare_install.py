"""Runs every public function, method and command where no extra is installed.

Run by ``test_without_extras.py`` in a process of its own; prints one JSON object of call to
outcome: ``ok``, or kind and text of the error. Packages of the extras are hidden from ``import``.
"""

from __future__ import annotations

import importlib.machinery
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

EXTRAS = {
    *("pyspark", "py4j", "pandas", "grpc", "google.rpc", "psycopg", "psycopg_binary", "duckdb"),
    *("polars", "tpchgen_cli", "prometheus_client", "hdfs_native"),
}


class WithoutExtras(importlib.machinery.PathFinder):
    """Finds what is installed, but for the extras' packages."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """None for what is not found."""
        return None if fullname in EXTRAS else super().find_spec(fullname, path, target)


def outcome(call: Callable[[], object]) -> str:
    """``ok``, or what the call ended in."""
    from hiveacid.errors import AcidError

    try:
        call()
    except AcidError as error:
        return f"{error.kind}: {error} {' '.join(getattr(error, '__notes__', ()))}"
    except BaseException:
        return f"BARE {traceback.format_exc()}"
    return "ok"


def public(value: object) -> list[str]:
    """Names of the public methods."""
    kind = type(value)
    names = [name for name in dir(kind) if name[0] != "_" and callable(getattr(kind, name))]
    return [name for name in names if name not in FOR_STATEMENTS]


def functions(where: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """The package's functions and the handles' methods, each with natural arguments."""
    import hiveacid

    url = f"sqlite:///{where}/functions.db"
    warehouse = str(where / "functions")
    settings = {"hiveacid.compactor.auto": "off"}
    acid = hiveacid.connect(None, url, warehouse=warehouse, settings=settings)
    for text in SETUP:
        yield f"setup {text}", lambda text=text: acid.sql(text)  # type: ignore[misc]
    table = acid.table("t")
    scan_polars = hiveacid.dataset(table).scan_polars
    yield "Dataset.scan_polars", lambda: scan_polars().collect()
    arguments = natural_arguments(table, url=url, warehouse=warehouse)
    first, last = ("savepoint", "rollback_to", "release"), ("close", "commit", "rollback")
    owners = [
        ("hiveacid", hiveacid),
        ("AcidTable", table),
        ("AcidTransaction", acid.transaction()),
        ("Session", acid),
    ]
    for label, owner in owners:
        names = hiveacid.__all__ if owner is hiveacid else public(owner)
        ordered = [name for name in (*first, *names) if name in names and name not in last]
        for name in [*dict.fromkeys(ordered), *(name for name in last if name in names)]:
            member = getattr(owner, name)
            if inspect.isclass(member) or not callable(member):
                continue
            given = arguments.get(f"{label}.{name}") or arguments[name]
            yield f"{label}.{name}", lambda given=given, member=member: given(member)  # type: ignore[misc]


def natural_arguments(
    table: Any, *, url: str, warehouse: str
) -> Mapping[str, Callable[[Any], object]]:
    """How each function or method (``Owner.name`` goes before ``name``) is called; a new public
    one without a line here fails the run.
    """
    import pyarrow as pa

    rows = pa.table({"id": [7], "name": ["x"]})
    return {
        "read_arrow": lambda f: f(table).read_all(),
        "dataset": lambda f: f(table).to_table(),
        "hiveacid.write_arrow": lambda f: f(table, rows),
        "hiveacid.delete_arrow": lambda f: f(table, "id = 7"),
        "hiveacid.merge_arrow": lambda f: f(table, rows, on="id"),
        "connect": lambda f: f(None, url, warehouse=warehouse).close(),
        "sql": lambda f: f("select * from t"),
        "script": lambda f: list(f("show tables; insert into t values (9, 'z', 9)")),
        "execute": lambda f: f(delete_of(table)),
        "table": lambda f: f("t"),
        "table_name": lambda f: f("t"),
        "table_definition": lambda f: f(table.name),
        "transaction": lambda f: f().rollback(),
        "create_table": lambda f: f("made", "id int, name string"),
        "use_spark": lambda f: f(object()),
        "AcidTransaction.sql": lambda f: f("insert into t values (8, 'y', 8)"),
        "compactions": lambda f: f("t"),
        "clean": lambda f: f(),
        "compact": lambda f: f("major", wait=True),
        "insert": lambda f: f(rows, columns=["id", "name"]),
        "overwrite": lambda f: f(rows, columns=["id", "name"]),
        "load": lambda f: f(warehouse),
        "update": lambda f: f({"name": "upper(name)"}),
        "delete": lambda f: f(where="id = 1"),
        "merge": lambda f: f(rows, on="t.id = s.id").when_matched_delete().run(),
        "write_arrow": lambda f: f(rows),
        "delete_arrow": lambda f: f("id = 7"),
        "merge_arrow": lambda f: f(rows, on="id"),
        "df": lambda f: f(),
        "analyze": lambda f: f(columns=["id"]),
        "why_compact": lambda f: f(),
        "lock": lambda f: f(),
        "unlock": lambda f: f(),
        "savepoint": lambda f: f("a"),
        "rollback_to": lambda f: f("a"),
        "release": lambda f: f("a"),
        "commit": lambda f: f(),
        "rollback": lambda f: f(),
        "close": lambda f: f(),
        "abort_locks": lambda f: f(4242),
        "abort_transactions": lambda f: f(4242),
        "reading": lambda f: f(),
        "attach": lambda f: f("/nowhere", name="taken"),
        "stream": lambda f: streamed(f("t")),
        "enable": lambda f: f(object(), url, warehouse=warehouse),
        "disable": lambda f: f(object()),
        "foreach_batch": lambda f: f(table.session, "t"),
        "begin_batch": lambda f: f("a", 1, table="t"),
        "detach": lambda f: f("p"),
    } | of_the_past(table)


def of_the_past(table: Any) -> Mapping[str, Callable[[Any], object]]:
    """The same, of what tells and changes the past, and of health."""
    return {
        "at": lambda f: f("2999-01-01").table("t"),
        "changes": lambda f: f(since=0),
        "read_changes": lambda f: f(table, since=0),
        "detail": lambda f: f(),
        "doctor": lambda f: f(),
        "history": lambda f: f(limit=1),
        "purge": lambda f: f(where="id = 1"),
        "restore": lambda f: f(write_id=1),
        "explain_row": lambda f: f("t", where="id = 1"),
        "undo": lambda f: f(4242),
        "Session.tag": lambda f: f("close", ["t"]),
        "Session.drop_tag": lambda f: f("no such tag"),
        "tag": lambda f: f("q3", retain=60.0),
        "drop_tag": lambda f: f("q3", if_exists=True),
        "drop_consumer": lambda f: f("crm", if_exists=True),
        "show_consumers": lambda f: f("t"),
        "tags": lambda f: f(),
    }


def streamed(stream: Any) -> None:
    """One transaction of a stream."""
    with stream, stream.transaction():
        stream.write({"id": 5, "name": "s"})


FOR_STATEMENTS = {
    *("lease", "use_database", "control", "definition_context"),
    *("look", "run", "over", "take_over", "purged", "restored", "reading_context", "as_of"),
    "rows_explained",
}
"""What a session does for its statements and for connectors, not for users."""


def delete_of(table: Any) -> object:
    """A statement value that needs Spark."""
    from hiveacid.statements.values import Delete

    return Delete(table.name, "id = 1")


SETUP = (
    "create table t (id int, name string) stored as orc tblproperties ('transactional'='true')",
    "create table plain (id int) stored as orc",
    "create table texts (id int) stored as textfile",
    "create table p (id int) partitioned by (d string) stored as orc "
    "tblproperties ('transactional'='true')",
    "insert into t values (1, 'a'), (2, 'b')",
    "insert into plain values (1)",
    "insert into texts values (1)",
    "insert into p partition (d='x') values (1)",
    "truncate table texts",
    "delete from t",
    "alter table t add columns (more int)",
    "describe formatted t",
    "show create table t",
    "explain locks insert into t values (1, 'a', 1)",
    "explain select * from t",
    "select count(*) from t",
    "select 1",
    "create table ctas as select * from t",
    "create view v as select * from t",
    "insert into t select * from t",
    "update t set name = 'x'",
    "merge into t using plain s on t.id = s.id when matched then delete",
    "analyze table t compute statistics noscan",
    "analyze table t compute statistics for columns",
    "msck repair table p",
    "alter table t compact 'major' and wait",
    "show compactions",
    "show transactions",
    "set hiveacid.lock.timeout_s=5",
)


def commands(where: Path) -> Iterator[tuple[str, list[str]]]:
    """Arguments for every command; one that is not here ends the run."""
    import click

    from hiveacid.cli.app import app

    url = f"sqlite:///{where}/functions.db"
    store = ["--metastore", url]
    house = ["--warehouse", str(where / "functions")]
    files = sorted((where / "functions" / "t").rglob("bucket_*"))
    given = {
        "sql": ["sql", "-e", "show tables; select * from t", *store, *house],
        "ls": ["ls", "t", *store],
        "read": ["read", "t", *store],
        "dump": ["dump", str(files[0])],
        "stream": ["stream", "t", *store],
        "attach": ["attach", "/nowhere", "--name", "taken", *store],
        "abort": ["abort", "--lock", "4242", *store],
        "detach": ["detach", "made", *store],
        "txns": ["txns", *store],
        "locks": ["locks", *store],
        "compact": ["compact", "t", "--wait", *store],
        "clean": ["clean", *store],
        "compactions list": ["compactions", "list", *store],
        "compactions why": ["compactions", "why", "t", *store],
        "compactions abort": ["compactions", "abort", "1", *store],
        "compactor run": ["compactor", "run", "--once", *store],
        "metastore init": ["metastore", "init", f"sqlite:///{where}/other.db"],
        "metastore upgrade": ["metastore", "upgrade", f"sqlite:///{where}/other.db"],
        "metastore check": ["metastore", "check", "--files", f"sqlite:///{where}/other.db"],
        "demo": ["demo", "--dir", str(where / "demo")],
        "changes": ["changes", "t", "--since", "0", *store],
        "consumers": ["consumers", "t", *store],
        "describe": ["describe", "t", *store],
        "doctor": ["doctor", *store],
        "explain-row": ["explain-row", "t", "--where", "id = 1", *store],
        "history": ["history", "t", *store],
        "metrics": ["metrics", *store],
        "purge": ["purge", "t", *store],
        "tags": ["tags", *store],
        "undo": ["undo", "4242", *store],
    }
    more = {
        "compactor run --spark": ["compactor", "run", "--once", "--spark", *store],
        "metastore init postgres": ["metastore", "init", "postgresql://localhost:1/none"],
    }

    def walk(group: click.Group, prefix: str) -> Iterator[str]:
        for name, command in group.commands.items():
            if isinstance(command, click.Group):
                yield from walk(command, f"{prefix}{name} ")
            else:
                yield prefix + name

    for name in walk(app, ""):
        yield name, given[name]
    yield from more.items()


def main() -> None:
    """Calls everything; the outcomes as JSON."""
    place = sys.meta_path.index(importlib.machinery.PathFinder)
    sys.meta_path[place] = WithoutExtras
    where = Path(sys.argv[1])
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - until the process ends
    outcomes = {label: outcome(call) for label, call in functions(where)}
    from hiveacid.cli.app import app

    for name, arguments in commands(where):
        outcomes[f"$ {name}"] = outcome(
            lambda arguments=arguments: app(arguments, prog_name="hiveacid", standalone_mode=False)  # type: ignore[misc]
        )
    print("\n" + json.dumps(outcomes))


if __name__ == "__main__":
    main()
