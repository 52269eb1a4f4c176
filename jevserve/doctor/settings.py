"""Settings: the file, the environment, TLS files, the cluster secret. Values are never shown."""

from __future__ import annotations

import difflib
import re
import ssl
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from jevserve.api.auth import ENV_KEYS
from jevserve.checkpoints.embedded import WHEEL_ENVIRONMENT
from jevserve.doctor.findings import Finding, ok, problem, warning
from jevserve.errors import SettingsError
from jevserve.settings import ServiceSettings
from jevserve.transport.secret import (
    SECRET_FILE_VARIABLE,
    SECRET_VARIABLE,
    ClusterSecret,
    TlsFiles,
)

PREFIX = "JEVSERVE_"

#: Variables that are read beside the settings (docs/reference/configuration.md).
OTHER_VARIABLES = frozenset(
    {
        ENV_KEYS,
        SECRET_VARIABLE,
        SECRET_FILE_VARIABLE,
        WHEEL_ENVIRONMENT,
        "JEVSERVE_API_KEY",
        "JEVSERVE_URL",
        "JEVSERVE_WORKER_LOGS",
    }
)

#: What Kubernetes sets in every pod for each service of the namespace, here for services whose
#: name begins with "jevserve".
SERVICE_LINK = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$"
)
LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")


def judge_load(error: SettingsError | None, file: Path | None) -> Finding:
    """Whether file, environment and flags make settings."""
    where = str(file) if file else "flags, environment and defaults"
    if error is None:
        return ok("settings", f"read from {where}")
    return problem(
        "settings",
        " ".join(error.message.split()),
        "correct what it names; docs/reference/configuration.md has every setting, and "
        "'jevserve serve --print-config' shows what came of them",
    )


def judge_variables(environment: Mapping[str, str]) -> list[Finding]:
    """Variables of ours that nothing reads: a mistyped setting is otherwise ignored silently."""
    names = setting_names()
    links, findings = [], []
    for name in sorted(n for n in environment if n.upper().startswith(PREFIX)):
        if name.upper() in OTHER_VARIABLES or name.upper() in names:
            continue
        top = name.upper().split("__")[0]
        if top in names and "__" in name:
            continue  # the settings themselves refuse what they do not know below that
        if is_service_link(name, environment[name]):
            links.append(name)
        elif not name.upper().startswith("JEVSERVE_TEST_"):
            findings.append(unknown(name, names))
    if links:
        findings.append(
            ok(
                "kubernetes",
                f"{len(links)} variables, such as {links[0]}, are Kubernetes' service links, not "
                "settings",
            )
        )
    return findings or [ok("variables", f"every {PREFIX}… variable is known")]


def is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes set it; ``JEVSERVE_PORT=tcp://…`` is told by its value."""
    by_value = name.endswith("_PORT") and LINK_VALUE.match(value)
    return bool(by_value or SERVICE_LINK.search(name))


def setting_names(model: type[BaseModel] = ServiceSettings, prefix: str = PREFIX) -> list[str]:
    """Variable names of all settings, with ``__`` between levels."""
    names = []
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        names.append(variable)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names += setting_names(kind, f"{variable}__")
    return names


def unknown(name: str, names: list[str]) -> Finding:
    last = name.upper().removeprefix(PREFIX)
    same = [n for n in names if n.split("__")[-1].removeprefix(PREFIX) == last]
    near = same or difflib.get_close_matches(name.upper(), names, 1, 0.75)
    hint = f"write {near[0]}" if near else "unset it; docs/reference/configuration.md lists them"
    return warning(name, "is set, but is no setting: it is ignored", hint)


def judge_secret(environment: Mapping[str, str]) -> list[Finding]:
    """The cluster secret, which a local start makes itself where none is set."""
    given = [v for v in (SECRET_VARIABLE, SECRET_FILE_VARIABLE) if environment.get(v)]
    if not given:
        return [ok("cluster secret", "none set: jevserve serve makes a fresh one at each start")]
    try:
        ClusterSecret.from_environment(environment)
    except SettingsError as error:
        remedy = "give 16 to 4,096 random bytes, in one of the two: openssl rand -hex 32"
        return [problem("cluster secret", error.message, remedy)]
    findings = [ok("cluster secret", f"from {given[0]}")]
    if environment.get(SECRET_FILE_VARIABLE):
        findings += judge_permissions("secret file", Path(environment[SECRET_FILE_VARIABLE]))
    return findings


def judge_permissions(check: str, path: Path) -> Iterator[Finding]:
    """A warning where others than owner and group may read a secret file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & stat.S_IROTH:
        yield warning(
            check, f"{path} can be read by every user of this machine", f"chmod o-rwx {path}"
        )


def judge_tls(settings: ServiceSettings) -> list[Finding]:
    """The transport's TLS files: they load, and two ends that use them accept each other."""
    t = settings.transport
    if t.tls_cert is None or t.tls_key is None or t.tls_ca is None:
        return [ok("TLS", "not configured between routers and engines")]
    files = TlsFiles(t.tls_cert, t.tls_key, t.tls_ca)
    findings = list(judge_permissions("TLS key", t.tls_key))
    try:
        refused = handshake(files)
    except SettingsError as error:
        remedy = "check the paths, that the files are PEM, and that the key has no passphrase"
        return [*findings, problem("TLS", error.message, remedy)]
    if refused:
        return [
            *findings,
            problem(
                "TLS",
                f"routers and engines would refuse each other: {refused}",
                "make a certificate that is valid now and signed by the authority in tls_ca, for "
                "client and server use alike",
            ),
        ]
    return [*findings, ok("TLS", "both ends accept the certificate")]


def handshake(files: TlsFiles) -> str:
    """Why a client and a server with these files refuse each other; empty where they do not.

    Raises:
        SettingsError: the files cannot be loaded.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = files.client().wrap_bio(to_client, to_server)
    server = files.server().wrap_bio(to_server, to_client, server_side=True)
    # TLS 1.3 needs two round trips in all; the last turn lets errors of the other end arrive.
    waiting = {client, server}
    for _ in range(4):
        for end in (client, server):
            try:
                end.do_handshake()
                waiting.discard(end)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return getattr(error, "verify_message", "") or error.reason or "no reason given"
    return "the handshake does not end" if waiting else ""
