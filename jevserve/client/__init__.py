"""A small client of the System One API: ``Client`` and ``AsyncClient``, over httpx.

    from jevserve import Client, choice

    with Client("http://127.0.0.1:8795") as client:
        decision = client.decide("My parcel is late.", {"team": choice(["billing", "delivery"])})
        print(decision["team"].choice)

It speaks the official format, so it works against any service that does.
"""

from jevserve.client.call import ServiceError
from jevserve.client.clients import DEFAULT_URL, AsyncClient, Client
from jevserve.client.decision import Answer, ChoiceAnswer, Decision, NoulAnswer, ScoreAnswer
from jevserve.client.questions import choice, noul, score

__all__ = [
    "DEFAULT_URL",
    "Answer",
    "AsyncClient",
    "ChoiceAnswer",
    "Client",
    "Decision",
    "NoulAnswer",
    "ScoreAnswer",
    "ServiceError",
    "choice",
    "noul",
    "score",
]
