"""File systems that are no local disk: how they are reached, and the library's object for each.

What a place needs (endpoint, region, keys) is known where the user is: hiveacid's settings first,
then Spark's ``fs.s3a.*``, then the environment. It is a value, ``S3Access``, which goes to other
processes with the ``Files`` that they get. What nobody says is left to the library, which looks
into ``~/.aws`` and asks the machine for its role, on each machine by itself.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs as pafs

from hiveacid.errors import InvalidInputError, MissingExtraError
from hiveacid.settings import Settings

Lookup = Callable[[str], str | None]
"""Answers what a name is set to: one of Hadoop's, with Spark's prefix."""
_ATTEMPTS: Final = 5
"""Of a request that the server is too busy for, or that gets lost; pauses grow between them. Where
keys are known whoever asks the library asks again (``Retries``), and it writes no files.
"""
_HDFS: Final = ("hdfs://", "viewfs://")
_GOOGLE: Final = ("gs://", "gcs://")
_KNOWN: Final = (
    "Known are absolute paths, file:, s3: (s3a:, s3n:; what speaks S3 by hiveacid.s3.endpoint), "
    "hdfs:, viewfs:, gs:, abfs: and abfss:."
)
_HADOOP: Final = ("spark.hadoop.fs.s3a.", "fs.s3a.")
"""What Spark's names for S3 begin with: of an application, and of a session."""
_SCHEMES: Final = ("s3:", "s3a:", "s3n:")
"""One place; Hadoop knows the second, Hive writes it into its catalog."""


@dataclass(frozen=True, slots=True)
class S3Keys:
    """Credentials; those of one source stay together."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class S3Access:
    """How S3 is reached; None is what nobody has said."""

    endpoint: str | None = None
    """``host:port`` or a URL with ``http:`` or ``https:``"""
    region: str | None = None
    path_style: bool | None = None
    """the bucket in the path, not in the host's name; where there is an endpoint it is so"""
    timeout_s: float | None = None
    keys: S3Keys | None = None

    def or_else(self, other: S3Access) -> S3Access:
        """This, and what it does not say as the other says it."""
        names = ("endpoint", "region", "path_style", "timeout_s", "keys")
        said = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(other, **said)


def s3_of_settings(settings: Settings) -> S3Access:
    """What a session's settings say.

    Raises:
        InvalidInputError: one of a key and its secret without the other.
    """
    if bool(settings.s3_access_key) != bool(settings.s3_secret_key):
        names = ["hiveacid.s3.access_key", "hiveacid.s3.secret_key"]
        given, lacking = names if settings.s3_access_key else reversed(names)
        raise InvalidInputError(f"{given} is given without {lacking}", setting=lacking)
    return S3Access(
        endpoint=settings.s3_endpoint or None,
        region=settings.s3_region or None,
        path_style={"true": True, "false": False}.get(settings.s3_path_style),
        timeout_s=settings.s3_timeout_s or None,
        keys=_keys(settings.s3_access_key, settings.s3_secret_key, settings.s3_session_token),
    )


def s3_of_environment(environment: Mapping[str, str] = os.environ) -> S3Access:
    """What the variables of AWS say."""

    def first(*names: str) -> str | None:
        return next((environment[name] for name in names if environment.get(name)), None)

    return S3Access(
        endpoint=first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        region=first("AWS_REGION", "AWS_DEFAULT_REGION"),
        keys=_keys(
            first("AWS_ACCESS_KEY_ID"), first("AWS_SECRET_ACCESS_KEY"), first("AWS_SESSION_TOKEN")
        ),
    )


def s3_of_hadoop(lookup: Lookup) -> S3Access:
    """What Spark's configuration says."""

    def first(name: str) -> str | None:
        return next((text for text in (lookup(prefix + name) for prefix in _HADOOP) if text), None)

    endpoint, path_style = first("endpoint"), first("path.style.access")
    if endpoint and "://" not in endpoint and first("connection.ssl.enabled") == "false":
        endpoint = f"http://{endpoint}"
    return S3Access(
        endpoint=endpoint,
        region=first("endpoint.region"),
        path_style=None if path_style is None else path_style.lower() == "true",
        keys=_keys(first("access.key"), first("secret.key"), first("session.token")),
    )


