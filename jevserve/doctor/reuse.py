"""Cache reuse: whether requests can ever take a prefix from the cache, and which."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jevserve.adapters.base import EngineProfile
from jevserve.doctor.engines import EngineCache
from jevserve.doctor.findings import GIB, Finding, ok, problem, skipped, warning
from jevserve.doctor.imports import Outcome, last_line, short
from jevserve.doctor.layout import Layout
from jevserve.settings import ModelSettings

#: Fewer states than this in the cache at a time, and each is gone before it is asked again.
FEW_STATES = 32

#: The error of an engine's own process, which the one that started it only says was "above".
CAUSE = re.compile(r"\b((?!RuntimeError: Engine core)[A-Z]\w*(?:Error|Exception): .+)$", re.M)


def judge(
    model: ModelSettings,
    profile: EngineProfile,
    layout: Layout,
    cache: EngineCache | None,
    on_cpu: bool,
) -> list[Finding]:
    """Everything about one model's prefix cache that can be known without an engine.

    ``cache`` is None where vLLM was not asked.
    """
    name = model.name
    if not profile.prefix_caching:
        return [ok(name, "this family does not reuse prefixes, so there is nothing to gain")]
    if model.engine_args.get("enable_prefix_caching") is False:
        return [
            warning(
                name,
                "prefix caching is switched off, so every state is computed for each request",
                f"remove enable_prefix_caching from models.{name}.engine_args",
            )
        ]
    if cache is None:
        shared = f"requests on the sample state share {layout.sample} tokens"
        return [skipped(name, f"{shared}; vLLM was not asked how many tokens a block has")]
    if not cache.enabled:
        return [
            warning(
                name,
                "vLLM keeps no prefixes of this model, so every state is computed each time",
                "nothing to set; ask several questions in one request",
            )
        ]
    findings = [judge_layout(model, layout, cache, on_cpu)]
    # What recurrent layers keep of a prefix is not counted in tokens.
    if on_cpu and cache.token_bytes and not cache.hybrid:
        findings.append(judge_room(model, layout, cache))
    return findings


def judge_scope(cache_scope: str) -> Iterator[Finding]:
    """Whether requests may share at all, for a service with a model that could."""
    if cache_scope == "request":
        yield warning(
            "cache_scope",
            "request: no request takes from the cache what another one put there",
            "ask all questions on a state in one request, or set cache_scope: tenant",
        )


def judge_layout(model: ModelSettings, layout: Layout, cache: EngineCache, on_cpu: bool) -> Finding:
    """Whether the prefixes that requests share are as long as the blocks that are reused."""
    name, q = model.name, cache.quantum
    blocks = f"only whole blocks of {q} tokens are reused"
    if not layout.state_first and layout.same_question < q:
        return problem(
            name,
            "this layout can never hit the cache, save for the very same request asked again: rows "
            "begin with what differs, and share "
            f"{max(layout.sample, layout.same_question)} tokens; {blocks}",
            "use a protocol that puts instructions or the state first, or set engine_args: "
            "{enable_prefix_caching: false} and save the memory",
        )
    if layout.state_first and layout.longest < q:
        longer = q + cache.max_model_len - layout.longest + 1
        return problem(
            name,
            f"this layout can never hit the cache: {blocks}, and the longest prefix that fits "
            f"has {layout.longest}",
            smaller(q, cache, on_cpu, f"set max_model_len to {longer:,} or more"),
        )
    if layout.state_first and layout.sample < q:
        return warning(
            name,
            f"{blocks}; a state must have {needed(layout, q)} to be reused (one of "
            f"{layout.state} tokens is not)",
            smaller(q, cache, on_cpu, "ask questions on short states in one request"),
        )
    if not layout.state_first:
        return ok(name, f"{blocks}; one question shares {layout.same_question} tokens over states")
    if layout.sample - layout.state >= q:
        return ok(name, f"{blocks}; what stands before a state fills one, so all states are reused")
    return ok(name, f"{blocks}; states of {needed(layout, q)} or more are reused")


def needed(layout: Layout, quantum: int) -> str:
    """Length of the shortest state that fills a block, with what stands before it."""
    tokens = max(1, quantum - (layout.sample - layout.state))
    chars = round(tokens * layout.state_chars / max(1, layout.state), -1)
    return f"{tokens} tokens (about {chars:,.0f} characters)"


def smaller(quantum: int, cache: EngineCache, on_cpu: bool, otherwise: str) -> str:
    """A remedy by smaller blocks where they are to be had, else ``otherwise``."""
    least = 32 if on_cpu else 16
    if cache.hybrid:
        return f"{otherwise} (blocks of a model with recurrent layers cannot be made smaller)"
    if quantum > least:
        return f"set engine_args: {{block_size: {least}}}; or {otherwise}"
    return otherwise


def judge_room(model: ModelSettings, layout: Layout, cache: EngineCache) -> Finding:
    """Whether the CPU engine's cache memory holds one longest row, and enough states."""
    check = f"{model.name} room"
    enough = -(-cache.max_model_len * cache.token_bytes // GIB)
    gib = model.kv_cache_gib or max(1, enough)
    room = gib * GIB // cache.token_bytes
    states = room // max(cache.quantum, layout.sample)
    seen = f"kv_cache_gib {gib} holds {room:,} tokens"
    if room < cache.max_model_len:
        return problem(
            check,
            f"{seen}, but one row may have {cache.max_model_len:,}: vLLM would refuse to start",
            f"set kv_cache_gib to {enough} or more, or max_model_len to {room // 256 * 256:,} or "
            "less",
        )
    if states < FEW_STATES:
        more = -(-FEW_STATES * max(cache.quantum, layout.sample) * cache.token_bytes // GIB)
        return warning(
            check,
            f"{seen}: {states} states like the sample, which are soon gone again",
            f"set kv_cache_gib to {more} or more",
        )
    return ok(check, f"{seen}: {states:,} states like the sample")


def judge_trial(model: ModelSettings, outcome: Outcome) -> list[Finding]:
    """What a real engine gave for the same decision asked twice (``trial.ask_twice``)."""
    check, facts = f"{model.name} engine", outcome.facts("trial")
    if facts is None:
        error = outcome.failure("trial") or last_line(outcome.said)
        if outcome.code is None:
            error = f"it did not answer within {outcome.seconds:.0f} s"
        elif causes := CAUSE.findall(outcome.said):
            error = causes[-1]
        seen = f"does not start: {short(error)}"
        return [problem(check, seen, "correct what it says; the other problems may be the cause")]
    quantum, tokens = facts["quantum"], facts["tokens"]
    times = f"{facts['first_ms']:.0f} ms, then {facts['again_ms']:.0f} ms"
    if not quantum:
        return [ok(check, f"answered twice ({times}); it has no prefix cache")]
    seen = (
        f"asked twice ({times}): {facts['again']} of {tokens} tokens came from the cache; other "
        f"questions on that state: {facts['other']} of {facts['shared']} shared; a prefix must "
        f"have {quantum} tokens to be reused"
    )
    if facts["again"] or facts["other"]:
        return [ok(check, seen)]
    remedy = "look for what switches the cache off in engine_args"
    if facts["shared"] < quantum:
        remedy = "raise max_model_len, or lower engine_args.block_size"
    return [problem(check, seen, remedy)]
