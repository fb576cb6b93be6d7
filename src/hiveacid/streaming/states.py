"""The states of a streaming connection, as data (HiveStreamingConnection.TxnState)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class StreamState(Enum):
    """State of a connection's current transaction."""

    INACTIVE = "inactive"
    """no transaction was begun yet"""
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    CLOSED = "closed"
    """the connection was closed"""


TRANSITIONS: Final[Mapping[StreamState, frozenset[StreamState]]] = {
    StreamState.INACTIVE: frozenset({StreamState.OPEN, StreamState.CLOSED}),
    StreamState.OPEN: frozenset({StreamState.COMMITTED, StreamState.ABORTED}),
    StreamState.COMMITTED: frozenset({StreamState.OPEN, StreamState.CLOSED}),
    StreamState.ABORTED: frozenset({StreamState.OPEN, StreamState.CLOSED}),
    StreamState.CLOSED: frozenset(),
}
"""State -> states that may follow."""
