"""HDFS, by ``hdfs-native``, a client that needs no Java: as Arrow takes it, and as Hadoop's own
client behaves: rights of what is made, the trash, refusals as errors of files.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Final

from pyarrow import fs as pafs

from hiveacid.errors import MissingExtraError

_COPY_BYTES: Final = 16 * 1024 * 1024
_CONNECT_S: Final = 10.0
_WAIT_S: Final = 1.5
"""For how long the client itself waits for a name node, where it is asked again."""
_TRACE: Final = r"\n\tat "
"""Begins, as the client shows it, where in the name node something was refused."""
_UMASK: Final = re.compile(
    r"<name>\s*fs\.permissions\.umask-mode\s*</name>\s*<value>\s*([0-7]{3,4})\s*</value>"
)
_UMASK_DEFAULT: Final = 0o022


def hadoop_file_system(root: str, *, deadline_s: float) -> pafs.FileSystem:
    """The file system of a root; HADOOP_CONF_DIR says what is configured. While a file is written
    its name node is waited for until ``deadline_s``; all else whoever asks may ask again.

    Raises:
        MissingExtraError: the client is not installed.
        OSError: its configuration cannot be read, or nobody listens at its address.
    """
    try:
        from hdfs_native import Client, TrashNotEnabledError, WriteOptions, fsspec
    except ImportError as error:
        raise MissingExtraError(
            f"{root} is reached by hdfs-native, which is not installed",
            note="pip install 'hiveacid[hdfs]'",
        ) from error

    scheme, _, address = root.rstrip("/").partition("://")
    given: Any = fsspec.ViewfsFileSystem if scheme == "viewfs" else fsspec.HdfsFileSystem
    host, _, port = address.partition(":")
    if host and port:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()

    def writing() -> Any:
        with refusals_told():
            return Telling(Client(f"{scheme}://{address}", tries(deadline_s)))

    # what is kept by host and port would be another process's client after a fork
    made = _as_arrow_takes(given, writing, WriteOptions, TrashNotEnabledError)(
        host or None, int(port) if port else None, skip_instance_cache=True, **tries(_WAIT_S)
    )
    return pafs.PyFileSystem(pafs.FSSpecHandler(made))


def tries(wait_s: float) -> dict[str, str]:
    """How often the client asks name nodes again, by its pauses, which double."""
    pauses = itertools.accumulate(min(0.5 * 2**n, 15.0) for n in range(100))
    count = sum(1 for _ in itertools.takewhile(lambda so_far: so_far <= wait_s, pauses))
    return {"dfs.client.failover.max.attempts": str(max(1, count))}


def _as_arrow_takes(
    given: Any, writing: Callable[[], Any], options: Any, no_trash: type[Exception]
) -> Any:
    """A class of the client's file systems: with times of change, names as they are, copies; rights
    of what is made are those that Hadoop's own client gives. ``writing`` makes the client that
    writes files, ``options`` are of a new one, ``no_trash`` is raised where there is none.
    """
    umask = hadoop_umask()
    writing = lru_cache(maxsize=1)(writing)

    class Hadoop(given):  # type: ignore[misc]
        client: Any

        def __init__(self, *arguments: Any, **facts: Any) -> None:
            with refusals_told():
                super().__init__(*arguments, **facts)
            self.client = Telling(self.client)

        def ls(self, path: str, detail: bool = True, **facts: Any) -> list[Any]:
            with refusals_told():  # entries come one by one
                listed: list[Any] = super().ls(path, detail, **facts)
                return listed

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path

        def _convert_file_status(self, status: Any) -> dict[str, Any]:
            info = super()._convert_file_status(status)
            return {**info, "mtime": status.modification_time / 1000}

        def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
            self.client.mkdirs(path, 0o777 & ~umask, create_parents)

        def _open(self, path: str, mode: str = "rb", **facts: Any) -> Any:
            if mode != "wb":
                return super()._open(path, mode, **facts)
            made = options(permission=0o666 & ~umask, overwrite=True)
            return writing().create(path, write_options=made)

        def trash(self, path: str) -> bool:
            try:
                self.client.trash(path)
            except no_trash:
                return False
            return True

        def cp_file(self, path1: str, path2: str, **_: Any) -> None:
            with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
                while block := source.read(_COPY_BYTES):
                    target.write(block)

    return Hadoop


def moved_to_trash(library: pafs.FileSystem, path: str) -> bool:
    """Puts a directory where its user gets it back from; False where there is no such place.

    Raises:
        OSError: the library failed.
    """
    made = getattr(getattr(library, "handler", None), "fs", None)
    return bool(made is not None and hasattr(made, "trash") and made.trash(path))


def hadoop_umask(environment: Mapping[str, str] = os.environ) -> int:
    """What Hadoop's configuration takes from the rights of new files and directories."""
    texts = []
    for name in ("core-site.xml", "hdfs-site.xml"):
        place = Path(environment.get("HADOOP_CONF_DIR", "/nowhere")) / name
        texts += [place.read_text("utf-8", "replace")] if place.is_file() else []
    found = _UMASK.search("".join(texts))
    return int(found[1], 8) if found else _UMASK_DEFAULT


@contextmanager
def refusals_told() -> Iterator[None]:
    """Within the block what a name node refuses is an ``OSError``; of the client it is a
    ``RuntimeError``, with the name that Hadoop gives to it in the text.
    """
    try:
        yield
    except RuntimeError as error:
        raise _as_of_files(error) from error


def _as_of_files(refusal: RuntimeError) -> OSError:
    return OSError(str(refusal).partition(_TRACE)[0])


class Telling:
    """The client, or a file that it opened, whose refusals are told as ``OSError``."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._given, name)
        if not callable(found):
            return found

        @wraps(found)
        def told(*arguments: Any, **facts: Any) -> Any:
            with refusals_told():
                answer = found(*arguments, **facts)
            return Telling(answer) if isinstance(answer, io.IOBase) else answer

        return told

    def __enter__(self) -> Telling:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
