"""Find or start the real servers of the live tests.

A kind of server is a row of `SERVERS`. Its servers are, in this order: those at the addresses in its url
variable; containers of the images in its image variable (or of its default image); none, in which case the
tests that need one are skipped, or fail where `HASHSTAR_REQUIRE_LIVE=1` promises that servers are there.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import struct
import time
import traceback
import urllib.parse
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

from tests.support.starting import Unavailable, has_ended, read_log, wait_for_service
from tests.support.unique import free_port
from tests.support.waiting import stretch

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.docker_client import DockerClient

MANAGEMENT_SECONDS = 20.0
# For an address given by hand: its server should be up already.
ANSWER_SECONDS = 10.0
# Of silence while an image is pulled: those who work offline must not wait for a registry.
PULL_SECONDS = 15


@dataclass(frozen=True)
class Server:
    """A real server that answers."""

    url: str
    # What it was started from, or the variable its address came from.
    origin: str
    version: str
    management_url: str | None = None
    # Of one in a container: where other containers reach it.
    inside: str | None = None

    @property
    def version_info(self) -> tuple[int, ...]:
        """The leading numbers of the version, for comparisons: (4, 0, 5)."""
        return tuple(int(number) for number in re.findall(r"\d+", self.version)[:3])


@dataclass(frozen=True)
class ServerKind:
    """A kind of server: how to find, start and recognise it."""

    name: str
    url_variable: str
    image_variable: str
    default_image: str
    port: int
    # The url of the server behind a host and port.
    build_url: Callable[[str, int], str]
    # The version of the server at a url; raises an exception as long as it does not answer.
    read_version: Callable[[str], str]
    # The port of the management API, if the server has one.
    management_port: int | None = None
    # The url of the management API at a host and port, or None when it is not that of the server at url.
    find_management: Callable[[str, str, int], str | None] | None = None
    # What a container must be told, as its environment, of the port of 127.0.0.1 at which clients reach it: for
    # servers that tell clients where to connect. That port is chosen here, before the container starts.
    environment: Callable[[int], Mapping[str, str]] | None = None
    # Whether the container listens at that port too, beside its own: RocketMQ's name server, whose clients go on from
    # it to the broker, tells them the port that the broker itself has.
    sends_on: bool = False

    def images(self, environ: Mapping[str, str] = os.environ) -> list[str]:
        """Return the images of this run; the first is the newest."""
        return listed(environ.get(self.image_variable, "")) or [self.default_image]


def amqp_url(host: str, port: int) -> str:
    """Build the AMQP URL of the default user and virtual host."""
    return f"amqp://guest:guest@{host}:{port}/%2F"


def _amqp_properties(url: str) -> Any:
    # Imported here: tests without a server do without.
    import pika

    parameters = pika.URLParameters(url)
    parameters.connection_attempts = 1
    # Each of these bounds a step of the handshake with a server that accepts and says nothing.
    parameters.socket_timeout = parameters.stack_timeout = 20
    parameters.blocked_connection_timeout = 20
    connection = pika.BlockingConnection(parameters)
    try:
        return cast("Any", connection)._impl.server_properties
    finally:
        connection.close()


def amqp_version(url: str) -> str:
    """Read the version of a broker from the server properties of the AMQP handshake."""
    return str(_amqp_properties(url)["version"])


def rabbitmq_management(url: str, host: str, port: int) -> str | None:
    """Return the URL of the management API at host and port, if it belongs to the broker at the AMQP URL."""
    login = urllib.parse.urlsplit(url)
    user, password = (urllib.parse.unquote(part or "guest") for part in (login.username, login.password))
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        connection.request("GET", "/api/overview", headers={"Authorization": f"Basic {token}"})
        overview = json.load(connection.getresponse())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    is_same = overview.get("cluster_name") == _amqp_properties(url).get("cluster_name")
    return f"http://{host}:{port}" if is_same else None


def kafka_environment(port: int) -> dict[str, str]:
    """Build the settings of a node that is broker and controller, for the images apache/kafka and ours."""
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,INTERNAL://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        # Where the broker finds itself, as it must for transactions: in there the clients' port is not its own.
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
        # A member of a share group has partitions from its second heartbeat on, which is after 5 s at least by default.
        "KAFKA_GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS": "200",
        "KAFKA_GROUP_SHARE_HEARTBEAT_INTERVAL_MS": "200",
        "KAFKA_GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS": "1000",
    }


def kafka_version(bootstrap: str) -> str:
    """Read the version of the Kafka at an address; "unknown" if it is not of our image.

    Kafka's protocol does not tell it; our image adds a setting ``hashstar.version.4.3.1``.
    """
    # Imported here: tests without a server do without.
    from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

    # Of a broker that is still starting it would log each failed attempt.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    broker = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(admin.list_topics(timeout=20).brokers))))
    settings = admin.describe_configs([broker], request_timeout=20)[broker].result(10)
    prefix = "hashstar.version."
    return next((name.removeprefix(prefix) for name in settings if name.startswith(prefix)), "unknown")


def rocketmq_environment(port: int) -> dict[str, str]:
    """Build the settings of a broker at 127.0.0.1, for our images."""
    return {"ROCKETMQ_listenPort": str(port), "ROCKETMQ_brokerIP1": "127.0.0.1"}


def rocketmq_version(namesrv: str) -> str:
    """Read the version of a broker that a name server knows, once that broker answers; any one of several."""
    cluster = _rocketmq_answer(namesrv, 106)  # GET_BROKER_CLUSTER_INFO
    # Not quite JSON: the ids of brokers are bare numbers.
    broker = re.search(rb'"brokerAddrs":\{"?0"?:"([^"]+)"', cluster)
    if broker is None:
        raise Unavailable("no broker has registered itself yet")
    told = _rocketmq_answer(broker[1].decode(), 28)  # GET_BROKER_RUNTIME_INFO
    version = re.search(rb'"brokerVersionDesc":"V(\w+)"', told)
    if version is None:
        raise Unavailable(f"the broker does not tell its version: {told[:200]!r}")
    return version[1].decode().replace("_", ".")


def _rocketmq_answer(address: str, code: int) -> bytes:
    """Send RocketMQ a request (`RemotingCommand`: lengths, a header in JSON, a body); return the answer's body."""
    host, _, port = address.rpartition(":")
    header = json.dumps({"code": code, "language": "JAVA", "version": 0, "opaque": 1, "flag": 0}).encode()
    with socket.create_connection((host, int(port)), timeout=20) as connection, connection.makefile("rb") as answer:
        connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)
        length, header_length = struct.unpack(">ii", answer.read(8))
        return answer.read(length - 4)[header_length & 0xFFFFFF :]


