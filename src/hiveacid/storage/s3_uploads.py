"""Files that are sent to an object store: by one process which another one completes, or by one.

    task      begin -> part, part, ...        the server has the bytes, under no name
    driver              complete              the file is there, whole, at once
    nobody              (end)                 nothing is there, nobody ever saw it

Only who completes decides what is there: a task that runs twice, or ends late, replaces nothing
and leaves nothing that is read. S3 calls it a multi-part upload. pyarrow completes its own when
it closes a file, so this speaks to the server itself, by five requests. A file that one process
writes by itself is one request, where it is small: sent so, too, because pyarrow neither asks again
where it fails, nor sees what answers, and speaks of checksums that not each server knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from typing import IO, Final
from urllib.parse import unquote

from hiveacid.errors import MissingFileError
from hiveacid.storage.s3_requests import Requests, about, element, epoch_ms

_PART_BYTES: Final = 16 * 1024 * 1024
"""The server takes 10,000 parts of a file, and none below 5 MiB but the last."""
_GONE: Final = "NoSuchUpload"
_COMPLETED: Final = "CompleteMultipartUploadResult"
_BEGUN: Final = "InitiateMultipartUploadResult"
_UPLOADS: Final = "ListMultipartUploadsResult"


@dataclass(frozen=True, slots=True)
class Upload:
    """A file all of whose bytes the server has, to be completed; what it says of each part."""

    number: str
    parts: tuple[str, ...]


@dataclass(slots=True)
class OpenUpload:
    """A file that is being sent."""

    send: Callable[[str, int, bytes], str]
    begin: Callable[[], str]
    number: str | None = None
    parts: list[str] = field(default_factory=list)
    closed: bool = False
    _held: bytearray = field(default_factory=bytearray)
    _size_bytes: int = 0

    def write(self, data: bytes | memoryview) -> int:
        """Append."""
        self._held += data
        self._size_bytes += len(data)
        while len(self._held) > _PART_BYTES:
            self._part(bytes(self._held[:_PART_BYTES]))
            del self._held[:_PART_BYTES]
        return len(data)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._size_bytes

    def flush(self) -> None:
        """A part goes when it is full."""

    def close(self) -> None:
        """Send what is left."""
        if not self.closed:
            self.closed = True
            self._part(bytes(self._held))

    def _part(self, data: bytes) -> None:
        if self.number is None:
            self.number = self.begin()
        self.parts.append(self.send(self.number, len(self.parts) + 1, data))


@dataclass(slots=True, kw_only=True)
class OpenObject(OpenUpload, AbstractContextManager["OpenObject"]):
    """A file that is there, whole, once it is closed: by one request where it has no more bytes
    than a part. A context manager, which leaves nothing where its block ends in an error.
    """

    put: Callable[[bytes], None]
    complete: Callable[[], None]
    give_up: Callable[[], None]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        elif not self.closed:
            self.closed = True
            self.give_up()

    def close(self) -> None:
        """Let the file be there."""
        if self.number is not None and not self.closed:
            OpenUpload.close(self)
            self.complete()
        elif not self.closed:
            self.closed = True
            self.put(bytes(self._held))


def open_held(
    begin: Callable[[], IO[bytes]], put: Callable[[bytes], None], remove: Callable[[], None]
) -> OpenObject:
    """A file that ``put`` writes as a whole once it is closed, where it is small; else ``begin``
    opens it. So its server may go away while a small one is written: it is put again.
    """
    opened: list[IO[bytes]] = []

    def began() -> str:
        opened.append(begin())
        return "opened"

    def send(_: str, __: int, data: bytes) -> str:
        opened[0].write(data)
        return ""

    return OpenObject(
        send=send,
        begin=began,
        put=put,
        complete=lambda: opened[0].close(),
        give_up=lambda: remove() if opened else None,
    )


class Uploads:
    """Uploads to one bucket. For a writer it is a place where files are opened, and given up."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._open: dict[str, OpenUpload] = {}

    def open_output(self, path: str) -> OpenUpload:
        """Begin a file; ``path`` begins with the bucket."""
        self._open[path] = OpenUpload(partial(self._send, path), partial(self._begun, path))
        return self._open[path]

    def open_whole(self, path: str, *, is_there: Callable[[int], bool]) -> OpenObject:
        """Begin a file that is there once it is closed; ``is_there`` tells whether it is, of so
        many bytes, where a server did not answer.
        """

        def done() -> None:
            self.complete(path, self.taken(path), is_there=lambda: is_there(sent.tell()))

        def put(data: bytes) -> None:
            self._requests.put(path, data, {})
            del self._open[path]

        sent = self._open[path] = OpenObject(
            send=partial(self._send, path),
            begin=partial(self._begun, path),
            put=put,
            complete=done,
            give_up=partial(self.delete_file, path),
        )
        return sent

    def exists(self, path: str) -> bool:
        """Whether the server has anything of an open file."""
        return path in self._open and self._open[path].number is not None

    def delete_file(self, path: str) -> None:
        """Give an open file up."""
        number = self._open.pop(path).number
        if number is not None:
            self.end(path, number)

    def taken(self, path: str) -> Upload:
        """What completes a file that was closed here."""
        stream = self._open.pop(path)
        assert stream.closed and stream.number is not None
        return Upload(stream.number, tuple(stream.parts))

    def complete(self, path: str, upload: Upload, *, is_there: Callable[[], bool]) -> None:
        """Make a file of it; before it is asked again, it looks whether the file ``is_there``.

        Raises:
            MissingFileError: there is no such upload any more; it was completed, or ended.
            OSError: the server failed; it may yet be completed.
        """
        parts = "".join(
            f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>"
            for n, tag in enumerate(upload.parts, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()

        def step() -> str:
            query = {"uploadId": upload.number}
            return about(_COMPLETED, self._requests.once("POST", path, query, body))

        try:
            retries = self._requests.retries
            retries.run(step, subject=path, again=lambda: "" if is_there() else step())
        except OSError as error:
            if _GONE not in str(error):
                raise
            if not is_there():
                text = f"the upload of {path} does not exist"
                raise MissingFileError(text, path=path) from error

    def end(self, path: str, number: str) -> None:
        """Let the server forget an upload.

        Raises:
            OSError: the server failed.
        """
        try:
            self._requests.asked("DELETE", path, {"uploadId": number})
        except OSError as error:
            if _GONE not in str(error):
                raise

    def begun(self, directory: str) -> Iterator[tuple[str, str, int]]:
        """Path, number and time (epoch milliseconds) of all uploads below a directory that are
        neither completed nor ended.

        Raises:
            OSError: the server failed.
        """
        above = f"{directory.rstrip('/')}/"
        query = {"uploads": "", "prefix": above.partition("/")[2], "encoding-type": "url"}
        while True:
            bucket = self._requests.bucket
            text = about(_UPLOADS, self._requests.asked("GET", bucket, query))
            plain = unquote if "<EncodingType>url<" in text else unescape
            for found in re.findall(r"<Upload>(.*?)</Upload>", text, re.DOTALL):
                path = f"{bucket}/{plain(element(found, 'Key'))}"
                if path.startswith(above):
                    since_ms = epoch_ms(element(found, "Initiated"))
                    yield path, element(found, "UploadId"), since_ms
            if element(text, "IsTruncated") != "true":
                return
            query["key-marker"] = plain(element(text, "NextKeyMarker"))
            query["upload-id-marker"] = element(text, "NextUploadIdMarker")

    def _send(self, path: str, number: str, part: int, data: bytes) -> str:
        query = {"partNumber": str(part), "uploadId": number}
        return self._requests.put(path, data, query)

    def _begun(self, path: str) -> str:
        answer = self._requests.asked("POST", path, {"uploads": ""})
        return element(about(_BEGUN, answer), "UploadId")