def _keys(access_key: str | None, secret_key: str | None, token: str | None) -> S3Keys | None:
    return S3Keys(access_key, secret_key, token or None) if access_key and secret_key else None


def is_s3(root: str) -> bool:
    """Whether the root of a location is a bucket of S3."""
    return root.startswith(_SCHEMES)


def names_its_server(root: str) -> bool:
    """Whether locations say which server they are on; where S3 is served is said elsewhere."""
    return root.startswith(_HDFS)


@lru_cache(maxsize=64)
def opened_root(root: str, s3: S3Access, deadline_s: float) -> tuple[pafs.FileSystem, str]:
    """The library's file system of a root, and what its paths begin with, such as a bucket;
    ``deadline_s`` is how long it may try where nobody else asks again.

    Raises:
        InvalidInputError: there is none of that scheme.
        MissingExtraError: a package that it needs is not installed.
        OSError: the library cannot reach it.
    """
    if is_s3(root):
        bucket = root.partition("://")[2].partition("/")[0].partition("?")[0]
        if bucket and "?" not in root and "@" not in bucket:
            return _s3(bucket, s3), bucket
    if root.startswith(_HDFS):
        return hadoop_file_system(root, deadline_s=deadline_s), ""
    try:
        file_system, path = pafs.FileSystem.from_uri(bounded(root, deadline_s))
    except (ValueError, pa.ArrowException) as error:
        raise InvalidInputError(
            f"no file system for location {root!r}", location=root, note=_note(root, str(error))
        ) from error
    return file_system, path


def _note(root: str, text: str) -> str:
    """What to do where the library opens nothing, by what it says."""
    if "account name" in text:
        return "It names no account: abfss://container@account.dfs.core.windows.net/..."
    if root.partition(":")[0] not in ("gs", "gcs", "abfs", "abfss", "s3"):
        return _KNOWN
    if "without" in text:
        return "pip install -U pyarrow: this one was built without it."
    return text


def bounded(root: str, deadline_s: float) -> str:
    """The library tries for a quarter of an hour what Google's servers do not do."""
    if not root.startswith(_GOOGLE) or "retry_limit_seconds=" in root:
        return root
    return f"{root}{'&' if '?' in root else '?'}retry_limit_seconds={max(1, round(deadline_s))}"


def _s3(bucket: str, access: S3Access) -> pafs.FileSystem:
    scheme, _, host = (access.endpoint or "").rpartition("://")
    host = host.rstrip("/")
    if access.endpoint and (not host or "/" in host):
        raise InvalidInputError(
            f"{access.endpoint!r} is no endpoint of S3",
            endpoint=access.endpoint,
            note="host:port, or a URL of one; the bucket stands in the location.",
        )
    region = access.region or ("us-east-1" if host else None)
    options: dict[str, Any] = {
        "region": region or pafs.resolve_s3_region(bucket),
        "retry_strategy": pafs.AwsStandardS3RetryStrategy(
            max_attempts=_ATTEMPTS if access.keys is None else 1
        ),
    }
    if host:
        options |= {
            "endpoint_override": host,
            "scheme": scheme or "https",
            "force_virtual_addressing": access.path_style is False,
        }
    if access.timeout_s:
        timeout_s = max(1, round(access.timeout_s))  # less than a second would be for ever
        options |= {"request_timeout": timeout_s, "connect_timeout": timeout_s}
    if access.keys is not None:
        options |= {
            "access_key": access.keys.access_key,
            "secret_key": access.keys.secret_key,
            "session_token": access.keys.session_token,
        }
    try:
        # a small file is one request then, not three
        return pafs.S3FileSystem(allow_delayed_open=True, **options)
    except TypeError:  # Arrow before it knew this option
        return pafs.S3FileSystem(**options)


# -------------------------------------------------------------------- hdfs
# HDFS, by ``hdfs-native``, a client that needs no Java: as Arrow takes it, and as Hadoop's own
# client behaves: rights of what is made, the trash, refusals as errors of files.


