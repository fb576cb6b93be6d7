"""The commands and their options; what they do is in the module each one names."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

import hiveacid
from hiveacid.cli.output import Format

_metastore = click.option(
    "--metastore",
    "url",
    envvar="HIVEACID_METASTORE",
    metavar="URL",
    help="Where the metastore is, as sqlite:///path [env: HIVEACID_METASTORE].",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_ID = click.IntRange(1, 2**63 - 1)
_format = click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Format]),
    default=Format.TABLE.value,
    show_default=True,
    help="How rows are printed; json is one object a line.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(hiveacid.__version__, prog_name="hiveacid")
def app() -> None:
    """Apache Hive's ACID tables: SQL, and a look into tables, transactions and locks."""


@app.command()
@click.option("-e", "--execute", "text", metavar="TEXT", help="Statements, separated by ';'.")
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="A file of statements; - is the standard input.",
)
@_format
@_metastore
@click.option(
    "--warehouse",
    envvar="HIVEACID_WAREHOUSE",
    metavar="DIR",
    help="Where the tables of a new metastore go; one that is there knows [env: "
    "HIVEACID_WAREHOUSE].",
)
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of :NAME in the text; a number, true, null, [1, 2] as in JSON, else a string.",
)
@click.option(
    "--hivevar",
    "-d",
    "variables",
    multiple=True,
    metavar="NAME=TEXT",
    help="What ${NAME} and ${hivevar:NAME} stand for in the text.",
)
@click.option(
    "--hiveconf", "pairs", multiple=True, metavar="NAME=TEXT", help="A setting, as in SET."
)
def sql(
    text: str | None,
    path: Path | None,
    form: str,
    url: str | None,
    warehouse: str | None,
    args: tuple[str, ...],
    variables: tuple[str, ...],
    pairs: tuple[str, ...],
) -> None:
    """Run SQL statements; Spark starts only for those that need it."""
    if (text is None) == (path is None):
        raise click.UsageError("give the statements with either -e or -f")
    if path is not None:
        stream = click.open_file(str(path), encoding="utf-8")
        with stream:
            text = stream.read()
    from hiveacid.cli import query

    settings = _pairs(pairs, option="--hiveconf")
    hivevars = _pairs(variables, option="--hivevar")
    query.run(
        text or "",
        form=Format(form),
        url=_required(url),
        warehouse=warehouse,
        settings=settings | {f"hivevar:{name}": value for name, value in hivevars.items()},
        args={name: _json(value) for name, value in _pairs(args, option="--arg").items()},
    )


@app.command()
@click.argument("path")
@click.option("--name", required=True, metavar="TABLE", help="What the table will be called.")
@click.option("--valid-write-ids", metavar="TEXT", help="Hive's list of the table's write ids.")
@click.option("--valid-txns", metavar="TEXT", help="Hive's list of transactions.")
@click.option("--accept-all-write-ids", is_flag=True, help="Every write id counts as committed.")
@click.option("--schema", metavar="COLUMNS", help="As 'id int, day date'; else as the files say.")
@click.option("--partitioned-by", metavar="NAMES", help="Which of these name directories: day,x.")
@click.option("--insert-only", is_flag=True, help="The table has no row ids.")
@_metastore
@click.option("--warehouse", envvar="HIVEACID_WAREHOUSE", help="For a metastore that is new.")
def attach(
    path: str, url: str | None, warehouse: str | None, insert_only: bool, **options: Any
) -> None:
    """Take over the transactional table in PATH, Hive's or that of another metastore."""
    from hiveacid.cli import takeover

    properties = {"transactional_properties": "insert_only"} if insert_only else {}
    takeover.attach(_required(url), path, warehouse=warehouse, properties=properties, **options)


@app.command()
@click.argument("table")
@_metastore
@_as_json
def detach(table: str, url: str | None, as_json: bool) -> None:
    """Let the metastore forget TABLE, keep its files, and print what `attach` needs."""
    from hiveacid.cli import takeover

    takeover.detach(_required(url), table, as_json=as_json)


