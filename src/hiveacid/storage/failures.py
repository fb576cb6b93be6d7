"""What libraries and servers say when files fail, as errors of ours: one sentence, and what to do.

``detail`` in the context of a ``StorageError``: ``no-space``, ``no-permission``, ``no-bucket``,
``wrong-region``, ``read-only``, ``no-answer`` or ``io``.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from hiveacid.errors import MissingFileError, StorageError

_NO_FILE: Final = re.compile("NO_SUCH_KEY|NoSuchKey")
_S3_KEYS: Final = "Keys to S3 are given by hiveacid.s3.*, Spark's fs.s3a.* or AWS_*."
_Kind = tuple[re.Pattern[str], str, str, str | None]
_KINDS: Final[tuple[_Kind, ...]] = (
    (
        re.compile("No space left"),
        "no-space",
        "no space left while writing {path}",
        None,
    ),
    (
        re.compile("QuotaExceeded|QUOTA_EXCEEDED|Disk quota exceeded"),
        "no-space",
        "no quota left while writing {path}",
        "Delete what is not needed (acid.clean()), or have the quota raised: "
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
            "ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE_DOES_NOT_MATCH"
            "|MISSING_AUTHENTICATION|HTTP status 40[13]|InvalidToken|Permission denied"
            "|AccessControlException"
        ),
        "no-permission",
        "no permission for {path}",
        None,
    ),
    (
        re.compile("NO_SUCH_BUCKET|NoSuchBucket"),
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
        re.compile(
            "[Tt]imeout was reached|timed out|Connection refused|got no answer|NETWORK_CONNECTION"
            "|Couldn't (connect|resolve)|failed to lookup address|Name or service not known"
            "|Temporary failure in name"
        ),
        "no-answer",
        "the server of {path} does not answer: {text}",
        "Is it the right one (hiveacid.s3.endpoint, fs.s3a.endpoint, AWS_ENDPOINT_URL, "
        "HADOOP_CONF_DIR), and is it up? hiveacid.files.retry_s says for how long it is asked.",
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
    for pattern, detail, sentence, note in _KINDS:
        if pattern.search(text):
            if note is None and detail == "no-permission" and "AWS Error" in text:
                note = _S3_KEYS
            said = sentence.format(path=path, bucket=path.partition("/")[0], text=text)
            return StorageError(said, path=path, detail=detail, note=note)
    return StorageError(f"input or output on {path} failed: {text}", path=path, detail="io")
