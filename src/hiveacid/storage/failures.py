"""What libraries and servers say when files fail, as errors of ours: one sentence, and what to do.

``detail`` in the context of a ``StorageError``: ``no-space``, ``no-permission``, ``no-bucket``,
``wrong-region``, ``read-only``, ``no-answer``, ``no-s3``, ``no-tls``, ``no-checksum`` or ``io``.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar
from zlib import crc32

import pyarrow as pa

from hiveacid.clock import Clock, SystemClock
from hiveacid.errors import MissingFileError, StorageError

_LOG = logging.getLogger(__name__)
_NO_FILE: Final = re.compile("NO_SUCH_KEY|NoSuchKey")
_S3_KEYS: Final = "Keys to S3 are given by hiveacid.s3.*, Spark's fs.s3a.* or AWS_*."
_WHOSE: Final = re.compile(r'user=\S+, access=\w+, inode="[^"]*":[\w:-]+')
"""As a name node says it, of which the client shows quotes with a backslash."""
_WHO_ASKS: Final = "Who asks is said by HADOOP_USER_NAME, or by the ticket of kinit."
_NO_TLS: Final = re.compile("SSL connect error|SSL peer certificate|SSLError|SSLCert")
_BUSY: Final = (
    "SLOW_DOWN|SlowDown|SERVICE_UNAVAILABLE|ServiceUnavailable|INTERNAL_FAILURE|InternalError"
    "|REQUEST_TIMEOUT|RequestTimeout|THROTTLING|OperationAborted|HTTP status (429|500|502|503|504)"
)
"""Servers of S3, by their names and by Arrow's."""
_Kind = tuple[re.Pattern[str], str, str, str | None]
_KINDS: Final[tuple[_Kind, ...]] = (
    (
        re.compile("No space left|InsufficientStorage|StorageFull|HTTP status 507"),
        "no-space",
        "no space left while writing {path}",
        None,
    ),
    (
        re.compile("QuotaExceeded|QUOTA_EXCEEDED|Disk quota exceeded"),
        "no-space",
        "no quota left while writing {path}",
        "Delete what is not needed (acid.clean()), or have the quota raised; of HDFS: "
        "hdfs dfsadmin -setSpaceQuota, -setQuota.",
    ),
    (
        re.compile(
            "EXPIRED_TOKEN|ExpiredToken|TokenRefreshRequired|RequestExpired|REQUEST_EXPIRED"
        ),
        "no-permission",
        "the credentials for {path} have expired",
        "Connect again with new ones: hiveacid.s3.*, Spark's fs.s3a.* or AWS_*.",
    ),
    (
        re.compile(
            "PERMANENT_REDIRECT|PermanentRedirect|AuthorizationHeaderMalformed|HTTP status 301"
            "|AUTHORIZATION_HEADER_MALFORMED|IllegalLocationConstraint"
        ),
        "wrong-region",
        "the bucket of {path} is in another region",
        "Say which: hiveacid.s3.region, Spark's fs.s3a.endpoint.region or AWS_REGION.",
    ),
    (
        re.compile("DefaultAzureCredential|AuthenticationException"),
        "no-permission",
        "no credentials for {path}",
        "Azure's library looks for AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, "
        "the role of the machine, and az login.",
    ),
    (
        re.compile("Could not create a OAuth2 access token"),
        "no-permission",
        "no credentials for {path}",
        "Google's library looks for GOOGLE_APPLICATION_CREDENTIALS and the role of the machine.",
    ),
    (
        re.compile(
            "GSSAPI|SASLError|NoSASLMechanism|cannot authenticate via|SecretManager|libgssapi"
        ),
        "no-permission",
        "no credentials for {path}: {text}",
        "HDFS takes the ticket of kinit, or tokens from the file that HADOOP_TOKEN_FILE_LOCATION "
        "names; for Kerberos libgssapi_krb5 is installed on the machine.",
    ),
    (
        re.compile(
            "ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE_DOES_NOT_MATCH"
            "|MISSING_AUTHENTICATION|HTTP status 40[13]|InvalidToken|Permission denied"
            "|AccessControlException"
        ),
        "no-permission",
        "no permission for {path}",
        None,
    ),
    (
        re.compile(r"HTTP status 400\) during Head"),  # an answer that has no text
        "no-permission",
        "a request about {path} is refused",
        "Mostly because credentials have expired, or the bucket is in another region: "
        "hiveacid.s3.*, Spark's fs.s3a.* or AWS_*.",
    ),
    (
        re.compile("NO_SUCH_BUCKET|NoSuchBucket|Bucket '.*' not found"),
        "no-bucket",
        "There is no bucket {bucket}",
        "Make it, or correct the location.",
    ),
    (
        re.compile("SafeModeException|in safe mode"),
        "read-only",
        "the name node of {path} is in safe mode: nothing is written",
        "Try again once it has left it: hdfs dfsadmin -safemode get.",
    ),
    (
        re.compile("the answer is none of S3"),
        "no-s3",
        "the server of {path} does not speak S3: {text}",
        "Is it the right one: hiveacid.s3.endpoint, Spark's fs.s3a.endpoint, AWS_ENDPOINT_URL?",
    ),
    (
        _NO_TLS,
        "no-tls",
        "no trusted connection to the server of {path}: {text}",
        "A server without TLS has an endpoint that begins with http://; the certificate of another "
        "one must be known to this machine.",
    ),
    (
        re.compile("XAmzContentSHA256Mismatch"),
        "no-checksum",
        "the server of {path} does not know AWS's checksums",
        "Let AWS's library leave them out: AWS_REQUEST_CHECKSUM_CALCULATION=when_required, on each "
        "machine; or give the keys to hiveacid.s3.*, Spark's fs.s3a.* or AWS_*.",
    ),
    (
        re.compile(
            "[Tt]imeout was reached|timed out|Connection refused|got no answer|NETWORK_CONNECTION"
            "|Could(n't| not) (connect|resolve)|failed to lookup address|Name or service not known"
            "|Temporary failure in name|No route to host|(Host|Network) is unreachable"
            "|No NameNode hosts found"
            "|All DataNodes failed|All nodes failed for write|There are 0 datanode"
        ),
        "no-answer",
        "the server of {path} does not answer: {text}",
        "Is it the right one (hiveacid.s3.endpoint, fs.s3a.endpoint, AWS_ENDPOINT_URL, "
        "HADOOP_CONF_DIR), and is it up? hiveacid.files.retry_s says for how long it is asked.",
    ),
    (
        re.compile(_BUSY),
        "no-answer",
        "the server of {path} is too busy, or fails: {text}",
        "Try again later; hiveacid.files.retry_s says for how long it is asked.",
    ),
)


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """Map a library's errors to ours."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path=path) from error
    except pa.ArrowException as error:
        if type(error) is not pa.ArrowException:
            raise
        raise storage_error(OSError(str(error)), path=path) from error  # Azure's are of no kind


class Removing(Protocol):
    """A place of files, as who gives one up sees it."""

    def exists(self, path: str) -> bool:
        """Whether there is anything of it to remove."""

    def delete_file(self, path: str) -> None:
        """Remove it."""


def remove_failed(place: Removing, path: str) -> None:
    """Remove a file whose writing failed. Where that fails, too, it is logged: what failed first is
    what is told.
    """
    try:
        if place.exists(path):
            place.delete_file(path)
    except StorageError as error:
        _LOG.warning("A file that failed is not removed: %s", error, extra={"path": path})


def storage_error(error: OSError, *, path: str) -> StorageError:
    """Our error for an operating system's, a server's or Arrow's one."""
    text = str(error)
    if isinstance(error, FileNotFoundError) or error.errno == errno.ENOENT or _NO_FILE.search(text):
        return MissingFileError(f"file {path} does not exist", path=path)
    if error.errno == errno.ENOSPC:
        text = f"No space left: {text}"
    elif error.errno == errno.EDQUOT:
        text = f"Disk quota exceeded: {text}"
    elif isinstance(error, PermissionError):
        text = f"Permission denied: {text}"
        path = _below(path, text)
    for pattern, detail, sentence, note in _KINDS:
        if pattern.search(text):
            if note is None and detail == "no-permission":
                whose = _WHOSE.search(text.replace('\\"', '"'))
                note = _S3_KEYS if "AWS Error" in text else whose and f"{whose[0]}. {_WHO_ASKS}"
            said = sentence.format(path=path, bucket=path.partition("/")[0], text=text)
            return StorageError(said, path=path, detail=detail, note=note)
    return StorageError(f"input or output on {path} failed: {text}", path=path, detail="io")


