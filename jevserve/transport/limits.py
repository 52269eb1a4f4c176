"""Every bound of the transport in one place: sizes, counts and times."""

from __future__ import annotations

from dataclasses import dataclass

from jevserve.transport.base import DEAD_AFTER_S, REPORT_EVERY_S

#: Largest frame of a proven peer, bytes.
MAX_FRAME = 64 * 1024 * 1024
#: Largest frame before a peer has proved the secret, bytes.
UNPROVEN_FRAME = 4 * 1024

#: Bounds of one planned decision. The service's own request limits are far below them: they
#: only keep a faulty peer from costing more memory or time than its bytes are worth.
MAX_SEGMENTS = 131_072
MAX_ROWS = 131_072
MAX_DEPTH = 64
MAX_TOKENS = 4 * 1024 * 1024
MAX_ROW_TOKENS = 64 * 1024 * 1024
#: Labels, spans (two numbers each) or media of one row.
MAX_ROW_IDS = 131_072
#: First number that is no token id.
TOKEN_LIMIT = 2**31

#: Longest identifier (decision, replica, model, revision, salt) and longest trace header, bytes.
MAX_NAME = 256
MAX_TRACE = 512
#: Longest error message that travels, characters.
MAX_ERROR_TEXT = 1_000


@dataclass(frozen=True)
class Bounds:
    """How much one server or link takes on.

    Attributes:
        frame: largest frame in bytes.
        outbound: bytes waiting to be written above which senders wait.
        per_connection: decisions in flight on one connection.
        in_flight: decisions in flight on one server.
        unproven: connections of one server that have not proved the secret yet.
        connections: proven connections of one server.
    """

    frame: int = MAX_FRAME
    outbound: int = 1024 * 1024
    per_connection: int = 4_096
    in_flight: int = 8_192
    unproven: int = 64
    connections: int = 1_024


@dataclass(frozen=True)
class Timing:
    """How long each party waits, in seconds.

    Attributes:
        handshake: connecting and proving the secret.
        report: between two reports of a server.
        dead: without a frame from the server while decisions are outstanding.
        stall: a peer that takes no bytes although there are some to send.
        grace: a client waits past a decision's deadline for the server's own refusal.
        stop: a server waits for cancelled decisions when it stops.
    """

    handshake: float = 5.0
    report: float = REPORT_EVERY_S
    dead: float = DEAD_AFTER_S
    stall: float = 10.0
    grace: float = 1.0
    stop: float = 5.0


DEFAULT_BOUNDS = Bounds()
DEFAULT_TIMING = Timing()
