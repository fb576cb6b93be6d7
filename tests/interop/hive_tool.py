"""Real Hive as a program: `tools/hive` of the shared material, started from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOL = ROOT.parent / "shared" / "tools" / "hive" / "hive"
TIMEOUT_S = 1800


def why_not() -> str:
    """Why Hive cannot run here; empty where it can."""
    if not TOOL.exists():
        return f"{TOOL} is not here"
    return "" if shutil.which("mvn") else "Maven, which fetches Hive, is not installed"


def home(version: str) -> str:
    """Where the tool keeps Hive's jars."""
    given = os.environ.get("HIVE_TOOL_HOME") or str(ROOT / ".hive-tool")
    return given if version == "4.1" else f"{given}-{version}"


def jars(version: str) -> list[Path]:
    """Hive's jars, there once Hive has run."""
    return sorted(Path(home(version), "lib").glob("*.jar"))


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

    def run(self, script: str, name: str) -> list[str]:
        """Run statements, on after an error; the lines of the result, errors among them.

        Raises:
            RuntimeError: Hive did not even start.
        """
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.answers.mkdir(parents=True, exist_ok=True)
        path = self.scratch / f"{name}.sql"
        path.write_text(script, "utf-8")
        environment = {
            **os.environ,
            "HIVE_TOOL_HOME": home(self.version),
            "HIVE_TOOL_VERSION": self.version,
            "GOLDEN_DIR": str(self.answers),
            "IW": str(self.scratch),
        }
        with open(self.scratch / f"{name}.log", "w", encoding="utf-8") as log:
            done = subprocess.run(
                [str(TOOL), "--warehouse", str(self.scratch), "--continue", "-f", str(path)],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=self.scratch,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        if done.returncode > 1:
            raise RuntimeError(f"Hive {self.version} did not run; see {log.name}")
        return done.stdout.splitlines()


def statements(lines: Sequence[str]) -> str:
    """A script of these statements, each with its semicolon."""
    return "".join(f"{line};\n" for line in lines)
