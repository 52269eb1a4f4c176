"""A running service, asked over HTTP: reachable, ready, models, key, version, a decision."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from jevserve import __version__
from jevserve.client.call import bearer
from jevserve.doctor.findings import Finding, ok, problem, skipped, warning
from jevserve.errors import UsageError

TIMEOUT_S = 10.0

#: Clocks may differ by this much before anybody notices.
CLOCK_S = 30.0

#: From here on, clients of the field are near giving up.
SLOW_MS = 5_000

PROBE = {
    "state": "My card was charged twice for one order.",
    "questions": {"probe": {"type": "noul", "instructions": "Is this about a payment?"}},
}


def examine(
    url: str, key: str | None, transport: httpx.BaseTransport | None = None
) -> Iterator[Finding]:
    """Findings about the service at ``url``; ``key`` is sent as a bearer token and never shown."""
    try:
        headers = bearer(key)
    except UsageError as error:
        yield problem("key", error.message, "copy it again, without quotes and line breaks")
        return
    try:
        client = httpx.Client(
            base_url=url.rstrip("/") + "/",
            headers=headers,
            timeout=TIMEOUT_S,
            transport=transport,
            follow_redirects=False,
        )
    except (httpx.InvalidURL, ValueError) as error:
        yield problem("address", f"not a URL: {error}", "write it as http://HOST:PORT")
        return
    with client:
        alive = reach(client, "healthz", check="reachable")
        if isinstance(alive, Finding):
            yield alive
            return
        yield judge_alive(alive)
        yield judge_clock(alive.headers.get("date"), time.time())
        for path, judge in (("openapi.json", judge_version), ("readyz", judge_ready)):
            answer = reach(client, path)
            yield answer if isinstance(answer, Finding) else judge(answer)
        models = reach(client, "v1/models")
        if isinstance(models, Finding):
            yield models
            return
        found = judge_models(models, key is not None)
        yield found
        if found.remedy:
            yield skipped("decision", "not asked, as the models are not shown")
            return
        began = time.monotonic()
        answer = reach(client, "v1/systemone", PROBE)
        took = 1e3 * (time.monotonic() - began)
        yield answer if isinstance(answer, Finding) else judge_decision(answer, took)


def reach(
    client: httpx.Client, path: str, body: Any = None, check: str = ""
) -> httpx.Response | Finding:
    """The answer, or why there is none."""
    try:
        if body is None:
            return client.get(path)
        return client.post(path, json=body)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        return problem(check or path, *unreachable(error, client.base_url))


def unreachable(error: Exception, url: httpx.URL) -> tuple[str, str]:
    """(what happened, remedy) for a request without an answer."""
    where = f"{url.host}:{url.port or (443 if url.scheme == 'https' else 80)}"
    text = str(error)
    if isinstance(error, httpx.UnsupportedProtocol):
        return "the address has no http:// or https://", "write it as http://HOST:PORT"
    if isinstance(error, httpx.ConnectTimeout | httpx.ReadTimeout | httpx.PoolTimeout):
        return (
            f"{where} did not answer within {TIMEOUT_S:.0f} s",
            "check firewalls and network policies on the way, and the service's logs",
        )
    if "CERTIFICATE" in text or "SSL" in text or "TLS" in text:
        return (
            f"{where}: TLS failed ({text[:120]})",
            "the service itself speaks plain HTTP: use http://, or check the ingress' certificate",
        )
    if re.search(r"name|address associated|Name or service", text) and "Errno" in text:
        return f"the host name {url.host} is not known", "check the name, or use an address"
    if "refused" in text:
        return (
            f"nothing listens on {where}",
            "start the service (jevserve serve), or check host and port",
        )
    return f"{where}: {text[:160] or type(error).__name__}", "check the address and the network"


def judge_alive(answer: httpx.Response) -> Finding:
    if answer.status_code == 200:
        return ok("reachable", f"{answer.url.copy_with(path='/', userinfo=b'')} answers")
    if answer.status_code in (301, 302, 307, 308):
        return problem(
            "reachable", f"status {answer.status_code}: it sends elsewhere", "use the final address"
        )
    return problem(
        "reachable",
        f"/healthz answers with status {answer.status_code}",
        "check that a jevserve is behind this address, and its path prefix (http.root_path)",
    )


def judge_clock(date: str | None, now: float) -> Finding:
    """The Date header of an answer that has just come, against this machine's clock."""
    try:
        there = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return skipped("clock", "the answers carry no date")
    apart = there - now
    if abs(apart) > CLOCK_S:
        ahead = "ahead of" if apart > 0 else "behind"
        return warning(
            "clock",
            f"the service's clock is {abs(apart):,.0f} s {ahead} this machine's",
            "synchronise both (chrony, systemd-timesyncd); deadlines are not affected",
        )
    return ok("clock", "agrees with this machine's")


