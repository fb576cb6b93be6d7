"""Tools for tests, of hiveacid's own and of its users': shipped with the package.

What lives here: a clock that moves when told, the runner of the transaction vectors. What never
comes in: anything that the package itself needs to work. Read ``clock.py`` first.
"""
