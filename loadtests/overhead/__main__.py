"""Command line of the benchmark."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from loadtests.overhead import __doc__ as about
from loadtests.overhead.load import wrk
from loadtests.overhead.measure import ROOT, SERVERS, cells, measure
from loadtests.overhead.report import load, result, write

PAGE = ROOT / "docs" / "explanation" / "overhead.md"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.overhead",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="measure; an interrupted run goes on where it stopped")
    run.add_argument("out", type=Path, help="result file (JSON); its ledger stands beside it")
    run.add_argument("--rounds", type=int, default=3)
    run.add_argument("--seconds", type=float, default=3.0, help="of each cell")
    names = [s.name for s in SERVERS]
    run.add_argument("--rows", nargs="*", choices=names, default=[], help="default: all")
    report = verbs.add_parser("report", help="write the table of a result file into the page")
    report.add_argument("result", type=Path)
    report.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    if arguments.verb == "report":
        write(arguments.page, load(arguments.result))
        return
    wrk()
    ledger = arguments.out.with_suffix(".ledger")
    measure(ledger, arguments.rounds, arguments.seconds, tuple(arguments.rows))
    arguments.out.write_text(json.dumps(result(cells(ledger), arguments.seconds), indent=1) + "\n")
    ledger.unlink()
    print(arguments.out)


if __name__ == "__main__":
    main()
