"""ORC's own Java tools (they come with Hive) on files of ours: the footer, and every value."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.orc as orc
from tests.interop.hive_tool import jars

from hiveacid.reading.export import dump

KEYS = {"hive.acid.key.index", "hive.acid.version"}
"""What the tools list of our user metadata; of ``hive.acid.stats`` they make counts."""


def check_files(folder: Path, version: str) -> Iterator[tuple[str, list[str]]]:
    """Each ORC file below a folder: metadata, and row events as ``dump`` has them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and _is_orc(path))
    by_name = {entry["fileName"]: entry for entry in _tool(files, "meta", "-j", version=version)}
    found: list[str] = []
    for path in files:
        entry = by_name.get(str(path))
        found += [f"{path}: no answer"] if entry is None else list(_wrong(path, entry))
    yield f"ORC's tools read the footers of {len(files)} files", found
    of_events = [path for path in files if path.name.startswith("bucket_")]
    lines = _tool(of_events, "data", version=version)
    events = [event for path in of_events for event in dump(str(path))]
    same = [_event(line) for line in lines] == [_event(event) for event in events]
    yield f"ORC's tools read {len(events)} events", [] if same else [f"{len(lines)} read"]
    plain = [path for path in files if not path.name.startswith("bucket_")]
    count = sum(orc.ORCFile(str(path)).nrows for path in plain)
    lines = _tool(plain, "data", version=version)
    yield f"ORC's tools read {count} rows", [] if len(lines) == count else [f"{len(lines)} read"]


def _is_orc(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(3) == b"ORC"


def _wrong(path: Path, entry: dict[str, Any]) -> Iterator[str]:
    if entry.get("status") != "OK":
        yield f"{path}: {entry.get('status')}"
    if not path.name.startswith("bucket_") or not entry.get("numberOfRows"):
        return
    if not set(entry.get("userMetadata", {})) >= KEYS:
        yield f"{path}: user metadata is {sorted(entry.get('userMetadata', {}))}"
    counted = entry.get("numInserts", 0) + entry.get("numDeletes", 0)
    if counted != entry["numberOfRows"]:
        yield f"{path}: hive.acid.stats counts {counted} of {entry['numberOfRows']} rows"


def _event(event: dict[str, Any]) -> tuple[Any, ...]:
    """What both print alike: all but the row's values."""
    *ids, row = event.values()
    return (*ids, row is None)


def _tool(files: Sequence[Path], *command: str, version: str) -> list[dict[str, Any]]:
    found = jars(version)
    first = next(jar for jar in found if jar.name.startswith("hive-exec"))
    class_path = ":".join(map(str, [first, *found]))
    done = subprocess.run(
        ["java", "-Xmx500m", "-cp", class_path, "org.apache.orc.tools.Driver", *command]
        + [str(path) for path in files],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return list(_objects(done.stdout))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, those of a list too, whatever stands between."""
    decoder, at = json.JSONDecoder(), 0
    while (start := text.find("{", at)) >= 0:
        value, at = decoder.raw_decode(text, start)
        yield value
