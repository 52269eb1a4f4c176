"""Disks: room and permission where the service writes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jevserve.doctor.findings import MIB, Finding, ok, problem, size, skipped, warning

#: What one start writes into Ray's folder (its sessions' logs) and into the home folder (vLLM's
#: notes), with room to run for a while.
LOGS, NOTES = 256 * MIB, 64 * MIB

#: Files that one start may create in any of the folders.
FILES = 2_000

#: Ray complains in its logs, and spills nothing any more, from this share of a disk on.
RAY_FULL = 0.95

#: A Unix socket's path may have 107 bytes; Ray's sockets lie this deep below its folder.
SOCKET_PATH = 107
RAY_SOCKET = len("/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store")

#: HAProxy keeps room behind the name for those of sockets that it replaces.
PROXY_SOCKET = len("/jevserve-12345678/haproxy.sock" ".12345.bak")


@dataclass(frozen=True)
class Disk:
    """The file system under a folder; bytes, and counts of files.

    Attributes:
        path: the folder that will be written.
        existing: the folder itself, or the nearest one above it that is there.
        folder: whether that is a folder.
        writable: whether this process may create something in it.
        files: files that can still be made, None where the file system does not count them.
    """

    path: Path
    existing: Path
    folder: bool
    writable: bool
    total: int
    free: int
    files: int | None


def read_disk(path: Path) -> Disk:
    """Raises OSError where not even the folder above can be looked at."""
    path = path.expanduser().absolute()
    existing = path
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    status = os.statvfs(existing)
    return Disk(
        path=path,
        existing=existing,
        folder=existing.is_dir(),
        writable=os.access(existing, os.W_OK | os.X_OK),
        total=status.f_blocks * status.f_frsize,
        free=status.f_bavail * status.f_frsize,
        files=status.f_favail if status.f_files else None,
    )


def judge_disk(check: str, disk: Disk, needed: int, elsewhere: str) -> Finding:
    """``elsewhere``: how another folder is chosen, as the remedy says it."""
    if not disk.folder:
        return problem(
            check, f"{disk.existing} is not a folder", f"remove or rename it, or {elsewhere}"
        )
    if not disk.writable:
        return problem(
            check,
            f"{disk.existing} may not be written by user {os.getuid()}",
            f"change its owner or permissions (a read-only mount?), or {elsewhere}",
        )
    seen = f"{size(disk.free)} free at {disk.path}"
    if disk.free < needed:
        return problem(
            check,
            f"the disk is full: {seen}, {size(needed)} needed",
            f"free {size(needed - disk.free)} on the disk that holds {disk.existing}, or "
            f"{elsewhere}",
        )
    if disk.files is not None and disk.files < FILES:
        return problem(
            check,
            f"the disk can hold only {disk.files:,} more files (no inodes left) at {disk.path}",
            f"delete small files on the disk that holds {disk.existing}, or {elsewhere}",
        )
    return ok(check, f"{seen}, {size(needed)} needed")


def judge_ray_disk(disk: Disk) -> Finding:
    finding = judge_disk("ray", disk, LOGS, "set RAY_TMPDIR to another folder")
    if finding.remedy:
        return finding
    used = 1 - disk.free / max(1, disk.total)
    if used > RAY_FULL:
        return warning(
            "ray",
            f"{finding.seen}, but the disk is {used:.0%} full: Ray warns from {RAY_FULL:.0%} on",
            "delete old sessions (session_* folders there), or set RAY_TMPDIR to another disk",
        )
    return finding


def judge_socket_paths(ray: Path, run: Path) -> Finding:
    """Whether the paths of Unix sockets are short enough.

    ``ray``: Ray's folder; ``run``: where the service's own folder of a run is made.
    """
    longest = max(
        (len(os.fsencode(ray)) + RAY_SOCKET, ray, "RAY_TMPDIR"),
        (len(os.fsencode(run)) + PROXY_SOCKET, run, "TMPDIR"),
    )
    length, folder, variable = longest
    if length > SOCKET_PATH:
        return problem(
            "socket paths",
            f"{folder} makes paths of {length} bytes; a Unix socket's may have {SOCKET_PATH}",
            f"set {variable} to a folder with a short path, such as /tmp",
        )
    return ok("socket paths", f"{length} of {SOCKET_PATH} bytes")


def examine(cache: Path, cache_needed: int, environment: Mapping[str, str]) -> list[Finding]:
    """Every folder that a start writes to."""
    ray = Path(environment.get("RAY_TMPDIR") or environment.get("TMPDIR") or "/tmp") / "ray"
    run = Path(tempfile.gettempdir())
    findings = []
    for check, path in (("cache", cache), ("ray", ray), ("home", Path.home() / ".cache")):
        try:
            disk = read_disk(path)
        except OSError as error:
            findings.append(skipped(check, f"{path}: {error.strerror}"))
            continue
        if check == "ray":
            findings.append(judge_ray_disk(disk))
        elif check == "cache":
            another = "choose another folder with --cache"
            findings.append(judge_disk(check, disk, cache_needed, another))
        else:
            findings.append(judge_disk(check, disk, NOTES, "set HOME to a folder with room"))
    return [*findings, judge_socket_paths(ray, run)]
