"""``jevserve doctor``: what a start would meet on this machine, in plain words with remedies."""

from __future__ import annotations

import json
import signal
import sys
import textwrap
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from jevserve import __version__
from jevserve.cli.console import errors, output
from jevserve.cli.serve import (
    Cache,
    Host,
    Keys,
    Name,
    Port,
    Protocol,
    Replicas,
    What,
    service_settings,
)
from jevserve.doctor.findings import Finding, Verdict
from jevserve.errors import SettingsError

STYLE = {
    Verdict.OK: "green",
    Verdict.WARNING: "yellow",
    Verdict.PROBLEM: "bold red",
    Verdict.SKIPPED: "dim",
}

#: Columns of a verdict with its margins, and of a check's name.
VERDICT, CHECK = 11, 16


def doctor(
    what: What = None,
    host: Host = None,
    port: Port = None,
    name: Name = None,
    replicas: Replicas = None,
    protocol: Protocol = None,
    keys: Keys = None,
    cache: Cache = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Import nothing heavy; done in seconds.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Ask nothing of the network.")] = False,
    engine: Annotated[
        bool, typer.Option("--engine", help="Start each model's engine and ask it twice.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="Check the running service at this address instead.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(envvar="JEVSERVE_API_KEY", help="API key for --url.")
    ] = None,
) -> None:
    """Say what would keep a service from starting or working here, and the remedy.

    Takes the arguments of serve and judges what that start would meet, without starting it.

    Exit code 0: fine, though there may be warnings; 1: problems; 2: wrong usage.
    """
    # Trials are processes of their own, which are ended on the way out.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # Imported here: other commands need none of it.
    from jevserve.doctor.examine import Wish, examine, examine_service

    if url is not None:
        if any(v is not None for v in (what, host, port, name, replicas, protocol, keys, cache)):
            raise typer.BadParameter("--url checks a running service; give it without the rest")
        findings = list(examine_service(url, key))
    else:
        settings: object
        try:
            settings = service_settings(
                what,
                host=host,
                port=port,
                name=name,
                replicas=replicas,
                protocol=protocol,
                keys=keys,
                cache=cache,
            )
        except SettingsError as error:
            settings = error
        file = Path(what) if what is not None and what.endswith((".yaml", ".yml")) else None
        wish = Wish(settings, file, offline=offline, quick=quick, engine=engine)
        findings = list(examine(wish, say))
    if as_json:
        typer.echo(json.dumps(document(findings), indent=1))
    else:
        output.print(shown(findings, output.width), soft_wrap=True)
    if any(f.verdict is Verdict.PROBLEM for _, f in findings):
        raise typer.Exit(1)


def say(what: str) -> None:
    errors.print(f"[dim]jevserve:[/] {what} …", highlight=False)


def document(findings: list[tuple[str, Finding]]) -> dict[str, object]:
    """The report for programs."""
    counts = Counter(f.verdict for _, f in findings)
    return {
        "version": __version__,
        "healthy": not counts[Verdict.PROBLEM],
        "counts": {v.value: counts[v] for v in Verdict},
        "findings": [{"subject": subject} | asdict(f) for subject, f in findings],
    }


def shown(findings: list[tuple[str, Finding]], width: int) -> Text:
    """The report for people: every check by subject, then what to do, problems last."""
    text = Text()
    subject = None
    for about, f in findings:
        if about != subject:
            subject = about
            text.append(f"{about}\n", "bold")
        put(
            text, f.verdict, f"{printable(f.check):<{CHECK}}  {printable(f.seen)}", CHECK + 2, width
        )
    text.append("\n")
    # Where the eye is when the prompt comes back.
    for verdict in (Verdict.WARNING, Verdict.PROBLEM):
        for about, f in findings:
            if f.verdict is verdict:
                put(text, verdict, f"{about}, {printable(f.check)}: {printable(f.seen)}", 0, width)
                put(text, None, f"→ {printable(f.remedy)}", 2, width)
    text.append(summary(findings))
    return text


def put(text: Text, verdict: Verdict | None, what: str, indent: int, width: int) -> None:
    """Append a verdict and ``what``, wrapped between words; paths and commands stay whole."""
    lines = textwrap.wrap(
        what,
        max(40, width - VERDICT),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    text.append(f"  {verdict or '':<{VERDICT - 2}}", STYLE[verdict] if verdict else "")
    text.append(f"\n{' ' * VERDICT}".join(lines) + "\n")


def summary(findings: list[tuple[str, Finding]]) -> str:
    counts = Counter(f.verdict for _, f in findings)
    problems, warnings = counts[Verdict.PROBLEM], counts[Verdict.WARNING]
    said = f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}"
    return f"{said}: " + ("the remedies are above" if problems else "nothing is in the way")


def counted(n: int, what: str) -> str:
    return f"{n or 'no'} {what}{'' if n == 1 else 's'}"


def printable(text: str) -> str:
    """Names of files and processes may hold anything; a terminal gets none of it."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)[:1_000]
