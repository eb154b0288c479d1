"""The files of a server that runs in a container: those of the machine's Docker, found by the server's port."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.servers import Server
from tests.support.waiting import find_limit


def find_container(server: Server) -> str:
    """Return the id of the server's container; skip the test if it has none."""
    port = urlsplit(server.url if "://" in server.url else f"//{server.url}").port
    try:
        listed = subprocess.run(
            ["docker", "ps", "--filter", f"publish={port}", "--format", "{{.ID}}"],
            capture_output=True, text=True, check=True, timeout=find_limit(),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as reason:
        pytest.skip(f"the files of {server.origin} are out of reach: {reason}")
    if not listed.stdout.strip():
        pytest.skip(f"the files of {server.origin} are out of reach: it runs in no container of this machine")
    return listed.stdout.split()[0]


def run_inside(server: Server, *command: str) -> str:
    """Run a command in the server's container and return what it prints."""
    done = subprocess.run(
        ["docker", "exec", find_container(server), *command],
        capture_output=True,
        text=True,
        check=True,
        timeout=find_limit(),
    )
    return done.stdout


def copy_out(server: Server, path: str, into: Path) -> Path:
    """Copy a file or folder of the server's container into a folder."""
    subprocess.run(
        ["docker", "cp", "-q", f"{find_container(server)}:{path}", str(into)],
        check=True,
        timeout=find_limit(),
        capture_output=True,
    )
    return into / Path(path).name
