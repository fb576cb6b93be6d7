from __future__ import annotations

import re
from pathlib import Path

import pytest

from hiveacid.errors import InvalidInputError
from hiveacid.settings import HIVE_ONLY, Settings, _name, _ours, _text


def settings_table() -> str:
    """The table of all settings in Markdown: the content of ``docs/settings.md``."""
    lines = [
        "# Settings",
        "",
        "`SET name = value` in SQL, `hiveacid.connect(..., settings=Settings(...))` in Python.",
        "Hive's names are understood where the table has them. Other names of Hive's change",
        "nothing: the first SET of one logs a warning (unless it asks for what is done anyway).",
        "Names of other programs are kept as they are; an unknown name that starts with",
        "`hiveacid.` is an error.",
        "",
        "| setting | default | meaning | Hive's name |",
        "|---|---|---|---|",
    ]
    for one in _ours():
        meaning = one.metadata["text"]
        if one.metadata["fixed"]:
            meaning += f" SET refuses to change it: {one.metadata['fixed']}."
        if one.metadata["choices"]:
            meaning += f" One of {', '.join(f'`{c}`' for c in one.metadata['choices'])}."
        hive = ", ".join(f"`{name}`" for name in one.metadata["hive"])
        lines.append(f"| `{_name(one)}` | {_text(one.default)} | {meaning} | {hive} |")
    lines += ["", "## Settings of Hive's that change nothing", ""]
    lines += ["| Hive's name | done anyway | instead |", "|---|---|---|"]
    for name, (anyway, instead) in HIVE_ONLY.items():
        lines.append(f"| `{name}` | {f'`{anyway}`' if anyway else ''} | {instead} |")
    return "\n".join(lines) + "\n"


def test_the_table_of_settings_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text(encoding="utf-8") == settings_table(), (
        "run: python -c 'from tests.unit.test_settings import settings_table; "
        'open("docs/settings.md", "w").write(settings_table())\''
    )


def test_a_setting_is_changed_by_its_name_or_hives() -> None:
    settings = Settings().with_("HIVEACID.lock.timeout_s", " 2.5 ").with_("hive.txn.timeout", "2m")
    assert (settings.lock_timeout_s, settings.txn_timeout_s) == (2.5, 120.0)
    assert settings.get("metastore.txn.timeout") == "120"
    assert settings.without("hive.txn.timeout").txn_timeout_s == Settings().txn_timeout_s
    assert settings.with_("hive.create.as.acid", "TRUE").create_as_acid is True
    assert settings.with_("hiveacid.compactor.offpeak", "22-6").compactor_offpeak == "22-6"
    assert settings.with_("hive.txn.retrysnapshot.max.count", "0").snapshot_retries == 0


def test_other_names_are_kept_as_text() -> None:
    settings = Settings().with_("hive.exec.dynamic.partition.mode", "nonstrict")
    assert settings.get("hive.exec.dynamic.partition.mode") == "nonstrict"
    assert ("hive.exec.dynamic.partition.mode", "nonstrict") in settings.items()
    assert settings.without("hive.exec.dynamic.partition.mode") == Settings()
    assert Settings().get("no.such") is None


def test_keys_of_other_programs_are_not_listed() -> None:
    settings = Settings()
    for name in (
        "fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "my.password",
        "a_token",
        "fs.azure.account.key.ours.blob.core.windows.net",
        "fs.s3.awsaccesskeyid",
        "fs.azure.sas.key",
        "dfs.adls.oauth2.credential",
    ):
        settings = settings.with_(name, "Se cRet")
        assert (name, "***") in settings.items()
        assert settings.get(name) == "Se cRet"
    assert "Se cRet" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hiveacid.nosuch", "1"),
        ("hiveacid.lock.timeout_s", "soon"),
        ("hiveacid.lock.timeout_s", "5 parsecs"),
        ("hiveacid.lock.timeout_s", "-1"),
        ("hiveacid.lock.timeout_s", "nan"),
        ("hiveacid.lock.timeout_s", "inf"),
        ("hiveacid.txn.timeout_s", "0"),
        ("hiveacid.conflict.retries", "1.5"),
        ("hiveacid.store_assignment", "legacy"),
        ("hive.create.as.acid", "perhaps"),
        ("hiveacid.compactor.offpeak", "22"),
        ("hiveacid.compactor.offpeak", "22-24"),
    ],
)
def test_wrong_names_and_values_are_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"[Ss]etting"):
        Settings().with_(name, text)


def test_the_text_of_each_setting_stands_alone() -> None:
    rows = [
        line.split(" | ")
        for line in settings_table().splitlines()
        if line.startswith("| `hiveacid.")
    ]
    assert len(rows) >= 45
    broken = [row[0] for row in rows if not re.fullmatch(r"[A-Z`].*\.", row[2].strip())]
    assert broken == []


def test_a_setting_of_hives_that_changes_nothing_is_named_once_with_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings().with_("hive.compactor.worker.threads", "4")
    settings.with_("HIVE.compactor.worker.threads", "5").with_("hive.no.such", "1")
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [
        "hive.compactor.worker.threads changes nothing in hiveacid. "
        "`hiveacid compactor run --workers` says how many.",
        "hive.no.such changes nothing in hiveacid.",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hive.merge.cardinality.check", "TRUE"),
        ("hive.exec.dynamic.partition.mode", "nonstrict"),
        ("hive.txn.timeout", "60"),
        ("spark.sql.shuffle.partitions", "2"),
        ("my.variable", "x"),
    ],
)
def test_what_is_done_anyway_or_is_not_hives_is_no_warning(
    name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    Settings().with_(name, text)
    assert not caplog.records
