"""What is asked of a server of S3 by ourselves, because pyarrow does not: signed (AWS Signature 4),
over connections that are kept, again where it fails in passing. On that rest files that are written
(``s3_uploads``), and the listings of many directories together.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import http.client
import os
import re
import select
import ssl
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from html import unescape
from itertools import pairwise
from posixpath import commonpath
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from hiveacid.errors import InternalError
from hiveacid.storage.failures import Retries
from hiveacid.storage.stores import S3Access, S3Keys

_TIMEOUT_S: Final = 60.0
_IDLE_MAX: Final = 64
"""Connections that are kept."""
_EMPTY: Final = 416
"""The status where a range of a file is asked for that has no bytes."""
NO_S3: Final = "the answer is none of S3"
"""Other servers than that of S3 answer 200, too: a console, a proxy that wants a password."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a server, where it did what it was asked."""

    headers: Mapping[str, str]
    """by their names in lower case"""
    body: bytes


class Connection:
    """To a server: opened when it is first asked, again after it was closed, and closed when nobody
    keeps it any more. ``tls=None`` is plain HTTP.
    """

    def __init__(self, server: str, *, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        self.http = (
            http.client.HTTPSConnection(server, timeout=timeout_s, context=tls)
            if tls is not None
            else http.client.HTTPConnection(server, timeout=timeout_s)
        )
        # by no __del__: of a cycle the socket may be told first that nobody needs it
        weakref.finalize(self, self.http.close)

    def is_ended(self) -> bool:
        """Whether the server has closed it: there is something to read of what answers nothing."""
        if self.http.sock is None:
            return False
        poll = select.poll()
        poll.register(self.http.sock, select.POLLIN)
        return bool(poll.poll(0))


class Requests:
    """To one bucket; paths begin with its name."""

    def __init__(self, bucket: str, access: S3Access, *, region: str, retries: Retries) -> None:
        assert access.keys is not None
        self.bucket = bucket
        self.retries = retries
        self._keys = access.keys
        self._region = region
        self._timeout_s = access.timeout_s or _TIMEOUT_S
        url, self._root = _address(bucket, access, region)
        server = urlsplit(url)
        if server.hostname is None:
            raise InternalError("an endpoint without a host", endpoint=url)
        self._tls = ssl.create_default_context() if server.scheme == "https" else None
        self._server = server.netloc
        self._idle: deque[Connection] = deque(maxlen=_IDLE_MAX)
        self._process = os.getpid()

    def asked(
        self, verb: str, path: str, query: Mapping[str, str], body: bytes = b"", *, range: str = ""
    ) -> Answer:
        """The answer; the server is asked again where it fails in passing.

        Raises:
            OSError: the server refused, or failed.
        """
        return self.retries.run(
            lambda: self.once(verb, path, query, body, range=range), subject=path
        )

    def put(self, path: str, data: bytes, query: Mapping[str, str]) -> str:
        """The tag of what was stored.

        Raises:
            OSError: as ``asked``, or the server does not speak S3.
        """
        tag = self.asked("PUT", path, query, data).headers.get("etag")
        if not tag:
            raise OSError(errno.EIO, f"{NO_S3}: no tag of {path}")
        return tag

    def check(self) -> None:
        """See that the bucket is there, and that it is one.

        Raises:
            OSError: it is not; or as ``asked``.
        """
        about(_LISTING, self.asked("GET", self.bucket, {"list-type": "2", "max-keys": "1"}))

    def once(
        self, verb: str, path: str, query: Mapping[str, str], body: bytes = b"", *, range: str = ""
    ) -> Answer:
        """The answer; ``range`` as in ``bytes=0-99``.

        Raises:
            OSError: the server refused, or failed.
        """
        key = path.removeprefix(self.bucket)
        place = f"{self._root}{quote(key, safe='/-_.~')}" or "/"
        given = "&".join(f"{_quoted(name)}={_quoted(query[name])}" for name in sorted(query))
        headers = self._signed(verb, place, given, body)
        if range:
            headers["range"] = range
        kept = self._taken()
        try:
            kept.http.request(verb, f"{place}?{given}", body=body or None, headers=headers)
            response = kept.http.getresponse()
            answer = response.read()
            self._idle.append(kept)
        except (http.client.HTTPException, OSError) as error:
            kept.http.close()
            became = "failed" if isinstance(error, ssl.SSLError) else "got no answer"
            text = f"{verb} {became}: {type(error).__name__}: {error}"
            raise OSError(errno.EIO, text) from error
        if response.status == _EMPTY and range:
            return Answer({}, b"")
        # a long request may be answered 200, and its error is in the body
        text = "" if verb == "GET" and range else answer[:2000].decode("utf-8", "replace")
        if response.status // 100 != 2 or "<Error>" in text:
            text = answer[:2000].decode("utf-8", "replace")
            code, why = element(text, "Code") or response.reason, element(text, "Message")
            raise OSError(errno.EIO, f"AWS Error {code} (HTTP status {response.status}): {why}")
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(found, answer)

    def _taken(self) -> Connection:
        """A connection that nobody uses: the last one that was, or a new one."""
        if self._process != os.getpid():  # the other one talks over what it had before the fork
            self._idle.clear()
            self._process = os.getpid()
        try:
            kept = self._idle.pop()
        except IndexError:
            return Connection(self._server, tls=self._tls, timeout_s=self._timeout_s)
        if kept.is_ended():
            kept.http.close()  # opens itself again
        return kept

    def _signed(self, verb: str, place: str, query: str, body: bytes) -> dict[str, str]:
        now_s = self.retries.clock.now_ms() // 1000
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
        headers = {
            "host": self._server,
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
    key = _signing_key(keys.secret_key, scope)
    signature = _hmac(key, "\n".join(["AWS4-HMAC-SHA256", stamp, scope, digest])).hex()
    credential = f"Credential={keys.access_key}/{scope}"
    return f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"


@lru_cache(maxsize=8)
def _signing_key(secret_key: str, scope: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for word in scope.split("/"):
        key = _hmac(key, word)
    return key


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


def element(text: str, name: str) -> str:
    """The content of the first element of a name, "" where there is none."""
    found = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return found[1] if found else ""


_LISTING: Final = "ListBucketResult"


def about(name: str, answer: Answer) -> str:
    """The text of an answer, which has an element of this name.

    Raises:
        OSError: the server does not speak S3.
    """
    text = answer.body.decode("utf-8", "replace")
    if f"<{name}" not in text:
        raise OSError(errno.EIO, f"{NO_S3}: {text[:60]!r} in place of {name}")
    return text


def epoch_ms(text: str) -> int:
    """The time that a server says; 0 where it does not."""
    if not text:
        return 0
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


# -------------------------------------------------------------------- many listings
# Many directories of a bucket listed together: of a large table one page holds many partitions.
#
# A bucket lists its objects by name, a thousand at a time, from any name on. So a page that begins
# with one directory goes on with those after it, and the next page begins with the next one wanted:
# never more requests than directories, nor than pages of all that lies between the first and the
# last.


_OBJECT: Final = re.compile(
    "<Contents>.*?<Key>(?P<key>.*?)</Key>(?P<rest>.*?)</Contents>", re.DOTALL
)

Found = tuple[str, int, int]
"""Path, size in bytes and time of change in nanoseconds."""


def are_apart(directories: Sequence[str]) -> bool:
    """Whether no directory lies within another one."""
    ordered = sorted(f"{one.rstrip('/')}/" for one in directories)
    return not any(below.startswith(above) for above, below in pairwise(ordered))


def list_together(requests: Requests, directories: Sequence[str]) -> dict[str, list[Found]]:
    """All objects below each directory, markers of directories included; directories are
    ``are_apart``.

    Raises:
        OSError: the server refused, or failed.
    """
    key_start = len(requests.bucket) + 1
    prefixes = sorted(f"{one.rstrip('/')}/" for one in directories)
    objects: dict[str, list[Found]] = {one: [] for one in prefixes}
    common = commonpath([prefixes[0][key_start:], prefixes[-1][key_start:]])
    prefix = f"{common}/" if common else ""
    number, after = 0, prefixes[0]
    while number < len(prefixes):
        query = {"list-type": "2", "prefix": prefix, "start-after": after[key_start:]}
        query["encoding-type"] = "url"
        text = about(_LISTING, requests.asked("GET", requests.bucket, query))
        for path, size_bytes, modified_ns in _objects(requests.bucket, text):
            after = path
            while number < len(prefixes) and path > prefixes[number]:
                if path.startswith(prefixes[number]):
                    objects[prefixes[number]].append((path, size_bytes, modified_ns))
                    break
                number += 1
        if element(text, "IsTruncated") != "true":
            break
        after = max(after, prefixes[min(number, len(prefixes) - 1)])
    return {one: objects[f"{one.rstrip('/')}/"] for one in directories}


def with_directories(root: str, found: Iterable[Found]) -> list[tuple[str, bool, int, int]]:
    """The objects below a directory as files, and the directories that their names are in: path,
    whether it is a directory, size, and time of change; sorted.
    """
    infos: dict[str, tuple[str, bool, int, int]] = {}
    above = len(root.rstrip("/"))
    for path, size_bytes, modified_ns in found:
        file = path.rstrip("/")
        if file == path:
            infos[file] = (file, False, size_bytes, modified_ns)
        at = file.rfind("/") if file == path else len(file)
        while at > above and file[:at] not in infos:
            infos[file[:at]] = (file[:at], True, 0, 0)
            at = file.rfind("/", 0, at)
    return [infos[path] for path in sorted(infos)]


def _objects(bucket: str, text: str) -> Iterator[Found]:
    plain = unquote if "<EncodingType>url<" in text else unescape
    for one in _OBJECT.finditer(text):
        rest = one["rest"]
        modified_ns = epoch_ms(element(rest, "LastModified")) * 1_000_000
        yield f"{bucket}/{plain(one['key'])}", int(element(rest, "Size")), modified_ns
