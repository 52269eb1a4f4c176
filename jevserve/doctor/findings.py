"""What a check says: a verdict, what was seen, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

GIB = 2**30
MIB = 2**20


class Verdict(StrEnum):
    """A PROBLEM keeps the service from starting or from doing its work; a WARNING does not."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: its name, one or two words, unique within a subject.
        verdict: how it went.
        seen: what was found, in plain words; never a key, a hash, or a variable's value.
        remedy: what to do; every warning and every problem has one.
    """

    check: str
    verdict: Verdict
    seen: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.verdict in (Verdict.WARNING, Verdict.PROBLEM) and not self.remedy:
            raise ValueError(f"{self.check}: a {self.verdict} needs a remedy")


def ok(check: str, seen: str) -> Finding:
    return Finding(check, Verdict.OK, seen)


def warning(check: str, seen: str, remedy: str) -> Finding:
    return Finding(check, Verdict.WARNING, seen, remedy)


def problem(check: str, seen: str, remedy: str) -> Finding:
    return Finding(check, Verdict.PROBLEM, seen, remedy)


def skipped(check: str, why: str) -> Finding:
    return Finding(check, Verdict.SKIPPED, why)


def size(n: float) -> str:
    """``n`` bytes for people."""
    return f"{n / GIB:,.1f} GiB" if n >= GIB else f"{n / MIB:,.0f} MiB"
