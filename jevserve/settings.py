"""The one settings object: what a service serves, where, and within which limits.

Values come, later ones first, from a YAML file, the environment (``JEVSERVE_HTTP__PORT=…``) and
command-line flags. Secrets are never settings: keys and the cluster secret are read from the
environment or from files named here, by the process that needs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import (
    SettingsError as SettingsSourceError,
)

from jevserve.errors import SettingsError

#: The alias that clients of the field send when they name no model.
DEFAULT_ALIAS = "jev-latest"

#: The model served when nothing else is asked for; it ships inside a package.
EMBEDDED_MODEL = "jev-embed"


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HttpSettings(Section):
    """The HTTP door.

    Attributes:
        host: address that ``jevserve serve`` listens on; ``127.0.0.1`` keeps a first try on the
            laptop. A cluster listens on every address.
        port: port of the service.
        root_path: prefix under which the service is published, whether or not the ingress
            removes it.
        strict_fields: refuse top-level fields that are not official.
        max_body_bytes: longest body, encoded and decoded alike.
        keys_file: YAML file of API keys; without it anybody may ask.
        page: whether there is a page for people at ``/``.
    """

    host: str = "127.0.0.1"
    port: int = Field(8795, ge=1, le=65535)
    root_path: str = ""
    strict_fields: bool = False
    max_body_bytes: int = Field(32 * 2**20, ge=1024)
    keys_file: Path | None = None
    page: bool = True


class ResourceSettings(Section):
    """What one engine replica asks Ray for.

    Attributes:
        device: ``cpu`` or ``gpu``; ``auto`` is whatever vLLM is installed for where the service is
            started, so name it when a cluster's head differs from its workers.
        num_cpus: CPUs; None is one, or on a local CPU service an equal share of the cores.
        num_gpus: GPUs; where vLLM's CUDA build is installed, None is one, or as many as the
            parallel sizes in ``engine_args`` need; elsewhere none.
        accelerator: Ray's accelerator type a node must have, such as ``A800`` or ``H200``.
    """

    device: Literal["auto", "cpu", "gpu"] = "auto"
    num_cpus: float | None = Field(None, ge=0)
    num_gpus: float | None = Field(None, ge=0)
    accelerator: str | None = None


class ModelSettings(Section):
    """One served model.

    Attributes:
        name: canonical name, echoed in every answer.
        checkpoint: embedded name, folder, or hub id with an optional ``@revision``.
        protocol: adapter to use where detection cannot decide.
        replicas: engine replicas, fixed.
        resources: what each replica asks Ray for.
        max_model_len: longest row in tokens; the checkpoint's own limit where it is lower. A local
            service on a CPU takes 8,192 where nothing is set.
        deadline_ms: for requests without one; clients of the field time out at 10 s.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
        kv_cache_gib: CPU engines: memory of the prefix cache; None is what one longest row takes,
            at least 1; whole GiB.
        description: shown by ``GET /v1/models``; the family's title where it is empty.
        engine_args: passed to vLLM as they are.
    """

    name: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$")
    checkpoint: str = ""
    protocol: str | None = None
    replicas: int = Field(1, ge=1, le=10_000)
    resources: ResourceSettings = ResourceSettings()
    max_model_len: int = Field(32_768, ge=16)
    deadline_ms: int = Field(8_000, ge=1, le=600_000)
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    kv_cache_gib: int | None = Field(None, ge=1)
    description: str = ""
    engine_args: dict[str, Any] = Field(default_factory=dict)

    @property
    def source(self) -> str:
        """What is prepared and loaded: the checkpoint, or where none is named, the model's name."""
        return self.checkpoint or self.name


class MetricsSettings(Section):
    """Where engine processes export their metrics; routers do at their HTTP port.

    Attributes:
        host: address that engines listen on.
        engine_port: port; with several engines on one machine, the next free one after it.
    """

    host: str = "0.0.0.0"
    engine_port: int = Field(9795, ge=1, le=65_000)


class RouterSettings(Section):
    """The routers: they take requests, plan them, and choose replicas.

    Attributes:
        replicas: router processes; they keep no state.
        num_cpus: CPUs that Ray reserves for each.
        max_in_flight: decisions of one router at a time; over it, 503.
    """

    replicas: int = Field(1, ge=1, le=1_000)
    num_cpus: float = Field(0.0, ge=0)
    max_in_flight: int = Field(1_024, ge=1)


