"""Files that fail: below the protocols, so that what handles errors is what is tested."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hiveacid.errors import StorageError
from hiveacid.storage.filesystem import FileInfo, FileSystem, storage_error
from hiveacid.testing.faults import Fault, Faults

if TYPE_CHECKING:
    import pyarrow as pa


class FaultyFileSystem(FileSystem):
    """A file system each of whose operations may fail, before or after its effect or in between.

    ``mounted`` of ``storage.filesystem`` puts it under a location. A write that is torn leaves the
    first half of the file, a directory that is deleted loses its first half.
    """

    def __init__(self, uri: str, *, faults: Faults) -> None:
        super().__init__(uri)
        self._faults = faults

    def open_input(self, path: str) -> pa.NativeFile:
        """See ``FileSystem``."""
        with self._operation("open", path):
            return super().open_input(path)

    def open_output(self, path: str) -> pa.NativeFile:
        """See ``FileSystem``; the writes to the stream do not fail."""

        def tear() -> None:
            super(FaultyFileSystem, self).open_output(path).close()

        with self._operation("create", path, tear=tear):
            return super().open_output(path)

    def read_bytes(self, path: str) -> bytes:
        """See ``FileSystem``."""
        with self._operation("read", path):
            return super().read_bytes(path)

    def write_bytes(self, path: str, *, data: bytes) -> None:
        """See ``FileSystem``."""

        def tear() -> None:
            super(FaultyFileSystem, self).write_bytes(path, data=data[: len(data) // 2])

        with self._operation("write", path, tear=tear):
            super().write_bytes(path, data=data)

    def rename(self, source: str, *, target: str) -> None:
        """See ``FileSystem``."""
        with self._operation("rename", f"{source} {target}"):
            super().rename(source, target=target)

    def delete_file(self, path: str) -> None:
        """See ``FileSystem``."""
        with self._operation("delete", path):
            super().delete_file(path)

    def delete_directory(self, path: str) -> None:
        """See ``FileSystem``."""

        def tear() -> None:
            files = [
                one.path
                for one in super(FaultyFileSystem, self)._list(path, recursive=True)
                if not one.is_directory
            ]
            for file in files[: (len(files) + 1) // 2]:
                super(FaultyFileSystem, self).delete_file(file)

        with self._operation("delete-directory", path, tear=tear):
            super().delete_directory(path)

    def create_directory(self, path: str) -> None:
        """See ``FileSystem``."""
        with self._operation("create-directory", path):
            super().create_directory(path)

    def exists(self, path: str) -> bool:
        """See ``FileSystem``."""
        with self._operation("look", path):
            return super().exists(path)

    def is_directory(self, path: str) -> bool:
        """See ``FileSystem``."""
        with self._operation("look", path):
            return super().is_directory(path)

    def size_bytes(self, path: str) -> int:
        """See ``FileSystem``."""
        with self._operation("look", path):
            return super().size_bytes(path)

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """See ``FileSystem``."""
        with self._operation("list", path):
            return super().list_recursive(path)

    def list_directory(self, path: str) -> tuple[FileInfo, ...]:
        """See ``FileSystem``."""
        with self._operation("list", path):
            return super().list_directory(path)

    @contextmanager
    def _operation(
        self, name: str, path: str, *, tear: Callable[[], None] | None = None
    ) -> Iterator[None]:
        fault = self._faults.before(name, path)
        if fault is Fault.TORN and tear is not None:
            tear()
        if fault in (Fault.REFUSED, Fault.TORN):
            raise _failure(name, path)
        yield
        if fault is Fault.LOST:
            raise _failure(name, path)
        self._faults.after(name, path)


def _failure(name: str, path: str) -> StorageError:
    return storage_error(OSError(errno.EIO, f"{name} failed as it was told to"), path=path)
