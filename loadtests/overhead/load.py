"""Load: the requests, and a closed loop of kept connections driven by wrk."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Names the file that the bare application answers with.
ANSWER_FILE = "OVERHEAD_ANSWER"

QUESTIONS = {
    "team": {
        "type": "choice",
        "criteria": {
            "billing": "payments, invoices and refunds",
            "delivery": "parcels and couriers",
            "login": "passwords and accounts",
        },
    },
    "urgent": {"type": "noul", "criteria": {"true": "It must be today.", "false": "It can wait."}},
}

SENTENCE = "My card was charged twice for one order, please look into it. "

#: States by name. The second is as long as the default model's windows take in one piece.
STATES = {"short": SENTENCE, "long": SENTENCE * 12}

SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local file = io.open(os.getenv("OVERHEAD_BODY"), "rb")
wrk.body = file:read("*a")
file:close()
function done(summary, latency, requests)
  local e = summary.errors
  print(string.format("RESULT %d %d %d %d %d",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True)
class Loaded:
    """What one run of load saw.

    Attributes:
        requests: answered.
        seconds: it took.
        p50_ms, p99_ms: of the answers.
        errors: anything but an answer of status 200.
    """

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    errors: int


def body(state: str) -> bytes:
    return json.dumps({"state": STATES[state], "questions": QUESTIONS}).encode()


def wrk() -> str:
    """Where wrk is.

    Raises:
        SystemExit: nowhere.
    """
    found = shutil.which("wrk")
    if found is None:
        raise SystemExit("wrk makes the load and is not installed; Debian: apt-get install wrk")
    return found


def drive(url: str, content: bytes, connections: int, seconds: float) -> Loaded:
    """Keep ``connections`` requests in flight for ``seconds``, from one thread."""
    with tempfile.TemporaryDirectory() as folder:
        script, file = Path(folder, "post.lua"), Path(folder, "body.json")
        script.write_text(SCRIPT)
        file.write_bytes(content)
        command = [wrk(), "-t1", f"-c{connections}", f"-d{round(seconds)}s", "--timeout", "20s"]
        done = subprocess.run(
            [*command, "-s", str(script), url],
            env={"OVERHEAD_BODY": str(file)},
            capture_output=True,
            text=True,
            check=True,
        )
    return read_result(done.stdout)


def read_result(output: str) -> Loaded:
    """The line that the script prints; wrk counts in microseconds."""
    line = next(text for text in output.splitlines() if text.startswith("RESULT "))
    requests, duration, p50, p99, errors = (int(part) for part in line.split()[1:])
    return Loaded(requests, duration / 1e6, p50 / 1e3, p99 / 1e3, errors)


def checked_answer(url: str, content: bytes) -> Any:
    """The answer's JSON; whoever does not answer both questions is not measured."""
    import httpx

    response = httpx.post(url, content=content, headers={"content-type": "application/json"})
    response.raise_for_status()
    answer = response.json()
    assert set(answer["answers"]) == set(QUESTIONS)
    return answer
