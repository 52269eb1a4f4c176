"""What users of services of this kind have reported in public, each as the right behaviour.

Tests named without a file are here, on a real service with the default model.

 1  probabilities rounded one by one no longer sum to 1
        test_every_option_has_its_probability_and_they_sum_to_one
 2  long input is cut without a word, or by another model's measure
        test_a_state_is_read_to_its_last_token_or_refused_with_both_numbers,
        test_an_option_that_is_too_long_is_refused_and_not_cut
 3  a router reloads models inside requests
        tests/serving/test_service.py: test_models_are_asked_by_name_and_alias (each has engines)
 4  another model than the one asked for answers, and nobody is told
        test_the_model_that_answered_is_named_and_never_another
 5  many options shrink to a few tokens each
        test_the_last_word_of_a_long_option_counts_among_many
 6, 8  the order of options changes answers
        test_answers_do_not_depend_on_the_order_of_options. The default model reads each option by
        itself. A chat model reads them in the client's order, which is kept:
        tests/adapters/test_chat_label.py
 7  a model can never pick the first level
        test_every_level_can_be_the_likeliest
 9, 25, 29  options beyond some number are refused, hidden or left out of the answer
        test_every_option_has_its_probability_and_they_sum_to_one (255 of them),
        test_refusals.py: test_a_request_that_cannot_be_answered_is_told_once_and_in_our_words (256)
10  no evidence at all still gives confidence; any web page may use the service
        test_without_evidence_there_is_no_confidence, test_no_other_origin_is_let_in
11  nobody can say what confidence means
        test_confidence_and_score_follow_from_the_probabilities_that_are_returned
12  the choice is not the likeliest option
        test_every_option_has_its_probability_and_they_sum_to_one,
        test_a_tie_goes_to_the_option_that_was_named_first
13  levels come back changed
        test_answers.py: test_structured_texts_are_answered_and_structured_levels_come_back_...
14  only strings are accepted, and errors do not say where
        test_answers.py (as 13), test_an_error_names_the_field
15  an address with the path in it gets the path twice; a 404 says nothing
        test_any_prefix_alias_or_doubled_path_is_served_and_a_wrong_one_told, test_addresses.py
16  a prefix or a slash at the end breaks the address
        as 15
17  usage and model names that nobody can account by
        test_usage_is_whole_numbers_and_the_same_each_time
18, 21  a state shared by many questions is read and counted for each
        test_a_state_is_counted_once_however_many_questions_share_it
19, 23  overload without a bound, or without a word on when to come back
        test_what_cannot_be_done_in_time_is_refused_with_the_time_to_come_back, test_refusals.py
20  a batch displaces the cached state of somebody who waits
        not testable at a service: which prefix an engine drops shows in nobody's answer
22  a short burst is refused, and the refusals multiply
        test_a_short_burst_is_queued_and_answered
24  answers change with company and with what is cached
        test_the_same_request_gets_the_same_answer_alone_and_in_company; for a cached prefix, which
        this model has not: tests/engine/test_engines.py
26  a question without options brings the engine down
        test_a_question_without_options_is_refused_and_the_next_is_answered
27, 28  fields that an engine ignores or that bend its numbers
        test_settings_of_text_generation_change_no_answer. That a field of the engine itself is
        dropped by a new version is not testable at a service: versions are locked
"""

from __future__ import annotations

import concurrent.futures
import json
import math
import random
from typing import Any

import httpx
import pytest

from tests.serving.service import Service

pytestmark = pytest.mark.ray

TICKET = "My card was charged twice for one order. Please refund one payment today!"
TEAMS = {"billing": "payments and refunds", "delivery": "parcels and couriers", "login": None}


def choice(criteria: dict[str, Any]) -> dict[str, Any]:
    return {"type": "choice", "criteria": criteria}


def score(*levels: Any) -> dict[str, Any]:
    return {"type": "score", "criteria": list(levels)}


MIXED = {
    "team": choice(TEAMS),
    "money": {"type": "noul", "instructions": "Does the customer want money back?"},
    "mood": score("delighted", "calm", "annoyed"),
}


