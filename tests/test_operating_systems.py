"""hashstar starts where the operating system lacks what Windows lacks: fcntl, resource, signals, flags of files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exchange.files.operating_system import lock_file, unlock_file
from tests.support.pages import ROOT
from tests.support.waiting import find_limit

SITE = '''\
"""Take away what Windows does not have, before anything else is imported."""

import asyncio
import os
import select
import signal
import sys
import types

import fcntl

for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGCHLD", "SIGALRM", "SIGQUIT", "setitimer", "alarm"):
    delattr(signal, name)
for name in (
    "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "pread", "pwrite", "fork", "getuid", "geteuid", "getgid",
    "fchmod", "fchown", "chown", "mkfifo", "getpgid", "setsid", "killpg", "nice", "wait3", "wait4",
    "sched_getaffinity", "posix_fadvise", "fdatasync",
):
    if hasattr(os, name):
        delattr(os, name)
for names in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):  # shutil looks at these
    names.clear()
os.process_cpu_count = os.cpu_count  # as CPython defines it (3.13) where there is no sched_getaffinity
del select.poll


def locking(file, mode, size):
    flags = {0: fcntl.LOCK_UN, 1: fcntl.LOCK_EX, 2: fcntl.LOCK_EX | fcntl.LOCK_NB}
    try:
        fcntl.lockf(file, flags[mode], size, os.lseek(file, 0, os.SEEK_CUR))
    except BlockingIOError as error:
        raise PermissionError(error.errno, error.strerror) from None


sys.modules["msvcrt"] = types.SimpleNamespace(LK_UNLCK=0, LK_LOCK=1, LK_NBLCK=2, locking=locking)
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "syslog"):
    sys.modules[name] = None


def refuse(*arguments, **keywords):
    raise NotImplementedError


asyncio.SelectorEventLoop.add_signal_handler = refuse
asyncio.SelectorEventLoop.subprocess_exec = refuse
'''

IMPORT_ALL = """\
import importlib, pkgutil
passed = ("bindings.pytest_plugin", "bindings.auditing.spark", "bindings.adapters.", "bindings.mcp.server")
for package in ("exchange", "bindings", "bridge"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if not module.name.startswith(passed):
            importlib.import_module(module.name)
"""
"""Imports all modules but the plugin of pytest, adapters, and what derives from packages that ask sys.platform what
they may import: Spark needs resource here, and mcp fcntl."""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this Python without what Windows does not have."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=find_limit(), check=False)


@pytest.mark.process
def test_every_module_is_imported(tmp_path: Path) -> None:
    result = run(tmp_path, "-c", IMPORT_ALL)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.process
def test_a_bridge_carries_an_archive_to_another(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    source, target, config = tmp_path / "messages.jsonl", tmp_path / "copy", tmp_path / "bridge.toml"
    source.write_text("".join(f'{{"exchange":"x","routing_key":"k{n}","body":"{n}"}}\n' for n in range(100)))
    (tmp_path / "all.bindings").write_text("exchange x: fanout\nqueue all\nx -> all\n")
    config.write_text(
        f"""topology = "all.bindings"\nhttp = "off"\n[sources.orders]\nurl = "archive:{source}"\n"""
        f"""[targets.copy]\nurl = "archive:{target}"\nqueues = {{ all = "." }}\n"""
    )
    result = run(tmp_path, "-m", "bridge.cli", "bridge", "run", str(config))
    assert result.returncode == 0, result.stderr
    inspected = run(tmp_path, "-m", "bridge.cli", "archive", "inspect", str(target), "--json")
    assert '"records": 100' in inspected.stdout, inspected
    assert not list(target.glob(".spool*"))


def test_more_than_one_worker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bridge.toml").write_text(
        'workers = 2\n[topology]\n[sources.a]\nurl = "amqp://127.0.0.1"\nqueue = "a"\n'
    )
    result = run(tmp_path, "-m", "bridge.cli", "bridge", "run", str(tmp_path / "bridge.toml"))
    assert result.returncode == 2
    assert "workers: this system cannot send signals to processes; write workers = 1" in result.stderr


def test_a_lock_is_of_one_descriptor(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    first, second = (os.open(tmp_path / "file", os.O_RDWR) for _ in range(2))
    try:
        assert lock_file(first, wait=False)
        assert not lock_file(second, wait=False)
        unlock_file(first)
        assert lock_file(second, wait=True)
    finally:
        os.close(first)
        os.close(second)
