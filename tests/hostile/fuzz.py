"""Hostile requests, one after another, and what became of them.

python -m tests.hostile.fuzz --cases 10000 --seed 1 > docs/results/fuzz.txt
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.hostile.about import machine, versions
from tests.hostile.cases import FAMILIES, Case, case
from tests.hostile.exchange import Answer, address_of, exchange
from tests.hostile.oracle import check, meaning

ROOT = Path(__file__).resolve().parents[2]

#: What reads the requests.
READERS = ("jevserve", "uvicorn", "h11", "starlette", "python-multipart", "backports.zstd")

#: Cases between two looks at the memory.
SAMPLE_EVERY = 100


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        statuses: how often each status was the answer, by family.
        failures: number of each case that broke a promise, with what was wrong.
        memory: resident bytes of the server, sampled on the way.
        slowest_s: of any case.
    """

    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)
    slowest_s: float = 0.0
    seconds: float = 0.0
    renamed: int = 0

    def growth(self) -> int:
        """Bytes by which memory rose over the second half: its fourth quarter's highest sample
        above its third's. Lower ones only tell when the allocator gave something back."""
        quarter = len(self.memory) // 4
        return max(self.memory[3 * quarter :]) - max(self.memory[2 * quarter : 3 * quarter])


@contextlib.contextmanager
def door() -> Iterator[tuple[str, psutil.Process]]:
    """The application in a process of its own: its address, and the process."""
    command = [sys.executable, "-m", "tests.hostile.door"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the server did not start"
        yield f"http://127.0.0.1:{port}", psutil.Process(process.pid)
        assert process.poll() is None, "the server ended"
    finally:
        process.terminate()
        process.wait(20)


def run(url: str, seed: int, cases: int, process: psutil.Process | None = None) -> Outcome:
    """Send the cases one after another."""
    address = address_of(url)
    outcome = Outcome({name: Counter() for name in FAMILIES})
    started = time.monotonic()
    for number in range(cases):
        if process is not None and number % SAMPLE_EVERY == 0:
            outcome.memory.append(process.memory_info().rss)
        made = case(seed, number)
        try:
            answer = send(address, made)
            outcome.statuses[made.family][answer.status] += 1
            outcome.slowest_s = max(outcome.slowest_s, answer.seconds)
            check(made, answer)
            if made.family == "valid":
                check_renamed(address, made, answer, Random(number))
                outcome.renamed += 1
        except Exception as error:
            outcome.failures[number] = f"{type(error).__name__}: {str(error)[:2000]}"
    if process is not None:
        outcome.memory.append(process.memory_info().rss)
    outcome.seconds = time.monotonic() - started
    return outcome


def send(address: tuple[str, int], made: Case) -> Answer:
    wire = made.wire(f"{address[0]}:{address[1]}")
    return exchange(address, wire, head=made.method == b"HEAD")


def check_renamed(address: tuple[str, int], made: Case, answer: Answer, r: Random) -> None:
    """The same questions under other ids have the same answers."""
    assert answer.status == 200, answer
    request = meaning(made)
    names = {id: f"{r.getrandbits(64):x}" for id in request["questions"]}
    request["questions"] = {names[id]: q for id, q in request["questions"].items()}
    again = send(address, Case(made.family, json.dumps(request).encode(), target=made.target))
    assert again.status == 200, again
    answers, renamed = answer.json()["answers"], again.json()["answers"]
    assert list(answers.values()) == list(renamed.values()), (answers, renamed)


def report(outcome: Outcome, seed: int) -> str:
    """The log of a run."""
    total: Counter[int] = sum(outcome.statuses.values(), Counter())
    cases = total.total() + sum(f.startswith("Hung") for f in outcome.failures.values())
    mib = [f"{size / 2**20:.0f}" for size in outcome.memory[:: max(1, len(outcome.memory) // 20)]]
    lines = [
        "Hostile requests over sockets against the application with fake decisions, one at a time.",
        f"Program: python -m tests.hostile.fuzz --cases {cases} --seed {seed}",
        f"Versions: {versions(*READERS)}",
        f"Machine: {machine()}",
        "",
        f"{cases} cases and {outcome.renamed} repetitions under other ids in {outcome.seconds:.0f} "
        f"s, the slowest {outcome.slowest_s:.2f} s; {len(outcome.failures)} broke a promise.",
        "A status of 0 is a connection closed without an answer (no proper HTTP request).",
        "",
        "family           " + "".join(f"{status:>7}" for status in sorted(total)),
    ]
    for name, counts in (*outcome.statuses.items(), ("all", total)):
        lines.append(f"{name:<17}" + "".join(f"{counts[status]:>7}" for status in sorted(total)))
    lines += [
        "",
        f"Server's resident memory on the way, MiB: {' '.join(mib)}",
        f"Growth over the second half: {outcome.growth() / 2**20:.1f} MiB (highest of the fourth "
        "quarter above highest of the third)",
    ]
    lines += [f"FAILED case {n}: {text}" for n, text in outcome.failures.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given: Any = parser.parse_args()
    with door() as (url, process):
        outcome = run(url, given.seed, given.cases, process)
    print(report(outcome, given.seed))
    sys.exit(1 if outcome.failures else 0)


if __name__ == "__main__":
    main()
