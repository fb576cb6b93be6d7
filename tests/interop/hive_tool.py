"""Real Hive as a program: its jars by Maven, a runner of our own (``tool/``), one process a script.

Jars and the compiled runner are kept in ``home(version)``. What ``tool/hive-VERSION.txt`` lists is
all that Hive needs, nothing that Maven would add; ``tool/s3a.txt`` lists what it needs for S3.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).with_name("tool")
TIMEOUT_S = 3600
SOME_FAILED = 1
"""The status of a run of which some statement failed."""
SCHEMAS = {"4.1": "4.0.0", "3.1": "3.1.0"}
"""Versions of Hive, and of the script that makes a metastore for it."""
FIRST_JARS = {"4.1": "hive-exec-*.jar", "3.1": "commons-lang3-*.jar"}
"""Hive 3.1 carries a commons-lang3 that does not know Java 17."""
OPEN_PACKAGES = (
    *("java.io", "java.lang", "java.lang.invoke", "java.lang.reflect", "java.math", "java.net"),
    *("java.nio", "java.text", "java.time", "java.util", "java.util.concurrent"),
    *("java.util.concurrent.atomic", "java.util.regex", "jdk.internal.reflect"),
)


class HiveIsMissingError(RuntimeError):
    """Hive's jars cannot be fetched, or its JVM does not start."""


def home(version: str) -> Path:
    """Where Hive's jars are: below ``HIVE_TOOL_HOME``, else in the checkout."""
    return Path(os.environ.get("HIVE_TOOL_HOME") or ROOT / ".hive-tool") / version


def jars(version: str) -> list[Path]:
    """Hive's jars, there once Hive has run; the one that has to be the first is."""
    found = sorted(home(version).glob("lib/*.jar"))
    return sorted(found, key=lambda jar: not jar.match(FIRST_JARS[version]))


def prepare(version: str) -> None:
    """Fetch Hive and compile the runner, where that is not done.

    Raises:
        HiveIsMissingError: Maven or the compiler failed.
    """
    _fetch(f"hive-{version}", home(version))
    _compile(version)


def _fetch(name: str, place: Path) -> None:
    """The jars of a list, where they are not there.

    Raises:
        HiveIsMissingError: Maven failed.
    """
    lines = (SOURCES / f"{name}.txt").read_text("utf-8").split()
    fetched, library, pom = place / "fetched.txt", place / "lib", place / "pom.xml"
    if fetched.exists() and fetched.read_text("utf-8").split() == lines:
        return
    shutil.rmtree(library, ignore_errors=True)
    library.mkdir(parents=True)
    pom.write_text(_pom(lines), "utf-8")
    print(f"fetching {name} with Maven into {place}", file=sys.stderr, flush=True)
    goal = "dependency:copy-dependencies"
    _run("mvn", "-q", "-B", "-f", str(pom), goal, f"-DoutputDirectory={library}", what=name)
    for release in library.glob("*.tar.gz"):
        _take_schema(release, version=place.name)
    fetched.write_text("\n".join(lines), "utf-8")


def _take_schema(release: Path, *, version: str) -> None:
    """The scripts that make a metastore, out of the archive that has them."""
    names = {f"hive-schema-{SCHEMAS[version]}.{kind}.sql": kind for kind in ("derby", "postgres")}
    with tarfile.open(release) as archive:
        for member in archive.getmembers():
            kind = names.get(member.name.rpartition("/")[2])
            content = archive.extractfile(member) if kind else None
            if content is not None:
                (home(version) / f"{kind}.sql").write_bytes(content.read())
    release.unlink()


def _pom(artifacts: Sequence[str]) -> str:
    """A project that depends on these: ``group:artifact:version[:type:classifier]``."""
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>hiveacid</groupId><artifactId>hive</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{''.join(map(_dependency, artifacts))}"
        "</dependencies></project>"
    )


def _dependency(artifact: str) -> str:
    names = ("groupId", "artifactId", "version", "type", "classifier")
    said = "".join(
        f"<{name}>{escape(value)}</{name}>"
        for name, value in zip(names, artifact.split(":"), strict=False)
    )
    nothing_else = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    return f"<dependency>{said}<exclusions>{nothing_else}</exclusions></dependency>"


def _compile(version: str) -> None:
    sources = [*SOURCES.glob("*.java"), *SOURCES.glob(f"hive-{version}/*.java")]
    classes = home(version) / "classes"
    done = classes / "hiveacid" / "Tool.class"
    if done.exists() and done.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return
    classes.mkdir(exist_ok=True)
    options = ["-nowarn", "-XDsuppressNotes", "-cp", f"{home(version)}/lib/*", "-d", str(classes)]
    _run(_java("javac"), *options, *map(str, sources), what=f"hive-{version}")


