"""The one door to files: ``Files`` gives the ``FileSystem`` of a location, over ``pyarrow.fs``.

A location is an absolute path, ``file:/...`` or any URI that ``pyarrow.fs`` knows (s3, hdfs, gs,
abfs). A ``Client`` holds the ``Files`` of its process and hands them on; plans and targets carry
them to other processes. Errors of the library become ``MissingFileError`` (not there) or
``StorageError`` (context ``detail``: ``no-space``, ``no-permission`` or ``io``).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs as pafs

from hiveacid.errors import InvalidInputError, MissingFileError, StorageError

_URI: Final = re.compile(
    r"(?P<root>[A-Za-z][A-Za-z0-9+.-]*://[^/?]*)(?P<path>/[^?]*)?(?P<query>\?.*)?"
)

_LOCAL: Final = "/"


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a listing: ``path`` is absolute within its file system; ``modified_ns`` is 0
    where it does not say.
    """

    path: str
    is_directory: bool
    size_bytes: int
    modified_ns: int = 0


class FileSystem:
    """Files of one file system; all paths are absolute within it, ``/`` separated.

    Every method raises ``StorageError`` where the file system fails, and ``MissingFileError``
    where the path does not exist, unless it says otherwise. It pickles as its root, so that another
    process builds it anew.
    """

    def __init__(self, root: str) -> None:
        """Build from any location in the file system.

        Raises:
            InvalidInputError: no file system of that scheme, or a relative path.
        """
        self._root = root_of(root)
        self._fs, prefix = _from_root(self._root)
        self._prefix = prefix.rstrip("/")

    def __reduce__(self) -> tuple[object, ...]:
        return (FileSystem, (self._root,))

    def __eq__(self, other: object) -> bool:
        is_plain = type(self) is type(other) is FileSystem
        return self is other or (is_plain and repr(self) == repr(other))

    def __hash__(self) -> int:
        return hash(self._root)

    def __repr__(self) -> str:
        return f"FileSystem({self._root!r})"

    def path_of(self, location: str) -> str:
        """The path of one of its locations, without a trailing slash.

        Nothing is percent-decoded: as in Hadoop, ``%3A`` in a partition's location is ``%3A`` on
        disk.

        Raises:
            InvalidInputError: a relative path.
        """
        return f"{self._prefix}/{_split(location)[1].strip('/')}".rstrip("/") or "/"

    @property
    def shows_flushed(self) -> bool:
        """Whether others read what was flushed of a file that is still open: object stores show
        nothing before it is closed.
        """
        return self._fs.type_name in ("local", "hdfs")

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """All files and directories below ``path``, sorted by path; empty where it does not
        exist.
        """
        return self._list(path, recursive=True)

    def list_directory(self, path: str) -> tuple[FileInfo, ...]:
        """The files and directories in ``path``, sorted by path; empty where it does not exist."""
        return self._list(path, recursive=False)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random access."""
        with _mapped(path):
            return self._fs.open_input_file(path)

    def open_output(self, path: str) -> pa.NativeFile:
        """Create or replace a file; its directory must exist (object stores need none)."""
        with _mapped(path):
            return self._fs.open_output_stream(path, compression=None)

    def read_bytes(self, path: str) -> bytes:
        """The whole of a small file."""
        with _mapped(path), self._fs.open_input_stream(path, compression=None) as stream:
            data: bytes = stream.read()
            return data

    def write_bytes(self, path: str, *, data: bytes) -> None:
        """Create or replace a small file."""
        with _mapped(path), self._fs.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    def rename(self, source: str, *, target: str) -> None:
        """Move a file or directory; the target's parent must exist."""
        with _mapped(source):
            self._fs.move(source, target)

    def copy_file(self, source: str, *, target: str) -> None:
        """Copy a file's bytes; object stores do it without sending them here."""
        with _mapped(source):
            self._fs.copy_file(source, target)

    def delete_file(self, path: str) -> None:
        """Delete one file."""
        with _mapped(path):
            self._fs.delete_file(path)

    def delete_directory(self, path: str) -> None:
        """Delete a directory and all below it; nothing happens where it does not exist."""
        if self._info(path).type == pafs.FileType.NotFound:
            return
        with _mapped(path):
            self._fs.delete_dir(path)

    def create_directory(self, path: str) -> None:
        """Create a directory and its parents; nothing happens where it exists."""
        with _mapped(path):
            self._fs.create_dir(path, recursive=True)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return bool(self._info(path).type != pafs.FileType.NotFound)

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory."""
        return bool(self._info(path).type == pafs.FileType.Directory)

    def size_bytes(self, path: str) -> int:
        """Length of a file as the file system reports it.

        Raises:
            MissingFileError: no file there.
        """
        info = self._info(path)
        if info.type == pafs.FileType.NotFound:
            raise MissingFileError(f"file {path} does not exist", path=path)
        return int(info.size or 0)

    def _info(self, path: str) -> pafs.FileInfo:
        with _mapped(path):
            return self._fs.get_file_info(path)

    def _list(self, path: str, *, recursive: bool) -> tuple[FileInfo, ...]:
        selector = pafs.FileSelector(path, recursive=recursive, allow_not_found=True)
        with _mapped(path):
            infos = self._fs.get_file_info(selector)
        return tuple(
            sorted(
                (
                    FileInfo(
                        path=info.path,
                        is_directory=info.type == pafs.FileType.Directory,
                        size_bytes=int(info.size or 0),
                        modified_ns=int(info.mtime_ns or 0),
                    )
                    for info in infos
                ),
                key=lambda info: info.path,
            )
        )


@dataclass(frozen=True, slots=True)
class Files:
    """All files that a process reaches, as a value that is handed on and pickles.

    Two of them are equal where they reach the same files in the same way. Those of a test give
    another ``FileSystem``.
    """

    _systems: dict[str, FileSystem] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What has been opened so far, by root."""

    def at(self, location: str) -> tuple[FileSystem, str]:
        """The file system of a location, and the location's path within it (no trailing slash).

        Raises:
            InvalidInputError: no file system of that scheme, or a relative path.
        """
        root = root_of(location)
        fs = self._systems.get(root)
        if fs is None:
            fs = self._systems.setdefault(root, self.opened(root))
        return fs, fs.path_of(location)

    def opened(self, root: str) -> FileSystem:
        """The file system of a root, which ``at`` keeps.

        Raises:
            InvalidInputError: no file system of that scheme.
        """
        return FileSystem(root)

    def __reduce__(self) -> tuple[object, ...]:
        return (Files, ())


