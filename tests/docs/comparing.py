"""Whether an output is the one that a page shows.

Numbers are compared within ``RELATIVE``. What differs from run to run is listed in ``VARIES``, and
nowhere else. A line ``…`` on a page stands for any number of lines.
"""

from __future__ import annotations

import math
import re

#: Of numbers: processors differ in the last digits of a vector.
RELATIVE, ABSOLUTE = 1e-3, 1e-6

#: What differs, and what it is called in a comparison.
VARIES = [
    (r'("(?:plan_ms|engine_ms|total_ms)": ?)[\d.e-]+', r"\1<milliseconds>"),
    (r'("replica": ?)"\w+"', r"\1<replica>"),
    (r"req_[0-9a-f]{24}", "<request id>"),
    (r'("release_date": ?)"[^"]*"', r"\1<time>"),
    (r'("created": ?)\d+', r"\1<time>"),
    (r"\b\d+ ms in the service", "<milliseconds> in the service"),
    (r"median \d+ ms", "median <milliseconds>"),
    (r"within \d+ ms", "within <milliseconds>"),
    (r"answered in \d+ ms, \d+ of them", "answered in <milliseconds>"),
    (r"about \d+ ms", "about <milliseconds>"),
    (r"(retry-after(?:-ms)?: )\d+", r"\1<time>"),
    # A bar shows the number beside it.
    (r"[█▏▎▍▌▋▊▉]+ +(?=[\d<>])", "<bar> "),
    (r"\b[0-9a-f]{16,64}\b", "<hash>"),
]

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\w)")

ANY_LINES = "…"


def difference(shown: str, came: str) -> str:
    """What a page shows otherwise than it came; empty for nothing."""
    expected, actual = lines(shown), lines(came)
    at = 0
    for i, line in enumerate(expected):
        if line == ANY_LINES:
            after = expected[i + 1] if i + 1 < len(expected) else None
            if after is None:
                return ""
            while at < len(actual) and not same(after, actual[at]):
                at += 1
            continue
        if at >= len(actual):
            return f"shown but not printed: {line!r}"
        if not same(line, actual[at]):
            return f"shown {line!r}, printed {actual[at]!r}"
        at += 1
    return f"printed but not shown: {actual[at]!r}" if at < len(actual) else ""


def lines(text: str) -> list[str]:
    for pattern, name in VARIES:
        text = re.sub(pattern, name, text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


def same(shown: str, came: str) -> bool:
    return NUMBER.sub("#", shown) == NUMBER.sub("#", came) and all(
        math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        for a, b in zip(NUMBER.findall(shown), NUMBER.findall(came), strict=True)
    )
