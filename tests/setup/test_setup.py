"""Set-up on a bare machine, with a stand-in of a kilobyte for torch's wheel.

The real locks would cost minutes; here the CPU lock is cut down to setuptools. PyTorch's index is
played by a folder behind a local web server, laid out as PEP 503 asks. PyPI itself is real.
"""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
TORCH = "2.13.0+cpu"


def write_torch_wheel(folder: Path) -> Path:
    wheel = folder / f"torch-{TORCH}-py3-none-any.whl"
    info = f"torch-{TORCH}.dist-info"
    files = {
        "torch/__init__.py": f'__version__ = "{TORCH}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


@pytest.fixture
def torch_index(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "index" / "torch"
    folder.mkdir(parents=True)
    wheel = write_torch_wheel(folder)
    address = wheel.name.replace("+", "%2B")
    (folder / "index.html").write_text(f'<a href="{address}">{wheel.name}</a>')
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    here = tmp_path / "checkout"
    here.mkdir()
    for name in ("requirements", "scripts", "stubs"):
        shutil.copytree(ROOT / name, here / name)
    for name in ("pyproject.toml", "Makefile", "LICENSE"):
        shutil.copy(ROOT / name, here)
    (here / "jevserve").mkdir()
    (here / "jevserve" / "__init__.py").touch()
    (here / "jevserve" / "cli.py").write_text("def main() -> None:\n    print('served')\n")
    lock = (ROOT / "requirements" / "cpu.txt").read_text()
    start = lock.index("\nsetuptools==") + 1
    (here / "requirements" / "cpu.txt").write_text(lock[start : lock.index("    # via", start)])
    (here / "requirements" / "test.txt").write_text("")
    return here


def make(checkout: Path, *goals: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run make as on a machine where neither pip nor uv has been configured."""
    # Certificates and proxies are how this machine reaches PyPI at all, so those stay.
    unset = ("PIP_", "UV_", "MAKE", "MFLAGS", "PYTHON", "DEVICE", "VENV", "VIRTUAL_ENV", "TORCH_")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(unset) or name == "PIP_CERT"
    }
    environment |= {"PIP_CONFIG_FILE": os.devnull, "DEVICE": "cpu", "PYTHON": sys.executable}
    return subprocess.run(
        ["make", *goals],
        cwd=checkout,
        env=environment | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_torch_comes_from_the_cpu_index_where_pip_has_no_other_source(
    checkout: Path, torch_index: str
) -> None:
    first = make(checkout, "serve", TORCH_CPU_INDEX=torch_index)
    assert first.returncode == 0, first.stdout
    assert f"taking it from {torch_index}" in first.stdout
    assert first.stdout.endswith("served\n")

    again = make(checkout, "serve", TORCH_CPU_INDEX=torch_index)
    assert again.stdout == "served\n"


def test_a_folder_of_wheels_that_pip_knows_comes_before_the_index(
    checkout: Path, tmp_path: Path
) -> None:
    write_torch_wheel(tmp_path)
    done = make(
        checkout, "setup", PIP_FIND_LINKS=str(tmp_path), TORCH_CPU_INDEX="http://127.0.0.1:9"
    )
    assert done.returncode == 0, done.stdout
    assert "taking it from" not in done.stdout


def test_without_uv_pip_does_the_same(checkout: Path, torch_index: str) -> None:
    (checkout / "requirements" / "uv.txt").write_text(f"uv==0.0.1 --hash=sha256:{'0' * 64}\n")
    done = make(checkout, "serve", TORCH_CPU_INDEX=torch_index)
    assert done.returncode == 0, done.stdout
    assert "going on with pip" in done.stdout
    assert done.stdout.endswith("served\n")


def test_torch_nowhere_names_the_variable(checkout: Path) -> None:
    done = make(checkout, "setup", TORCH_CPU_INDEX="http://127.0.0.1:9")
    assert done.returncode != 0
    assert "make setup TORCH_CPU_INDEX=<url>" in done.stdout


def test_an_unsupported_python_is_refused_with_the_way_out(checkout: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = make(checkout, "serve", PYTHON=str(old))
    assert done.returncode != 0
    assert "is not Python 3.11, 3.12 or 3.13" in done.stdout
    assert "make PYTHON=python3.12 serve" in done.stdout


def test_a_python_without_ensurepip_names_the_package_to_install(
    checkout: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "python3"
    bare.write_text(
        f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"\n'
    )
    bare.chmod(0o755)
    done = make(checkout, "serve", PYTHON=str(bare))
    assert done.returncode != 0
    assert f"apt-get install python3.{sys.version_info.minor}-venv" in done.stdout
