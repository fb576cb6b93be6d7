"""Files of an object store that one process sends and another one makes files.

    task      begin -> part, part, ...        the server has the bytes, under no name
    driver              complete              the file is there, whole, at once
    nobody              (end)                 nothing is there, nobody ever saw it

Only who completes decides what is there: a task that runs twice, or ends late, replaces nothing and
leaves nothing that is read. S3 calls it a multi-part upload. pyarrow completes its own when it
closes a file, so this speaks to the server itself: five requests, signed (AWS Signature 4).
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from hiveacid.errors import InternalError, MissingFileError
from hiveacid.storage.retries import Retries
from hiveacid.storage.stores import S3Access, S3Keys

_PART_BYTES: Final = 16 * 1024 * 1024
"""The server takes 10,000 parts of a file, and none below 5 MiB but the last."""
_TIMEOUT_S: Final = 60.0
_GONE: Final = "NoSuchUpload"


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


class _Kept:
    """A connection, closed with its thread."""

    def __init__(self, url: str, timeout_s: float) -> None:
        split = urlsplit(url)
        if split.hostname is None:
            raise InternalError("an endpoint without a host", endpoint=url)
        if split.scheme == "https":
            self.connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                split.hostname,
                split.port,
                timeout=timeout_s,
                context=ssl.create_default_context(),
            )
        else:
            self.connection = http.client.HTTPConnection(
                split.hostname, split.port, timeout=timeout_s
            )

    def __del__(self) -> None:
        self.connection.close()


class Uploads:
    """Uploads to one bucket. For a writer it is a place where files are opened, and given up."""

    def __init__(self, bucket: str, access: S3Access, *, region: str, retries: Retries) -> None:
        assert access.keys is not None
        self._bucket = bucket
        self._keys = access.keys
        self._region = region
        self._retries = retries
        self._timeout_s = access.timeout_s or _TIMEOUT_S
        self._url, self._root = _address(bucket, access, region)
        self._local = threading.local()
        self._open: dict[str, OpenUpload] = {}

    def open_output(self, path: str) -> OpenUpload:
        """Begin a file; ``path`` begins with the bucket."""

        def send(number: str, part: int, data: bytes) -> str:
            query = {"partNumber": str(part), "uploadId": number}
            headers, _ = self._asked("PUT", path, query, data)
            return headers["etag"]

        self._open[path] = OpenUpload(send, lambda: self._begun(path))
        return self._open[path]

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
        again = False

        def step() -> None:
            nonlocal again
            if not again or not is_there():
                again = True
                self._answered("POST", path, {"uploadId": upload.number}, body)

        try:
            self._retries.run(step, subject=path)
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
            self._asked("DELETE", path, {"uploadId": number})
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
            _, body = self._asked("GET", self._bucket, query)
            text = body.decode()
            plain = unquote if "<EncodingType>url<" in text else unescape
            for found in re.findall(r"<Upload>(.*?)</Upload>", text, re.DOTALL):
                path = f"{self._bucket}/{plain(_element(found, 'Key'))}"
                if path.startswith(above):
                    since = datetime.fromisoformat(_element(found, "Initiated"))
                    yield path, _element(found, "UploadId"), int(since.timestamp() * 1000)
            if _element(text, "IsTruncated") != "true":
                return
            query["key-marker"] = plain(_element(text, "NextKeyMarker"))
            query["upload-id-marker"] = _element(text, "NextUploadIdMarker")

    def _begun(self, path: str) -> str:
        _, body = self._asked("POST", path, {"uploads": ""})
        return _element(body.decode(), "UploadId")

    # ---------------------------------------------------------------- requests

    def _asked(
        self, verb: str, path: str, query: Mapping[str, str], body: bytes = b""
    ) -> tuple[Mapping[str, str], bytes]:
        """Headers and body of the answer; the server is asked again where it fails in passing."""
        return self._retries.run(lambda: self._answered(verb, path, query, body), subject=path)

    def _answered(
        self, verb: str, path: str, query: Mapping[str, str], body: bytes
    ) -> tuple[Mapping[str, str], bytes]:
        key = path.removeprefix(self._bucket)
        place = f"{self._root}{quote(key, safe='/-_.~')}" or "/"
        given = "&".join(f"{_quoted(name)}={_quoted(query[name])}" for name in sorted(query))
        headers = self._signed(verb, place, given, body)
        connection = self._connection()
        try:
            connection.request(verb, f"{place}?{given}", body=body or None, headers=headers)
            response = connection.getresponse()
            answer = response.read()
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            became = "failed" if isinstance(error, ssl.SSLError) else "got no answer"
            raise OSError(f"{verb} {became}: {type(error).__name__}: {error}") from error
        text = answer[:2000].decode("utf-8", "replace")
        # what takes long may be answered 200 before it is known to fail
        if response.status // 100 != 2 or "<Error>" in text:
            code, why = _element(text, "Code") or response.reason, _element(text, "Message")
            raise OSError(f"AWS Error {code} (HTTP status {response.status}): {why}")
        return {name.lower(): value for name, value in response.getheaders()}, answer

    def _connection(self) -> http.client.HTTPConnection:
        """Of this thread; it opens itself again where it was closed."""
        if not hasattr(self._local, "kept"):
            self._local.kept = _Kept(self._url, self._timeout_s)
        kept: _Kept = self._local.kept
        return kept.connection

    def _signed(self, verb: str, place: str, query: str, body: bytes) -> dict[str, str]:
        now = self._retries.clock.now_ms() / 1000
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = {
            "host": urlsplit(self._url).netloc,
            "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
            "x-amz-date": stamp,
        }
        if self._keys.session_token:
            headers["x-amz-security-token"] = self._keys.session_token
        headers["authorization"] = authorization(
            self._keys, self._region, verb, place, query, headers
        )
        if verb != "GET":
            headers["content-length"] = str(len(body))
        return headers


def authorization(
    keys: S3Keys, region: str, verb: str, place: str, query: str, headers: Mapping[str, str]
) -> str:
    """The header that proves who asks; ``headers`` are all that is signed."""
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    asked = "\n".join([verb, place, query, lines, names, headers["x-amz-content-sha256"]])
    stamp = headers["x-amz-date"]
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(asked.encode()).hexdigest()
    key = f"AWS4{keys.secret_key}".encode()
    for word in scope.split("/"):
        key = _hmac(key, word)
    signature = _hmac(key, "\n".join(["AWS4-HMAC-SHA256", stamp, scope, digest])).hex()
    credential = f"Credential={keys.access_key}/{scope}"
    return f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _address(bucket: str, access: S3Access, region: str) -> tuple[str, str]:
    """Where requests go, and what their paths begin with."""
    scheme, _, host = (access.endpoint or "").rpartition("://")
    host = host.rstrip("/")
    in_path = access.path_style is not False if host else "." in bucket
    if not host:
        host = f"s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
    if in_path:
        return f"{scheme or 'https'}://{host}", f"/{bucket}"
    return f"{scheme or 'https'}://{bucket}.{host}", ""


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _element(text: str, name: str) -> str:
    found = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return found[1] if found else ""
