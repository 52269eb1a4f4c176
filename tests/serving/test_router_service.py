"""The router's way of a decision, with real planning and real routing on fake engines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jevserve.adapters.base import Prepared
from jevserve.adapters.chat_label import ChatLabel
from jevserve.api.service import Caller
from jevserve.decisions.plan import DecisionResult, Lane, PlannedDecision
from jevserve.decisions.request import (
    Choice,
    ChoiceAnswer,
    DecisionRequest,
    Media,
    Noul,
    NoulAnswer,
    Question,
    Score,
)
from jevserve.errors import (
    EngineFailed,
    InvalidRequest,
    JevserveError,
    MaxTokensExceeded,
    Overloaded,
    TransportError,
    UsageError,
)
from jevserve.serving.fleet import Fleet
from jevserve.serving.models import ServedModel, limited
from jevserve.serving.service import PLAN_OFF_LOOP, RouterService, text_size
from jevserve.settings import ServiceSettings
from jevserve.transport.base import ReplicaState
from jevserve.transport.secret import ClusterSecret
from tests.serving.fake_engines import REVISION, FakeEngineLink, Held, answered, failing, pool_of

SECRET = ClusterSecret(b"a secret that only tests share..")
ALICE, BOB = Caller(tenant="alice"), Caller(tenant="bob")

PREPARED = Prepared(
    Path("/nowhere"),
    "chat-label",
    REVISION,
    {
        "template": {"head": "<", "middle": "|", "tail": ">"},
        "labels": [*"ABCDEFGHIJ"],
        "label_ids": [*range(10)],
        "runner": "pooling",
        "row_tokens": 2_000_000,
        "scale": 1.0,
    },
)


class Characters:
    """A tokenizer whose tokens are characters, so that tests can read plans."""

    def encode_text(self, text: str) -> list[int]:
        return [*map(ord, text)]

    encode_template = encode_text


class Rig:
    def __init__(self, service: RouterService, link: FakeEngineLink) -> None:
        self.service, self.link = service, link

    async def ask(self, *questions: Question, state: Any = "s", caller: Caller = ALICE, **fields):
        named = tuple((f"q{i}", q) for i, q in enumerate(questions or (Noul("x"),)))
        return await self.service.decide(DecisionRequest(state, named, **fields), caller)

    async def asked(self, *questions: Question, **fields) -> asyncio.Task:
        """A question under way: it has arrived at the engine."""
        self.link.arrived.clear()
        task = asyncio.create_task(self.ask(*questions, **fields))
        async with asyncio.timeout(10):
            await self.link.arrived.wait()
        return task


@asynccontextmanager
async def rig(
    link: FakeEngineLink | None = None, adapter: ChatLabel | None = None, **settings: Any
) -> AsyncIterator[Rig]:
    """A service of the model ``m`` on one fake engine."""
    link = link or FakeEngineLink("engine-0")
    parsed = ServiceSettings.model_validate({"models": [{"name": "m"}]} | settings)
    adapter = adapter or ChatLabel()
    models, fleets, pools = {}, {}, []
    for model in parsed.models:
        prepared = limited(PREPARED, model)
        models[model.name] = ServedModel(
            model, prepared, adapter, Characters(), adapter.limits(prepared)
        )
        pools.append(await pool_of(*([link] if model.name == "m" else [])))
        fleets[model.name] = Fleet(pools[-1])
    try:
        yield Rig(RouterService(parsed, models, fleets, SECRET), link)
    finally:
        for pool in pools:
            await pool.close()


async def test_a_decision_comes_back_with_answers_usage_timings_and_who_answered() -> None:
    async with rig(aliases={"short": "m"}) as r:
        response = await r.ask(Noul("x"), Choice((("a", None), ("b", None))), model="short")

    assert (response.model, response.replica) == ("m", "engine-0")
    (first, noul), (second, choice) = response.answers
    assert (first, second) == ("q0", "q1")
    assert isinstance(noul, NoulAnswer)
    assert noul.noul == pytest.approx(0.7310585786300049)
    assert isinstance(choice, ChoiceAnswer)
    assert choice.choice == "a"
    (sent,) = r.link.sent
    assert response.usage.input_tokens == sent.plan.input_tokens
    assert response.usage.output_tokens == 0
    timings = response.timings
    assert (timings.rows, timings.cached_tokens) == (2, 2)
    assert timings.computed_tokens == sent.plan.row_length(0) + sent.plan.row_length(1) - 2
    assert (timings.engine_ms, timings.queue_ms) == (3.0, 0.5)
    assert timings.total_ms >= timings.plan_ms > 0


BAD: dict[str, tuple[dict[str, Any], type[JevserveError]]] = {
    "model": ({"model": "nobody"}, UsageError),
    "options": ({"questions": (Choice(tuple((str(i), None) for i in range(11))),)}, InvalidRequest),
    "levels": ({"questions": (Score(tuple("abcdefghijk")),)}, InvalidRequest),
    "questions": ({"questions": (Noul("x"),) * 1_025}, InvalidRequest),
    "media": ({"media": (Media("<image>", "image/png", b""),)}, UsageError),
    "row tokens": ({"state": "x" * 32_768}, MaxTokensExceeded),
    "request tokens": (
        {"questions": tuple(Noul(f"{i} " * 3_000) for i in range(12))},
        MaxTokensExceeded,
    ),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_request_that_cannot_be_served_makes_no_engine_call(what: str) -> None:
    given, error = BAD[what]
    questions = given.get("questions", ())
    fields = {k: v for k, v in given.items() if k != "questions"}
    async with rig() as r:
        with pytest.raises(error):
            await r.ask(*questions, **fields)

    assert r.link.sent == []


async def test_an_unknown_model_is_told_with_the_known_ones() -> None:
    async with rig(aliases={"short": "m"}) as r:
        with pytest.raises(UsageError) as refused:
            await r.ask(model="M" * 1_000)
        with pytest.raises(UsageError):
            await r.ask(model="")

    assert refused.value.message.startswith("Unknown model: MMM")
    assert refused.value.message.endswith("Known: jev-latest, m, short")
    assert len(refused.value.message) < 300


@pytest.mark.parametrize("name", [None, "m", "jev-latest", "short"])
async def test_every_name_of_the_model_reaches_it(name: str | None) -> None:
    async with rig(aliases={"short": "m"}) as r:
        assert (await r.ask(model=name)).model == "m"


async def test_questions_of_one_candidate_need_no_engine() -> None:
    async with rig(FakeEngineLink("engine-0", state=ReplicaState.STARTING)) as r:
        response = await r.ask(Choice((("only", None),)), Score(("only",)))

    assert r.link.sent == []
    assert [a.confidence for _, a in response.answers] == [1.0, 1.0]
    assert (response.replica, response.timings.rows) == ("", 0)


async def test_without_a_ready_replica_the_caller_is_told_to_retry() -> None:
    async with rig(FakeEngineLink("engine-0", state=ReplicaState.STARTING)) as r:
        with pytest.raises(Overloaded) as refused:
            await r.ask()

    assert refused.value.reason == "no_replica"
    assert refused.value.retry_after_ms > 0


async def test_an_engine_sees_tokens_a_salt_a_lane_and_a_trace_but_no_text() -> None:
    caller = Caller("alice", Lane.BATCH, "req-1", "00-trace")
    async with rig() as r:
        await r.ask(Noul("the question"), state="the state", caller=caller, cache_salt="mine")

    (sent,) = r.link.sent
    assert (sent.revision, sent.lane, sent.trace) == (REVISION, Lane.BATCH, "00-trace")
    assert "".join(map(chr, sent.plan.tokens(0))).startswith("<the state|Question: the question")
    written = repr(replace(sent, plan=replace(sent.plan, combines=())))
    for private in ("alice", "mine", "the state", "req-1"):
        assert private not in written


async def test_salts_differ_by_tenant_and_by_the_callers_own_salt() -> None:
    async with rig() as r:
        for caller, salt in [(ALICE, None), (ALICE, "x"), (ALICE, "y"), (BOB, None), (BOB, "x")]:
            await r.ask(caller=caller, cache_salt=salt)
        await r.ask(caller=ALICE, cache_salt="x")

    salts = [d.salt for d in r.link.sent]
    assert len(set(salts)) == 5
    assert salts[5] == salts[1]
    assert all(len(s) == 64 for s in salts)


async def test_in_scope_request_no_two_requests_share_a_salt() -> None:
    async with rig(cache_scope="request") as r:
        for _ in range(3):
            await r.ask(cache_salt="x")

    assert len({d.salt for d in r.link.sent}) == 3


async def test_every_attempt_has_an_id_of_its_own() -> None:
    link = FakeEngineLink("engine-0", failing(Overloaded("x", retry_after_ms=1, reason="other")))
    async with rig(link) as r:
        with pytest.raises(Overloaded):
            await r.ask()
        await r.ask()

    assert len({d.id for d in link.sent}) == 2


@pytest.mark.parametrize(("asked", "most"), [(None, 8_000), (700, 700), (60_000, 60_000)])
async def test_the_callers_deadline_wins_over_the_models(asked: int | None, most: int) -> None:
    async with rig() as r:
        await r.ask(deadline_ms=asked)

    (sent,) = r.link.sent
    assert 0.5 * most < sent.deadline_ms <= most


async def short_of_a_row(decision: PlannedDecision) -> DecisionResult:
    return replace(answered(decision), rows=())


async def not_a_number(decision: PlannedDecision) -> DecisionResult:
    result = answered(decision)
    return replace(result, rows=tuple(replace(r, values=(float("nan"), 0.0)) for r in result.rows))


@pytest.mark.parametrize("behave", [short_of_a_row, not_a_number])
async def test_what_cannot_be_an_answer_is_an_error(behave: Any) -> None:
    async with rig(FakeEngineLink("engine-0", behave)) as r:
        with pytest.raises(EngineFailed):
            await r.ask()


async def test_slots_bound_what_one_router_holds_and_are_given_back() -> None:
    held = Held()
    async with rig(FakeEngineLink("engine-0", held), router={"max_in_flight": 2}) as r:
        first, second = await r.asked(), await r.asked()
        with pytest.raises(Overloaded) as refused:
            await r.ask()
        held.gate.set()
        await asyncio.gather(first, second)
        await r.ask()

    assert refused.value.reason == "queue"
    assert len(r.link.sent) == 3


async def test_a_decision_that_fails_gives_its_slot_back() -> None:
    link = FakeEngineLink("engine-0", failing(EngineFailed("x"), TransportError("y")))
    async with rig(link, router={"max_in_flight": 1}) as r:
        for error in (EngineFailed, Overloaded, None):
            if error is None:
                await r.ask()
            else:
                with pytest.raises(error):
                    await r.ask()


async def test_draining_answers_what_was_accepted_and_refuses_the_rest() -> None:
    first, second = Held(), Held()
    async with rig(FakeEngineLink("engine-0", first)) as r, asyncio.timeout(10):
        accepted = [await r.asked()]
        r.link.behave = second
        accepted.append(await r.asked())
        drained = asyncio.create_task(r.service.drain())
        await asyncio.sleep(0)

        with pytest.raises(Overloaded) as refused:
            await r.ask()
        assert not r.service.readiness().ready
        first.gate.set()
        await accepted[0]
        await asyncio.sleep(0)
        assert not drained.done()
        second.gate.set()
        await drained
        answers = await asyncio.gather(*accepted)

    assert refused.value.reason == "draining"
    assert refused.value.retry_after_ms > 0
    assert len(answers) == len(r.link.sent) == 2


async def test_an_idle_router_is_drained_at_once() -> None:
    async with rig() as r, asyncio.timeout(10):
        await r.ask()
        await r.service.drain()


async def test_a_cancelled_decision_is_cancelled_at_the_engine_and_frees_its_slot() -> None:
    link = FakeEngineLink("engine-0", Held())
    async with rig(link, router={"max_in_flight": 1}) as r, asyncio.timeout(10):
        task = await r.asked()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert link.cancelled == 1

        link.behave = None
        await r.ask()
        await r.service.drain()


class WhereItPlans(ChatLabel):
    """Notes the thread in which it plans."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def plan(self, *arguments: Any) -> Any:
        self.threads.append(threading.get_ident())
        return super().plan(*arguments)


