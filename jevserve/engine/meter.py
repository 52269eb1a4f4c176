"""What a replica knows about its own speed and backlog, from counted work and given times."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Backlog from which an interval says something about speed: below it a round's fixed cost rules,
#: and the rate would look like the engine's limit when it is only the traffic's.
SATURATED_TOKENS = 512

#: Time constant of the measured rate: long enough for a few hundred rounds, short enough to
#: follow a change of workload.
TAU_S = 10.0


@dataclass
class Meter:
    """Counts work in and out and measures the rate while there is any.

    Idle and lightly loaded time never counts, so the rate is the one last shown under load, or the
    calibrated one before. Times are seconds of one monotonic clock, given by the caller.
    """

    decisions: int = 0
    rows: int = 0
    steps: int = 0
    computed_tokens: int = 0
    cached_tokens: int = 0
    backlog_rows: int = 0
    backlog_tokens: int = 0
    _busy_since: float | None = None
    _loaded: bool = False
    _loaded_s: float = 0.0
    _tokens: float = 0.0
    _busy_s: float = 0.0
    _rounds: float = 0.0

    def calibrated(self, tokens: int, seconds: float) -> None:
        """What a burst at start-up took; counts like the same work under load."""
        self._tokens, self._loaded_s = float(tokens), seconds

    def accepted(self, rows: int, tokens: int, now: float) -> None:
        self.decisions += 1
        self.rows += rows
        self._elapse(now)
        self.backlog_rows += rows
        self.backlog_tokens += tokens
        self._loaded = self.backlog_tokens >= SATURATED_TOKENS
        self._busy_since = now

    def row_done(self, tokens: int, computed: int, cached: int, now: float) -> None:
        """One row answered: ``tokens`` of it were counted as backlog when it was accepted."""
        self.computed_tokens += computed
        self.cached_tokens += cached
        # The time that computed them fades before they count, or slow rows would look slower.
        self._elapse(now)
        if self._loaded:
            self._tokens += computed
        self._leave(tokens, now)

    def row_dropped(self, tokens: int, now: float) -> None:
        """One row left without an answer (cancelled, or failed)."""
        self._elapse(now)
        self._leave(tokens, now)

    def step(self) -> None:
        """The engine finished a round."""
        self.steps += 1
        self._rounds += 1

    @property
    def tokens_per_second(self) -> float:
        return self._tokens / self._loaded_s if self._loaded_s > 0.0 else 0.0

    @property
    def round_ms(self) -> float:
        return 1e3 * self._busy_s / self._rounds if self._rounds >= 1 else 0.0

    def _leave(self, tokens: int, now: float) -> None:
        self.backlog_rows -= 1
        self.backlog_tokens -= tokens
        self._loaded = self._loaded and self.backlog_rows > 0
        self._busy_since = now if self.backlog_rows else None

    def _elapse(self, now: float) -> None:
        """Fold the busy time since the last event in, old time fading with TAU_S."""
        if self._busy_since is None:
            return
        elapsed = max(0.0, now - self._busy_since)
        fade = math.exp(-elapsed / TAU_S)
        self._busy_s = self._busy_s * fade + elapsed
        self._rounds *= fade
        if self._loaded:
            self._loaded_s = self._loaded_s * fade + elapsed
            self._tokens *= fade
        self._busy_since = now
