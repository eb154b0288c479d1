"""Certificates of brokers and clients, or of clients alone, are replaced while a bridge runs, by another authority's.

The relay before each broker has TLS and asks for the client's certificate, as a proxy does that ends TLS. The broker's
side is replaced first, and its connections end, as at a restart; the files that the configuration names come later.
"""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.chaos.places import Place, Queue, Readable, RocketmqTopic, Topic, Writable
from tests.chaos.scenarios.pauses import PLACES, place
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.bridge.certificates import authority_in
from tests.support.bridge.relay import Relay

LATER: Final = 20.0
"""Seconds until the files are replaced, too; in CI, until that is visible."""
RESTART: Final = 1.0
"""Seconds for which brokers are away before that: the last error of a client is then that they are not there."""
FILES: Final = ("ca.pem", "client.pem", "client.key")
OLD: Final = ("old", "old")
"""Authorities of the brokers' certificates, and of the clients'."""
NEW: Final = {"all": ("new", "new"), "those of clients": ("old", "new")}


class _Tls:
    """Two authorities, the relays that have the certificates of one of them, and the files that the bridge reads."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._relays: list[Relay] = []
        self._files = trial.folder / "tls"
        self._files.mkdir()
        self.replace_files(OLD)

    def _authority(self, name: str) -> Path:
        folder = self._trial.folder / name
        if not folder.exists():
            folder.mkdir()
            authority_in(folder)
        return folder

    def replace_files(self, names: tuple[str, str]) -> None:
        """Replace the files that the bridge reads."""
        brokers, clients = (self._authority(name) for name in names)
        for authority, file in zip((brokers, clients, clients), FILES, strict=True):
            shutil.copy(authority / file, self._files / file)

    def replace_brokers(self, names: tuple[str, str]) -> None:
        """Have brokers show, and ask for, certificates of these authorities; connections end."""
        brokers, clients = (self._authority(name) for name in names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(brokers / "server.pem", brokers / "server.key")
        context.load_verify_locations(clients / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        for relay in self._relays:
            relay.encrypt(context, RESTART)

    def end(self) -> None:
        """Have the relays without TLS again: other trials use them, and we do."""
        for relay in self._relays:
            relay.encrypt(None)

    def protect(self, place: Place) -> None:
        """Have the bridge connect to a place by TLS."""
        assert place.broker is not None
        self._relays.append(place.broker.relays[place.side])
        ca, cert, key = (self._files / file for file in FILES)
        place.more = f'ca_file = "{ca}"\ncert_file = "{cert}"\nkey_file = "{key}"\n'
        if isinstance(place, Queue):
            place.scheme = "amqps"
            return
        place.more += "tls = true\n"
        if isinstance(place, RocketmqTopic):
            names = Relay("127.0.0.1", place.port)
            self._trial.at_end(names.close)
            self._relays.append(names)
            place.port = names.port


def _rotate(source_kind: str, target_kind: str, what: str, trial: Trial) -> Sequence[Writable]:
    source: Readable = place(trial, source_kind, "source")
    target: Queue | Topic | RocketmqTopic = place(trial, target_kind, "target")
    trial.put(source, 2_000 if trial.short else 6_000)
    tls = _Tls(trial)
    for each in (source, target):
        tls.protect(each)
    trial.at_end(tls.end)
    tls.replace_brokers(OLD)
    trial.bridge(source, target, policy=f"rate = {400 if trial.short else 200}")
    trial.wait_until_flowing(source)
    trial.suffer(
        partial(tls.replace_brokers, NEW[what]),
        partial(tls.replace_files, NEW[what]),
        seconds=0.0 if trial.short else LATER,
    )
    trial.faults += 1  # the connections of both sides have ended
    trial.wait_until(lambda: trial.count_written() >= trial.sent, "all is written")
    trial.wait_until_idle()
    trial.stop()
    tls.end()
    return [target]


ROWS: Final = (("RabbitMQ", "Kafka"), ("Kafka", "RabbitMQ"), ("RabbitMQ", "RocketMQ"), ("RocketMQ", "RabbitMQ"))
SCENARIOS: Final = [
    Scenario(
        "rotate-certificates", f"{what}, {source} -> {target}", [PLACES[source], PLACES[target]],
        partial(_rotate, PLACES[source], PLACES[target], what),
    )
    for what in NEW
    for source, target in ROWS
]  # fmt: skip
