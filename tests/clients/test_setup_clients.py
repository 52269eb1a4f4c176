"""The environments of clients: made from their locks, left alone after that, with uv or without.

PyPI is real; of the locks only the smallest is used.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
LOCK = Path("requirements/clients/sdk-0.5.txt")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / LOCK).parent.mkdir(parents=True)
    shutil.copy(ROOT / LOCK, tmp_path / LOCK)
    venv.create(tmp_path / ".venv", with_pip=True)
    return tmp_path


def set_up(checkout: Path, uv: bool = True) -> str:
    if uv:
        link = checkout / ".venv" / "bin" / "uv"
        link.unlink(missing_ok=True)
        link.symlink_to(Path(sys.executable).parent / "uv")
    environment = {name: value for name, value in os.environ.items() if name != "VENV"}
    done = subprocess.run(
        [checkout / "scripts" / "setup-clients"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout


def version(checkout: Path) -> str:
    python = checkout / ".venv" / "clients" / "sdk-0.5" / "bin" / "python"
    code = "import typesafe_sdk; print(typesafe_sdk.__version__)"
    return subprocess.check_output([python, "-c", code], text=True).strip()


@pytest.mark.parametrize("uv", [True, False])
def test_an_environment_is_made_once_and_again_when_its_lock_changes(
    checkout: Path, uv: bool
) -> None:
    first = set_up(checkout, uv)
    assert "setting up the clients" in first
    assert ("once more with pip" in first) is not uv
    assert version(checkout) == "0.5.7"
    assert set_up(checkout, uv) == ""
    with (checkout / LOCK).open("a") as lock:
        lock.write("# another\n")
    assert "setting up the clients" in set_up(checkout, uv)


def test_a_package_of_another_hash_is_refused_and_nothing_called_finished(checkout: Path) -> None:
    lock = (checkout / LOCK).read_text()
    start = lock.index("typesafe-sdk==")
    forged = re.sub("sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", lock[start:])
    (checkout / LOCK).write_text(lock[:start] + forged)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        set_up(checkout)
    assert "hash" in caught.value.output.lower()
    assert not (checkout / ".venv" / "clients" / "sdk-0.5" / "installed.txt").exists()
