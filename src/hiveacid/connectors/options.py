"""The options of ``format("hiveacid")``: which exist, what they mean, and the session they open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from hiveacid.errors import InvalidInputError
from hiveacid.model.history import AsOf, ChangeRange, as_of, version_or_time

if TYPE_CHECKING:
    from hiveacid.session import Session

VARIABLE: Final = "HIVEACID_METASTORE"
_EVERYWHERE: Final = ("table", "metastore")
TRAVEL: Final = ("versionAsOf", "timestampAsOf")
FEED: Final = (
    "readChangeFeed",
    "startingVersion",
    "endingVersion",
    "startingTimestamp",
    "endingTimestamp",
    "key",
    "deduplicationMode",
    "computeUpdates",
)
"""Delta's names, and Spark's."""
READ: Final = (*_EVERYWHERE, "filter", "fresh", *TRAVEL, *FEED)
WRITE: Final = _EVERYWHERE
SINK: Final = _EVERYWHERE
SOURCE: Final = (
    *_EVERYWHERE,
    "startingWriteId",
    "maxWriteIdsPerTrigger",
    "maxBytesPerTrigger",
    "skipChangeCommits",
    *(name for name in FEED if not name.startswith("ending")),
    "consumer",
    "consumerRetainDays",
)
_HIDDEN: Final = "***"
_SETTINGS: Final = ("hiveacid.", "hive.")
_SECRET: Final = ("hiveacid.s3.access_key", "hiveacid.s3.secret_key", "hiveacid.s3.session_token")
_CHECKPOINT: Final = "checkpointlocation"
_SPARKS_OWN: Final = frozenset({"path", _CHECKPOINT, "queryname", "pathoptionenabled"})
"""What Spark itself adds: the argument of ``load`` and ``save``, and options of its streams."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a reader or a writer was given; it pickles, and holds no secret.

    ``metastore`` None: the environment of the process says it. ``more`` are the options of one kind
    of reader or writer, by their names in lower case.
    """

    table: str
    metastore: str | None
    settings: Mapping[str, str]
    more: Mapping[str, str]
    checkpoint: str = ""
    """where Spark keeps the state of a stream, as far as it is an option"""

    @staticmethod
    def of(given: Mapping[str, str], known: tuple[str, ...]) -> Options:
        """The options, of which those that are ``known`` may be given.

        Raises:
            InvalidInputError: an option is not known, no table is named, or a secret is given.
        """
        names = {name.lower(): name for name in known}
        values = {key.lower(): value for key, value in given.items()}
        settings = {key: text for key, text in values.items() if key.startswith(_SETTINGS)}
        for key in values:
            if key not in names and key not in _SPARKS_OWN and key not in settings:
                raise InvalidInputError(
                    f"format('hiveacid') has no option {key} here; there are {', '.join(known)},"
                    " and settings (hiveacid. ...)",
                    option=key,
                )
            if key in _SECRET:
                raise InvalidInputError(
                    f"{key} does not belong into options: Spark shows them on its pages and keeps"
                    " them",
                    note="AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN in the"
                    " environment of Spark's driver say it.",
                    option=key,
                )
        more = {k: v for k, v in values.items() if k in names and k not in _EVERYWHERE}
        metastore = _without_password(values.get("metastore"))
        return Options(_table(values), metastore, settings, more, values.get(_CHECKPOINT, ""))

    def connect(self) -> Session:
        """A session without Spark, with the settings that are given.

        Raises:
            InvalidInputError: no metastore is named, or a setting is wrong.
            MetastoreError: it cannot be opened.
        """
        from hiveacid.session import connect
        from hiveacid.spark.jobs import settle

        settle()
        return connect(None, self._url(), settings=dict(self.settings))

    def flag(self, name: str) -> bool | None:
        """An option that is true or false; None where it is not given.

        Raises:
            InvalidInputError: it is neither.
        """
        text = self.more.get(name.lower())
        if text is None:
            return None
        if text.lower() not in ("true", "false"):
            raise InvalidInputError(f"Option {name} is true or false, not {text!r}", option=name)
        return text.lower() == "true"

    def end(self, side: str) -> int | AsOf | None:
        """One end of the changes that are read, of which ``side`` is starting or ending: by version
        or by time; None where it is not given.

        Raises:
            InvalidInputError: it is given by both, or is none.
        """
        number, moment = self.number(f"{side}Version"), self.more.get(f"{side}timestamp")
        if number is not None and moment is not None:
            raise InvalidInputError(
                f"{side}Version and {side}Timestamp are two ways to say one thing",
                option=f"{side}Timestamp",
            )
        return number if moment is None else version_or_time(f"{side}Timestamp", moment)

    def number(self, name: str) -> int | None:
        """An option that is a number from 0 on; None where it is not given.

        Raises:
            InvalidInputError: it is none.
        """
        text = self.more.get(name.lower())
        if text is None:
            return None
        if not text.isascii() or not text.isdigit():
            raise InvalidInputError(f"Option {name} is a whole number, not {text!r}", option=name)
        return int(text)

    def _url(self) -> str:
        known = os.environ.get(VARIABLE)
        if known and self.metastore and _place(known) == _place(self.metastore):
            return known  # which may have the password
        url = self.metastore or known
        if not url:
            raise InvalidInputError(
                "format('hiveacid') does not know the metastore",
                note=f".option('metastore', 'sqlite:///...'), or {VARIABLE} in the environment of"
                " Spark's driver.",
                option="metastore",
            )
        return url


def version_asked(given: Mapping[str, str]) -> AsOf | None:
    """The version that the options ask for, by their names in lower case; None for that of now. A
    version that is no number is a tag.

    Raises:
        InvalidInputError: two of them, or a value that is no time.
    """
    version, moment = (given.get(name.lower()) for name in TRAVEL)
    if version is None or version.isdecimal():
        return as_of(None if version is None else int(version), moment, None)
    return as_of(None, moment, version)


def _table(values: Mapping[str, str]) -> str:
    table, path = values.get("table"), values.get("path")
    if table and path:
        raise InvalidInputError(
            f"The table is named twice: by the option table ({table}), and as {path}",
            option="table",
        )
    name = table or path
    if not name:
        raise InvalidInputError(
            "format('hiveacid') needs the name of a table",
            note=".option('table', 'emp'), or load('emp').",
            option="table",
        )
    return name


def _without_password(url: str | None) -> str | None:
    """The URL of a metastore; Spark keeps options in plans, checkpoints and on its web page.

    Raises:
        InvalidInputError: there is a password in it.
    """
    if url is None or "://" not in url:
        return url
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        text = "Option metastore is no URL: its host or port cannot be read"
        raise InvalidInputError(text, option="metastore") from error
    if parts.password == _HIDDEN:  # as a session shows its own
        return url.replace(f":{_HIDDEN}@", "@", 1)
    if parts.password is not None or "password" in parts.query.lower():
        raise InvalidInputError(
            "A password does not belong into options: Spark shows them on its pages and keeps them",
            note=f"Put the whole URL into {VARIABLE} in the environment of Spark's driver and"
            " workers, or the password alone into PGPASSWORD.",
            option="metastore",
        )
    return url


def _place(url: str) -> tuple[object, ...]:
    """What of a URL says which metastore it is."""
    parts = urlsplit(url)
    kind = parts.scheme.partition("+")[0].replace("postgresql", "postgres")
    return kind, parts.username, parts.hostname, parts.port, parts.path


def changes_asked(options: Options) -> bool:
    """Whether changes are to be read, not rows.

    Raises:
        InvalidInputError: options that mean nothing together.
    """
    wanted = bool(options.flag(FEED[0]))
    others = ("filter", "fresh", *TRAVEL) if wanted else FEED[1:]
    for name in others:
        if options.more.get(name.lower()) is not None:
            says = "does not go with" if wanted else "needs"
            raise InvalidInputError(f"Option {name} {says} readChangeFeed", option=name)
    return wanted


def range_asked(options: Options) -> ChangeRange:
    """Between which versions, and in which form.

    Raises:
        InvalidInputError: it is not said where they begin, or an option is wrong.
    """
    since, until = options.end("starting"), options.end("ending")
    if since is None:
        raise InvalidInputError(
            "readChangeFeed needs the first version whose changes are read",
            note=".option('startingVersion', 3); a version is a write id. Or startingTimestamp.",
            option="startingVersion",
        )
    return ChangeRange(since, until, includes_since=True).in_form(options.more)
