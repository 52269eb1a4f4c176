"""``jevserve eval`` against the real HTTP layer with a fake service behind it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jevserve.api.app import ApiOptions, build_app
from jevserve.api.auth import ENV_KEYS, load_keys
from jevserve.api.service import Caller
from jevserve.decisions.request import DecisionRequest, DecisionResponse
from jevserve.errors import MaxTokensExceeded, RetryableError
from jevserve.evaluation import asking
from tests.api.live import serve
from tests.fakes import FakeService

Run = Any

LINES = [
    {
        "state": f"mail {i}",
        "question": {"type": "choice", "criteria": {"a": None, "b": "x", "c": None}},
        "answer": "abc"[i % 3],
    }
    for i in range(8)
] + [
    {"state": "s", "question": {"type": "noul", "instructions": "?"}, "answer": True, "set": "n"},
    {"state": "s", "question": {"type": "score", "criteria": ["l", "h"]}, "answer": 1, "set": "s"},
]


@pytest.fixture
def fake() -> FakeService:
    return FakeService()


@pytest.fixture(autouse=True)
def url(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serve(build_app(fake)) as address:
        monkeypatch.setenv("JEVSERVE_URL", address)
        yield address


@pytest.fixture
def data(tmp_path: Path) -> str:
    file = tmp_path / "mail.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in LINES))
    return str(file)


def test_own_data_give_a_table_a_report_and_pictures(run: Run, data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"

    code, shown, _ = run("eval", data, "--out", str(out), "--orders", "2")

    assert code == 0
    assert all(name in shown for name in ("mail", "accuracy", "flips"))
    assert max(len(line) for line in shown.splitlines()) <= 80
    report = json.loads((out / "report.json").read_text())
    assert report["complete"]
    assert set(report["sets"]) == {"mail", "n", "s"}
    assert report["sets"]["mail"]["steadiness"]["asked"] == 16
    assert report["settings"]["model"] == "fake-1"
    page = (out / "report.md").read_text()
    for name in ("overview.png", "mail.png", "n.png", "s.png"):
        assert name in page
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_the_built_in_pack_is_asked_without_data(run: Run, fake: FakeService) -> None:
    code, shown, _ = run("eval", "--set", "intent7", "--limit", "5", "--orders", "0", "--json")

    assert code == 0
    found = json.loads(shown)["sets"]["intent7"]
    assert found["measurement"]["n"] == len(fake.calls) == 5
    options = fake.calls[0][0].questions[0][1].options
    assert all(text is None for _, text in options)


def test_the_same_seed_gives_the_same_figures(run: Run, data: str) -> None:
    figures = [json.loads(run("eval", data, "--json")[1])["sets"] for _ in range(2)]

    for found in figures:
        for one in found.values():
            del one["speed"]
    assert figures[0] == figures[1]


def test_a_model_that_reads_the_order_is_found_out(
    run: Run, data: str, fake: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_place(request: Any, question: Any) -> Any:
        import numpy as np

        count = len(question.options)
        return np.array([0.6] + [0.4 / (count - 1)] * (count - 1))

    monkeypatch.setattr("tests.fakes.probabilities", by_place)
    lines = [line for line in LINES if line["question"]["type"] == "choice"]
    Path(data).write_text("\n".join(json.dumps(line) for line in lines))

    found = json.loads(run("eval", data, "--json", "--orders", "3")[1])["sets"]["mail"]

    assert 0.3 < found["steadiness"]["flipped"] <= 1
    assert found["steadiness"]["distance"] == pytest.approx(
        0.4 * found["steadiness"]["flipped"], abs=1e-6
    )


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell has its background jobs ignore Ctrl-C, these tests among them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_evaluation_goes_on_where_it_stopped(
    run: Run, data: str, fake: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ("--out", str(tmp_path / "out"), "--orders", "0", "--no-plots", "--concurrency", "1")
    after = 4
    ask, asked = asking.ask, []

    async def counting(*arguments: Any) -> Any:
        if len(asked) == after:
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
        asked.append(arguments)
        return await ask(*arguments)

    monkeypatch.setattr(asking, "ask", counting)
    code, _, err = run("eval", data, *out)
    assert code == 130
    assert "interrupted" in err
    partial = json.loads((tmp_path / "out" / "report.json").read_text())
    assert not partial["complete"]
    assert sum(s["measurement"]["n"] for s in partial["sets"].values() if s["measurement"]) == after
    monkeypatch.setattr(asking, "ask", ask)

    assert run("eval", data, *out)[0] == 0

    assert len(fake.calls) == len(LINES)
    assert json.loads((tmp_path / "out" / "report.json").read_text())["complete"]


def test_a_ledger_of_something_else_is_not_gone_on_with(
    run: Run, data: str, fake: FakeService, tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path), "--orders", "0", "--no-plots")
    run("eval", data, *out)
    run("eval", data, *out, "--seed", "2")

    assert len(fake.calls) == 2 * len(LINES)


def test_refusals_are_told(run: Run, data: str, fake: FakeService) -> None:
    fake.error = MaxTokensExceeded("9,000 tokens, at most 512")

    code, shown, err = run("eval", data, "--orders", "0")

    assert code == 1
    assert "refused" in shown
    assert "9,000 tokens" in shown
    assert "some decisions were refused" in err


def test_what_was_refused_is_asked_again_when_the_evaluation_goes_on(
    run: Run, data: str, fake: FakeService, tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path), "--orders", "0")
    fake.error = MaxTokensExceeded("9,000 tokens, at most 512")
    run("eval", data, *out)
    fake.error = None

    code, _, err = run("eval", data, *out)

    assert code == 0
    assert "were refused" not in err
    assert len(fake.calls) == 2 * len(LINES)


def test_a_service_that_is_not_ready_is_no_refusal_of_the_data(
    run: Run, data: str, fake: FakeService, tmp_path: Path
) -> None:
    fake.error = RetryableError("no replica is ready; retry", retry_after_ms=1, reason="no_replica")

    code, _, err = run("eval", data, "--out", str(tmp_path))

    assert code == 2
    assert "no replica is ready" in err
    assert not (tmp_path / "report.json").exists()


def test_a_service_that_fails_on_the_way_leaves_a_report_of_what_was_answered(
    run: Run, data: str, fake: FakeService, tmp_path: Path
) -> None:
    decide = fake.decide

    async def failing(request: DecisionRequest, caller: Caller) -> DecisionResponse:
        if len(fake.calls) >= 5:
            fake.error = RetryableError("draining; retry", retry_after_ms=1, reason="draining")
        return await decide(request, caller)

    fake.decide = failing  # type: ignore[method-assign]
    code, shown, err = run("eval", data, "--out", str(tmp_path), "--orders", "0", "--no-plots")

    assert code == 2
    assert "draining" in err
    assert "mail" in shown
    assert not json.loads((tmp_path / "report.json").read_text())["complete"]


def test_answers_of_an_earlier_run_are_said_to_be_that(
    run: Run, data: str, fake: FakeService, tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path), "--orders", "0", "--no-plots")
    run("eval", data, *out)

    _, _, err = run("eval", data, *out)

    assert f"{len(LINES)} answers are taken from" in err


def test_another_checkpoint_of_the_same_name_is_measured_anew(
    run: Run, data: str, fake: FakeService, tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path), "--orders", "0", "--no-plots")
    run("eval", data, *out)
    (card,) = fake.models()
    fake.models = lambda: [replace(card, revision="another")]  # type: ignore[method-assign]

    run("eval", data, *out)

    assert len(fake.calls) == 2 * len(LINES)
    assert (tmp_path / "ledger.jsonl.old").exists()


def test_what_would_keep_the_report_from_being_written_is_told_before_anything_is_asked(
    run: Run, data: str, fake: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = run("eval", data, "--out", data)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plots = run("eval", data, "--out", str(tmp_path / "out"))

    assert file[0] == plots[0] == 2
    assert "File exists" in file[2]
    assert "jevserve[eval]" in plots[2]
    assert not fake.calls


def test_a_password_in_the_address_is_in_no_file(
    run: Run, data: str, url: str, tmp_path: Path
) -> None:
    address = url.replace("://", "://user:password@")

    code, _, _ = run("eval", data, "--url", address, "--out", str(tmp_path / "out"), "--no-plots")

    assert code == 0
    assert not [f for f in (tmp_path / "out").iterdir() if b"password" in f.read_bytes()]


def test_a_service_that_is_not_there_is_one_line(run: Run, data: str) -> None:
    code, _, err = run("eval", data, "--url", "http://127.0.0.1:9", "--timeout", "1")

    assert code == 2
    assert err.count("\n") == 1
    assert "is the service running" in err


def test_the_key_is_sent_and_is_in_no_output(
    run: Run, data: str, fake: FakeService, tmp_path: Path
) -> None:
    keyed = ApiOptions(keys=load_keys(None, {ENV_KEYS: "very-secret-key"}))
    out = tmp_path / "out"
    with serve(build_app(fake, keyed)) as address:
        done = run("eval", data, "--url", address, "--key", "very-secret-key", "--out", str(out))
        refused = run("eval", data, "--url", address, "--key", "wrong-secret")

    assert done[0] == 0 and fake.calls
    assert refused[0] == 2 and "401" in refused[2]
    written = b"".join(f.read_bytes() for f in out.iterdir())
    assert b"very-secret-key" not in written
    assert "secret" not in "".join(map(str, done + refused))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--set", "nothing"), "no set nothing"), (("--options", "x"), "named or described")],
)
def test_what_cannot_be_measured_is_said(run: Run, arguments: tuple[str, ...], said: str) -> None:
    code, _, err = run("eval", *arguments)

    assert code == 2
    assert said in err
