"""The command line: help for everything, one line for every error, and each verb's output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from jevserve import __version__
from jevserve.adapters.registry import adapters
from jevserve.cli import serve
from jevserve.cli.main import app
from jevserve.errors import SettingsError
from jevserve.settings import ServiceSettings, load
from tests.tiny_chat import tiny_chat

Run = Any


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below ``group``, with the words that lead to it."""
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_the_commands_are_those_that_are_documented() -> None:
    assert {" ".join(c) for c in COMMANDS} == {
        "serve",
        "decide",
        "doctor",
        "eval",
        "models",
        "models prepare",
        "models inspect",
        "models families",
        "models list",
    }


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_every_parameter_says_what_it_is_for(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]

    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{' '.join(words)} {parameter.name}"
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    assert command.help.splitlines()[0].split(":")[0][:30] in shown.output


def test_without_a_command_help_is_shown() -> None:
    shown = CliRunner().invoke(app, [])

    assert "serve" in shown.output
    assert "models" in shown.output


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["models", "prepare", "/no/such/folder"], "/no/such/folder"),
        (["models", "prepare", "[/]no[bold]such"], "[/]no[bold]such"),
        (["serve", "/no/such/folder", "--name", "m"], "/no/such/folder"),
        (["serve", "missing.yaml"], "cannot read missing.yaml"),
        (["serve", "--port", "70000", "--print-config"], "http.port"),
        (["serve", "--replicas", "0", "--print-config"], "models.0.replicas"),
        (["serve", "a b", "--print-config"], "models.0.name"),
        (["decide", "hm?", "-s", "text", "--url", "http://127.0.0.1:9"], "is the service running"),
    ],
)
def test_an_error_that_a_user_can_cause_is_one_line_and_exit_code_two(
    run: Run, arguments: list[str], expected: str
) -> None:
    code, out, err = run(*arguments)

    assert (code, out) == (2, "")
    (line,) = [x for x in err.splitlines() if x.startswith("error:")]
    assert expected in line
    assert err.splitlines()[-1] == line
    assert "Traceback" not in err


def test_an_error_of_several_lines_is_told_in_one(run: Run, tmp_path: Path) -> None:
    file = tmp_path / f"{'long-' * 30}settings.yaml"
    file.write_text("a: [1,\n  2\n")

    code, _, err = run("serve", str(file))

    assert code == 2
    assert err.count("\n") == 1
    assert str(file) in err


def test_a_mistyped_option_is_exit_code_two(run: Run) -> None:
    code, _, err = run("serve", "--prot", "1")

    assert code == 2
    assert "No such option" in err