SERVERS: Mapping[str, ServerKind] = {
    kind.name: kind
    for kind in (
        ServerKind(
            name="rabbitmq",
            url_variable="HASHSTAR_RABBITMQ_URL",
            image_variable="HASHSTAR_RABBITMQ_IMAGE",
            default_image="rabbitmq:4-management",
            port=5672,
            build_url=amqp_url,
            read_version=amqp_version,
            management_port=15672,
            find_management=rabbitmq_management,
        ),
        ServerKind(
            name="kafka",
            url_variable="HASHSTAR_KAFKA_BOOTSTRAP",
            image_variable="HASHSTAR_KAFKA_IMAGE",
            default_image="apache/kafka:4.1.1",
            port=9092,
            build_url="{}:{}".format,
            read_version=kafka_version,
            environment=kafka_environment,
        ),
        ServerKind(
            name="rocketmq",
            url_variable="HASHSTAR_ROCKETMQ_NAMESRV",
            image_variable="HASHSTAR_ROCKETMQ_IMAGE",
            default_image="hashstar/rocketmq:5.5.0",
            port=9876,
            build_url="{}:{}".format,
            read_version=rocketmq_version,
            environment=rocketmq_environment,
            sends_on=True,
        ),
    )
}


def listed(value: str) -> list[str]:
    """Return the entries of an environment variable, which are separated by commas or whitespace."""
    return [entry for entry in re.split(r"[,\s]+", value) if entry]