def _below(path: str, text: str) -> str:
    """What a text names below ``path``, as of a listing that goes into directories; else that."""
    named = (name for name in re.findall(r"'([^']+)'", text) if name.startswith(f"{path}/"))
    return max(named, key=len, default=path)


# -------------------------------------------------------------------- retries
# Again, where a server fails in passing: with growing pauses, until it has taken too long.
#
# What is refused (no permission, no such file, no space) is not asked again. Whoever repeats what
# is not the same done twice looks first what became of it.
#
# A server that was given up is asked once for each request from then on, for as long as it was
# waited for: a statement that fails has some to tidy up, and does not wait for each. One that
# nobody has reached yet is given up soon where nothing listens: its address may be wrong.


_Answer = TypeVar("_Answer")
_PASSING: Final = re.compile(
    f"{_BUSY}|NETWORK_CONNECTION"
    # the way there
    "|[Tt]imeout was reached|[Tt]imed out|Connection (refused|reset)|Broken pipe|got no answer"
    "|No route to host|(Host|Network) is unreachable|early eof"
    # name nodes
    "|StandbyException|RetriableException|ObserverRetryOnActiveException|SafeModeException"
    "|RPC listener disconnected|NotReplicatedYetException|Failed to complete file in time"
    # data nodes: none has come back yet, or those that have the file, or are writing it, went away
    "|There are 0 datanode|All DataNodes failed|All nodes failed for write|Failed to add a datanode"
    "|BlockMissingException|SocketTimeoutException"
)
_UNREACHED: Final = re.compile(
    "Connection refused|Could(n't| not) (connect|resolve)|failed to lookup address|Name or service"
    "|No route to host|(Host|Network) is unreachable"
)
_FIRST_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 10.0
_UNREACHED_S: Final = 5.0