@pytest.mark.parametrize("flag", [("--name", "m"), ("--replicas", "2"), ("--protocol", "minilm")])
def test_what_belongs_in_the_files_models_cannot_be_a_flag_beside_it(
    run: Run, tmp_path: Path, flag: tuple[str, str]
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("models: [{name: a}]\n")

    code, _, err = run("serve", str(file), *flag)

    assert code == 2
    assert "belong in" in err


def printed(run: Run, *arguments: str) -> dict[str, Any]:
    code, out, err = run("serve", *arguments, "--print-config")
    assert (code, err) == (0, "")
    return yaml.safe_load(out)


def served_settings(config: dict[str, Any]) -> ServiceSettings:
    (application,) = config["serve"]["applications"]
    return ServiceSettings.model_validate(application["args"])


def test_the_printed_configuration_is_yaml_that_holds_the_very_settings(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "models:\n"
        "- {name: a, checkpoint: org/a@main, replicas: 3, resources: {accelerator: H200}}\n"
        "- {name: b, engine_args: {block_size: 32}, dtype: bfloat16}\n"
        "default_model: b\n"
        "aliases: {fast: a}\n"
        "cache_scope: request\n"
        "http: {port: 9000, keys_file: /etc/keys.yaml}\n"
        "transport: {tls_cert: c, tls_key: k, tls_ca: a}\n"
    )

    config = printed(run, str(file))

    assert served_settings(config) == load(file)
    assert config["serve"]["http_options"]["port"] == config["ports"]["http"] == 9000
    (application,) = config["serve"]["applications"]
    assert application["import_path"] == "jevserve.serving.application:build"


def test_flags_and_environment_reach_the_printed_configuration(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEVSERVE_HTTP__ROOT_PATH", "/prefix")
    monkeypatch.setenv("JEVSERVE_HTTP__PORT", "1")

    config = printed(
        run, "org/model@v2", "--port", "9001", "--replicas", "4", "--host", "::1", "--cache", "/c",
        "--protocol", "chat-label", "--keys", "/k.yaml",
    )  # fmt: skip

    found = served_settings(config)
    (model,) = found.models
    assert (model.name, model.checkpoint, model.replicas) == ("model", "org/model@v2", 4)
    assert model.protocol == "chat-label"
    assert (found.http.port, found.http.host, found.http.root_path) == (9001, "::1", "/prefix")
    assert (found.cache, found.http.keys_file) == (Path("/c"), Path("/k.yaml"))


def test_without_a_model_those_of_the_environment_are_served(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [m.name for m in served_settings(printed(run)).models] == ["jev-embed"]

    monkeypatch.setenv("JEVSERVE_MODELS", '[{"name": "a"}, {"name": "b"}]')

    assert [m.name for m in served_settings(printed(run)).models] == ["a", "b"]
    assert [m.name for m in served_settings(printed(run, "org/c")).models] == ["c"]
    assert [m.name for m in served_settings(printed(run, "--name", "d")).models] == ["d"]


def test_no_secret_is_printed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JEVSERVE_API_KEYS", "tenant:very-secret-key")
    monkeypatch.setenv("JEVSERVE_CLUSTER_SECRET", "very-secret-and-thirty-two-bytes-long")

    code, out, err = run("serve", "--print-config")

    assert code == 0
    assert "very-secret" not in out + err
    assert "JEVSERVE_CLUSTER_SECRET" in out


def test_a_variable_that_is_no_setting_is_warned_of(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEVSERVE_HTP__PORT", "9003")

    code, out, err = run("serve", "--print-config")

    assert code == 0
    assert "write JEVSERVE_HTTP__PORT" in err
    assert "9003" not in out + err


def test_what_is_served_is_prepared_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ServiceSettings] = []
    monkeypatch.setattr(serve, "run", seen.append)

    code, _, _ = run("serve", "org/model", "--port", "9002")

    assert code == 0
    (found,) = seen
    assert (found.models[0].source, found.http.port) == ("org/model", 9002)


def test_inspecting_a_checkpoint_names_its_family_and_the_reason(run: Run) -> None:
    code, out, _ = run("models", "inspect", str(tiny_chat()))

    assert code == 0
    assert "chat-label" in out
    assert "Qwen3ForCausalLM with a chat template" in out


def test_inspecting_something_else_says_why_it_is_refused_and_fails(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    code, out, _ = run("models", "inspect", ".")

    assert code == 1
    assert ".: cannot be served" in out
    assert "no adapter recognises this checkpoint" in out


@pytest.mark.parametrize(
    ("what", "said"),
    [("no/such/folder", "no existing folder"), ("jev-embed", "models prepare jev-embed")],
)
def test_what_is_not_on_this_machine_cannot_be_inspected(run: Run, what: str, said: str) -> None:
    code, _, err = run("models", "inspect", what)

    assert code == 2
    assert said in err


def test_preparing_prints_protocol_revision_and_folder(run: Run, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    code, out, _ = run("models", "prepare", str(tiny_chat()), "--cache", str(cache))

    assert code == 0
    assert "protocol chat-label, revision " in " ".join(out.split())
    folder = Path(out.splitlines()[-1])
    assert folder.is_relative_to(cache)
    assert (folder / "jevserve.json").is_file()


def test_what_was_prepared_is_listed(run: Run) -> None:
    assert "nothing is prepared yet" in run("models", "list")[1]
    run("models", "prepare", str(tiny_chat()))

    code, out, _ = run("models", "list")

    assert code == 0
    assert "chat-label" in out
    assert "jev-embed" in out


def test_every_family_is_listed(run: Run) -> None:
    code, out, _ = run("models", "families")

    assert code == 0
    for adapter in adapters():
        assert adapter.protocol in out


def test_settings_errors_are_the_packages_own() -> None:
    with pytest.raises(SettingsError):
        CliRunner().invoke(app, ["serve", "missing.yaml"], catch_exceptions=False)