_COPY_BYTES: Final = 16 * 1024 * 1024
_CONNECT_S: Final = 10.0
_WAIT_S: Final = 1.5
"""For how long the client itself waits for a name node, where it is asked again."""
_TRACE: Final = r"\n\tat "
"""Begins, as the client shows it, where in the name node something was refused."""
_UMASK: Final = re.compile(
    r"<name>\s*fs\.permissions\.umask-mode\s*</name>\s*<value>\s*([0-7]{3,4})\s*</value>"
)
_UMASK_DEFAULT: Final = 0o022


def hadoop_file_system(root: str, *, deadline_s: float) -> pafs.FileSystem:
    """The file system of a root; HADOOP_CONF_DIR says what is configured. While a file is written
    its name node is waited for until ``deadline_s``; all else whoever asks may ask again.

    Raises:
        MissingExtraError: the client is not installed.
        OSError: its configuration cannot be read, or nobody listens at its address.
    """
    try:
        from hdfs_native import Client, TrashNotEnabledError, WriteOptions, fsspec
    except ImportError as error:
        raise MissingExtraError(
            f"{root} is reached by hdfs-native, which is not installed",
            note="pip install 'hiveacid[hdfs]'",
        ) from error

    scheme, _, address = root.rstrip("/").partition("://")
    given: Any = fsspec.ViewfsFileSystem if scheme == "viewfs" else fsspec.HdfsFileSystem
    host, _, port = address.partition(":")
    if host and port:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()

    def writing() -> Any:
        return Client(f"{scheme}://{address}", tries(deadline_s))

    # what is kept by host and port would be another process's client after a fork
    made = _as_arrow_takes(given, writing, WriteOptions, TrashNotEnabledError)(
        host or None, int(port) if port else None, skip_instance_cache=True, **tries(_WAIT_S)
    )
    return pafs.PyFileSystem(pafs.FSSpecHandler(made))


def tries(wait_s: float) -> dict[str, str]:
    """How often the client asks name nodes again, by its pauses, which double."""
    pauses = itertools.accumulate(min(0.5 * 2**n, 15.0) for n in range(100))
    count = sum(1 for _ in itertools.takewhile(lambda so_far: so_far <= wait_s, pauses))
    return {"dfs.client.failover.max.attempts": str(max(1, count))}


class _Answering:
    """fsspec's own take a server that fails for a file, or all of a directory, that is gone; a name
    for a pattern of names; and a rename for failed that was carried out.
    """

    client: Any
    info: Callable[[str], dict[str, Any]]
    exists: Callable[[str], bool]
    cp_file: Callable[[str, str], None]
    _convert_file_status: Callable[[Any], dict[str, Any]]

    def isfile(self, path: str) -> bool:
        """See fsspec."""
        return self._is_a("file", path)

    def isdir(self, path: str) -> bool:
        """See fsspec."""
        return self._is_a("directory", path)

    def copy(self, path1: str, path2: str, **_: Any) -> None:
        """See fsspec."""
        self.cp_file(path1, path2)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """See fsspec."""
        try:
            self.client.rename(path1, path2)
        except FileNotFoundError:
            # where its answer is lost the client asks again by itself, and finds nothing to move
            if self.exists(path1) or not self.exists(path2):
                raise

    def _is_a(self, kind: str, path: str) -> bool:
        try:
            return bool(self.info(path)["type"] == kind)
        except FileNotFoundError:
            return False

    def find(self, path: str, maxdepth: int | None = None, **facts: Any) -> Any:
        """See fsspec; as Arrow asks: with directories, and all that is known of them."""
        given: Any = super()
        try:
            with refusals_told():
                found = list(self.client.list_status(path, maxdepth is None))
        except FileNotFoundError:  # a directory that went while it was listed
            return given.find(path, maxdepth, **facts)
        infos = map(self._convert_file_status, found)
        return {info["name"]: info for info in infos}

    def walk(self, path: str, *arguments: Any, **facts: Any) -> Iterator[Any]:
        """See fsspec."""
        given: Any = super()
        found: Iterator[Any] = given.walk(path, *arguments, **{**facts, "on_error": _told})
        return found