def _run(*command: str, what: str) -> None:
    try:
        subprocess.run(command, capture_output=True, check=True, text=True, timeout=TIMEOUT_S)
    except FileNotFoundError:
        raise HiveIsMissingError(f"{what} needs {command[0]}: install it") from None
    except subprocess.CalledProcessError as error:
        said = (error.stdout + error.stderr).strip()[-1000:]
        raise HiveIsMissingError(f"{what}: {command[0]} failed: {said}") from None


def _java(name: str) -> str:
    place = os.environ.get("JAVA_HOME")
    return str(Path(place, "bin", name)) if place else name


@dataclass(frozen=True)
class HiveTool:
    """One version of Hive with a warehouse directory; ``answers`` is where ``!snap`` goes, ``root``
    a URL where tables are, if they are not on this machine's disk, and ``conf`` what Hadoop has to
    know of that place. Its metastore is in Derby, or in PostgreSQL where the URL ``metastore`` says
    (``jdbc:postgresql:``).
    """

    version: str
    scratch: Path
    answers: Path
    root: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    metastore: str = ""

    @property
    def warehouse(self) -> Path:
        """Where Hive puts tables."""
        return self.scratch / "warehouse"

    def prepare(self) -> None:
        """Fetch Hive if it is not here, and make its metastore.

        Raises:
            HiveIsMissingError: it cannot be fetched, or does not start.
        """
        prepare(self.version)
        if self.root.startswith("s3a:"):
            _fetch("s3a", home("s3a"))
        self._start("init", name="prepare", worst=0)

    def run(self, script: str, name: str) -> list[str]:
        """Run statements, on after an error; the lines of the result, errors among them. In the
        script ``${env:IW}`` is the directory that has the warehouse in it.

        Raises:
            HiveIsMissingError: Hive did not even start.
        """
        self.answers.mkdir(parents=True, exist_ok=True)
        path = self.scratch / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script.replace("${env:IW}", str(self.scratch)), "utf-8")
        prepare(self.version)
        return self._start("run", str(path), str(self.answers), name=name, worst=SOME_FAILED)

    def record(self, scripts: Sequence[Path]) -> list[str]:
        """Write beside each script what Hive answers to its statements; a line for each script.

        Raises:
            HiveIsMissingError: Hive did not even start.
        """
        prepare(self.version)
        return self._start("record", *map(str, scripts), name="record", worst=0)

    def _start(self, *arguments: str, name: str, worst: int) -> list[str]:
        self.scratch.mkdir(parents=True, exist_ok=True)
        log = self.scratch / f"{name}.log"
        with tempfile.TemporaryDirectory() as conf, open(log, "w", encoding="utf-8") as errors:
            done = subprocess.run(
                [*self._command(Path(conf)), str(self.scratch), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.scratch,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        if done.returncode not in range(worst + 1):
            said = log.read_text("utf-8", errors="replace").strip()[-1000:]
            raise HiveIsMissingError(f"Hive {self.version} could not be started: {said}")
        return done.stdout.splitlines()

    def _command(self, conf: Path) -> Iterator[str]:
        place = home(self.version)
        path = [conf, place / "classes", *jars(self.version)]
        if self.root.startswith("s3a:"):
            path += sorted(home("s3a").glob("lib/*.jar"))
        yield from (_java("java"), "-Xmx1500m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        for package in OPEN_PACKAGES:
            yield f"--add-opens=java.base/{package}=ALL-UNNAMED"
        yield "--add-opens=java.sql/java.sql=ALL-UNNAMED"
        yield "-Duser.timezone=UTC"
        yield f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.properties'}"
        yield f"-Dtool.version={self.version}"
        yield f"-Dtool.conf={conf}"
        yield f"-Dtool.warehouse={self.root}"
        yield f"-Dtool.metastore={self.metastore}"
        yield f"-Dtool.schema={place / ('postgres.sql' if self.metastore else 'derby.sql')}"
        yield from (f"-Dtool.set.{name}={text}" for name, text in self.conf.items())
        yield from ("-cp", os.pathsep.join(map(str, path)), "hiveacid.Tool")


def statements(lines: Sequence[str]) -> str:
    """A script of these statements, each with its semicolon."""
    return "".join(f"{line};\n" for line in lines)
