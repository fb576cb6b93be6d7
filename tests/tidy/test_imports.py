"""Laws 2 to 7: who may know whom. (Law 1 is import-linter's, in pyproject.toml.)"""

from __future__ import annotations

import ast
import importlib
import sys
from graphlib import CycleError, TopologicalSorter
from types import ModuleType

from tests.tidy.sources import imports, sources

import hiveacid

THIRD_PARTY_ROOMS = {
    "pyarrow": {
        "storage",
        "reading",
        "writing",
        "spark",
        "statements",
        "connectors",
        "streaming",
        "compaction",
        "functions",
        "testing",
        "demo",
    },
    "numpy": {"storage", "spark", "statements", "writing"},
    "pandas": {"spark"},
    "google": {"storage"},
    "sqlalchemy": {"metastore"},
    "pyspark": {
        "spark",
        "statements",
        "connectors",
        "compaction",
        "session",
        "compacting",
        "progress",
        "past",
        "table",
        "writing",
        "functions",
        "tables",
        "cli",
        "demo",
    },
    "click": {"cli"},
    "rich": {"cli", "demo", "progress"},
    "duckdb": {"demo"},
    "prometheus_client": {"compaction"},
    "hdfs_native": {"storage"},
    "polars": {"reading"},
}
"""Third-party packages and the rooms that may name them (docs/ARCHITECTURE.md, section 2)."""

PURE_ROOMS = {"model", "layout"}
MAKES_FILES = {
    "hiveacid.storage.filesystem",
    "hiveacid.txn.manager",
    "hiveacid.reading.source",
    "hiveacid.reading.export",
    "hiveacid.cli.files",
    "hiveacid.cli.administration",
}
EMPTY_FRAGMENTS = {"hiveacid.reading.arrow_dataset", "hiveacid.storage.plan.arrow_conditions"}
"""They make fragments of Arrow's that stand for no file, but have to name a file system."""
FORBIDDEN_MODULE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
JVM_GATEWAY = {"_jvm", "_jsc", "_jdf", "_jsparkSession", "_jsession", "_gateway"}
ENDS_A_TRANSACTION = {"commit_txn", "abort_txn"}
"""A client ends its own transaction; ABORT TRANSACTIONS (``abort_txns``) is an administrator's."""


def test_law_2_model_and_layout_import_the_standard_library_only() -> None:
    allowed = sys.stdlib_module_names | {"hiveacid"}
    wrong = [i for i in imports() if i.source.room in PURE_ROOMS and i.top not in allowed]
    assert not wrong, "\n".join(map(str, wrong))


def test_law_2_model_and_layout_open_no_file_read_no_clock_log_nothing() -> None:
    doors = {"os", "io", "pathlib", "time", "logging", "socket", "subprocess", "shutil", "random"}
    wrong = [i for i in imports() if i.source.room in PURE_ROOMS and i.top in doors]
    assert not wrong, "\n".join(map(str, wrong))
    opens = [
        f"{source.module}:{node.lineno}"
        for source in sources()
        if source.room in PURE_ROOMS
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"open", "print", "input"}
    ]
    assert not opens


def test_law_3_third_party_names_appear_only_in_their_rooms() -> None:
    wrong = [
        i
        for i in imports()
        if i.top != "hiveacid"
        and i.top not in sys.stdlib_module_names
        and i.source.room not in THIRD_PARTY_ROOMS.get(i.top, set())
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_law_4_spark_never_gets_a_transaction_or_a_metastore() -> None:
    rooms = ("hiveacid.txn", "hiveacid.metastore", "hiveacid.client")
    wrong = [i for i in imports() if i.source.room == "spark" and i.target.startswith(rooms)]
    assert not wrong, "\n".join(map(str, wrong))


def test_law_4_no_jvm_gateway_access() -> None:
    wrong = [
        f"{source.module}:{node.lineno} .{node.attr}"
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr in JVM_GATEWAY
    ]
    assert not wrong, "\n".join(wrong)


def test_law_5_only_txn_commits_or_aborts() -> None:
    wrong = [
        f"{source.module}:{node.lineno} .{node.attr}"
        for source in sources()
        if source.room not in {"txn", "metastore", "client"}
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr in ENDS_A_TRANSACTION
    ]
    assert not wrong, "\n".join(wrong)


def test_law_6_files_are_handed_in() -> None:
    """Only a client, and what reads a path without one, makes ``Files``; all else is given them."""
    wrong = [
        f"{source.module}:{node.lineno} {node.func.id}"
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"Files", "FileSystem"}
        and source.module not in MAKES_FILES
    ]
    assert not wrong, "\n".join(wrong)
    doors = [i for i in imports() if i.target.startswith("pyarrow.fs")]
    assert {i.source.module for i in doors} == {
        "hiveacid.storage.filesystem",
        "hiveacid.storage.stores",
        *EMPTY_FRAGMENTS,
    }


def test_law_7_no_import_cycle_lazy_and_type_only_imports_counted() -> None:
    modules = {source.module for source in sources()}
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for item in imports():
        target = item.target if item.target in modules else item.target.rpartition(".")[0]
        if target in modules and target != item.source.module:
            graph[item.source.module].add(target)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(reversed(error.args[1]))) from None


def test_law_7_no_module_is_named_for_being_left_over() -> None:
    wrong = [s.module for s in sources() if set(s.module.split(".")) & FORBIDDEN_MODULE_NAMES]
    assert not wrong


def test_no_module_stands_in_the_place_of_a_public_name() -> None:
    """``import hiveacid.x`` binds ``x`` in the package, where a lazy name is looked for last."""
    modules = {source.module.split(".")[1] for source in sources() if "." in source.module}
    assert not modules & set(hiveacid.__all__)


def test_a_public_name_is_the_same_before_and_after_its_module_is_imported() -> None:
    for name, home in hiveacid._HOMES.items():
        expected = getattr(importlib.import_module(home), name)
        assert getattr(hiveacid, name) is expected
        assert not isinstance(expected, ModuleType)
