"""Statements that change definitions: databases, tables, partitions, views.

Each file holds what one group of statements locks and does; ``statements.context.define`` carries
it out. What never comes in: anything that reads or writes rows. First file to read:
``databases.py``.
"""
