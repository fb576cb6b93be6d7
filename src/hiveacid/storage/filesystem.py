"""The one door to files: ``Files`` gives the ``FileSystem`` of a location, over ``pyarrow.fs``.

A location is an absolute path, ``file:/...`` or any URI that ``pyarrow.fs`` knows (s3, hdfs, gs,
abfs); ``s3a:`` and ``s3n:`` are ``s3:``. A ``Client`` holds the ``Files`` of its process and hands
them on; plans and targets carry them to other processes. Errors of the library become
``MissingFileError`` (not there) or ``StorageError`` (see ``failures``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from hiveacid.errors import MissingFileError, StorageError
from hiveacid.storage.failures import Retries, is_passing, mapped, storage_error
from hiveacid.storage.locations import LOCAL, root_of, split
from hiveacid.storage.ranged import SMALL_BYTES, far_file, opened
from hiveacid.storage.s3_requests import (
    NO_S3,
    Requests,
    are_apart,
    list_together,
    with_directories,
)
from hiveacid.storage.s3_uploads import Upload, Uploads, open_held
from hiveacid.storage.stores import (
    Lookup,
    S3Access,
    is_s3,
    moved_to_trash,
    opened_root,
    s3_of_environment,
    s3_of_hadoop,
)

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")
_OBJECT_STORES: Final = ("s3", "gcs", "abfs")
_NOWHERE: Final = "_hiveacid_nobody_makes_this"
"""A name that is in no bucket, but of a server that says yes to everything."""
_REQUESTS_AT_ONCE: Final = 64


class FileInfo(NamedTuple):
    """One entry of a listing: ``path`` is absolute within its file system; ``modified_ns`` is 0
    where it does not say.
    """

    path: str
    is_directory: bool
    size_bytes: int
    modified_ns: int = 0

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class FileSystem:
    """Files of one file system; all paths are absolute within it, ``/`` separated.

    Every method raises ``StorageError`` where the file system fails, and ``MissingFileError``
    where the path does not exist, unless it says otherwise. It pickles as its root, so that another
    process builds it anew.
    """

    def __init__(
        self, root: str, s3: S3Access | None = None, retries: Retries | None = None
    ) -> None:
        """Build from any location in the file system; ``s3`` says how it is reached where it is
        S3, the environment where nothing does. ``retries`` are for what fails in passing.

        Raises:
            InvalidInputError: no file system of that scheme, or a relative path.
            StorageError: it cannot be reached.
        """
        self._root = root_of(root)
        self.s3 = s3 or s3_of_environment()
        self._retries = (retries or Retries()).of_a_server()
        self._fs, prefix = pafs.LocalFileSystem(), ""
        if self._root != LOCAL:
            own = (self._root, self.s3, self._retries.deadline_s)
            opening = self._retries.of_a_server()  # most are opened without being asked
            with mapped(self._root):
                self._fs, prefix = opening.run(lambda: opened_root(*own), subject=root)
        self._prefix = prefix.rstrip("/")
        self._requests: Requests | None = None
        self._uploads: Uploads | None = None
        self._is_there = not self.is_object_store

    def __reduce__(self) -> tuple[object, ...]:
        return (FileSystem, (self._root, self.s3, self._retries))

    def __eq__(self, other: object) -> bool:
        if type(self) is not FileSystem or type(other) is not FileSystem:
            return self is other
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._root)

    def _key(self) -> tuple[str, S3Access | None]:
        return self._root, self.s3 if is_s3(self._root) else None

    def __repr__(self) -> str:
        return f"FileSystem({self._root!r})"

    def path_of(self, location: str) -> str:
        """The path of one of its locations, without a trailing slash.

        Nothing is percent-decoded: as in Hadoop, ``%3A`` in a partition's location is ``%3A`` on
        disk.

        Raises:
            InvalidInputError: a relative path.
        """
        path = split(location)[1].strip("/")
        if self.is_object_store:
            path = re.sub("/+", "/", path)  # as Hadoop takes it, and a disk does
        return f"{self._prefix}/{path}".rstrip("/") or "/"

    def location_of(self, path: str) -> str:
        """The location of one of its paths."""
        if self._root == LOCAL:
            return path or "/"
        root, mark, query = self._root.partition("?")
        return f"{root.rstrip('/')}{path.removeprefix(self._prefix)}{mark}{query}"

    @property
    def shows_flushed(self) -> bool:
        """Whether others read what was flushed of a file that is still open: object stores show
        nothing before it is closed, and of HDFS nobody promises it here.
        """
        return bool(self._fs.type_name == "local")

    @property
    def is_object_store(self) -> bool:
        """Whether files are objects under keys: there are no directories, and what is renamed is
        copied.
        """
        return self._fs.type_name in _OBJECT_STORES

    @property
    def requests_at_once(self) -> int:
        """How many requests are worth being under way together: a disk answers each at once."""
        return 1 if self._fs.type_name == "local" else _REQUESTS_AT_ONCE

    @property
    def uploads(self) -> Uploads | None:
        """What sends files here that another process completes; None where the place has none, or
        where its keys are known to the library alone.
        """
        requests = self._own_requests()
        if self._uploads is None and requests is not None:
            self._uploads = Uploads(requests)
        return self._uploads

    def _own_requests(self) -> Requests | None:
        """What asks the server where the library cannot, or asks more than it must."""
        if self._requests is None and is_s3(self._root) and self.s3.keys is not None:
            region = getattr(self._fs, "region", None)
            if region is not None and "?" not in self._root and "@" not in self._root:
                self._requests = Requests(
                    self._prefix, self.s3, region=region, retries=self._retries
                )
        return self._requests

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """All files and directories below ``path``, sorted by path; empty where it does not
        exist.
        """
        return self._list(path, recursive=True)

    def list_each(self, paths: Sequence[str]) -> tuple[tuple[FileInfo, ...], ...]:
        """``list_recursive`` of each of them, by as few requests as the place allows."""
        requests = self._own_requests()
        if len(paths) > 1 and requests is not None and are_apart(paths):
            with mapped(paths[0]):
                found = list_together(requests, paths)
            return tuple(
                tuple(FileInfo(*facts) for facts in with_directories(path, found[path]))
                for path in paths
            )
        return tuple(self.each(self.list_recursive, paths))

    def list_directory(self, path: str) -> tuple[FileInfo, ...]:
        """The files and directories in ``path``, sorted by path; empty where it does not exist."""
        return self._list(path, recursive=False)

    def open_input(self, path: str, *, size_bytes: int = 0) -> pa.NativeFile:
        """Open for random access; of a file whose ``size_bytes`` are known to be few all comes."""
        requests = self._own_requests()
        with mapped(path):
            if requests is not None:
                file = opened(requests, path, size_bytes=size_bytes)
            else:
                file = self._retries.run(lambda: self._opened(path), subject=path)
        if self._root == LOCAL or isinstance(file, pa.BufferReader):
            return file
        again = None if requests is not None else partial(self._opened, path)
        return far_file(file, path, retries=self._retries, again=again)

    def _opened(self, path: str) -> pa.NativeFile:
        file = self._fs.open_input_file(path)
        if self.is_object_store and file.size() <= SMALL_BYTES:
            return pa.BufferReader(file.read())  # one request, not one for each stream of ORC
        return file

    def open_output(self, path: str) -> pa.NativeFile:
        """Create or replace a file; its directory must exist (object stores need none)."""
        if self.uploads is not None:
            return self.uploads.open_whole(path, is_there=partial(self._is_there_of, path))
        self._check_server()
        begin = partial(self._fs.open_output_stream, path, compression=None)
        if self.is_object_store or self._root == LOCAL:
            return self._asked(path, begin)
        ask, write = partial(self._retries.run, subject=path), partial(self._write, path)
        remove = partial(self.delete_file, path)
        return open_held(lambda: ask(begin), lambda data: ask(partial(write, data)), remove)

    def read_bytes(self, path: str) -> bytes:
        """The whole of a small file."""
        if self._own_requests() is not None:
            with self.open_input(path) as file:
                whole: bytes = file.read()
                return whole

        def read() -> bytes:
            with self._fs.open_input_stream(path, compression=None) as stream:
                data: bytes = stream.read()
                return data

        return self._asked(path, read)

    def write_bytes(self, path: str, *, data: bytes) -> None:
        """Create or replace a small file."""
        requests = self._own_requests()
        if requests is not None:
            with mapped(path):
                requests.put(path, data, {})
            return
        self._check_server()
        self._asked(path, partial(self._write, path, data))

    def _write(self, path: str, data: bytes) -> None:
        with self._fs.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    def each(self, step: Callable[[_Item], _Answer], items: Sequence[_Item]) -> list[_Answer]:
        """What a step answers to each item; many are under way at once where each is a request."""
        if self.requests_at_once == 1 or len(items) == 1:
            return [step(item) for item in items]
        with ThreadPoolExecutor(self.requests_at_once) as threads:
            return list(threads.map(step, items))

    def rename(self, source: str, *, target: str) -> None:
        """Move a file or directory; the target's parent must exist.

        Of a directory in an object store all files are copied before the first is deleted: to do
        it again after a failure, or the other way, loses none.
        """
        if self.is_object_store and self.is_directory(source):
            moves = [
                (info.path, f"{target}{info.path[len(source) :]}")
                for info in self.list_recursive(source)
                if not info.is_directory
            ]
            self.create_directory(target)
            self.copy_files(moves)
            self.delete_directory(source)
            return
        move = partial(self._fs.move, source, target)
        self._asked(source, move, again=lambda: self._is_moved(source, target) or move())

    def _is_moved(self, source: str, target: str) -> bool:
        """Whether a rename that got no answer was carried out."""
        there, gone = self._fs.get_file_info([target, source])
        return bool(gone.type == pafs.FileType.NotFound != there.type)

    def copy_file(self, source: str, *, target: str) -> None:
        """Copy a file's bytes; object stores do it without sending them here."""
        self._asked(source, lambda: self._fs.copy_file(source, target))

    def copy_files(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Copy files, each from the first of a pair to the second, several at once."""
        self.each(lambda pair: self.copy_file(pair[0], target=pair[1]), pairs)

    def complete_files(self, files: Sequence[tuple[str, Upload, int]]) -> None:
        """Make files of uploads, several at once; each is a path, an upload, and how many bytes it
        has. One that was completed before is left.

        Raises:
            MissingFileError: there is neither the upload nor the file.
        """
        self.each(lambda file: self._complete(*file), files)

    def _complete(self, path: str, upload: Upload, size_bytes: int) -> None:
        assert self.uploads is not None
        is_there = partial(self._is_there_of, path, size_bytes)
        with mapped(path):
            self.uploads.complete(path, upload, is_there=is_there)

    def _is_there_of(self, path: str, size_bytes: int) -> bool:
        return self.exists(path) and self.size_bytes(path) == size_bytes

    def end_uploads(self, directory: str, *, if_: Callable[[str, int], bool]) -> tuple[str, ...]:
        """Let the store forget what was sent to below a directory and is no file; ``if_`` is asked
        with the path, and the time in nanoseconds of its beginning. Answers the paths.
        """
        uploads, ended = self.uploads, []
        with mapped(directory):
            for path, number, since_ms in uploads.begun(directory) if uploads else ():
                if uploads and if_(path, since_ms * 1_000_000):
                    uploads.end(path, number)
                    ended.append(path)
        return tuple(ended)

    def delete_file(self, path: str, *, is_alone: bool = True) -> None:
        """Delete one file; its directory stays, also in an object store, if it ``is_alone``."""
        requests = None if is_alone else self._own_requests()
        if requests is not None:
            with mapped(path):
                requests.asked("DELETE", path, {})
            return
        delete = partial(self._fs.delete_file, path)

        def again() -> None:
            if self._fs.get_file_info(path).type != pafs.FileType.NotFound:
                delete()

        self._asked(path, delete, again=again)

    def delete_directory(self, path: str) -> None:
        """Delete a directory and all below it; nothing happens where it does not exist."""
        if not self.is_object_store and self._info(path).type == pafs.FileType.NotFound:
            return
        with suppress(MissingFileError):
            self._asked(path, lambda: self._fs.delete_dir(path))

    def move_to_trash(self, path: str) -> bool:
        """Put a directory where its user gets it back from; False where the place, or its
        configuration, has no such thing, or the directory is not there.
        """
        with suppress(MissingFileError):
            return self._asked(path, lambda: moved_to_trash(self._fs, path))
        return False

    def create_directory(self, path: str) -> None:
        """Create a directory and its parents; nothing happens where it exists."""
        self._asked(path, lambda: self._fs.create_dir(path, recursive=True))

    def make_room(self, directory: str) -> None:
        """Let files be created in a directory: object stores need none."""
        if not self.is_object_store:
            self.create_directory(directory)

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
        return self._asked(path, lambda: self._fs.get_file_info(path))

    def made_again(self, path: str, make: Callable[[], _Answer]) -> _Answer:
        """What ``make`` made of files below ``path``; all of it again where it fails in passing. A
        file of HDFS that was begun when its name node went away cannot go on; an upload to an
        object store is repeated by itself.

        Raises:
            StorageError: as the last one of ``make``.
        """

        def made() -> _Answer:
            try:
                return make()
            except StorageError as error:
                if isinstance(error.__cause__, OSError) and is_passing(error.__cause__):
                    raise error.__cause__ from None
                raise

        if self.is_object_store:
            return make()
        with mapped(path):
            return self._retries.run(made, subject=path, asks_itself=True)

    def _asked(
        self,
        path: str,
        step: Callable[[], _Answer],
        *,
        again: Callable[[], _Answer] | None = None,
    ) -> _Answer:
        """What the library answers about a path; again where it fails in passing."""
        with mapped(path):
            return self._retries.run(step, subject=path, again=again)

    def _list(self, path: str, *, recursive: bool) -> tuple[FileInfo, ...]:
        selector = pafs.FileSelector(path, recursive=recursive, allow_not_found=True)
        infos = self._asked(path, lambda: self._fs.get_file_info(selector))
        if infos:
            self._is_there = True
        elif self.is_object_store:
            self._check_bucket()
        directory = pafs.FileType.Directory
        found = (
            FileInfo(info.path, info.type == directory, info.size or 0, info.mtime_ns or 0)
            for info in infos
        )
        return tuple(sorted(found))

    def _check_bucket(self) -> None:
        """A listing of a bucket that is not there is empty; nobody may take it for a table's."""
        requests, bucket = self._own_requests(), self._prefix
        if requests is not None:
            with mapped(bucket):
                requests.check()
        elif not self.exists(bucket):
            raise storage_error(OSError("NoSuchBucket"), path=bucket)
        elif self.exists(f"{bucket}/{_NOWHERE}"):
            raise storage_error(OSError(f"{NO_S3}: it has whatever one asks for"), path=bucket)
        self._is_there = True

    def _check_server(self) -> None:
        """The library does not see what answers it when it writes."""
        if self.s3.endpoint and is_s3(self._root) and not self._is_there:
            self._check_bucket()


@dataclass(frozen=True, slots=True)
class Files:
    """All files that a process reaches, as a value that is handed on and pickles.

    Two of them are equal where they reach the same files in the same way. Those of a test give
    another ``FileSystem``. How S3 is reached is said by ``s3``, then by ``hadoop``, then by the
    environment; other processes get the answer.
    """

    s3: S3Access = field(default=S3Access(), kw_only=True)
    hadoop: Lookup | None = field(default=None, kw_only=True, repr=False, compare=False)
    retries: Retries = field(default=Retries(), kw_only=True, repr=False, compare=False)
    reached: frozenset[str] = field(default=frozenset(), kw_only=True, repr=False, compare=False)
    """Roots that are known to be right: others have reached them."""
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
        fs = self._systems.get(root) or self._systems.setdefault(root, self.opened(root))
        return fs, fs.path_of(location)

    def opened(self, root: str) -> FileSystem:
        """The file system of a root, which ``at`` keeps.

        Raises:
            InvalidInputError: no file system of that scheme.
        """
        retries = self.retries.of_a_server(answers=root in self.reached or None)
        return FileSystem(root, self._s3_access() if is_s3(root) else self.s3, retries)

    def _s3_access(self) -> S3Access:
        known = next((fs.s3 for root, fs in self._systems.items() if is_s3(root)), None)
        if known is not None:
            return known
        asked = S3Access() if self.hadoop is None else s3_of_hadoop(self.hadoop)
        return self.s3.or_else(asked).or_else(s3_of_environment())

    def __reduce__(self) -> tuple[object, ...]:
        s3 = self._s3_access() if any(map(is_s3, self._systems)) else self.s3
        return partial(Files, s3=s3, retries=self.retries.of_a_server(answers=True)), ()
