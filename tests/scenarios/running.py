"""Scripts of several connections, a step a line, against a metastore.

    # comment; the first one is the title
    start 1:10 2:20          keys and values before
    A begin                  also "A begin serializable"
    A read 1 = 10            also "A read 3 = none"
    A scan = 1:10 2:20       all that A sees
    A find 30 = none         keys that have a value
    A insert 3 30
    A update 1 11
    A delete 2
    A commit                 also "A commit loses to B on 1 2", for its reads "A commit loses to B"
    A abort
    now 1:11 2:20            what a new transaction sees

Keys are in one table, or each in a table of its own: the same has to come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.key_values import KeyValues

from hiveacid.client import Client
from hiveacid.errors import ConflictError, InvalidInputError
from hiveacid.model.tables import Isolation
from hiveacid.txn.transaction import Transaction

KEYS = range(1, 6)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script; ``prevented`` is what its title says of the anomaly."""

    name: str
    title: str
    steps: tuple[str, ...]

    @property
    def prevented(self) -> bool:
        """Whether the anomaly cannot happen."""
        return "(possible)" not in self.title


def load_scenarios(directory: Path) -> tuple[Scenario, ...]:
    """All scripts of a directory, by name."""
    found = []
    for path in sorted(directory.glob("*.txt")):
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        title = lines[0].removeprefix("#").strip()
        steps = tuple(line for line in lines if line and not line.startswith("#"))
        found.append(Scenario(path.stem, title, steps))
    return tuple(found)


def run_scenario(scenario: Scenario, client: Client, *, several_tables: bool) -> None:
    """Run a script on an empty metastore.

    Raises:
        AssertionError: a step came out differently.
        InvalidInputError: a line that is no step.
    """
    run = _Run(client, several_tables=several_tables)
    for at, step in enumerate(scenario.steps, start=1):
        run.step(step, where=f"{scenario.name} step {at}: {step}")


class _Run:
    def __init__(self, client: Client, *, several_tables: bool) -> None:
        self._client = client
        self._table = {key: f"t{key}" if several_tables else "t" for key in KEYS}
        self._tables = tuple(dict.fromkeys(self._table.values()))
        self._data = KeyValues(client, self._tables)
        self._txns: dict[str, Transaction] = {}

    def step(self, text: str, *, where: str) -> None:
        who, _, rest = text.partition(" ")
        if who == "start":
            with self._client.transactions.begin() as txn:
                for key, value in _pairs(rest).items():
                    self._data.insert(txn, self._table[key], key, value)
                self._data.commit(txn)
        elif who == "now":
            with self._client.transactions.begin() as txn:
                found = self._all(txn)
                txn.commit()
            assert found == _pairs(rest), f"{where}: {found}"
        else:
            self._of(who, rest, where)

    def _of(self, who: str, text: str, where: str) -> None:
        action, *words = text.replace("=", " ").split()
        data, wanted = self._data, " ".join(words)
        if action == "begin":
            isolation = Isolation(wanted or "snapshot")
            self._txns[who] = self._client.transactions.begin(isolation=isolation)
            return
        txn = self._txns[who]
        match action, words:
            case "read", [key, value]:
                found = str(data.read(txn, self._table[int(key)]).get(int(key), "none"))
                assert found == value, f"{where}: {found}"
            case "scan", _:
                seen = self._all(txn)
                assert seen == _pairs(wanted), f"{where}: {seen}"
            case "find", [value, *keys]:
                having = [str(k) for k, v in sorted(self._all(txn).items()) if str(v) == value]
                assert (having or ["none"]) == keys, f"{where}: {having}"
            case "insert", [key, value]:
                data.insert(txn, self._table[int(key)], int(key), int(value))
            case "update", [key, value]:
                data.update(txn, self._table[int(key)], int(key), int(value))
            case "delete", [key]:
                data.delete(txn, self._table[int(key)], int(key))
            case "abort", []:
                txn.abort("the script says so")
            case "commit", []:
                data.commit(txn)
            case "commit", ["loses", "to", winner, "on", *keys]:
                self._loses(txn, self._txns[winner], keys, where)
            case "commit", ["loses", "to", winner]:
                self._loses(txn, self._txns[winner], [], where)
            case _:
                raise InvalidInputError(f"{where}: no such step")

    def _loses(self, txn: Transaction, winner: Transaction, keys: list[str], where: str) -> None:
        try:
            self._data.commit(txn)
        except ConflictError as error:
            table = str(error.context["table"]).partition(".")[2]
            rows = error.context.get("rows", ())
            assert isinstance(rows, tuple)
            found = [str(key) for key in self._data.keys_of(table, rows)]
            of_table = [key for key in keys if self._table[int(key)] == table]
            assert error.context["winner"] == winner.id, f"{where}: {error}"
            assert found == of_table, f"{where}: {error}"
        else:
            raise AssertionError(f"{where}: it commits")

    def _all(self, txn: Transaction) -> Mapping[int, int]:
        return {k: v for table in self._tables for k, v in self._data.read(txn, table).items()}


def _pairs(text: str) -> dict[int, int]:
    pairs = (word.split(":") for word in text.split())
    return {int(key): int(value) for key, value in pairs}