def live_is_required(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment promises servers, so that a missing one is a failure."""
    return environ.get("HASHSTAR_REQUIRE_LIVE", "") not in ("", "0")


def missing(reason: str, environ: Mapping[str, str] = os.environ) -> NoReturn:
    """Skip the test that needs the server, or fail it where servers are promised."""
    if live_is_required(environ):
        pytest.fail(f"HASHSTAR_REQUIRE_LIVE is set, but {reason}", pytrace=False)
    pytest.skip(reason)


def addresses_of(server: Server) -> tuple[str, str]:
    """Return the addresses of the management API, with a login, and of AMQP."""
    if server.management_url is None:
        missing(f"the management API of {server.origin} does not answer")
    parts = urllib.parse.urlsplit(server.management_url)
    login = "" if parts.username else "guest:guest@"
    amqp = urllib.parse.urlsplit(server.url)
    return f"http://{login}{parts.netloc}", f"amqp://{amqp.hostname}:{amqp.port}"


def started(container: DockerContainer, image: str) -> None:
    """Start a container of a test's own, or skip the test that needs it, as `missing`."""
    try:
        container.start()
    except Exception as reason:  # noqa: BLE001  it lets the errors of the libraries below it through
        missing(f"Docker cannot start {image} ({reason})")


Starting = Callable[[ExitStack], Callable[[], Server]]
"""A function that starts a server, with the stack that stops it, and returns what waits for it."""


class ServerSet:
    """The servers of a kind in this run, each started when it is first needed; the newest alone, or all.

    To start one takes some ten seconds of a processor. One of several that cannot be had is left out with a warning, or
    fails the test where servers are promised.
    """

    def __init__(self, kind: ServerKind, containers: ExitStack, environ: Mapping[str, str] = os.environ) -> None:
        """Start nothing yet; `containers` removes what will be."""
        self._kind, self._containers, self._environ = kind, containers, environ
        self._candidates = [*_candidates(kind, environ)]
        self._found: list[Server] = []
        self._started: list[tuple[Starting, ExitStack]] = []
        """For each server found, what starts it, and what stops it."""
        self._reasons: list[str] = []

    def first(self) -> Server:
        """Return the first server of this run."""
        while self._candidates and not self._found:
            self._start(1)
        return self._servers()[0]

    def all(self) -> list[Server]:
        """Return all servers of this run, at least one, in their order."""
        self._start(len(self._candidates))
        return self._servers()

    def stop_others(self) -> None:
        """Stop all but the first; whoever asks for all once more has them started again."""
        for _, stack in self._started[1:]:
            stack.close()
        self._candidates = [start for start, _ in self._started[1:]] + self._candidates
        del self._found[1:], self._started[1:]

    def _start(self, count: int) -> None:
        """Start the next ones; all are started before the first is waited for."""
        starting: list[tuple[Callable[[], Server], Starting, ExitStack]] = []
        next_ones, self._candidates = self._candidates[:count], self._candidates[count:]
        for start in next_ones:
            stack = self._containers.enter_context(ExitStack())
            try:
                starting.append((start(stack), start, stack))
            except Unavailable as reason:
                self._reasons.append(str(reason))
        for answered, start, stack in starting:
            try:
                self._found.append(answered())
                self._started.append((start, stack))
            except Unavailable as reason:
                self._reasons.append(str(reason))

    def _servers(self) -> list[Server]:
        if not self._found or (self._reasons and live_is_required(self._environ)):
            missing(f"no {self._kind.name}: " + "; ".join(dict.fromkeys(self._reasons)), self._environ)
        _warn_of_those_left_out(self._reasons)
        self._reasons.clear()
        return self._found


@contextmanager
def server_set(kind: ServerKind, environ: Mapping[str, str] = os.environ) -> Iterator[ServerSet]:
    """Yield the servers of a kind, none of which is started yet, and remove their containers at the end."""
    with ExitStack() as containers:
        yield ServerSet(kind, containers, environ)


@contextmanager
def running(kind: ServerKind, environ: Mapping[str, str] = os.environ) -> Iterator[list[Server]]:
    """Yield all servers of a kind, at least one, and remove their containers at the end."""
    with server_set(kind, environ) as servers:
        yield servers.all()


def _warn_of_those_left_out(reasons: list[str]) -> None:
    with warnings.catch_warnings():
        # The tests turn warnings into errors; this one is meant to be read.
        warnings.simplefilter("always")
        for reason in reasons:
            warnings.warn(f"left out of the live tests: {reason}", stacklevel=2)


def _candidates(kind: ServerKind, environ: Mapping[str, str]) -> Iterator[Starting]:
    """Yield what starts each server of this run."""
    urls = listed(environ.get(kind.url_variable, ""))
    if urls:
        for url in urls:
            yield partial(_at_url, kind, url)
        return
    for image in kind.images(environ):
        yield partial(_in_container, kind, image)


def _at_url(kind: ServerKind, url: str, _: ExitStack) -> Callable[[], Server]:
    return partial(_answering_at, kind, url)


def _answering_at(kind: ServerKind, url: str) -> Server:
    named = f"{kind.url_variable} names {url}, which"
    version = wait_for_service(named, partial(kind.read_version, url), seconds=ANSWER_SECONDS)
    return Server(url, kind.url_variable, version, _management_beside(kind, url))


def _management_beside(kind: ServerKind, url: str) -> str | None:
    """Find the management API at the default distance from the server's port (5672 and 15672); None if none."""
    if kind.find_management is None or kind.management_port is None:
        return None
    parts = urllib.parse.urlsplit(url)
    port = (parts.port or kind.port) + kind.management_port - kind.port
    return kind.find_management(url, parts.hostname or "127.0.0.1", port) if port < 65536 else None


def _in_container(kind: ServerKind, image: str, containers: ExitStack) -> Callable[[], Server]:
    container = _start(kind, image)
    containers.callback(container.stop)
    return partial(_answering_in, kind, image, container, time.monotonic())


def _answering_in(kind: ServerKind, image: str, container: DockerContainer, began: float) -> Server:
    url, version = wait_for_service(
        f"a container of {image}",
        partial(_ask, kind, container),
        partial(read_log, container),
        has_ended=partial(has_ended, container),
        began=began,
    )
    management = None
    if kind.find_management is not None and kind.management_port is not None:
        # It may come up after the broker itself, or never.
        deadline = time.monotonic() + stretch(MANAGEMENT_SECONDS)
        at = _address(container, kind.management_port)
        while (management := kind.find_management(url, *at)) is None and time.monotonic() < deadline:
            time.sleep(0.25)
    inside = f"{container.get_docker_client().bridge_ip(container.get_container_id())}:{kind.port}"
    return Server(url, image, version, management, inside)


def _ask(kind: ServerKind, container: DockerContainer) -> tuple[str, str]:
    """Return the url of the server in a container, which has a port only while it runs, and its version."""
    url = kind.build_url(*_address(container, kind.port))
    return url, kind.read_version(url)


def _start(kind: ServerKind, image: str) -> DockerContainer:
    # Imported here: tests that talk to a server at a url do without.
    try:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.docker_client import DockerClient
    except ImportError as reason:
        raise Unavailable(f"{kind.url_variable} is not set and testcontainers is not installed") from reason
    client = connect_docker(DockerClient, kind)
    _have_image(client, image)
    ports = [kind.port] + ([kind.management_port] if kind.management_port is not None else [])
    container = DockerContainer(image)
    # On 127.0.0.1 only, at a port of Docker's choice: the servers' guest may do everything.
    published: dict[int, tuple[str, ...] | tuple[str, int]] = dict.fromkeys(ports, ("127.0.0.1",))
    if kind.environment is not None:
        port = free_port()
        published[port if kind.sends_on else kind.port] = ("127.0.0.1", port)
        container.env.update(kind.environment(port))
    cast("dict[Any, Any]", container.ports).update(published)
    try:
        return container.start()
    except Exception as reason:
        container.stop()
        raise Unavailable(f"Docker cannot start {image} ({reason})") from reason


def connect_docker(connect: Callable[..., DockerClient], kind: ServerKind) -> Any:
    """Return a client of a Docker that answers."""
    try:
        return connect(timeout=PULL_SECONDS).client
    except Exception as error:  # noqa: BLE001 - it lets the errors of the libraries below it through
        reason = str(error).partition("(")[0].strip(": ")
        _close_sockets(error)
    raise Unavailable(f"{kind.url_variable} is not set and Docker does not run ({reason})")


def _close_sockets(error: BaseException | None) -> None:
    """Close the sockets in the frames of an error and its causes, which Docker's client leaves open."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            for value in frame.f_locals.values():
                if isinstance(value, socket.socket):
                    value.close()
        error = error.__cause__ or error.__context__


def _have_image(client: Any, image: str) -> None:
    """Pull the image unless it is here; testcontainers would wait long for a registry out of reach."""
    try:
        if not client.images.list(name=image):
            client.images.pull(image)
    except Exception as reason:
        raise Unavailable(f"image {image} is not here and cannot be pulled ({reason})") from reason
    finally:
        client.close()


def _address(container: DockerContainer, port: int) -> tuple[str, int]:
    """Return host and port of a container's port: at 127.0.0.1, unless Docker runs elsewhere.

    testcontainers alone would go by the bridge wherever it takes the machine itself for a container.
    """
    mapped = int(container.get_docker_client().port(container.get_container_id(), port))
    try:
        socket.create_connection(("127.0.0.1", mapped), timeout=1).close()
    except OSError:
        return container.get_container_host_ip(), container.get_exposed_port(port)
    return "127.0.0.1", mapped
