"""A broker of our own that tests may restart, with listeners for those who need a password, or TLS, or both."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from tests.support.servers import SERVERS, connect_docker, kafka_environment, kafka_version, missing, started
from tests.support.starting import has_ended, read_log, wait_for_service
from tests.support.unique import free_port

USER = "bridge"
PASSWORD = "secret, and = odd"  # noqa: S105  of a container that listens on 127.0.0.1
SCRAM_PASSWORD = "another secret"  # noqa: S105  the same

PORTS = {"PLAINTEXT": 9092, "LOGIN": 9095, "TLS": 9096, "TLSLOGIN": 9097, "TOKENS": 9098}
"""Listener -> where it is in the container."""
SECRETS = "/secrets"
"""A folder of the container."""
JAAS = f"""
KafkaServer {{
    org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";
    org.apache.kafka.common.security.scram.ScramLoginModule required;
}};
"""
BEARER = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)
PROTOCOLS = {"LOGIN": "SASL_PLAINTEXT", "TLS": "SSL", "TLSLOGIN": "SASL_SSL", "TOKENS": "SASL_PLAINTEXT"}


class Broker:
    """A container; ``url`` is that of the listener for everyone, and each other listener has its own."""

    def __init__(self, container: Any, ports: Mapping[str, int]) -> None:
        self._container = container
        self.url = f"127.0.0.1:{ports['PLAINTEXT']}"
        self.login_url = f"127.0.0.1:{ports['LOGIN']}"
        """PLAIN and SCRAM."""
        self.tokens_url = f"127.0.0.1:{ports['TOKENS']}"
        """OAUTHBEARER, of tokens that nobody signs: the broker looks at their times alone."""
        self.tls_url = f"127.0.0.1:{ports.get('TLS', 0)}"
        """Clients show a certificate."""
        self.tls_login_url = f"127.0.0.1:{ports.get('TLSLOGIN', 0)}"

    def wait(self) -> None:
        """Until it answers."""
        wait_for_service(
            f"Kafka at {self.url}",
            partial(kafka_version, self.url),
            partial(read_log, self._container),
            has_ended=partial(has_ended, self._container),
        )

    def stop(self) -> None:
        """Stop it, as a restart does first."""
        self._container.get_wrapped_container().stop(timeout=5)

    def pause(self) -> None:
        """Have it be silent, with all its connections."""
        self._container.get_wrapped_container().pause()

    def resume(self) -> None:
        """Have it go on."""
        self._container.get_wrapped_container().unpause()

    def start(self) -> None:
        """Start it again, on the same data."""
        self._container.get_wrapped_container().start()


def _environment(ports: Mapping[str, int]) -> Mapping[str, str]:
    base = kafka_environment(ports["PLAINTEXT"])
    others = [name for name in ports if name != "PLAINTEXT"]
    found = dict(base) | {
        "KAFKA_LISTENERS": ",".join([base["KAFKA_LISTENERS"], *[f"{name}://:{PORTS[name]}" for name in others]]),
        "KAFKA_ADVERTISED_LISTENERS": ",".join(
            [base["KAFKA_ADVERTISED_LISTENERS"], *[f"{name}://127.0.0.1:{ports[name]}" for name in others]]
        ),
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": ",".join(
            [base["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"], *[f"{name}:{PROTOCOLS[name]}" for name in others]]
        ),
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "3",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "3",
        "KAFKA_TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS": "200",
        "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
        "KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "KAFKA_LISTENER_NAME_TOKENS_SASL_ENABLED_MECHANISMS": "OAUTHBEARER",
        "KAFKA_LISTENER_NAME_TOKENS_OAUTHBEARER_SASL_JAAS_CONFIG": BEARER,
        "KAFKA_LISTENER_NAME_TOKENS_OAUTHBEARER_CONNECTIONS_MAX_REAUTH_MS": "3600000",
        "JAVA_TOOL_OPTIONS": f"-Djava.security.auth.login.config={SECRETS}/jaas.conf",
    }
    for name in others:
        if PROTOCOLS[name].endswith("SSL"):
            found |= {
                f"KAFKA_LISTENER_NAME_{name}_SSL_KEYSTORE_TYPE": "PEM",
                f"KAFKA_LISTENER_NAME_{name}_SSL_KEYSTORE_LOCATION": f"{SECRETS}/broker.pem",
                f"KAFKA_LISTENER_NAME_{name}_SSL_TRUSTSTORE_TYPE": "PEM",
                f"KAFKA_LISTENER_NAME_{name}_SSL_TRUSTSTORE_LOCATION": f"{SECRETS}/ca.pem",
                f"KAFKA_LISTENER_NAME_{name}_SSL_CLIENT_AUTH": "required" if name == "TLS" else "none",
            }
    return found


def image_for_transactions() -> str:
    """Return the first image whose broker may be restarted during transactions, or the first image if there is none.

    The transaction coordinator of Kafka 4.3 and 4.4 takes a partition without a leader, as all are for a moment when
    the only broker starts, for one that was deleted, and never ends the transaction there (KAFKA-20734).
    """
    images = SERVERS["kafka"].images()
    versions = {image: re.search(r":(\d+)\.(\d+)", image) for image in images}
    ends = [image for image, found in versions.items() if found and (int(found[1]), int(found[2])) < (4, 3)]
    return (*ends, *images)[0]


@contextmanager
def brokers(certificates: Path | None = None, image: str = "") -> Iterator[Broker]:
    """Start a broker of the first image of this run, or of ``image``; with `certificates.authority_in` for TLS.

    Where servers are given by their addresses, none can be had, and the test is skipped.
    """
    if os.environ.get(SERVERS["kafka"].url_variable):
        pytest.skip("it stops and starts its broker, and those of this run are given by their addresses")
    image = image or SERVERS["kafka"].images()[0]
    try:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.docker_client import DockerClient

        connect_docker(DockerClient, SERVERS["kafka"]).close()  # else a socket stays open without Docker
        container = DockerContainer(image)
    except Exception as reason:  # noqa: BLE001  it lets the errors of the libraries below it through
        missing(f"no broker can be started ({reason})")
    tls = certificates is not None
    ports = {name: free_port() for name in PORTS if tls or not PROTOCOLS.get(name, "").endswith("SSL")}
    container.env.update(_environment(ports))
    published = {PORTS[name]: ("127.0.0.1", port) for name, port in ports.items()}
    cast("dict[Any, Any]", container.ports).update(published)
    with TemporaryDirectory() as secrets:
        _fill(Path(secrets), certificates)
        container.with_volume_mapping(secrets, SECRETS, "ro")
        try:
            started(container, image)
            broker = Broker(container, ports)
            broker.wait()
            yield broker
        finally:
            container.stop()


def _fill(folder: Path, certificates: Path | None) -> None:
    folder.chmod(0o755)  # the container's user is another
    (folder / "jaas.conf").write_text(JAAS)
    if certificates is not None:
        pair = [(certificates / file).read_text() for file in ("server.key", "server.pem")]
        (folder / "broker.pem").write_text("".join(pair))
        (folder / "ca.pem").write_text((certificates / "ca.pem").read_text())
