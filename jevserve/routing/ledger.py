"""What this router has sent and the replicas' reports cannot know yet."""

from __future__ import annotations

from collections.abc import Mapping

from jevserve.routing.policy import ReplicaView
from jevserve.transport.base import ReplicaReport

#: Two arrival times of one report, each computed from an age, differ by less than this; two
#: reports come further apart.
SAME_REPORT_S = 0.01


class SentLedger:
    """Tokens sent to each replica since its last report. Times: one monotonic clock, seconds."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[float, int]] = {}

    def sent(self, view: ReplicaView, tokens: int) -> None:
        """A decision of ``tokens`` goes to the replica that was chosen from ``view``."""
        self._sent[view.replica] = (
            view.received_at,
            tokens + self._since(view.replica, view.received_at),
        )

    def views(
        self, reports: Mapping[str, tuple[ReplicaReport, float]], now: float
    ) -> list[ReplicaView]:
        """A view of every replica from its report and the report's age in seconds."""
        self._sent = {r: s for r, s in self._sent.items() if r in reports}
        return [
            ReplicaView(replica, report, now - age, self._since(replica, now - age))
            for replica, (report, age) in reports.items()
        ]

    def _since(self, replica: str, received_at: float) -> int:
        at, tokens = self._sent.get(replica, (received_at, 0))
        return tokens if received_at - at < SAME_REPORT_S else 0