def one_name(location: str) -> str:
    """The one name of all locations of a directory: without ``file:``, symbolic links and doubled
    slashes, which may be there or not; the directory need not exist.

    Raises:
        InvalidInputError: no file system of that scheme, or a relative path.
    """
    root, path = _split(location)
    if root == _LOCAL:
        return str(Path(f"/{path.strip('/')}").resolve())
    parts = [part for part in path.split("/") if part]
    return "/".join([re.sub("^s3[an]:", "s3:", root.partition("?")[0].rstrip("/")), *parts])


def root_of(location: str) -> str:
    """What locations of one file system have in common: ``/`` is this machine's.

    Raises:
        InvalidInputError: a relative path.
    """
    return _split(location)[0]


def _split(location: str) -> tuple[str, str]:
    """The root of a location and its path below it."""
    if location.startswith(("/", "file:")):
        return _LOCAL, location.removeprefix("file:")
    match = _URI.fullmatch(location)
    if match is None:
        raise InvalidInputError(f"location {location!r} is not absolute", location=location)
    return f"{match['root']}/{match['query'] or ''}", match["path"] or ""


def _from_root(root: str) -> tuple[pafs.FileSystem, str]:
    """The library's file system, and what its paths begin with, such as a bucket."""
    if root == _LOCAL:
        return pafs.LocalFileSystem(), ""
    try:
        with _mapped(root):
            file_system, path = pafs.FileSystem.from_uri(root)
    except (ValueError, pa.ArrowException) as error:
        raise InvalidInputError(f"no file system for location {root!r}", location=root) from error
    return file_system, path


@contextmanager
def _mapped(path: str) -> Iterator[None]:
    """Map the library's errors to ours."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path=path) from error


def storage_error(error: OSError, *, path: str) -> StorageError:
    """Our error for an operating system's or Arrow's one."""
    text = str(error)
    if isinstance(error, FileNotFoundError) or error.errno == errno.ENOENT:
        return MissingFileError(f"file {path} does not exist", path=path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in text:
        return StorageError(f"no space left while writing {path}", path=path, detail="no-space")
    if isinstance(error, PermissionError) or "Permission denied" in text:
        return StorageError(f"no permission for {path}", path=path, detail="no-permission")
    return StorageError(f"input or output on {path} failed: {text}", path=path, detail="io")
