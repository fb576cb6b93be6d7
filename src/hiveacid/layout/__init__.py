"""How an ACID table lies on disk, as pure functions over names and listings.

Lives here: directory and file names, ``resolve`` (which directories count), the row event's schema,
metadata and marker texts, what compaction makes and what cleaning may take. Never comes in: a file
system, a clock, a log, a third-party package; whoever calls lists and reads. Read first:
``directories.py``, then ``resolve.py``.
"""