class TransportSettings(Section):
    """How decisions travel from router to engine.

    Attributes:
        kind: ``connection`` is the service's own multiplexed connection; ``handle`` goes through
            Ray Serve, for clusters where pods may only talk through Ray.
        host: address that engines listen on and routers connect to; empty is every interface,
            reached at the node's address.
        tls_cert, tls_key, tls_ca: PEM files for mutual TLS 1.3; all three or none, readable for
            routers and engines.
    """

    kind: Literal["connection", "handle"] = "connection"
    host: str = ""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        given = [f is not None for f in (self.tls_cert, self.tls_key, self.tls_ca)]
        if any(given) and not all(given):
            raise ValueError("TLS needs all of tls_cert, tls_key and tls_ca")
        return self


class ServiceSettings(Section):
    """Everything a service is made from.

    Attributes:
        models: served models, with distinct names; the first is the default unless
            ``default_model`` says otherwise.
        default_model: answers requests that name no model, and ``jev-latest``.
        aliases: further names of models; ``jev-latest`` always resolves to the default model.
        cache: where prepared checkpoints live; routers and engines must both see it.
        cache_scope: ``tenant`` shares prefixes within a tenant, ``request`` never shares.
    """

    models: tuple[ModelSettings, ...] = (ModelSettings(name=EMBEDDED_MODEL),)
    default_model: str = ""
    aliases: dict[str, str] = Field(default_factory=dict)
    cache: Path = Field(default_factory=lambda: Path.home() / ".cache" / "jevserve")
    cache_scope: Literal["tenant", "request"] = "tenant"
    http: HttpSettings = HttpSettings()
    router: RouterSettings = RouterSettings()
    transport: TransportSettings = TransportSettings()
    metrics: MetricsSettings = MetricsSettings()

    @field_validator("models")
    @classmethod
    def _models_have_distinct_names(
        cls, models: tuple[ModelSettings, ...]
    ) -> tuple[ModelSettings, ...]:
        names = [m.name for m in models]
        if not models or len(set(names)) != len(names):
            raise ValueError(f"needs at least one model and distinct names, got {names}")
        return models

    @model_validator(mode="after")
    def _names_resolve(self) -> Self:
        names = {m.name for m in self.models}
        if self.default_model and self.default_model not in names:
            raise ValueError(f"default_model {self.default_model!r} is not one of {sorted(names)}")
        for alias, target in self.aliases.items():
            if target not in names:
                raise ValueError(
                    f"alias {alias!r} points to {target!r}, not one of {sorted(names)}"
                )
            if alias in names:
                raise ValueError(f"alias {alias!r} is the name of a model")
        claimed = DEFAULT_ALIAS if DEFAULT_ALIAS in names else self.aliases.get(DEFAULT_ALIAS)
        if claimed not in (None, self.default):
            raise ValueError(
                f"{DEFAULT_ALIAS!r} is always the default model; set default_model to {claimed!r}"
            )
        return self

    @property
    def default(self) -> str:
        """Canonical name of the default model."""
        return self.default_model or self.models[0].name

    def names(self) -> dict[str, str]:
        """Every name a request may use, and the canonical name it resolves to."""
        canonical = {m.name: m.name for m in self.models}
        return {DEFAULT_ALIAS: self.default} | self.aliases | canonical


class EnvironmentSettings(ServiceSettings, BaseSettings):
    """Reads the environment over what it is given; only ``load`` uses it."""

    model_config = SettingsConfigDict(
        env_prefix="JEVSERVE_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (env_settings, init_settings)


def load(file: Path | None = None, flags: dict[str, Any] | None = None) -> ServiceSettings:
    """Settings from a file, then the environment, then flags (nested dictionaries).

    Raises:
        SettingsError: unreadable file, unknown setting or impossible value, each by its name.
    """
    values: dict[str, Any] = {}
    if file is not None:
        try:
            read = yaml.safe_load(file.read_text(encoding="utf-8"))
        # YAML raises ValueError for an impossible date, and deep nesting ends in RecursionError.
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            raise SettingsError(f"cannot read {file}: {error}") from error
        if read is not None and not isinstance(read, dict):
            raise SettingsError(f"{file}: expected a mapping of settings at the top")
        unnamed = [key for key in read or {} if not isinstance(key, str)]
        if unnamed:
            raise SettingsError(f"{file}: {unnamed[0]!r} is not the name of a setting")
        values = read or {}
    try:
        read_so_far = EnvironmentSettings(**values).model_dump(exclude_unset=True)
        return ServiceSettings.model_validate(merge(read_so_far, flags or {}))
    except SettingsSourceError as error:
        raise SettingsError(f"environment: {error}") from error
    except ValidationError as error:
        where = f"{file}: " if file else ""
        lines = [
            f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors()
        ]
        raise SettingsError(where + "; ".join(lines)) from error


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``base`` with the leaves of ``over`` on top; lists are replaced whole."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return merged