@app.command()
@click.argument("target", metavar="PATH|TABLE")
@click.option(
    "--valid-write-ids", metavar="TEXT", help="Hive's list, table:hwm:minOpen:open:aborted."
)
@click.option("--valid-txns", metavar="TEXT", help="Hive's list, hwm:minOpen:open:aborted.")
@_metastore
@_as_json
def ls(
    target: str,
    valid_write_ids: str | None,
    valid_txns: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Show which directories and files of a table a reader reads.

    Of a PATH every write id counts as committed unless lists are given; of a TABLE the metastore's
    are taken.
    """
    from hiveacid.cli import files

    files.ls(
        target, valid_write_ids=valid_write_ids, valid_txns=valid_txns, url=url, as_json=as_json
    )


@app.command()
@click.argument("target", metavar="PATH|TABLE")
@click.option("--columns", metavar="A,B", help="Only these columns.")
@click.option("--filter", "condition", metavar="TEXT", help="A condition, as in WHERE.")
@click.option("--partitions", metavar="TEXT", help="A condition on partition columns.")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many rows are printed.")
@click.option("--to", metavar="FILE", help="Write FILE.parquet, FILE.arrow or FILE.csv instead.")
@_format
@_metastore
def read(
    target: str,
    columns: str | None,
    condition: str | None,
    partitions: str | None,
    limit: int | None,
    to: str | None,
    form: str,
    url: str | None,
) -> None:
    """Print a table's rows, or write them to a file, without Spark.

    Of a PATH every write id counts as committed; a TABLE is read as of now.
    """
    from hiveacid.cli import rows

    if to is not None and limit is not None:
        raise click.UsageError("--limit is for rows that are printed")
    rows.read(
        target,
        columns=None if columns is None else [name.strip() for name in columns.split(",")],
        condition=condition,
        partitions=partitions,
        limit=limit,
        to=to,
        form=Format(form),
        url=url,
    )


@app.command()
@click.argument("file")
def dump(file: str) -> None:
    """Print the row events of one ORC FILE, a JSON object a line."""
    from hiveacid.cli import files

    files.dump(file)


@app.command()
@_metastore
@_as_json
def txns(url: str | None, as_json: bool) -> None:
    """List the open and the aborted transactions."""
    from hiveacid.cli import service

    service.txns(_required(url), as_json=as_json)


@app.command("abort")
@click.argument("transactions", nargs=-1, type=int, metavar="TXN...")
@click.option("--lock", "locks", multiple=True, type=int, help="A lock of LOCK TABLE, by its id.")
@_metastore
def abort_clients(transactions: tuple[int, ...], locks: tuple[int, ...], url: str | None) -> None:
    """Abort transactions, and give back locks, of clients that are gone."""
    if not transactions and not locks:
        raise click.UsageError("abort what? give ids of transactions, or --lock ID")
    from hiveacid.cli import service

    service.abort(_required(url), transactions=transactions, locks=locks)


@app.command()
@_metastore
@_as_json
def locks(url: str | None, as_json: bool) -> None:
    """List the locks that are held or waited for."""
    from hiveacid.cli import service

    service.locks(_required(url), as_json=as_json)


@app.command()
@click.argument("table")
@click.option("--partition", metavar="P=X/Q=Y", help="As SHOW PARTITIONS prints it.")
@click.option("--major", is_flag=True, help="Into one base [default].")
@click.option("--minor", is_flag=True, help="Deltas into one, the base stays.")
@click.option("--rebalance", is_flag=True, help="New row ids, even files.")
@click.option("--wait", is_flag=True, help="Do it, or wait until it is done.")
@click.option("--pool", metavar="NAME", help="For the workers of this pool.")
@click.option("--buckets", type=click.IntRange(min=1), help="Files of a rebalance.")
@click.option("--order-by", metavar="TEXT", help="Order of the rows of a rebalance.")
@_metastore
@_as_json
def compact(
    table: str,
    partition: str | None,
    major: bool,
    minor: bool,
    rebalance: bool,
    wait: bool,
    pool: str | None,
    buckets: int | None,
    order_by: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Ask for a compaction of TABLE; a service does it, or with --wait this command."""
    from hiveacid.cli import compaction

    if major + minor + rebalance > 1:
        raise click.UsageError("--major, --minor and --rebalance exclude each other")
    compaction.compact(
        _required(url),
        table,
        kind="minor" if minor else "rebalance" if rebalance else "major",
        partition=partition,
        wait=wait,
        pool=pool,
        buckets=buckets,
        order_by=order_by,
        as_json=as_json,
    )


@app.command()
@click.argument("table", required=False)
@click.option("--dry-run", is_flag=True, help="Only say what would go, and why the rest stays.")
@_metastore
@_as_json
def clean(table: str | None, dry_run: bool, url: str | None, as_json: bool) -> None:
    """Remove what no reader of TABLE (of any table) can need any more."""
    from hiveacid.cli import compaction

    compaction.clean(_required(url), table, dry_run=dry_run, as_json=as_json)


@app.group()
def compactions() -> None:
    """The compactions that are asked for, under way, or done."""


@compactions.command("list")
@click.argument("table", required=False)
@click.option("--status", metavar="TEXT", help="Only these: initiated, working, failed, ...")
@click.option("--type", "kind", metavar="TEXT", help="Only these: major, minor, rebalance.")
@click.option("--pool", metavar="NAME", help="Only those of this pool.")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many.")
@_metastore
@_as_json
def list_compactions(
    table: str | None,
    status: str | None,
    kind: str | None,
    pool: str | None,
    limit: int | None,
    url: str | None,
    as_json: bool,
) -> None:
    """List them, the latest first, with the columns of SHOW COMPACTIONS."""
    from hiveacid.cli import compaction

    compaction.show(
        _required(url), table, status=status, kind=kind, pool=pool, limit=limit, as_json=as_json
    )


@compactions.command()
@click.argument("table")
@_metastore
@_as_json
def why(table: str, url: str | None, as_json: bool) -> None:
    """Say which threshold the partitions of TABLE meet, or what is missing."""
    from hiveacid.cli import compaction

    compaction.why(_required(url), table, as_json=as_json)


@compactions.command()
@click.argument("ids", nargs=-1, required=True, type=_ID, metavar="ID...")
@_metastore
@_as_json
def abort(ids: tuple[int, ...], url: str | None, as_json: bool) -> None:
    """Take requests out of the queue that nobody works on yet."""
    from hiveacid.cli import compaction

    if not compaction.abort(_required(url), ids, as_json=as_json):
        raise click.exceptions.Exit(1)


@app.group()
def compactor() -> None:
    """Initiator, workers and cleaner of a metastore's tables."""


@compactor.command("run")
@click.option("--workers", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--pool", metavar="NAME", help="Serve this pool; without it, the default pool.")
@click.option("--once", is_flag=True, help="One round of everything, for cron.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve GET /metrics here.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="On this address.")
@click.option("--spark", is_flag=True, help="Start a local Spark for large partitions.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A setting, as in SQL.")
@_metastore
def run_compactor(
    workers: int,
    pool: str | None,
    once: bool,
    metrics_port: int | None,
    metrics_host: str,
    spark: bool,
    pairs: tuple[str, ...],
    url: str | None,
) -> None:
    """Compact and clean until SIGTERM or Ctrl-C; what is under way is finished or given back."""
    from hiveacid.cli import compaction

    if once and metrics_port is not None:
        raise click.UsageError("--once serves no metrics: leave --metrics-port out")
    done = compaction.run(
        _required(url),
        workers=workers,
        pool=pool,
        once=once,
        metrics=None if metrics_port is None else (metrics_host, metrics_port),
        on_spark=spark,
        settings=_pairs(pairs, option="--set"),
    )
    if not done:
        raise click.exceptions.Exit(1)


@app.group()
def metastore() -> None:
    """Make, upgrade or check a metastore: sqlite:///path or postgresql+psycopg://..."""


@metastore.command()
@click.argument("url", envvar="HIVEACID_METASTORE")
def init(url: str) -> None:
    """Make the tables at URL; one that is there already is left as it is."""
    from hiveacid.cli import upkeep

    upkeep.init(url)


@metastore.command()
@click.argument("url", envvar="HIVEACID_METASTORE")
def upgrade(url: str) -> None:
    """Bring the tables at URL to the version of this hiveacid."""
    from hiveacid.cli import upkeep

    upkeep.upgrade(url)


@metastore.command()
@click.argument("url", envvar="HIVEACID_METASTORE")
@click.option("--files", is_flag=True, help="Also name directories that are newer than it.")
def check(url: str, *, files: bool) -> None:
    """Say what is at URL and what it lacks; exit status 1 where it lacks something."""
    from hiveacid.cli import upkeep

    if not upkeep.check(url, files=files):
        raise click.exceptions.Exit(1)


@app.command()
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
    default=0.1,
    show_default=True,
    help="TPC-H scale factor; 1 is 6 million lineitem rows.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-data"),
    show_default=True,
    help="Where input, warehouse and metastore go; a former demo there is replaced.",
)
def demo(scale: float, directory: Path) -> None:
    """Load, merge, update, delete and query TPC-H tables, and prove the result with DuckDB."""
    from hiveacid import demo as program

    if not program.run(scale=scale, directory=directory):
        raise click.exceptions.Exit(1)


def _pairs(texts: tuple[str, ...], *, option: str) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=f"'{option}'")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def _json(text: str) -> object:
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError:
        return text


def _required(url: str | None) -> str:
    if not url:
        raise click.UsageError("which metastore? give --metastore or set HIVEACID_METASTORE")
    return url
