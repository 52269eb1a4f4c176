"""API keys: who gets in, and that keys never leak."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from jevserve.api.auth import ENV_KEYS, Keys, load_keys
from jevserve.decisions.plan import Lane
from jevserve.errors import AuthenticationError, SettingsError

SECRET = "sk-correct-horse"
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()
BASIC = base64.b64encode(f"token:{SECRET}".encode()).decode()


@pytest.fixture
def keys() -> Keys:
    loaded = load_keys(None, {ENV_KEYS: f"other-key, shop:{SECRET}"})
    assert loaded is not None
    return loaded


def test_nothing_configured_means_no_keys():
    assert load_keys(None, {}) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {SECRET}"},
        {"authorization": f"bearer   {SECRET} "},
        {"x-api-key": SECRET},
        {"authorization": f"Basic {BASIC}"},
        {"authorization": "Bearer wrong", "x-api-key": SECRET},
        {"authorization": "Digest x", "x-api-key": SECRET},
    ],
)
def test_a_known_key_is_found_wherever_clients_put_it(keys, headers):
    assert keys.authenticate(Headers(headers)).tenant == "shop"


def test_a_key_without_a_tenant_is_named_by_its_position(keys):
    assert keys.authenticate(Headers({"x-api-key": "other-key"})).tenant == "key-1"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, "no API key"),
        ({"authorization": "Bearer "}, "no API key"),
        ({"authorization": SECRET}, "no API key"),
        ({"authorization": "Basic !!"}, "no API key"),
        ({"authorization": "Bearer wrong"}, "not known"),
        ({"authorization": f"Bearer {SECRET}x"}, "not known"),
        ({"authorization": f"Bearer {DIGEST}"}, "not known"),
        ({"authorization": "Bearer schlüssel"}, "not known"),
    ],
)
def test_without_a_known_key_nobody_gets_in(keys, headers, said):
    with pytest.raises(AuthenticationError, match=said):
        keys.authenticate(Headers(headers))


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_no_header_gets_in_by_accident_or_raises_anything_else(value):
    keys = load_keys(None, {ENV_KEYS: SECRET})
    assert keys is not None
    with pytest.raises(AuthenticationError):
        keys.authenticate(Headers({"authorization": value, "x-api-key": value}))


def test_every_entry_is_compared_wherever_the_match_is(keys, monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append(a) or a == b)
    keys.authenticate(Headers({"x-api-key": "other-key"}))
    assert len(compared) == len(keys.entries)


def test_a_file_gives_tenant_quota_and_lane(tmp_path):
    file = tmp_path / "keys.yaml"
    file.write_text(
        f"- {{tenant: shop, sha256: '{DIGEST.upper()}', quota: 50, lane: batch}}\n"
        f"- {{tenant: shop, sha256: '{'0' * 64}'}}\n"
    )
    loaded = load_keys(file, {})
    assert loaded is not None
    first, second = loaded.entries
    assert (first.tenant, first.quota, first.lane) == ("shop", 50, Lane.BATCH)
    assert (second.tenant, second.quota, second.lane) == ("shop", None, Lane.INTERACTIVE)
    assert loaded.authenticate(Headers({"x-api-key": SECRET})) is first


def test_file_and_environment_are_used_together(tmp_path):
    file = tmp_path / "keys.yaml"
    file.write_text(f"- {{tenant: shop, sha256: '{DIGEST}'}}")
    loaded = load_keys(file, {ENV_KEYS: "second"})
    assert loaded is not None
    assert [k.tenant for k in loaded.entries] == ["shop", "key-1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a list"),
        ("[]", "at least one"),
        ("tenant: x", "expected a list"),
        ("- [", "not valid YAML"),
        (f"- {SECRET}: [", "not valid YAML"),
        ("\x00", "not valid YAML"),
        ("- x", "entry 1 is not a mapping"),
        (f"- {{tenant: a, sha256: '{DIGEST}'}}\n- {{tenant: b}}", "entry 2.*'sha256' must be"),
        (f"- {{tenant: a b, sha256: '{DIGEST}'}}", "'tenant' must be"),
        (f"- {{tenant: a, key: {SECRET}}}", "unknown field"),
        (f"- {{tenant: a, sha256: {SECRET}}}", "sha256sum"),
        (f"- {{tenant: a, sha256: '{DIGEST}', quota: 0}}", "'quota' must be"),
        (f"- {{tenant: a, sha256: '{DIGEST}', quota: true}}", "'quota' must be"),
        (f"- {{tenant: a, sha256: '{DIGEST}', lane: fast}}", "'interactive' or 'batch'"),
        (f"- {{tenant: a, sha256: '{DIGEST}', lane: [x]}}", "'interactive' or 'batch'"),
        (f"- &k {{tenant: a, sha256: '{DIGEST}'}}\n- *k", "same key"),
    ],
)
def test_a_wrong_file_is_refused_naming_the_entry_and_never_the_key(tmp_path, text, said):
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=said) as caught:
        load_keys(file, {})
    assert SECRET not in str(caught.value)
    assert DIGEST not in str(caught.value)


@pytest.mark.parametrize(
    "value", ["", " , ", "a:", ":b", "bad tenant:" + SECRET, f"x:{SECRET},y:{SECRET}"]
)
def test_a_wrong_environment_is_refused_and_never_quoted(value):
    with pytest.raises(SettingsError) as caught:
        load_keys(None, {ENV_KEYS: value})
    assert SECRET not in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(SettingsError, match=r"absent\.yaml.*http\.keys_file"):
        load_keys(tmp_path / "absent.yaml", {})


def test_no_representation_holds_a_key_or_its_hash(keys):
    digest = keys.entries[1].digest
    for text in (repr(keys), str(keys), repr(keys.entries[1])):
        assert SECRET not in text
        assert DIGEST not in text
        assert repr(digest) not in text