@pytest.mark.parametrize(
    ("state", "on_loop"),
    [
        ("x" * 100, True),
        ("x" * (PLAN_OFF_LOOP + 1), False),
        ({"k" * (PLAN_OFF_LOOP + 1): 1}, False),
        ([["x" * 3_000] * 9], False),
        ([1] * PLAN_OFF_LOOP, False),
    ],
)
async def test_long_texts_are_planned_beside_the_event_loop(state: Any, on_loop: bool) -> None:
    adapter = WhereItPlans()
    models = [{"name": "m", "max_model_len": 200_000}]
    async with rig(adapter=adapter, models=models) as r:
        with suppress(MaxTokensExceeded):
            await r.ask(state=state)

    assert [t == threading.get_ident() for t in adapter.threads] == [on_loop]


def test_the_size_of_a_request_counts_questions_and_stops_where_it_is_large() -> None:
    question = Choice((("name", {"text": ["12345"]}),), "1234567")

    small = text_size(DecisionRequest("123", (("an id that does not count", question),)))

    assert 3 + 4 + 4 + 5 + 7 <= small < 60
    assert text_size(DecisionRequest([["x" * 9_000] * 1_000] * 100, ())) < 2 * PLAN_OFF_LOOP


async def test_readiness_is_the_default_models() -> None:
    models = [{"name": "other"}, {"name": "m", "replicas": 2}]
    async with rig(models=models, default_model="m") as r:
        readiness = r.service.readiness()
        r.link.says(state=ReplicaState.DRAINING)
        leaving = r.service.readiness()
    async with rig(models=models) as r:
        without = r.service.readiness()

    assert readiness.ready
    assert readiness.details == {
        "other": "0 of 1 replicas ready",
        "m": "1 of 2 replicas ready",
    }
    assert not leaving.ready
    assert not without.ready


async def test_models_are_listed_with_aliases_limits_and_state() -> None:
    models = [{"name": "m", "description": "A test."}, {"name": "other"}]
    async with rig(models=models, aliases={"short": "m"}) as r:
        m, other = r.service.models()

    assert (m.name, m.description, m.ready) == ("m", "A test.", True)
    assert m.aliases == ("jev-latest", "short")
    assert m.limits["options"] == 10
    assert m.limits["row_tokens"] == 32_767
    assert (other.description, other.aliases, other.ready) == (ChatLabel.title, (), False)
    assert m.release_date.endswith("Z")


async def test_questions_go_to_the_model_that_was_asked() -> None:
    async with rig(models=[{"name": "m"}, {"name": "other"}]) as r:
        with pytest.raises(Overloaded):
            await r.ask(model="other")

    assert r.link.sent == []
