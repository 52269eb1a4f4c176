"""A reader's shell: one bash for a page, in a folder that looks like the checkout."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
from pathlib import Path

from jevserve.checkpoints.prepare import prepare
from tests.docs.pages import ROOT, Block

#: The address that every page names.
DOCUMENTED = "127.0.0.1:8795"

#: Seconds for one block.
LIMIT_S = 60

#: What a reader's environment has from the one of the tests.
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "TERM")


class Shell:
    """Runs a page's blocks one after the other, each in what the ones before have left."""

    def __init__(self, folder: Path, cache: Path, service: str) -> None:
        """
        Args:
            folder: empty; becomes the home and the working folder.
            cache: prepared checkpoints, linked so that nothing is fetched.
            service: host and port of the running service, empty for none.
        """
        self._service = service
        self._work, self._outputs = folder / "jevserve", folder / "outputs"
        home = folder / "home"
        for made in (self._work, self._outputs, home / ".cache"):
            made.mkdir(parents=True)
        (home / ".cache" / "jevserve").symlink_to(cache)
        for path in ROOT.iterdir():
            if path.name not in (".git", ".venv"):
                (self._work / path.name).symlink_to(path)
        (self._work / ".venv").symlink_to(sys.prefix)
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment |= {
            "HOME": str(home),
            "PATH": f"{sys.prefix}/bin:{environment.get('PATH', os.defpath)}",
            "COLUMNS": "80",
            "PYTHONIOENCODING": "utf-8",
            "OMP_NUM_THREADS": "1",
        }
        if service:
            environment["JEVSERVE_URL"] = f"http://{service}"
        self._replaced = {str(home): "/home/you"}
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._work,
            env=environment,
        )
        self._say("set -euo pipefail")

    def save(self, block: Block) -> None:
        path = self._work / block.file
        with path.open("a", encoding="utf-8") as file:
            file.write(self._here(block.text) + "\n")

    def run(self, block: Block) -> tuple[int, str]:
        """Exit code and output; a failed block ends the shell."""
        # Beside what the page has saved, where Python finds it, too.
        script, output = self._work / f".block-{block.line}", self._outputs / str(block.line)
        script.write_text(self._here(block.text) + "\n", encoding="utf-8")
        quoted, to = shlex.quote(str(script)), shlex.quote(str(output))
        command = f"python {quoted}" if block.language == "python" else f"source {quoted}"
        if block.exit:
            # In a shell of its own, since it ends it.
            self._say(f"set +e; ( set -e; {command} ) </dev/null >{to} 2>&1; code=$?; set -e")
        else:
            self._say(f"{command} </dev/null >{to} 2>&1; code=0")
        self._say('echo "$code"')
        code = self._heard(block)
        text = output.read_text(encoding="utf-8") if output.exists() else ""
        return code, self._documented(text)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its end is heard

    def _heard(self, block: Block) -> int:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], LIMIT_S)[0]:
            self.close()
            raise AssertionError(f"{block.place}: still running after {LIMIT_S} s")
        line = stdout.readline()
        return int(line) if line else self._process.wait()

    def _here(self, text: str) -> str:
        return text.replace(DOCUMENTED, self._service) if self._service else text

    def _documented(self, text: str) -> str:
        for found, shown in self._replaced.items():
            text = text.replace(found, shown)
        return text.replace(self._service, DOCUMENTED) if self._service else text


def linked_cache(folder: Path) -> Path:
    """``folder`` as a cache that holds the default model, as it was prepared before, alone."""
    prepared = prepare("jev-embed").path
    real = prepared.parents[1]
    for name in ("prepared", "sources"):
        (folder / name).mkdir()
    (folder / "embedded").symlink_to(real / "embedded")
    (folder / "prepared" / prepared.name).symlink_to(prepared)
    for source in (real / "sources").iterdir():
        if prepared.name in source.read_text(encoding="utf-8"):
            (folder / "sources" / source.name).write_bytes(source.read_bytes())
    return folder
