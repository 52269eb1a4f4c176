"""Settings: where they come from, which one wins, and refusals that name the setting."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from jevserve.errors import SettingsError
from jevserve.settings import DEFAULT_ALIAS, EMBEDDED_MODEL, ServiceSettings, load, merge


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("JEVSERVE_")]:
        monkeypatch.delenv(name)


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def test_without_anything_the_embedded_model_is_served_on_the_loopback() -> None:
    found = load()

    assert found == ServiceSettings()
    assert [m.name for m in found.models] == [EMBEDDED_MODEL]
    assert (found.http.host, found.http.port) == ("127.0.0.1", 8795)
    assert found.http.keys_file is None


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "http: {host: 0.0.0.1, port: 1, root_path: /file}\n")
    monkeypatch.setenv("JEVSERVE_HTTP__HOST", "0.0.0.2")
    monkeypatch.setenv("JEVSERVE_HTTP__PORT", "2")

    http = load(file, {"http": {"port": 3}}).http

    assert (http.root_path, http.host, http.port) == ("/file", "0.0.0.2", 3)


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("JEVSERVE_HTTP__PORT", "9000", lambda s: s.http.port == 9000),
        ("JEVSERVE_HTTP__STRICT_FIELDS", "true", lambda s: s.http.strict_fields),
        ("JEVSERVE_CACHE", "/models", lambda s: s.cache == Path("/models")),
        ("JEVSERVE_CACHE_SCOPE", "request", lambda s: s.cache_scope == "request"),
        ("JEVSERVE_MODELS", '[{"name": "m", "replicas": 4}]', lambda s: s.models[0].replicas == 4),
        ("JEVSERVE_ALIASES", '{"a": "jev-embed"}', lambda s: s.names()["a"] == "jev-embed"),
        ("JEVSERVE_TRANSPORT", '{"kind": "handle"}', lambda s: s.transport.kind == "handle"),
    ],
)
def test_every_setting_can_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, read: Any
) -> None:
    monkeypatch.setenv(name, value)

    assert read(load())


def test_secrets_in_the_environment_are_not_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JEVSERVE_API_KEYS", "very-secret-key")
    monkeypatch.setenv("JEVSERVE_CLUSTER_SECRET", "very-secret-cluster")

    found = load()

    assert found == ServiceSettings()
    assert "very-secret" not in found.model_dump_json()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("htpp: {port: 1}", "htpp"),
        ("http: {prot: 1}", "http.prot"),
        ("models: [{name: a, colour: red}]", "models.0.colour"),
        ("http: {port: 70000}", "http.port"),
        ("http: {port: x}", "http.port"),
        ("http:", "http"),
        ("models: []", "models"),
        ("models: [{name: ''}]", "models.0.name"),
        ("models: [{name: 'a b'}]", "models.0.name"),
        ("models: [{name: a, replicas: 0}]", "models.0.replicas"),
        ("models: [{name: a}, {name: a}]", "models"),
        ("cache_scope: everyone", "cache_scope"),
        ("default_model: nobody", "nobody"),
        ("aliases: {x: nobody}", "nobody"),
        ("aliases: {jev-embed: jev-embed}", "jev-embed"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_its_name(
    tmp_path: Path, text: str, names: str
) -> None:
    file = written(tmp_path, text)

    with pytest.raises(SettingsError) as refused:
        load(file)

    assert str(file) in refused.value.message
    assert names in refused.value.message.removeprefix(str(file))


def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"http\.port.*; .*router\.replicas"):
        load(written(tmp_path, "http: {port: 0}\nrouter: {replicas: 0}\n"))


def test_a_misspelt_nested_variable_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JEVSERVE_HTTP__PROT", "1")

    with pytest.raises(SettingsError, match=r"http\.prot"):
        load()


def test_a_variable_that_is_not_json_where_it_must_be_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JEVSERVE_MODELS", "jev-embed")

    with pytest.raises(SettingsError, match=r"environment: .*models"):
        load()


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    for text in ("", "# nothing yet\n", "{}"):
        assert load(written(tmp_path, text)) == ServiceSettings()


@pytest.mark.parametrize("text", ["- a\n- b\n", "a string", "7", "false"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="expected a mapping"):
        load(written(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2",
        "a: !!python/object/apply:os.system ['true']",
        "cache: 2024-13-45",
        "a: " + "[" * 1_000,
        "\x07",
    ],
    ids=["half", "python object", "impossible date", "deep", "control character"],
)
def test_a_file_that_is_no_yaml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        load(written(tmp_path, text))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(SettingsError, match="cannot read"):
        load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*missing\.yaml"):
        load(tmp_path / "missing.yaml")


@pytest.mark.parametrize("text", ["1: 2", "null: 2", "true: 2"])
def test_a_key_that_is_no_name_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="is not the name of a setting"):
        load(written(tmp_path, text))


MODELS = [{"name": "first"}, {"name": "second"}]


def test_the_first_model_is_the_default() -> None:
    found = load(None, {"models": MODELS})

    assert found.default == "first"
    assert found.names() == {DEFAULT_ALIAS: "first", "first": "first", "second": "second"}


def test_the_default_alias_follows_the_default_model() -> None:
    found = load(None, {"models": MODELS, "default_model": "second", "aliases": {"x": "first"}})

    assert found.names()[DEFAULT_ALIAS] == "second"
    assert found.names()["x"] == "first"


@pytest.mark.parametrize(
    "flags",
    [
        {"models": MODELS, "aliases": {DEFAULT_ALIAS: "second"}},
        {"models": [*MODELS, {"name": DEFAULT_ALIAS}]},
    ],
)
def test_the_default_alias_cannot_mean_another_model(flags: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="set default_model to"):
        load(None, flags)


def test_the_default_alias_may_be_said_out_loud() -> None:
    assert load(None, {"models": MODELS, "aliases": {DEFAULT_ALIAS: "first"}}).default == "first"
    assert load(None, {"models": [{"name": DEFAULT_ALIAS}]}).default == DEFAULT_ALIAS


@pytest.mark.parametrize("missing", ["tls_cert", "tls_key", "tls_ca"])
def test_tls_is_whole_or_absent(missing: str) -> None:
    tls = {"tls_cert": "c.pem", "tls_key": "k.pem", "tls_ca": "ca.pem"}

    assert load(None, {"transport": tls}).transport.tls_ca == Path("ca.pem")
    with pytest.raises(SettingsError, match="TLS needs all of tls_cert, tls_key and tls_ca"):
        load(None, {"transport": {k: v for k, v in tls.items() if k != missing}})


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": None}, {"a": None}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"b": 2}, {"b": 2}),
    ],
)
def test_merging_puts_leaves_on_top_and_replaces_lists_whole(base, over, merged) -> None:
    before = repr(base)

    assert merge(base, over) == merged
    assert repr(base) == before


def test_settings_do_not_change_after_they_are_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().http.port = 1  # type: ignore[misc]


def test_a_models_source_is_its_checkpoint_or_else_its_name() -> None:
    found = load(None, {"models": [{"name": "a", "checkpoint": "org/x@v1"}, {"name": "b"}]})

    assert [m.source for m in found.models] == ["org/x@v1", "b"]
