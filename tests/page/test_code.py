"""The code that the page shows asks exactly what the page asks."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
from typing import Any

from playwright.sync_api import expect

from jevserve.api.app import ApiOptions, build_app
from jevserve.api.auth import ENV_KEYS, load_keys
from tests.api.live import serve
from tests.fakes import FakeService
from tests.page.visits import Visit, visiting

HOSTILE = (
    'it\'s "quoted" `id` $(id) $HOME ${PATH} \\ \\n %s !! #{x} \x00\x07\x7f\u2028\u202e\ufeff\n'
    "JSON\nEOF\n'''\n\"\"\"\nöß 中文 👩‍👩‍👧 &amp; <b>\t.\r\n"
)
BODY = {
    "model": "jev-latest",
    "state": [HOSTILE, {"2": 1.5, "1": None, "on": True, "off": False}],
    "questions": {
        HOSTILE: {"type": "noul", "instructions": HOSTILE},
        "__proto__": {"type": "choice", "criteria": {"2": None, "1": HOSTILE, "it's": {"a": []}}},
        "s": {"type": "score", "criteria": ["lo", ["mid"], HOSTILE]},
    },
    "user": HOSTILE,
}


def run(command: list[str], code: str) -> str:
    env = {**os.environ, "JEVSERVE_API_KEY": "good"}
    done = subprocess.run(
        command, input=code, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_fields(call: tuple[Any, Any]) -> tuple[Any, ...]:
    request, _ = call
    return request.state, request.questions, request.model


def test_the_curl_shown_sends_the_request_from_a_shell(visit, service):
    visit.write(BODY)
    asked = visit.ask()
    curl = visit.code("curl")
    for shell in ("bash", "sh"):
        answered = json.loads(run([shell, "-s"], curl))
        assert answered["answers"] == asked["answers"]
        assert as_fields(service.calls[-1]) == as_fields(service.calls[0])
    assert service.calls[0][0].state == BODY["state"]


def test_the_python_shown_sends_the_request(visit, service):
    visit.write(BODY)
    asked = visit.ask()
    printed = run([sys.executable, "-"], visit.code("Python") + visit.code("typesafe-sdk"))
    first, *others = map(as_fields, service.calls)
    assert others == [first, first]
    assert printed.count(str(asked["answers"]["s"]["score"])) == 2


def test_with_a_key_the_code_takes_it_from_the_environment(browser):
    options = ApiOptions(keys=load_keys(None, {ENV_KEYS: "good"}))
    service = FakeService()
    with serve(build_app(service, options)) as address, visiting(browser, address) as visit:
        visit.open().page.get_by_label("API key").fill("good")
        visit.ask()
        run(["bash", "-s"], visit.code("curl"))
        run([sys.executable, "-"], visit.code("Python") + visit.code("typesafe-sdk"))
    assert [caller.tenant for _, caller in service.calls] == ["key-1"] * 4


def test_what_is_shown_can_be_copied_without_the_clipboard_that_plain_http_lacks(visit):
    page = visit.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#status")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == visit.code("curl")
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(); }")
    code = visit.code("Python")
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#status")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == code


def value(pick: random.Random, depth: int = 0) -> Any:
    """A JSON value, with texts of every kind of character that has a meaning somewhere."""
    match pick.randrange(7 if depth < 4 else 5):
        case 0:
            return None
        case 1:
            return pick.random() < 0.5
        case 2:
            return pick.randrange(-(10**20), 10**20)
        case 3:
            return pick.random() * 10.0 ** pick.randrange(-20, 20)
        case 4:
            return text(pick)
        case 5:
            return [value(pick, depth + 1) for _ in range(pick.randrange(4))]
        case _:
            return {text(pick): value(pick, depth + 1) for _ in range(pick.randrange(4))}


def text(pick: random.Random) -> str:
    characters = "\\\"'`$/\x00\x1f\x7f\u2028\u202e1{}[],: \n\tab:é中😀"
    return "".join(pick.choices(characters, k=pick.randrange(12)))


def test_json_and_python_are_written_as_they_were_read(visit: Visit):
    pick = random.Random(4)
    values = [value(pick) for _ in range(400)]
    sources = [json.dumps(v, ensure_ascii=bool(i % 2)) for i, v in enumerate(values)]
    in_json, in_python = visit.page.evaluate(
        "(all) => [{}, PYTHON_WORDS].map((words) => all.map((s) => written(readJson(s), words)))",
        sources,
    )
    # Types count, so that 1 is not True, and so does the order of names.
    assert [repr(json.loads(text)) for text in in_json] == [repr(v) for v in values]
    assert [repr(ast.literal_eval(text)) for text in in_python] == [repr(v) for v in values]
    assert not any(control in text for text in in_python for control in "\u202e\u2028\x7f")


def test_what_json_parse_refuses_is_refused(visit: Visit):
    wrong = ["", "{", "[1,]", "{'a': 1}", "01", "NaN", '"\n"', "1 2", '{"a" 1}', "// x"]
    refused = visit.page.evaluate(
        """(all) => all.map((s) => { try { readJson(s); } catch (e) { return e.name; } })""", wrong
    )
    assert refused == ["SyntaxError"] * len(wrong)
