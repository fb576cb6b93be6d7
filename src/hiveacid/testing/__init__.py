"""Tools for the tests of programs that use hiveacid; its own tests use them too.

What lives here: ``clock.ManualClock``, which moves when told, and ``faults``: files that fail as
they are told to. Nothing comes in that the package itself needs to work, or that only its own
tests need. Read ``clock.py`` first.
"""