def body(service: Service, state: Any, questions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    # Nothing here is about time, and whoever runs it may be busy.
    asked = {"state": state, "questions": questions, "x_deadline_ms": 60_000}
    response = service.ask(asked | fields)
    assert response.status_code == 200, response.text
    return response.json()


def one(service: Service, state: Any, question: dict[str, Any]) -> dict[str, Any]:
    return body(service, state, {"q": question})["answers"]["q"]


def refusal(
    service: Service, status: int, state: Any, questions: dict[str, Any], **fields: Any
) -> Any:
    response = service.ask({"state": state, "questions": questions} | fields)
    assert response.status_code == status, response.text
    return response.json()["detail"]


def numbers(answers: dict[str, Any]) -> list[float]:
    """Every probability, in order."""
    found: list[float] = []
    for answer in answers.values():
        found += answer["probabilities"].values() if "noul" not in answer else [answer["noul"]]
    return found


@pytest.mark.parametrize("n", [1, 2, 40, 255])
def test_every_option_has_its_probability_and_they_sum_to_one(service: Service, n: int) -> None:
    options = {f"topic {i}": f"a message about number {i}" for i in range(n)}
    answer = one(service, f"This is about number {n - 1}.", choice(options))
    probabilities = answer["probabilities"]
    assert list(probabilities) == list(options)
    assert all(0 <= p <= 1 for p in probabilities.values())
    assert math.fsum(probabilities.values()) == pytest.approx(1, abs=1e-6)
    assert probabilities[answer["choice"]] == max(probabilities.values())
    assert answer["choice"] == f"topic {n - 1}"


def test_a_state_is_read_to_its_last_token_or_refused_with_both_numbers(service: Service) -> None:
    questions = {"q": choice({"refund": "wants money back", "weather": "a weather report"})}
    # Words of one token each, in no pattern, so that no two parts of the state are equal.
    words = random.Random(1).choices(("rain", "sun", "wind", "snow", "cloud"), k=8192)
    short = " ".join(words[:1500])
    ends = [one(service, short + end, questions["q"]) for end in (" more rain", " money back")]
    refund = [end["probabilities"]["refund"] for end in ends]
    assert refund[0] < refund[1]
    assert body(service, " ".join(words), questions)["usage"]["input_tokens"] > 8192
    detail = refusal(service, 400, " ".join([*words, "rain"]), questions)
    assert detail["error_type"] == "max_tokens_exceeded"
    assert "8193 tokens" in detail["message"] and "8192" in detail["message"]


def test_an_option_that_is_too_long_is_refused_and_not_cut(service: Service) -> None:
    detail = refusal(service, 400, TICKET, {"q": choice({"a": "word " * 300, "b": None})})
    assert detail["error_type"] == "max_tokens_exceeded"
    assert "'q'" in detail["message"] and "256" in detail["message"]


@pytest.mark.parametrize("asked", [None, "jev-latest", "jev-embed"])
def test_the_model_that_answered_is_named_and_never_another(
    service: Service, asked: str | None
) -> None:
    assert body(service, TICKET, MIXED, model=asked)["model"] == "jev-embed"
    listed = httpx.get(f"{service.url}/v1/models").json()["models"]
    assert "jev-embed" in [m["name"] for m in listed]
    detail = refusal(service, 400, TICKET, MIXED, model="JEV-EMBED")
    assert detail["message"].startswith("Unknown model: JEV-EMBED")


def test_the_last_word_of_a_long_option_counts_among_many(service: Service) -> None:
    shared = "This team takes care of everything that has to do with the following thing: "
    things = ["apples", "bridges", "clouds", "dentists", "elephants", "football", "guitars"]
    options = {f"team {i}": shared + things[i % 7] for i in range(56)}
    probabilities = one(service, "elephants", choice(options))["probabilities"]
    best = sorted(probabilities, key=lambda name: -probabilities[name])[:8]
    assert {options[name] for name in best} == {shared + "elephants"}


def test_answers_do_not_depend_on_the_order_of_options(service: Service) -> None:
    options = {f"topic {i}": f"a message about number {i}" for i in range(12)}
    there = one(service, TICKET, choice(options))
    back = one(service, TICKET, choice(dict(reversed(options.items()))))
    assert list(back["probabilities"]) == list(reversed(options))
    assert back["probabilities"] == pytest.approx(there["probabilities"], abs=1e-6)
    assert back["choice"] == there["choice"]


def test_every_level_can_be_the_likeliest(service: Service) -> None:
    levels = ("a greeting to a friend", "a question about a parcel", "a complaint about a payment")
    states = ("Hello my friend!", "Where is my parcel?", "I complain about this payment.")
    for i, state in enumerate(states):
        probabilities = one(service, state, score(*levels))["probabilities"]
        assert max(probabilities, key=lambda level: probabilities[level]) == str(i)


def test_without_evidence_there_is_no_confidence(service: Service) -> None:
    equal = {"A": "the same text", "a": "the same text"}
    answers = body(service, TICKET, {"c": choice(equal), "s": score("x", "x", "x")})["answers"]
    for answer in answers.values():
        assert answer["confidence"] == pytest.approx(0, abs=1e-6)
        assert len(set(answer["probabilities"].values())) == 1
    assert answers["s"]["score"] == pytest.approx(1, abs=1e-6)


def test_no_other_origin_is_let_in(service: Service) -> None:
    headers = {"origin": "https://elsewhere.example", "access-control-request-method": "POST"}
    path = f"{service.url}/v1/systemone"
    asked = httpx.options(path, headers=headers)
    posted = httpx.post(path, json={"state": TICKET, "questions": MIXED}, headers=headers)
    assert posted.status_code == 200
    for response in (asked, posted):
        assert not [name for name in response.headers if name.startswith("access-control-")]


def test_confidence_and_score_follow_from_the_probabilities_that_are_returned(
    service: Service,
) -> None:
    levels = ("delighted", "calm", "annoyed", "furious")
    answers = body(service, TICKET, {"c": choice(TEAMS), "s": score(*levels)})["answers"]
    p = list(answers["c"]["probabilities"].values())
    assert answers["c"]["confidence"] == pytest.approx((max(p) - 1 / 3) / (2 / 3), abs=1e-9)
    q = list(answers["s"]["probabilities"].values())
    mode = q.index(max(q))
    spread = sum(x * abs(i - mode) for i, x in enumerate(q))
    # Four levels that are equally likely lie 1 from the middle on average.
    assert answers["s"]["confidence"] == pytest.approx(max(0, 1 - spread / 1), abs=1e-9)
    assert answers["s"]["score"] == pytest.approx(sum(i * x for i, x in enumerate(q)), abs=1e-9)


@pytest.mark.parametrize("names", [("billing", "Billing"), ("Billing", "billing")])
def test_a_tie_goes_to_the_option_that_was_named_first(
    service: Service, names: tuple[str, str]
) -> None:
    # The model's vocabulary has no capitals, so that the two are one text to it.
    answer = one(service, TICKET, choice(dict.fromkeys(("weather", *names))))
    first, second = (answer["probabilities"][name] for name in names)
    assert first == second
    assert answer["choice"] == names[0]


@pytest.mark.parametrize(
    ("question", "loc"),
    [
        (choice({"a": None, "b": 3}), ["choice", "criteria", "b"]),
        (score("lo", None, "hi"), ["score", "criteria", 1]),
        ({"type": "score", "criteria": {"0": "lo"}}, ["score", "criteria"]),
        ({"type": "noul", "instructions": 5}, ["noul", "instructions"]),
        ({"type": "rank"}, ["type"]),
    ],
)
def test_an_error_names_the_field(service: Service, question: Any, loc: list[Any]) -> None:
    (issue,) = refusal(service, 422, TICKET, {"good": MIXED["team"], "q.1": question})
    assert issue["loc"] == ["body", "questions", "q.1", *loc]
    assert issue["msg"]


def test_any_prefix_alias_or_doubled_path_is_served_and_a_wrong_one_told(service: Service) -> None:
    asked = {"state": TICKET, "questions": {"money": MIXED["money"]}}
    for path in (
        *("/v1/systemone/", "/systemone", "/api/v1/systemone", "/api/alpha/decisions"),
        *("/team/a/v1/systemone", "/v1/systemone/v1/systemone", "/v1/decisions"),
    ):
        response = httpx.post(service.url + path, json=asked)
        assert response.status_code == 200, path
    wrong = httpx.post(f"{service.url}/v1/chat/completions", json=asked)
    assert wrong.status_code == 404
    assert "POST /v1/systemone" in wrong.json()["detail"]["message"]


def test_usage_is_whole_numbers_and_the_same_each_time(service: Service) -> None:
    said = [body(service, TICKET, MIXED) for _ in range(3)]
    for usage in (s["usage"] for s in said):
        assert [type(n) for n in usage.values()] == [int, int]
        assert usage == said[0]["usage"] and usage["input_tokens"] > 0
    assert {s["model"] for s in said} == {"jev-embed"}


def test_a_state_is_counted_once_however_many_questions_share_it(service: Service) -> None:
    questions = {f"q{i}": choice({f"option {i}": None, "other": None}) for i in range(8)}
    first = {"q0": questions["q0"]}
    added = []
    for state in (TICKET, TICKET * 20):
        few, many = body(service, state, first), body(service, state, questions)
        added.append(many["usage"]["input_tokens"] - few["usage"]["input_tokens"])
        work = many["x_jevserve"]["computed_tokens"] + many["x_jevserve"]["cached_tokens"]
        assert work == many["usage"]["input_tokens"]
    # What seven more questions cost has nothing of the state in it.
    assert added[0] == added[1] > 0


def test_what_cannot_be_done_in_time_is_refused_with_the_time_to_come_back(
    service: Service,
) -> None:
    questions = {f"q{i}": choice({f"{i} {j}": None for j in range(50)}) for i in range(8)}
    asked = {"state": TICKET * 20, "questions": questions, "x_deadline_ms": 1}
    response = service.ask(asked)
    assert response.status_code == 503
    assert response.json()["detail"]["error_type"] == "overloaded_error"
    wait = int(response.headers["retry-after-ms"])
    assert 1 <= wait <= 20_000
    assert int(response.headers["retry-after"]) == math.ceil(wait / 1000)


def test_a_short_burst_is_queued_and_answered(service: Service) -> None:
    asked = [{"state": f"{i}. {TICKET}", "questions": MIXED} for i in range(24)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        statuses = [r.status_code for r in pool.map(service.ask, asked)]
    assert statuses == [200] * 24


def test_the_same_request_gets_the_same_answer_alone_and_in_company(service: Service) -> None:
    alone = numbers(body(service, TICKET, MIXED)["answers"])
    assert numbers(body(service, TICKET, MIXED)["answers"]) == pytest.approx(alone, abs=1e-5)
    states = [TICKET if i % 3 == 0 else f"{i}. {TICKET * (i % 5)}" for i in range(24)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        bodies = list(pool.map(lambda state: body(service, state, MIXED), states))
    for said in bodies[::3]:
        assert numbers(said["answers"]) == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("kind", ["choice", "score"])
def test_a_question_without_options_is_refused_and_the_next_is_answered(
    service: Service, kind: str
) -> None:
    empty: Any = {} if kind == "choice" else []
    (issue,) = refusal(service, 422, TICKET, {"q": {"type": kind, "criteria": empty}})
    assert issue["loc"] == ["body", "questions", "q", kind, "criteria"]
    assert "at least 1" in issue["msg"]
    assert one(service, TICKET, choice(TEAMS))["choice"] == "billing"


def test_settings_of_text_generation_change_no_answer(service: Service) -> None:
    settings = {
        "temperature": 2.0,
        "top_p": 0.1,
        "top_k": 1,
        "seed": 7,
        "logprobs": 1,
        "max_tokens": 1,
        "guided_choice": ["delivery"],
        "structured_outputs": {"choice": ["delivery"]},
        "logit_bias": {"0": 100},
        "truncate_prompt_tokens": 1,
    }
    plain, bent = body(service, TICKET, MIXED), body(service, TICKET, MIXED, **settings)
    assert json.dumps(list(bent["answers"])) == json.dumps(list(plain["answers"]))
    assert numbers(bent["answers"]) == pytest.approx(numbers(plain["answers"]), abs=1e-5)
    assert bent["usage"] == plain["usage"]
