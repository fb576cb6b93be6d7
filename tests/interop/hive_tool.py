"""Real Hive as a program: `tools/hive` of the shared material, started from outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOL = ROOT.parent / "shared" / "tools" / "hive" / "hive"
TIMEOUT_S = 3600
SOME_FAILED = 1
"""The status of a run of which some statement failed."""


def home(version: str) -> str:
    """Where the tool keeps Hive's jars."""
    given = os.environ.get("HIVE_TOOL_HOME") or str(ROOT / ".hive-tool")
    return given if version == "4.1" else f"{given}-{version}"


def jars(version: str) -> list[Path]:
    """Hive's jars, there once Hive has run."""
    return sorted(Path(home(version), "lib").glob("*.jar"))


class HiveIsMissingError(RuntimeError):
    """Hive's jars cannot be fetched, or its JVM does not start."""


@dataclass(frozen=True)
class HiveTool:
    """One version of Hive with a warehouse directory; ``answers`` is where ``!snap`` goes."""

    version: str
    scratch: Path
    answers: Path

    @property
    def warehouse(self) -> Path:
        """Where Hive puts tables."""
        return self.scratch / "warehouse"

    def prepare(self) -> None:
        """Fetch Hive if it is not here, and make its metastore.

        Raises:
            HiveIsMissingError: it cannot be fetched, or does not start.
        """
        self._start("--init-only", name="prepare", worst=0)

    def run(self, script: str, name: str) -> list[str]:
        """Run statements, on after an error; the lines of the result, errors among them.

        Raises:
            HiveIsMissingError: Hive did not even start.
        """
        self.answers.mkdir(parents=True, exist_ok=True)
        path = self.scratch / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, "utf-8")
        return self._start("--continue", "-f", str(path), name=name, worst=SOME_FAILED)

    def _start(self, *arguments: str, name: str, worst: int) -> list[str]:
        self.scratch.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "HIVE_TOOL_HOME": home(self.version),
            "HIVE_TOOL_VERSION": self.version,
            "GOLDEN_DIR": str(self.answers),
            "IW": str(self.scratch),
        }
        log = self.scratch / f"{name}.log"
        with open(log, "w", encoding="utf-8") as errors:
            done = subprocess.run(
                [str(TOOL), "--warehouse", str(self.scratch), *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=self.scratch,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        if done.returncode > worst:
            said = log.read_text("utf-8", errors="replace").strip()[-1000:]
            raise HiveIsMissingError(f"Hive {self.version} could not be fetched or started: {said}")
        return done.stdout.splitlines()


def statements(lines: Sequence[str]) -> str:
    """A script of these statements, each with its semicolon."""
    return "".join(f"{line};\n" for line in lines)