def is_passing(error: BaseException) -> bool:
    """Whether what failed may succeed when it is asked again, unchanged."""
    text = str(error)
    passing = _PASSING.search(text) or isinstance(error, ConnectionError | TimeoutError)
    return bool(passing) and not _NO_TLS.search(text)


@dataclass(slots=True)
class _Server:
    """What is known of the one that is asked."""

    answers: bool = False
    given_up_s: float | None = None


@dataclass(frozen=True, slots=True)
class Retries:
    """For how long a request is asked again, from the first time on."""

    deadline_s: float = 60.0
    clock: Clock = field(default=SystemClock(), repr=False, compare=False)
    _server: _Server = field(default_factory=_Server, repr=False, compare=False)

    def of_a_server(self, *, answers: bool | None = None) -> Retries:
        """The same for another server; ``answers`` where it is known to be there."""
        known = self._server.answers if answers is None else answers
        return replace(self, _server=_Server(answers=known))

    def run(
        self,
        step: Callable[[], _Answer],
        *,
        subject: str = "",
        asks_itself: bool = False,
        again: Callable[[], _Answer] | None = None,
    ) -> _Answer:
        """The answer of ``step``, or of ``again`` in its place once it failed; ``subject`` is what
        it is about, and lets those who wait for one server not ask at once. A step of many requests
        that ``asks_itself`` counts from where it failed first, and ends where a request of it was
        given up.

        Raises:
            OSError: as the last one of ``step``.
        """
        name, server = subject.rpartition("/")[2], self._server
        pause_s, began_s = _FIRST_PAUSE_S, self.clock.monotonic_s()
        given_up_s = server.given_up_s
        is_given_up = given_up_s is not None and began_s < given_up_s + self.deadline_s
        patience_s = 0.0 if is_given_up else self.deadline_s
        while True:
            try:
                answer = step()
            except OSError as error:
                if not is_passing(error):
                    server.answers = server.answers or not _UNREACHED.search(str(error))
                    raise
                if asks_itself:
                    began_s, asks_itself = self.clock.monotonic_s(), False
                    patience_s = 0.0 if server.given_up_s is not None else self.deadline_s
                if not server.answers and _UNREACHED.search(str(error)):
                    patience_s = min(patience_s, _UNREACHED_S)
                if self.clock.monotonic_s() + pause_s > began_s + patience_s:
                    server.given_up_s = self.clock.monotonic_s()
                    raise
                _LOG.warning("Asked again in %.1f s: %s: %s", pause_s, subject, error)
            else:
                server.answers, server.given_up_s = True, None
                return answer
            step = again or step
            self.clock.sleep_s(pause_s * (0.5 + crc32(f"{name}{pause_s}".encode()) / 2**33))
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
