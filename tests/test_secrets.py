"""Passwords of addresses are printed nowhere, however the address is written, and whichever command is given it."""

from __future__ import annotations

from pathlib import Path

import pytest

from exchange.text.display import hide_logins
from tests.support.program import run_program

ADDRESSES = (
    "admin:hunter2@h:15672", "admin:hunter2@h/v", "https:admin:hunter2@h", "//admin:hunter2@h", "http://admin:hunter2@h:1",
    "https:/admin:hunter2@h", "amqp://admin:hunter2@h", "ftp://admin:hunter2@h", ":hunter2@h", "admin:hun/hunter2:@2@h",
    "kafka://admin:hunter2@h:9092/t", "file:///admin:hunter2@h", "HTTP//admin:hunter2@h",
)  # fmt: skip
COMMANDS = (
    ("check",), ("check", "--format", "json"), ("check", "--format", "sarif"), ("check", "--format", "junit"),
    ("check", "--format", "github"), ("diff", "FILE"), ("graph",), ("convert", "--format", "bindings"), ("fmt",),
    ("upgrade", "--to", "4.3"), ("route", "x", "k"), ("explain", "x", "k"), ("audit",), ("audit", "FILE"), ("serve",),
    ("archive", "inspect"), ("drift", "FILE"), ("apply", "--plan"), ("archive", "convert", "OUT"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_prints_the_password_of_what_it_cannot_read(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("queue q\n")
    name, *rest = command
    verbs = [rest.pop(0)] if name == "archive" else []
    for address in ADDRESSES:
        ended = run_program(name, *verbs, address, *rest)
        assert ended.returncode == 2, address
        assert "hunter2" not in ended.stdout + ended.stderr, address


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_host_stays_and_the_login_does_not(address: str) -> None:
    for text in (address, f"'{address}': cannot be read", f"topology = {address}", f"({address})"):
        assert "hunter2" not in hide_logins(text)
        assert "***@h" in hide_logins(text) or "***@2@h" in hide_logins(text)


@pytest.mark.parametrize(
    "text", ["orders -> billing", "f.bindings:3:10: a key", "rabbit@host", "node 'rabbit@h': down"]
)
def test_what_has_no_password_stays(text: str) -> None:
    assert hide_logins(text) == text
