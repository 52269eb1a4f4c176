"""``jevserve decide``: what it asks, how it shows the answer, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from jevserve.cli.bars import Canvas, bar, drawn, fitted, line, percent
from jevserve.client.decision import decision

Run = Any

NOUL = {"type": "noul", "noul": 0.75}


class FakeHttpService(ThreadingHTTPServer):
    """Answers with ``status`` and ``body`` and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.status, self.body = 200, b""
        self.requests: list[tuple[str, dict[str, str], Any]] = []

    def answer(self, **answers: Any) -> None:
        body = {
            "model": "m",
            "answers": answers,
            "usage": {"input_tokens": 93},
            "x_jevserve": {"cached_tokens": 32, "total_ms": 79.4},
        }
        self.body = json.dumps(body).encode()


class FakeHandler(BaseHTTPRequestHandler):
    server: FakeHttpService

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {k.lower(): v for k, v in self.headers.items()}
        self.server.requests.append((self.path, headers, sent))
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHttpService]:
    with FakeHttpService() as server:
        server.answer(answer=NOUL)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        monkeypatch.setenv("JEVSERVE_URL", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("flags", "question"),
    [
        (["hm?"], {"type": "noul", "instructions": "hm?"}),
        (
            ["hm?", "--yes", "it is", "--no", "it is not"],
            {
                "type": "noul",
                "instructions": "hm?",
                "criteria": {"true": "it is", "false": "it is not"},
            },
        ),
        (["--yes", "it is"], {"type": "noul", "criteria": {"true": "it is"}}),
        (
            ["hm?", "-o", "a", "-o", "b=is = b", "-o", "c="],
            {
                "type": "choice",
                "instructions": "hm?",
                "criteria": {"a": None, "b": "is = b", "c": None},
            },
        ),
        (["-l", "low", "-l", "high"], {"type": "score", "criteria": ["low", "high"]}),
    ],
)
def test_arguments_make_one_question_of_the_kind_that_they_say(
    run: Run, service: FakeHttpService, flags: list[str], question: dict[str, Any]
) -> None:
    code, out, _ = run("decide", *flags, "--state", "text", "--json")

    assert code == 0
    assert json.loads(out) == json.loads(service.body)
    ((path, headers, sent),) = service.requests
    assert path == "/v1/systemone"
    assert sent == {"state": "text", "questions": {"answer": question}}
    assert "authorization" not in headers


@pytest.mark.parametrize("flag", [[], ["-s", "-"]])
def test_the_state_may_come_through_a_pipe(
    run: Run, service: FakeHttpService, monkeypatch: pytest.MonkeyPatch, flag: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe\n"))

    code, _, _ = run("decide", "hm?", "--model", "m", *flag)

    assert code == 0
    ((_, _, sent),) = service.requests
    assert (sent["state"], sent["model"]) == ("from a pipe\n", "m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_missing_state_is_asked_for_and_not_waited_for(
    run: Run, service: FakeHttpService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())

    code, _, err = run("decide", "hm?")

    assert code == 2
    assert "--state" in err
    assert service.requests == []


@pytest.mark.parametrize("state", ["", " \n"])
def test_an_empty_state_is_refused(run: Run, service: FakeHttpService, state: str) -> None:
    code, _, err = run("decide", "hm?", "-s", state)

    assert code == 2
    assert "empty" in err
    assert service.requests == []


REQUEST = {
    "state": {"mail": "ü"},
    "model": "m",
    "questions": {"a": {"type": "noul", "instructions": "?"}, "b": {"type": "noul"}},
    "x_deadline_ms": 500,
}


def test_a_file_is_sent_as_it_is_and_flags_go_over_it(
    run: Run, service: FakeHttpService, tmp_path: Path
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST))
    service.answer(a=NOUL, b=NOUL)

    assert run("decide", "-f", str(file))[0] == 0
    assert run("decide", "-f", str(file), "-s", "other", "--model", "n")[0] == 0

    assert [sent for _, _, sent in service.requests] == [
        REQUEST,
        REQUEST | {"state": "other", "model": "n"},
    ]


def test_a_question_alone_is_a_file_too(
    run: Run, service: FakeHttpService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"type": "noul", "instructions": "?"}'))

    assert run("decide", "-f", "-", "-s", "text")[0] == 0

    ((_, _, sent),) = service.requests
    assert sent["questions"] == {"answer": {"type": "noul", "instructions": "?"}}


