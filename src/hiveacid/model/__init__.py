"""The vocabulary of Hive ACID: ids, types, tables, valid lists, locks, states. Pure.

Lives here: frozen values, their text forms, the state machines as tables. Never comes in: files,
clocks, logs, third-party packages, names of directories (``layout``) or of database columns
(``metastore``). Read first: ``tables.py``, then ``ids.py``.
"""
