"""A server of S3 from memory: as much of it as reading and small writes need, quick enough that
what is measured is the client. It takes its time where it is told to, and counts.
"""

from __future__ import annotations

import io
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

_PAGE: Final = 1000
_DATE: Final = formatdate(1_700_000_000, usegmt=True)
_TIME: Final = "2023-11-14T22:13:20.000Z"


@dataclass(slots=True)
class Memory:
    """``objects`` by path, the bucket first; ``asked`` counts verbs, ``most`` is how many requests
    there were at once.
    """

    endpoint: str = ""
    latency_s: float = 0.0
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    most: int = 0
    now: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    _sorted: list[str] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        """Settings of hiveacid that reach it."""
        return {
            "hiveacid.s3.endpoint": self.endpoint,
            "hiveacid.s3.region": "us-east-1",
            "hiveacid.s3.access_key": "tester",
            "hiveacid.s3.secret_key": "tester's-secret",
        }

    def reset(self) -> None:
        """Count from here on."""
        self.asked.clear()
        self.most = self.sent_bytes = 0

    def names(self) -> list[str]:
        """Of all objects, sorted."""
        if len(self._sorted) != len(self.objects):
            self._sorted = sorted(self.objects)
        return self._sorted


def _dechunked(stream: io.BufferedIOBase) -> bytes:
    found = b""
    while size := int(stream.readline().split(b";")[0], 16):
        found += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass  # what trails
    return found


class _Handler(BaseHTTPRequestHandler):
    """Of one connection; a class of its own for each server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    memory: ClassVar[Memory]

    def respond(self) -> None:
        memory = self.memory
        split = urlsplit(self.path)
        path, query = unquote(split.path).strip("/"), parse_qs(split.query)
        body = self.body()
        with memory.lock:
            memory.asked["LIST" if "list-type" in query else self.command] += 1
            memory.now += 1
            memory.most = max(memory.most, memory.now)
        try:
            time.sleep(memory.latency_s)
            if "list-type" in query:
                first = {name: texts[0] for name, texts in query.items()}
                self.answer(200, self.page(path, first), {})
            elif self.command == "PUT":
                memory.objects[unquote(split.path).lstrip("/")] = body
                self.answer(200, b"", {"ETag": '"1"'})
            elif self.command == "DELETE":
                memory.objects.pop(path, None)
                self.answer(204, b"", {})
            else:
                self.read(path)
        finally:
            with memory.lock:
                memory.now -= 1

    do_GET = do_PUT = do_HEAD = do_DELETE = respond

    def body(self) -> bytes:
        """Without the chunks of HTTP, and those of S3 within them."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            found = _dechunked(self.rfile)
        else:
            found = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            return _dechunked(io.BytesIO(found))
        return found

    def read(self, path: str) -> None:
        """All of an object, or a range of it."""
        data = self.memory.objects.get(path)
        if data is None:
            there = "/" not in path  # a bucket
            said = b"" if there else b"<Error><Code>NoSuchKey</Code></Error>"
            self.answer(200 if there else 404, said, {})
            return
        given = self.headers.get("Range", "").removeprefix("bytes=")
        low, _, high = given.partition("-")
        first = int(low) if low else max(0, len(data) - int(high or 0)) if given else 0
        last = min(int(high), len(data) - 1) if low and high else len(data) - 1
        headers = {"ETag": '"1"', "Last-Modified": _DATE, "Accept-Ranges": "bytes"}
        if given:
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        self.answer(206 if given else 200, data[first : last + 1], headers)

    def page(self, bucket: str, query: dict[str, str]) -> bytes:
        """Of a listing, with or without a delimiter."""
        quoted = quote if "encoding-type" in query else str
        names, prefix = self.memory.names(), f"{bucket}/{query.get('prefix', '')}"
        after = query.get("continuation-token") or f"{bucket}/{query.get('start-after', '')}"
        delimiter = query.get("delimiter", "")
        place = bisect_right(names, max(after, prefix[:-1]))
        texts: list[str] = []
        size, seen, more = int(query.get("max-keys", _PAGE)), "", False
        last = ""
        for name in names[place:]:
            if not name.startswith(prefix):
                break
            if len(texts) == size:
                more = True
                break
            rest, last = name[len(prefix) :], name
            if delimiter and delimiter in rest:
                common = prefix + rest.partition(delimiter)[0] + delimiter
                if common != seen:
                    seen = common
                    key = quoted(common[len(bucket) + 1 :])
                    texts.append(f"<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>")
                continue
            size_bytes = len(self.memory.objects[name])
            texts.append(
                f"<Contents><Key>{quoted(name[len(bucket) + 1 :])}</Key>"
                f"<LastModified>{_TIME}</LastModified><Size>{size_bytes}</Size></Contents>"
            )
        token = f"<NextContinuationToken>{quote(last)}</NextContinuationToken>" if more else ""
        encoding = "<EncodingType>url</EncodingType>" if quoted is quote else ""
        return (
            f"<ListBucketResult>{encoding}<KeyCount>{len(texts)}</KeyCount>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(texts)}</ListBucketResult>"
        ).encode()

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """In one write."""
        self.memory.sent_bytes += len(body)
        lines = [f"HTTP/1.1 {status} {'OK' if status < 300 else 'No'}"]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        content = b"" if self.command == "HEAD" else body
        self.wfile.write("\r\n".join(lines).encode() + content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def memory_server() -> Iterator[Memory]:
    """Such a server, for as long as the block lasts."""
    memory = Memory()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"memory": memory}))
    server.request_queue_size = 128
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    memory.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield memory
    finally:
        server.shutdown()
        server.server_close()