def _as_arrow_takes(
    given: Any, writing: Callable[[], Any], options: Any, no_trash: type[Exception]
) -> Any:
    """A class of the client's file systems: with times of change, names as they are, copies; rights
    of what is made are those that Hadoop's own client gives. ``writing`` makes the client that
    writes files, ``options`` are of a new one, ``no_trash`` is raised where there is none.
    """
    umask = hadoop_umask()
    writing = lru_cache(maxsize=1)(writing)

    class Hadoop(_Answering, given):  # type: ignore[misc]
        client: Any

        def __init__(self, *arguments: Any, **facts: Any) -> None:
            with refusals_told():
                super().__init__(*arguments, **facts)
            self.client = Telling(self.client)

        def ls(self, path: str, detail: bool = True, **facts: Any) -> list[Any]:
            with refusals_told():  # entries come one by one
                listed: list[Any] = super().ls(path, detail, **facts)
                return listed

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path

        def _convert_file_status(self, status: Any) -> dict[str, Any]:
            info: dict[str, Any] = super()._convert_file_status(status)
            return {**info, "mtime": status.modification_time / 1000}

        def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
            self.client.mkdirs(path, 0o777 & ~umask, create_parents)

        def _open(self, path: str, mode: str = "rb", **facts: Any) -> Any:
            if mode != "wb":
                return super()._open(path, mode, **facts)
            made = options(permission=0o666 & ~umask, overwrite=True)
            with refusals_told():
                return Written(writing().create(path, write_options=made))

        def trash(self, path: str) -> bool:
            try:
                self.client.trash(path)
            except no_trash:
                return False
            return True

        def cp_file(self, path1: str, path2: str, **_: Any) -> None:
            with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
                while block := source.read(_COPY_BYTES):
                    target.write(block)

    return Hadoop


def _told(error: OSError) -> None:
    """A directory that went while it was listed is none; all else is no answer."""
    if not isinstance(error, FileNotFoundError):
        raise error


def moved_to_trash(library: pafs.FileSystem, path: str) -> bool:
    """Puts a directory where its user gets it back from; False where there is no such place.

    Raises:
        OSError: the library failed.
    """
    made = getattr(getattr(library, "handler", None), "fs", None)
    return bool(made is not None and hasattr(made, "trash") and made.trash(path))


def hadoop_umask(environment: Mapping[str, str] = os.environ) -> int:
    """What Hadoop's configuration takes from the rights of new files and directories."""
    home = environment.get("HADOOP_HOME", "/nowhere")
    directory = Path(environment.get("HADOOP_CONF_DIR", f"{home}/etc/hadoop"))
    places = [directory / name for name in ("core-site.xml", "hdfs-site.xml")]
    texts = [place.read_text("utf-8", "replace") for place in places if place.is_file()]
    found = _UMASK.findall("".join(texts))  # the later file goes before the earlier one
    return int(found[-1], 8) if found else _UMASK_DEFAULT


@contextmanager
def refusals_told() -> Iterator[None]:
    """Within the block what a name node refuses is an ``OSError``; of the client it is a
    ``RuntimeError``, with the name that Hadoop gives to it in the text.
    """
    try:
        yield
    except RuntimeError as error:
        raise OSError(str(error).partition(_TRACE)[0]) from error


class Telling:
    """The client, or a file that it opened, whose refusals are told as ``OSError``."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._given, name)
        if not callable(found):
            return found

        @wraps(found)
        def told(*arguments: Any, **facts: Any) -> Any:
            with refusals_told():
                answer = found(*arguments, **facts)
            return Telling(answer) if isinstance(answer, io.IOBase) else answer

        return told

    def __enter__(self) -> Telling:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Written(io.RawIOBase):
    """A file that the client writes. Once that has failed it never is complete: it is left as it
    is, and to close it tells the same. Whoever wants it writes it again, or removes it.
    """

    def __init__(self, given: io.RawIOBase) -> None:
        super().__init__()
        self._given = given
        self._failure: OSError | None = None

    def writable(self) -> bool:
        """See ``io``."""
        return True

    def write(self, data: Any, /) -> int | None:
        """See ``io``."""
        with self._failing():
            return self._given.write(bytes(data))  # other buffers are written byte by byte

    def close(self) -> None:
        """See ``io``."""
        if not self.closed:
            super().close()
            with self._failing():
                self._given.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        if self._failure is not None:
            raise self._failure
        try:
            with refusals_told():
                yield
        except OSError as error:
            self._failure = error
            io.RawIOBase.close(self._given)  # else it would try to once nobody has it any more
            raise
