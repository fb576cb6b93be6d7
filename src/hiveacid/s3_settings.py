"""The settings of a session that say how S3 is reached: a part of ``Settings``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hiveacid.compactor_settings import CompactorSettings
from hiveacid.setting import setting

_REACHED: Final = "files are reached with it; give it to hiveacid.connect(settings=...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings(CompactorSettings):
    """What ``storage.stores`` takes before Spark's configuration and the environment."""

    s3_endpoint: str = setting(
        "",
        "s3.endpoint",
        "Where S3 is served, as `https://host:port`; where it is empty, Spark's `fs.s3a.endpoint`, "
        "then `AWS_ENDPOINT_URL` counts, and AWS itself else. So with the settings below.",
        as_is=True,
        fixed=_REACHED,
    )
    s3_region: str = setting("", "s3.region", "The region of S3.", as_is=True, fixed=_REACHED)
    s3_path_style: str = setting(
        "default",
        "s3.path_style",
        "Whether the bucket stands in the path of a request (`true`) or in the host's name. "
        "`default`: in the path where there is an endpoint.",
        choices=("default", "true", "false"),
        fixed=_REACHED,
    )
    s3_timeout_s: float = setting(
        0.0,
        "s3.timeout_s",
        "How long a server may be silent before a request is sent again, five times at most; 0: "
        "the library's own time.",
        fixed=_REACHED,
    )
    s3_access_key: str = setting(
        "", "s3.access_key", "The name of the key to S3.", secret=True, fixed=_REACHED
    )
    s3_secret_key: str = setting(
        "", "s3.secret_key", "The key to S3; never shown.", secret=True, fixed=_REACHED
    )
    s3_session_token: str = setting(
        "",
        "s3.session_token",
        "What a key to S3 that was lent comes with; never shown.",
        secret=True,
        fixed=_REACHED,
    )
