"""Print pip's configured package sources as uv settings, for the shell to export.

uv reads none of pip's configuration, and whoever set up a mirror or a folder of wheels for pip
means it for this installation too. Settings that uv already has from its user are left alone.
"""

import ast
import os
import shlex
import subprocess
import sys


def pip_settings() -> dict[str, str]:
    """pip's merged settings by bare name; the more specific section wins, as in pip."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found:
            found[section][name] = ast.literal_eval(value)
    return found["global"] | found["install"] | found[":env:"]


def uv_settings(pip: dict[str, str]) -> dict[str, str]:
    wanted = {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": " ".join(pip.get("extra-index-url", "").split()),
        "UV_FIND_LINKS": ",".join(pip.get("find-links", "").split()),
        "SSL_CERT_FILE": pip.get("cert", ""),
        # pip takes the best of all indexes; uv by itself stops at the first that has the name.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    return {name: value for name, value in wanted.items() if value and name not in os.environ}


for name, value in uv_settings(pip_settings()).items():
    print(f"export {name}={shlex.quote(value)}")
