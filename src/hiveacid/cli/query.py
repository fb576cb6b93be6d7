"""``sql``: run statements, print their rows."""

from hiveacid.cli.output import Format


def run(text: str, *, form: Format, url: str, warehouse: str) -> None:
    """To come."""
