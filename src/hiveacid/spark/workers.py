"""A Spark session on this machine, as the command line, the demo and the tests start it; and the
Python of Spark's workers anywhere: hiveacid is sent to it, and what it lacks is told.

Where tasks run on this machine with this interpreter there is nothing to do. Elsewhere, before the
first statement of an application that runs Python in the workers, the package goes there as a zip:
always, so that both sides run the same version. Then one task says which libraries it sees.
"""

from __future__ import annotations

import importlib.util
import io
import json
import marshal
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import weakref
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hiveacid.errors import MissingExtraError, SparkNeededError
from hiveacid.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NEEDED: Final = {"pyarrow": "15", "numpy": "1.24", "pandas": "", "protobuf": "4.25"}
"""What tasks import besides hiveacid, with the least version; that of pandas is up to Spark."""

_MODULES: Final = {"protobuf": "google.protobuf"}
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_UNCHECKED_HASH: Final = (1).to_bytes(4, "little")
_READY: weakref.WeakSet[Any] = weakref.WeakSet()
"""Applications, or sessions of Spark Connect, whose workers have all they need."""
_SENDING: Final = threading.Lock()
"""Held while one gets it: two streams begin at once, and Spark copies a file to a name once."""


def make_ready(spark: SparkSession) -> None:
    """Let Spark's workers run our tasks; one job, once an application, where it is needed at all.

    Raises:
        MissingExtraError: their Python lacks a library that cannot be sent.
    """
    if runs_here(spark):
        return
    application = _application(spark)
    if application in _READY:
        return
    with _SENDING:
        if application not in _READY:
            _send(spark, application)
            _check_libraries(spark)
            _READY.add(application)


def _send(spark: SparkSession, application: Any) -> None:
    archive = package_zip()
    if archive is None:
        return
    if application is spark:
        spark.addArtifact(archive, pyfile=True)
    else:
        application.addPyFile(archive)


def runs_here(spark: SparkSession) -> bool:
    """Whether this interpreter runs the tasks, on this machine."""
    return is_local(spark) and chosen_python(spark) in (None, sys.executable)


def _application(spark: SparkSession) -> Any:
    """What owns the workers: the context, or the session where that is on a server."""
    from pyspark.errors import PySparkException

    try:
        return spark.sparkContext
    except PySparkException:
        return spark


def _check_libraries(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    # in a worker this module must come without pyarrow
    from hiveacid.spark.failures import statement_error

    # without Arrow, which may be what is missing
    found = F.udf(libraries, "string", useArrow=False)
    try:
        (row,) = spark.range(0, 1, 1, 1).select(found("id")).collect()
    except Exception as error:  # PySpark's, or py4j's: see failures
        known = statement_error(error)
        if known is error:
            raise
        raise known from error
    answer = json.loads(row[0])
    missing = missing_libraries(answer["python"], answer["versions"])
    if missing is not None:
        raise missing


def libraries(_: int) -> str:
    """In a worker: its interpreter, and of each library its version, "" where that cannot be told,
    null where there is none; as JSON.
    """
    versions = {name: _version(name) for name in NEEDED}
    return json.dumps({"python": sys.executable, "versions": versions})


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    with suppress(ImportError):  # also where the parent of a module is missing
        return None if importlib.util.find_spec(_MODULES.get(name, name)) is None else ""
    return None


def missing_libraries(python: str, versions: Mapping[str, str | None]) -> MissingExtraError | None:
    """What is wrong with the versions that a worker sees, None where nothing is."""
    wrong = {name: version for name, version in versions.items() if _is_wrong(name, version)}
    if not wrong:
        return None
    facts = [
        f"lacks {name}" if version is None else f"has {name} {version}, older than {NEEDED[name]}"
        for name, version in wrong.items()
    ]
    wanted = [f"'{name}>={NEEDED[name]}'" if NEEDED[name] else name for name in wrong]
    return MissingExtraError(
        f"The Python of Spark's workers ({python}) {' and '.join(facts)}",
        note=f"On each machine of the cluster: {python} -m pip install {' '.join(wanted)}",
        python=python,
        versions=dict(versions),
    )


def _is_wrong(name: str, version: str | None) -> bool:
    if not version:
        return version is None
    return _numbers(version) < _numbers(NEEDED[name])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", version)[:2])


@cache
def package_zip() -> str | None:
    """The path of a zip of this package, made once a process, gone with it; None where the package
    is no directory: then it came in a zip that the workers have too.
    """
    root = Path(__file__).parents[1]
    if not root.is_dir():
        return None
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent)
            archive.writestr(zipfile.ZipInfo(str(name), _EPOCH), path.read_bytes())
            archive.writestr(
                zipfile.ZipInfo(str(name.with_suffix(".pyc")), _EPOCH), _compiled(path, name)
            )
    data = content.getvalue()
    directory = tempfile.TemporaryDirectory(prefix="hiveacid-")
    weakref.finalize(package_zip, directory.cleanup)
    # A Connect server takes no other content under a name that it knows.
    file = Path(directory.name) / f"hiveacid-{VERSION}-{sha256(data).hexdigest()[:12]}.zip"
    file.write_bytes(data)
    return os.fspath(file)


def _compiled(path: Path, name: Path) -> bytes:
    """A module's ``.pyc``: workers would compile what comes from a zip, each process anew."""
    module = ".".join(name.with_suffix("").parts).removesuffix(".__init__")
    code = SourceFileLoader(module, str(path)).get_code(module)
    source_hash = importlib.util.source_hash(path.read_bytes())
    return importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + source_hash + marshal.dumps(code)


def local_session(app: str, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark in UTC, without web page and progress bar; ``conf`` comes on top.

    The process takes UTC too, so a library has no business here, only a program.

    Raises:
        SparkNeededError: PySpark or pandas is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkNeededError(
            "This needs PySpark, which is not installed", note="pip install 'hiveacid[spark]'"
        ) from error
    os.environ["TZ"] = "UTC"
    time.tzset()
    # with which Spark looks for data sources in Python, this package's among them
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(conf or {}),
    }
    builder = SparkSession.builder.appName(app)
    for name, text in settings.items():
        builder = builder.config(name, text)
    session = builder.getOrCreate()
    prepare(session)
    session.sparkContext.setLogLevel("ERROR")
    return session


def prepare(spark: SparkSession) -> None:
    """Let the Python workers of a local session run this interpreter, in which hiveacid is.

    Spark takes the first ``python3`` in PATH, which is another one where a virtual environment is
    used without being activated. Nothing is changed where the user chose a Python, on a cluster, or
    on Spark Connect.

    Raises:
        SparkNeededError: pandas is missing, without which Spark hands no rows to Python.
    """
    if importlib.util.find_spec("pandas") is None:
        raise SparkNeededError(
            "Spark needs pandas to hand rows to Python, and it is not installed",
            note="pip install 'hiveacid[spark]'",
        )
    if is_local(spark) and chosen_python(spark) is None:
        spark.sparkContext.pythonExec = sys.executable


def chosen_python(spark: SparkSession) -> str | None:
    """The Python that the user chose for the workers, None where Spark's default counts."""
    chosen = os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None)
    return None if chosen is None else shutil.which(chosen) or chosen


def is_local(spark: SparkSession) -> bool:
    """Whether the tasks of a session are run on this machine; of Spark Connect nobody knows."""
    from pyspark.errors import PySparkException

    try:
        return (spark.sparkContext.master or "").startswith("local")
    except PySparkException:
        return False
