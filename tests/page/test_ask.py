"""The page at `/`, as a person uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from jevserve.api.app import ApiOptions, build_app
from jevserve.api.auth import ENV_KEYS, load_keys
from jevserve.errors import Overloaded, RateLimited
from tests.api.live import serve
from tests.fakes import FakeService
from tests.page.visits import Visit, visiting

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "__proto__",
    "constructor",
    "‮gnp.exe",
    "👩‍👩‍👧 עברית العربية",
    "x" * 500,
    "'\"`${alert(1)}\\",
    "7",
]


def bars(visit: Visit, id: str) -> list[float]:
    rows = visit.answer(id).locator(".bars li")
    return rows.evaluate_all("(rows) => rows.map((row) => Number(row.dataset.p))")


def chosen(visit: Visit, id: str) -> str:
    return visit.answer(id).locator(".is-chosen .bar-name").inner_text()


def fill(page: Page, label: str, text: str) -> None:
    page.get_by_label(label, exact=True).fill(text)


def test_given_a_blank_form_when_all_kinds_are_asked_then_bars_are_the_answer(visit, service):
    page = visit.page
    page.get_by_role("button", name="Blank").click()
    fill(page, "State", "Where is my parcel?")
    for kind in ("Add choice", "Add yes or no", "Add score"):
        page.get_by_role("button", name=kind).click()
    choice, noul, score = page.locator(".question").all()
    choice.get_by_label("Id of question 1").fill("team")
    choice.get_by_label("Name of option 1").fill("billing")
    choice.get_by_label("Description of option 1").fill("money")
    choice.get_by_label("Name of option 2").fill("delivery")
    noul.get_by_label("Instructions").fill("Is it late?")
    score.get_by_label("Level 0", exact=True).fill("calm")
    score.get_by_label("Level 1", exact=True).fill("angry")
    score.get_by_role("button", name="Add level").click()
    page.keyboard.type("furious")

    body = visit.ask()

    answers = body["answers"]
    assert list(answers) == ["team", "yes_no_1", "score_1"]
    assert bars(visit, "team") == list(answers["team"]["probabilities"].values())
    assert bars(visit, "yes_no_1") == [answers["yes_no_1"]["noul"], 1 - answers["yes_no_1"]["noul"]]
    assert bars(visit, "score_1") == list(answers["score_1"]["probabilities"].values())
    assert answers["team"]["choice"] in chosen(visit, "team")
    assert page.locator("[data-score]").get_attribute("data-score") == str(
        answers["score_1"]["score"]
    )
    percent = f"{100 * answers['team']['probabilities']['billing']:.1f} %"
    expect(visit.answer("team")).to_contain_text(percent)
    expect(visit.page.locator("#answers")).to_contain_text("fake-replica")
    assert json.loads(visit.page.locator("#raw").text_content() or "") == body
    ((request, _),) = service.calls
    assert request.state == "Where is my parcel?"
    assert dict(request.questions)["team"].options == (("billing", "money"), ("delivery", None))
    assert dict(request.questions)["score_1"].levels == ("calm", "angry", "furious")


def test_the_keyboard_alone_asks_and_adds_and_removes_rows(visit, service):
    page = visit.page
    page.get_by_label("Name of option 3").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name of option 4")).to_be_focused()
    page.keyboard.type("other")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Description of option 4")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Remove option 4")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name of option 3")).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#status")).to_contain_text("Answered")
    page.get_by_role("tab", name="curl").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Python")).to_be_focused()
    expect(page.locator("#python")).to_be_visible()
    assert len(service.calls) == 1


def test_when_the_service_names_a_field_then_its_words_stand_there(visit):
    page = visit.page
    visit.write(
        {
            "state": "s",
            "questions": {
                "bare": {"type": "noul"},
                "long": {"type": "score", "criteria": [f"level {i}" for i in range(11)]},
                "fine": {"type": "noul", "instructions": "x"},
            },
        }
    )
    page.keyboard.press("Control+Enter")
    bare, long, fine = page.locator(".question").all()
    expect(bare.locator(".problem:visible")).to_contain_text("needs 'instructions'")
    expect(long.locator(".problem:visible")).to_contain_text("11 levels, at most 10")
    expect(fine.locator(".problem:visible")).to_have_count(0)
    expect(bare.get_by_label("Id of question")).to_be_focused()
    expect(bare.get_by_label("Id of question")).to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="questions › long").click()
    expect(long.get_by_label("Id of question")).to_be_focused()
    long.get_by_role("button", name="Remove level 10").click()
    bare.get_by_label("Instructions").fill("now it asks")
    visit.ask()
    expect(page.locator(".problem:visible")).to_have_count(0)


def test_what_json_cannot_tell_is_marked_before_anything_is_sent(visit, service):
    page = visit.page
    page.locator("#state").get_by_label("is JSON").check()
    page.get_by_label("Name of option 2").fill("billing")
    page.get_by_label("Name of option 3").fill("")
    page.get_by_label("Level 1", exact=True).fill("")
    page.keyboard.press("Control+Enter")
    told = page.locator("#form .problem:visible")
    expect(told).to_have_count(4)
    assert [text.split(":")[0] for text in told.all_inner_texts()] == [
        "Not JSON",
        "Another option has this name already.",
        "Name this option or remove it.",
        "Describe this level or remove it.",
    ]
    expect(page.get_by_label("State", exact=True)).to_be_focused()
    assert service.calls == []


def test_a_refusal_that_passes_is_counted_down(visit, service):
    page = visit.page
    page.clock.install()
    again = page.locator("#refusal").get_by_role("button")
    for error in (Overloaded, RateLimited):
        service.error = error("too busy", retry_after_ms=2500, reason="queue")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#refusal")).to_contain_text(
            f"{error.status} {error.error_type}: too busy"
        )
        expect(again).to_be_disabled()
        expect(again).to_have_text("Ask again in 3 s")
        page.clock.run_for(3000)
        expect(again).to_have_text("Ask again")
    service.error = None
    again.click()
    expect(page.locator("#status")).to_contain_text("Answered")
    expect(page.locator("#refusal")).to_be_hidden()


def answering(answer: dict[str, Any] | None) -> Callable[[Route], None]:
    return lambda route: route.fulfill(**answer) if answer else route.abort()


def test_an_answer_that_is_none_is_shown_as_it_is(visit):
    page = visit.page
    for answer, told in (
        ({"status": 502, "body": "<b>Bad</b>"}, "Status 502, and no JSON: <b>Bad</b>"),
        ({"status": 400, "body": '{"odd": 1}'}, '"odd": 1'),
        ({"status": 422, "body": '{"detail": [{"msg": "odd"}]}'}, "odd"),
        ({"status": 200, "body": '{"answers": {"team": {}}}'}, "No answer came"),
        (None, "No answer came"),
    ):
        page.unroute("**/v1/systemone")
        page.route("**/v1/systemone", answering(answer))
        page.keyboard.press("Control+Enter")
        expect(page.locator("#refusal")).to_contain_text(told)


def test_asking_can_be_stopped(visit):
    page = visit.page
    page.route("**/v1/systemone", lambda route: None)
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text("Stopped.")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_hostile_names_are_text_and_break_nothing(visit):
    page = visit.page
    page.set_viewport_size({"width": 360, "height": 700})
    texts = dict.fromkeys(HOSTILE)
    questions = {
        text: {"type": "choice", "instructions": text, "criteria": texts} for text in HOSTILE[:3]
    }
    questions["levels"] = {"type": "score", "criteria": HOSTILE}
    questions["many"] = {"type": "choice", "criteria": {f"<b>{i}": None for i in range(255)}}
    body = {"state": "\n".join(HOSTILE), "questions": questions, "x_more": {"__proto__": 1}}
    visit.write(body)
    assert visit.request() == body
    answers = visit.ask()["answers"]
    for id in HOSTILE[:3]:
        names = visit.answer(id).locator(".bar-name").all_inner_texts()
        assert [n.partition(" ✓")[0] for n in names] == HOSTILE
        assert bars(visit, id) == [answers[id]["probabilities"][name] for name in HOSTILE]
    page.get_by_role("button", name="Show all 255").click()
    assert sorted(bars(visit, "many")) == sorted(answers["many"]["probabilities"].values())
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator("main img, main b b, main script").count() == 0


def test_the_json_of_the_request_and_the_form_follow_each_other(visit, service):
    page = visit.page
    typed = (
        '{"state": {"n": 1.50, "id": 12345678901234567890}, "questions": {"q": {"type": "choice",'
        ' "criteria": {"2": null, "1": ""}, "note": 1}}, "cache_salt": "mine"}'
    )
    page.get_by_role("tab", name="JSON").click()
    field = page.get_by_label("Request as JSON")
    field.fill(typed)
    expect(page.get_by_label("State", exact=True)).to_have_value(
        '{\n  "n": 1.50,\n  "id": 12345678901234567890\n}'
    )
    expect(page.get_by_label("Name of option 1")).to_have_value("2")
    expect(page.locator("#more")).to_contain_text("cache_salt")
    page.get_by_label("Name of option 2").fill("one")
    expect(field).to_have_value(
        '{\n  "state": {\n    "n": 1.50,\n    "id": 12345678901234567890\n'
        '  },\n  "questions": {\n    "q": {\n      "type": "choice",\n      "criteria": {\n'
        '        "2": null,\n        "one": ""\n      },\n      "note": 1\n    }\n  },\n'
        '  "cache_salt": "mine"\n}'
    )
    for wrong, told in (
        ('{"state": ', "Unexpected end"),
        ('{"questions": {"q": {"type": "box"}}}', "questions.q.type"),
        ('{"questions": []}', "questions must be an object"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        (json.dumps({"questions": {str(i): {"type": "noul"} for i in range(51)}}), "at most 50"),
    ):
        field.fill(wrong)
        expect(page.locator("#json-problem")).to_contain_text("Not applied: ")
        expect(page.locator("#json-problem")).to_contain_text(told)
        expect(page.get_by_label("Name of option 2")).to_have_value("one")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#refusal")).to_contain_text("Not sent. Not applied: ")
    assert service.calls == []


def test_the_request_survives_a_reload_until_it_is_cleared(visit):
    page = visit.page
    fill(page, "State", "kept  with  spaces\nand lines")
    expect(page.locator("#curl")).to_contain_text("kept")
    page.reload()
    expect(page.get_by_label("State", exact=True)).to_have_value("kept  with  spaces\nand lines")
    page.get_by_role("button", name="Clear").click()
    assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]
    page.reload()
    expect(page.get_by_label("State", exact=True)).to_have_value(re.compile("^My card"))


def test_a_link_holds_the_request_and_asks_nothing_by_itself(visit, browser, service, address):
    page = visit.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    fill(page, "State", HOSTILE[0])
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#status")).to_contain_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(address + "/#r=")
    with visiting(browser, address) as other:
        other.open(link.removeprefix(address))
        expect(other.page.get_by_label("State", exact=True)).to_have_value(HOSTILE[0])
        other.page.goto(address + "/#r=%7B%22a")
        expect(other.page.locator("#status")).to_contain_text("is not a request")
        other.page.goto(address + "/#r=" + "1" * 20_000)
        expect(other.page.locator("#status")).to_contain_text("too long")
    fill(page, "State", "x" * 20_000)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#status")).to_contain_text("too long for a link")
    assert service.calls == []


def test_models_are_offered_and_those_that_do_not_answer_are_marked(browser):
    with serve(build_app(FakeService(ready=False))) as address, visiting(browser, address) as visit:
        page = visit.open().page
        expect(page.locator("#about-model")).to_contain_text("Answers from a hash")
        options = page.get_by_label("Model").locator("option").all_inner_texts()
        assert options[0] == "the default model"
        assert options[1:] == ["fake-1, not ready", "jev-latest (fake-1), not ready"]
        page.get_by_label("Model").select_option("fake-1")
        assert visit.request()["model"] == "fake-1"
        visit.write({"model": "gone", "state": "s", "questions": {}})
        expect(page.get_by_label("Model").locator("option:checked")).to_have_text(
            "gone, not served here"
        )


def test_a_key_is_asked_for_used_and_kept_out_of_everything_shown(browser):
    options = ApiOptions(keys=load_keys(None, {ENV_KEYS: "good-key"}))
    service = FakeService()
    with serve(build_app(service, options)) as address, visiting(browser, address) as visit:
        page = visit.open().page
        page.get_by_label("API key").fill("bad-key")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#key-problem")).to_contain_text("not known here")
        expect(page.get_by_label("API key")).to_be_focused()
        page.get_by_label("API key").fill("good-key")
        body = visit.ask()
        assert body["model"] == "fake-1"
        assert service.calls[0][1].tenant == "key-1"
        expect(page.get_by_label("Model").locator("option")).to_have_count(3)
        shown = "".join(visit.code(tab) for tab in ("curl", "Python", "typesafe-sdk", "JSON"))
        assert "JEVSERVE_API_KEY" in shown and "good-key" not in shown
        stored = "JSON.stringify([{...localStorage}, {...sessionStorage}])"
        assert "good-key" not in page.evaluate(stored)
        assert not any("good-key" in url for url in visit.requests)
        page.get_by_label("keep in this tab").check()
        page.reload()
        visit.ask()
        page.get_by_role("button", name="Clear").click()
        assert "good-key" not in page.evaluate(stored)


@pytest.mark.parametrize("path", ["/jev", "/jev//"])
def test_under_a_prefix_everything_is_asked_for_behind_it(browser, path):
    app = build_app(FakeService(), ApiOptions(root_path="/jev"))
    with serve(app) as address, visiting(browser, address) as visit:
        visit.open(path)
        visit.ask()
        assert f"{address}/jev/v1/systemone" in visit.code("curl")
        assert f'"{address}/jev"' in visit.code("Python")
        visit.page.get_by_role("link", name="API reference").click()
        expect(visit.page.get_by_role("heading", name="/v1/systemone")).to_be_visible()
        visit.page.get_by_role("link", name="Try it").click()
        expect(visit.page.get_by_label("State", exact=True)).to_be_visible()
        assert all(u.startswith((address + "/jev", "data:")) for u in visit.requests)


def test_every_field_has_a_name_and_every_text_its_contrast(visit):
    page = visit.page
    page.get_by_label("Name of option 1").fill("")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".problem:visible")).to_have_count(1)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) == []
    page.get_by_label("Name of option 1").fill("back")
    visit.ask()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) == []
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(DANGLING) == []


#: Controls without a name for those who do not see them.
UNNAMED = """() => [...document.querySelectorAll("input, textarea, select, button, section, nav")]
  .filter((e) => !(e.labels?.length || e.getAttribute("aria-label")
    || e.getAttribute("aria-labelledby") || (e.tagName === "BUTTON" && e.textContent.trim())))
  .map((e) => e.outerHTML.slice(0, 120))"""

#: Ids that something refers to and nothing has.
DANGLING = """() => ["aria-describedby", "aria-controls", "aria-labelledby", "for"]
  .flatMap((name) => [...document.querySelectorAll(`[${name}]`)].map((e) => e.getAttribute(name)))
  .flatMap((ids) => ids.split(" "))
  .filter((id) => !document.getElementById(id))"""

#: Texts whose contrast with what is behind them is under 4.5, the least that WCAG asks of AA.
CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = channels(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
  };
  const shown = (e) => e.checkVisibility() && !e.disabled
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll("body *")].filter(shown)
    .map((e) => {
      const [a, b] = [light(channels(getComputedStyle(e).color)), light(behind(e))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 120)];
    })
    .filter(([ratio]) => ratio < 4.5);
}"""
