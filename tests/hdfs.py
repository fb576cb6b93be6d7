"""An HDFS for tests: one name node and one data node in a JVM, from PySpark's jars and one more,
which Maven fetches once.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from tests.interop.hive_tool import HiveIsMissingError, home

_JARS = Path(pyspark.__file__).with_name("jars")
_MAIN = Path(__file__).with_name("Hdfs.java")


def _version() -> str:
    (jar,) = _JARS.glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def fetched(artifact: str, directory: str) -> Path:
    """A jar by its coordinates, in a directory of its own beside Hive.

    Raises:
        HiveIsMissingError: Maven failed.
    """
    place = home(directory)
    if not any(place.glob("*.jar")):
        goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={place}"]
        try:
            subprocess.run(["mvn", "-q", "-B", *goal], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise HiveIsMissingError(f"{artifact} needs Maven: {error}") from error
    (jar,) = place.glob("*.jar")
    return jar


class Hdfs(str):
    """The address of a server, ``hdfs://localhost:port``."""

    process: subprocess.Popen[str]

    def admin(self, *words: str) -> None:
        """A command of ``hdfs dfsadmin``, or ``restart`` or ``stop`` of the name node."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        while not (answer := self.process.stdout.readline()).startswith("exit "):
            assert answer, "the server has ended"
        assert answer == "exit 0\n", answer


@contextmanager
def hdfs_server() -> Iterator[Hdfs]:
    """A server for as long as the block lasts.

    Raises:
        HiveIsMissingError: its jar cannot be fetched.
    """
    version = _version()
    servers = fetched(f"org.apache.hadoop:hadoop-client-minicluster:{version}", f"hdfs-{version}")
    jars = f"{servers}:{_JARS}/*"
    with tempfile.TemporaryDirectory() as directory, (Path(directory) / "log").open("wb") as log:
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", jars, str(_MAIN)]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [*command, directory], stdin=pipe, stdout=pipe, stderr=log, text=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            try:
                address = Hdfs(process.stdout.readline().strip())
                address.process = process
                assert address.startswith("hdfs://"), Path(log.name).read_text()[-2000:]
                yield address
            finally:
                process.stdin.close()
