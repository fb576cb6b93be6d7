"""``python -m hiveacid.cli``."""

from hiveacid.cli import main

main()
