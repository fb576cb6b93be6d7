"""The one door to files: a ``FileSystem`` over ``pyarrow.fs``, found from a location.

A location is an absolute path, ``file:/...`` or any URI that ``pyarrow.fs`` knows (s3, hdfs, gs,
abfs). Errors of the library become ``MissingFileError`` (not there) or ``StorageError`` (context
``detail``: ``no-space``, ``no-permission`` or ``io``). A ``FileSystem`` pickles as its URI, so
that a worker process rebuilds it. ``mounted`` puts another one in its place, in this process.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs as pafs

from hiveacid.errors import InvalidInputError, MissingFileError, StorageError

_URI: Final = re.compile(
    r"(?P<root>[A-Za-z][A-Za-z0-9+.-]*://[^/?]*)(?P<path>/[^?]*)?(?P<query>\?.*)?"
)


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
    where the path does not exist, unless it says otherwise.
    """

    def __init__(self, uri: str) -> None:
        """Build from any location in the file system.

        Raises:
            InvalidInputError: no file system of that scheme, or a relative path.
        """
        self._uri = uri
        self._fs = _arrow_file_system(uri)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._uri,))

    def __repr__(self) -> str:
        return f"FileSystem({self._uri!r})"

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


_MOUNTED: Final[dict[str, FileSystem]] = {}


def file_system_for(location: str) -> tuple[FileSystem, str]:
    """The file system of a location, and the location's path within it (no trailing slash).

    Raises:
        InvalidInputError: no file system of that scheme, or a relative path.
    """
    for root, file_system in _MOUNTED.items():
        if location.startswith(root):
            return file_system, path_of(location)
    return FileSystem(location), path_of(location)


@contextmanager
def mounted(file_system: FileSystem, *, below: str) -> Iterator[None]:
    """Within the block this process reaches what is below a location, such as ``/tmp/x/``, through
    ``file_system``; paths within it stay the same. For simulations.
    """
    assert below not in _MOUNTED, below
    _MOUNTED[below] = file_system
    try:
        yield
    finally:
        del _MOUNTED[below]


def path_of(location: str) -> str:
    """The path of a location within its file system, without a trailing slash.

    Nothing is percent-decoded: as in Hadoop, ``%3A`` in a partition's location is ``%3A`` on disk.

    Raises:
        InvalidInputError: no file system of that scheme, or a relative path.
    """
    if location.startswith("/"):
        return location.rstrip("/") or "/"
    if location.startswith("file:"):
        return "/" + location[len("file:") :].strip("/")
    root, path = _split(location)
    _, prefix = _from_uri(root)
    return (prefix.rstrip("/") + "/" + path.strip("/")).rstrip("/") or "/"


def one_name(location: str) -> str:
    """The one name of all locations of a directory: without ``file:``, symbolic links and doubled
    slashes, which may be there or not; the directory need not exist.

    Raises:
        InvalidInputError: no file system of that scheme, or a relative path.
    """
    if location.startswith(("/", "file:")):
        return str(Path(path_of(location)).resolve())
    root, path = _split(location)
    parts = [part for part in path.split("/") if part]
    return "/".join([re.sub("^s3[an]:", "s3:", root.partition("?")[0].rstrip("/")), *parts])


def _split(location: str) -> tuple[str, str]:
    match = _URI.fullmatch(location)
    if match is None:
        raise InvalidInputError(f"location {location!r} is not absolute", location=location)
    return f"{match['root']}/{match['query'] or ''}", match["path"] or ""


def _from_uri(uri: str) -> tuple[pafs.FileSystem, str]:
    try:
        with _mapped(uri):
            file_system, path = pafs.FileSystem.from_uri(uri)
    except (ValueError, pa.ArrowException) as error:
        raise InvalidInputError(f"no file system for location {uri!r}", location=uri) from error
    return file_system, path


def _arrow_file_system(location: str) -> pafs.FileSystem:
    if location.startswith(("/", "file:")):
        return pafs.LocalFileSystem()
    return _from_uri(_split(location)[0])[0]


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
