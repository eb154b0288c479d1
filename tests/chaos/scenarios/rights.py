"""Users of RabbitMQ: a password is changed, a user is deleted, a permission is revoked, a secret is rotated.

Connections live on when a password changes, so they are closed, as by a restart of the broker. The bridge has a user
of its own; the counts and the clean-up are guest's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.chaos.places import Queue, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

USER: Final = "chaos"
PASSWORD: Final = "first"  # noqa: S105  of a container that listens on 127.0.0.1
OTHER: Final = "second"
WITHOUT: Final = 20.0
"""Duration in seconds; in CI it lasts until it is visible."""


class _Login:
    """The bridge's user at the broker, and what an operator changes."""

    def __init__(self, trial: Trial) -> None:
        self._control = trial.brokers.rabbitmq().control
        self.add()
        trial.at_end(self._control, "delete_user", USER)

    def add(self) -> None:
        self._control("add_user", USER, PASSWORD)
        self.grant()

    def grant(self) -> None:
        self._control("set_permissions", USER, ".*", ".*", ".*")

    def revoke_write(self) -> None:
        """Revoke the permission to write, and close connections, as open channels cache permissions."""
        self._control("set_permissions", USER, ".*", "^$", ".*")
        self.close_connections()

    def revoke_read(self) -> None:
        self._control("set_permissions", USER, ".*", ".*", "^$")
        self.close_connections()

    def delete(self) -> None:
        self._control("delete_user", USER)
        self.close_connections()

    def change_password(self, password: str) -> None:
        """Change the password; open connections stay open."""
        self._control("change_password", USER, password)

    def close_connections(self) -> None:
        self._control("close_all_connections", "an operator's decision")


def prepare_flow(trial: Trial) -> tuple[_Login, Queue, Queue]:
    """Let messages flow slowly from queue to queue, so that most are left."""
    login = _Login(trial)
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("quorum", trial.brokers, "target", trial.folder))
    source.login = target.login = f"{USER}:{PASSWORD}"
    trial.put(source, 2_000 if trial.short else 6_000)
    return login, source, target


def start_flow(trial: Trial, source: Queue, target: Queue, *, dead_letters: bool = True) -> None:
    """Start a slow bridge, and wait until some messages are through."""
    trial.bridge(source, target, policy=f"rate = {400 if trial.short else 200}", dead_letters=dead_letters)
    trial.wait_until_flowing(source)


def _seconds(trial: Trial) -> float:
    return 0.0 if trial.short else WITHOUT


def _password(trial: Trial) -> Sequence[Writable]:
    login, source, target = prepare_flow(trial)
    start_flow(trial, source, target)

    def change() -> None:
        login.change_password(OTHER)
        login.close_connections()

    trial.suffer(change, lambda: login.change_password(PASSWORD), seconds=_seconds(trial))
    trial.drain(source)
    return [target]


def _user(trial: Trial) -> Sequence[Writable]:
    login, source, target = prepare_flow(trial)
    start_flow(trial, source, target)
    trial.suffer(login.delete, login.add, seconds=_seconds(trial))
    trial.drain(source)
    return [target]


def _write_right(trial: Trial, *, dead_letters: bool) -> Sequence[Writable]:
    login, source, target = prepare_flow(trial)
    start_flow(trial, source, target, dead_letters=dead_letters)
    trial.suffer(login.revoke_write, login.grant, seconds=_seconds(trial))
    trial.drain(source)
    return [target]


def _read_right(trial: Trial) -> Sequence[Writable]:
    login, source, target = prepare_flow(trial)
    start_flow(trial, source, target)
    trial.suffer(login.revoke_read, login.grant, seconds=_seconds(trial))
    trial.drain(source)
    return [target]


def _rotation(trial: Trial, *, linked: bool = False) -> Sequence[Writable]:
    """Change the password at the broker and in the file that the configuration names, without a restart.

    ``linked``: the file is in a folder behind a link, and the link is replaced, as Kubernetes does.
    """
    login, source, target = prepare_flow(trial)
    secret, link = trial.folder / "secret", trial.folder / "..data"
    if linked:
        secret.symlink_to("..data/secret")

    def write(password: str) -> None:
        if not linked:
            secret.write_text(password + "\n")
            return
        folder = trial.folder / f"..{password}"
        folder.mkdir()
        (folder / "secret").write_text(password + "\n")
        (trial.folder / "..next").symlink_to(folder.name)
        (trial.folder / "..next").replace(link)

    write(PASSWORD)
    by_file = f'password = {{ file = "{secret}" }}\n'
    source.more = target.more = by_file
    source.login = target.login = USER
    start_flow(trial, source, target)

    def change() -> None:
        login.change_password(OTHER)
        login.close_connections()

    # The broker's changes first, and for a while the file has the old one: as it does where they are two systems.
    trial.suffer(change, lambda: write(OTHER), seconds=_seconds(trial))
    trial.drain(source)
    return [target]


SCENARIOS: Final = [
    Scenario("password", "changed, and back", ["rabbitmq"], _password),
    Scenario("user", "deleted, and back", ["rabbitmq"], _user),
    Scenario(
        "revoke", "write right, without dead letters", ["rabbitmq"],
        lambda trial: _write_right(trial, dead_letters=False), short=True,
    ),
    Scenario(
        "revoke", "write right, with dead letters", ["rabbitmq"],
        lambda trial: _write_right(trial, dead_letters=True),
    ),
    Scenario("revoke", "read right", ["rabbitmq"], _read_right),
    Scenario("rotate-secret", "in its file, while it runs", ["rabbitmq"], _rotation, short=True),
    Scenario("rotate-secret", "behind a link", ["rabbitmq"], partial(_rotation, linked=True)),
]  # fmt: skip