def judge_version(answer: httpx.Response) -> Finding:
    info = field(answer, "info")
    there = info.get("version") if isinstance(info, dict) else None
    if not isinstance(there, str):
        return skipped("version", f"/openapi.json tells none (status {answer.status_code})")
    if there != __version__:
        return warning(
            "version",
            f"the service is {there[:40]}, this command {__version__}",
            "use the same version at both ends where something behaves unexpectedly",
        )
    return ok("version", there)


def judge_ready(answer: httpx.Response) -> Finding:
    details = field(answer, "details")
    told = "; ".join(f"{k}: {v}" for k, v in details.items()) if isinstance(details, dict) else ""
    if answer.status_code == 200 and "0 of " not in told:
        return ok("ready", told[:300] or "yes")
    if answer.status_code == 200:
        return warning("ready", told[:300], "look at the logs of the engines that are missing")
    return problem(
        "ready",
        told[:300] or f"/readyz answers with status {answer.status_code}",
        "wait where it has just started; else look at its logs (docs/how-to/operate.md#logs)",
    )


def judge_models(answer: httpx.Response, with_key: bool) -> Finding:
    if answer.status_code in (401, 403):
        if with_key:
            return problem(
                "key",
                "the service does not know this key",
                "check it (no quotes, no white space), and that its hash is in the keys file: "
                "printf %s KEY | sha256sum; keys are read when a router starts",
            )
        return problem(
            "key", "the service wants a key", "give one with --key, or set JEVSERVE_API_KEY"
        )
    models = field(answer, "models")
    names = (
        [m.get("name") for m in models if isinstance(m, dict)] if isinstance(models, list) else []
    )
    if answer.status_code != 200 or not names:
        return problem(
            "models",
            f"/v1/models answers with status {answer.status_code} and no models",
            "check that a jevserve is behind this address",
        )
    return ok("models", ", ".join(str(n)[:60] for n in names[:12]))


def judge_decision(answer: httpx.Response, took_ms: float) -> Finding:
    if answer.status_code != 200:
        detail = field(answer, "detail")
        said = detail.get("message") if isinstance(detail, dict) else None
        return problem(
            "decision",
            f"status {answer.status_code}: {str(said or answer.text)[:200]}",
            "look for the request id "
            f"{answer.headers.get('x-request-id', '(none)')[:60]} in the service's logs",
        )
    timings = field(answer, "x_jevserve")
    inside = timings.get("total_ms") if isinstance(timings, dict) else None
    seen = f"answered in {took_ms:.0f} ms"
    if isinstance(inside, int | float):
        seen += f", {inside:.0f} of them in the service"
    if took_ms > SLOW_MS:
        return warning(
            "decision", seen, "look at jevserve_engine_backlog_tokens in its metrics: is it busy?"
        )
    return ok("decision", seen)


def field(answer: httpx.Response, name: str) -> Any:
    """A field of a JSON object, None where the body is something else."""
    try:
        body = answer.json()
    except (ValueError, RecursionError):
        return None
    return body.get(name) if isinstance(body, dict) else None