@pytest.mark.parametrize(
    "content", ["[]", "{", "{}", '{"questions": []}', '"type"', "[" * 100_000, "\x00"]
)
def test_a_file_that_is_no_request_is_named(
    run: Run, service: FakeHttpService, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "request.json"
    file.write_text(content)

    code, _, err = run("decide", "-f", str(file), "-s", "text")

    assert code == 2
    assert str(file) in err
    assert err.count("\n") == 1
    assert service.requests == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-s", "text"], "one of them"),
        (["hm?", "-f", "x.json"], "one of them"),
        (["hm?", "-s", "t", "-o", "a", "-l", "b"], "--option and --level"),
        (["hm?", "-s", "t", "--yes", "a", "-l", "b"], "--level and --yes/--no"),
        (["hm?", "-s", "t", "-o", "a", "-o", "a=b"], "named twice"),
        (["-f", "-"], "cannot read standard input"),
    ],
)
def test_contradictions_are_refused_before_anything_is_sent(
    run: Run,
    service: FakeHttpService,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    code, _, err = run("decide", *arguments)

    assert code == 2
    assert said in " ".join(err.replace("│", " ").split())
    assert service.requests == []


def test_the_key_is_sent_and_never_shown(
    run: Run, service: FakeHttpService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEVSERVE_API_KEY", "very-secret-key")
    service.status, service.body = 401, b'{"detail": "this API key is not known here"}'

    code, out, err = run("decide", "hm?", "-s", "text")

    assert code == 2
    assert service.requests[0][1]["authorization"] == "Bearer very-secret-key"
    assert "401" in err
    assert "not known here" in err
    assert "very-secret" not in out + err
    assert "very-secret" not in run("decide", "--help")[1]


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"answers": {}}'])
def test_something_else_at_that_address_is_one_line(
    run: Run, service: FakeHttpService, body: bytes
) -> None:
    service.body = body

    code, _, err = run("decide", "hm?", "-s", "text")

    assert code == 2
    assert err.startswith("error:")
    assert err.count("\n") == 1


def shown(width: int, everything: bool = False, **answers: Any) -> list[str]:
    body = {
        "model": "m",
        "answers": answers,
        "usage": {"input_tokens": 93},
        "x_jevserve": {"cached_tokens": 32, "total_ms": 79.4},
    }
    names = {id: id for id in answers}
    lines = drawn(decision(body, answers, ""), names, Canvas(width), everything)
    return [text.plain for text in lines]


def test_every_kind_of_answer_is_drawn() -> None:
    choice = {
        "type": "choice",
        "choice": "b",
        "confidence": 0.5,
        "probabilities": {"a": 0.25, "b": 0.75},
    }
    score = {
        "type": "score",
        "score": 1.0,
        "confidence": 1,
        "legend": {"0": "calm", "1": {"mood": "angry"}},
        "probabilities": {"0": 0.0, "1": 1.0},
    }

    assert shown(23, c=choice, n=NOUL, s=score) == [
        "c  b  (confidence 0.50)",
        "  a  ██        25.0 %",
        "  b  ██████    75.0 %",
        "",
        "n  yes",
        "  yes  ████▌   75.0 %",
        "  no   █▌      25.0 %",
        "",
        "s  1.00 on 0 to 1  (confidence 1.00)",
        "  0  calm          0.0 %",
        "  1  {'mood'…  █ 100.0 %",
        "",
        "m · 93 tokens, 32 of them cached · 79 ms in the service",
    ]


def many(count: int) -> dict[str, Any]:
    probabilities = {f"option {i}": 0.5 / count for i in range(count)}
    probabilities["option 7"] += 0.5
    return {
        "type": "choice",
        "choice": "option 7",
        "confidence": 0.5,
        "probabilities": probabilities,
    }


def test_of_very_many_options_the_most_probable_are_shown_and_the_rest_counted() -> None:
    lines = shown(80, c=many(255))

    assert sum("option" in text for text in lines) == 21
    assert any(text.lstrip().startswith("option 7 ") for text in lines)
    assert "  and 235 more, 46.1 % together (--all)" in lines
    assert len(shown(80, everything=True, c=many(255))) == 258


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_hostile_names_stay_in_their_column(width: int) -> None:
    names = [
        "\x1b[31mred\x07",
        "a\nb\tc",
        "",
        "漢字" * 40,
        "👩‍👩‍👧‍👦" * 30,
        "[bold]x[/]",
        "\u202eabc",
    ]
    probabilities = dict.fromkeys(names, 1 / len(names))
    answer = {
        "type": "choice",
        "choice": "",
        "confidence": 0,
        "probabilities": probabilities,
    }

    lines = shown(width, c=answer)[1:-2]

    assert len(lines) == len(names)
    assert len({cell_len(text) for text in lines}) == 1
    assert all(text.isprintable() for text in lines)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0 %"), (1e-9, "<0.1 %"), (0.0005, "0.1 %"), (0.9999, ">99.9 %"), (1, "100.0 %")],
)
def test_a_percentage_never_claims_more_than_is_so(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize("blocks", [True, False])
def test_bars_grow_with_the_probability_and_keep_their_column(blocks: bool) -> None:
    bars = [bar(i / 100, 10, blocks) for i in range(101)]

    assert {cell_len(b) for b in bars} == {10}
    filled = [len(b.strip()) for b in bars]
    assert filled == sorted(filled)
    assert (filled[0], filled[-1]) == (0, 10)


def test_text_is_cut_to_columns_and_not_to_characters() -> None:
    assert fitted("漢字漢字", 5) == "漢字…"
    assert fitted("ab", 4) == "ab  "
    assert line("a\n\n b") == "a b"
