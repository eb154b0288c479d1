"""How the live tests find their servers."""

from __future__ import annotations

import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import pytest

from tests.support import servers
from tests.support.servers import SERVERS, Server, ServerKind, listed, running, server_set
from tests.support.starting import START_SECONDS, Unavailable, wait_for_service
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

NOWHERE = "amqp://guest:guest@127.0.0.1:1/%2F"


def kind_of(answers: Mapping[str, str]) -> ServerKind:
    """Return a kind whose servers are the given urls with their versions."""
    return dataclasses.replace(SERVERS["rabbitmq"], read_version=answers.__getitem__, find_management=lambda *_: None)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Wait for no server that is not there, except in live tests."""
    if request.node.get_closest_marker("live") is None:
        monkeypatch.setattr(servers, "ANSWER_SECONDS", 0)


@pytest.fixture
def no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Docker be out of reach."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")


@pytest.mark.parametrize("text", ["a,b", "a b", " a ,\n b,", "a\tb"])
def test_a_variable_lists_entries_by_commas_or_whitespace(text: str) -> None:
    """Commas and whitespace, in any number, separate entries."""
    assert listed(text) == ["a", "b"]


def test_an_empty_variable_lists_nothing() -> None:
    """An empty variable is as good as none."""
    assert listed(" , ") == []


def test_every_url_of_the_variable_is_a_server_in_its_order() -> None:
    """Several urls are several servers, the first of which is the default."""
    environ = {"HASHSTAR_RABBITMQ_URL": "amqp://one, amqp://two"}
    with running(kind_of({"amqp://one": "4.0.5", "amqp://two": "3.10.8"}), environ) as found:
        assert found == [
            Server("amqp://one", "HASHSTAR_RABBITMQ_URL", "4.0.5"),
            Server("amqp://two", "HASHSTAR_RABBITMQ_URL", "3.10.8"),
        ]


def test_the_first_server_is_started_alone_and_the_others_once_all_are_needed() -> None:
    asked: list[str] = []
    known = {"amqp://one": "4.0.5", "amqp://two": "3.10.8"}

    def read_version(url: str) -> str:
        asked.append(url)
        return known[url]

    kind = dataclasses.replace(kind_of(known), read_version=read_version)
    for others, warned in (("amqp://two", []), ("amqp://gone amqp://two", ["amqp://gone"])):
        asked.clear()
        with server_set(kind, {"HASHSTAR_RABBITMQ_URL": f"amqp://one {others}"}) as found:
            assert asked == []
            first = found.first()
            assert (first.url, asked) == ("amqp://one", ["amqp://one"])
            with warnings.catch_warnings(record=True) as shown:
                assert [each.url for each in found.all()] == ["amqp://one", "amqp://two"]
            assert found.all()[0] is found.first() is first
            assert asked == ["amqp://one", *others.split()]
            assert [name for name in warned if name in str([each.message for each in shown])] == warned


def test_others_are_stopped_and_started_again_and_the_first_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[str] = []

    def start(kind: ServerKind, url: str, stack: ExitStack) -> Callable[[], Server]:
        if url == "amqp://gone":
            raise Unavailable(url)
        running.append(url)
        stack.callback(running.remove, url)
        return lambda: Server(url, kind.name, "")

    monkeypatch.setattr(servers, "_at_url", start)
    with server_set(kind_of({}), {"HASHSTAR_RABBITMQ_URL": "amqp://one amqp://gone amqp://two amqp://three"}) as found:
        with pytest.warns(UserWarning, match="amqp://gone"):
            first, *_ = found.all()
        found.stop_others()
        assert running == ["amqp://one"]
        assert found.first() is first
        assert [each.url for each in found.all()] == ["amqp://one", "amqp://two", "amqp://three"]
        assert running == ["amqp://one", "amqp://two", "amqp://three"]
    assert running == []


def test_the_next_server_is_the_first_where_one_is_missing() -> None:
    environ = {"HASHSTAR_RABBITMQ_URL": "amqp://gone amqp://one amqp://two"}
    with (
        pytest.warns(UserWarning, match="left out of the live tests: .*amqp://gone"),
        server_set(kind_of({"amqp://one": "4.0.5", "amqp://two": "3.10.8"}), environ) as found,
    ):
        assert found.first().url == "amqp://one"
    with (
        pytest.raises(pytest.fail.Exception, match="amqp://gone"),
        server_set(kind_of({"amqp://one": "4.0.5"}), environ | {"HASHSTAR_REQUIRE_LIVE": "1"}) as found,
    ):
        found.first()


@pytest.mark.usefixtures("no_docker")
def test_urls_go_before_images() -> None:
    """With an url given no image is looked at."""
    environ = {"HASHSTAR_RABBITMQ_URL": "amqp://one", "HASHSTAR_RABBITMQ_IMAGE": "some/image"}
    with running(kind_of({"amqp://one": "4.0.5"}), environ) as found:
        assert [server.url for server in found] == ["amqp://one"]


def test_images_are_started_when_there_is_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without urls each image of the variable is tried, or else the default image."""
    asked: list[str] = []

    def start(_: ServerKind, image: str) -> None:
        asked.append(image)
        raise Unavailable("no")

    monkeypatch.setattr(servers, "_start", start)
    for value in ("one/image:1,other/image:2", ""):
        with pytest.raises(pytest.skip.Exception), running(kind_of({}), {"HASHSTAR_RABBITMQ_IMAGE": value}):
            pass
    assert asked == ["one/image:1", "other/image:2", "rabbitmq:4-management"]


@pytest.mark.usefixtures("no_docker")
def test_without_any_server_a_test_is_skipped_with_the_reason() -> None:
    """The reason names the variable to set and what is wrong with Docker."""
    with (
        pytest.raises(pytest.skip.Exception, match="HASHSTAR_RABBITMQ_URL is not set and Docker does not run"),
        running(SERVERS["rabbitmq"], {}),
    ):
        pass


@pytest.mark.usefixtures("no_docker")
def test_without_any_server_a_test_fails_where_servers_are_required() -> None:
    """HASHSTAR_REQUIRE_LIVE=1 turns a missing server into a failure."""
    with (
        pytest.raises(pytest.fail.Exception, match="HASHSTAR_REQUIRE_LIVE"),
        running(SERVERS["rabbitmq"], {"HASHSTAR_REQUIRE_LIVE": "1"}),
    ):
        pass


def test_the_reason_names_a_url_without_a_server() -> None:
    """The reason of a skip names the url nobody answers at."""
    with (
        pytest.raises(pytest.skip.Exception, match=f"{NOWHERE}, which did not answer"),
        running(SERVERS["rabbitmq"], {"HASHSTAR_RABBITMQ_URL": NOWHERE}),
    ):
        pass


def test_one_missing_server_of_several_is_left_out_with_a_warning() -> None:
    """The tests go on with the servers there are."""
    environ = {"HASHSTAR_RABBITMQ_URL": "amqp://gone amqp://one"}
    with (
        pytest.warns(UserWarning, match="left out of the live tests: .*amqp://gone"),
        running(kind_of({"amqp://one": "4.0.5"}), environ) as found,
    ):
        assert [server.url for server in found] == ["amqp://one"]


def test_one_missing_server_of_several_fails_where_servers_are_required() -> None:
    """HASHSTAR_REQUIRE_LIVE=1 means all of the servers named."""
    environ = {"HASHSTAR_RABBITMQ_URL": "amqp://gone amqp://one", "HASHSTAR_REQUIRE_LIVE": "1"}
    with pytest.raises(pytest.fail.Exception, match="amqp://gone"), running(kind_of({"amqp://one": "4.0.5"}), environ):
        pass


def test_a_service_that_does_not_come_up_is_named_with_the_reason_and_its_log() -> None:
    def ask() -> None:
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(Unavailable) as reason:
        wait_for_service("the store", ask, lambda: "ready\nno room on the disk\n", seconds=0.3)
    assert re.fullmatch(
        r"the store did not answer in \d+ s \(ConnectionRefusedError: nobody there\); its log ends:\n"
        r"ready\nno room on the disk",
        str(reason.value),
    )
    assert START_SECONDS <= 60


def test_a_service_that_has_ended_is_not_waited_for() -> None:
    def ask() -> None:
        raise ConnectionRefusedError

    with pytest.raises(Unavailable, match=r"^the store ended before it answered; its log ends:\nbad setting$"):
        wait_for_service("the store", ask, lambda: "bad setting", has_ended=lambda: True, seconds=3600)


def test_a_service_answers_as_soon_as_it_is_up() -> None:
    answers = iter(["", "", "4.0.5"])

    def ask() -> str:
        if not (answer := next(answers)):
            raise OSError
        return answer

    assert wait_for_service("the store", ask) == "4.0.5"


@pytest.mark.live
def test_a_container_that_ends_is_named_with_its_log() -> None:
    """A Kafka that is told to be nothing that it knows."""
    wrong = {"KAFKA_PROCESS_ROLES": "postman"}
    kind = dataclasses.replace(SERVERS["kafka"], environment=lambda port: {**servers.kafka_environment(port), **wrong})
    with (
        pytest.raises(
            pytest.fail.Exception, match=r"(?s)a container of \S*kafka\S* ended before it answered; its log .*postman"
        ),
        running(kind, {**os.environ, "HASHSTAR_REQUIRE_LIVE": "1"}),
    ):
        pass


def test_versions_compare_by_their_numbers() -> None:
    """3.10 comes after 3.9, and what follows the numbers does not matter."""
    assert Server("", "", "3.10.8").version_info == (3, 10, 8)
    assert Server("", "", "3.10.8").version_info > Server("", "", "3.9.29").version_info
    assert Server("", "", "4.1.0-rc.2").version_info == (4, 1, 0)


def test_a_version_that_is_not_known_is_older_than_all() -> None:
    """That of a Kafka whose image is not ours."""
    assert Server("", "", "unknown").version_info == ()
    assert Server("", "", "unknown").version_info < Server("", "", "3.9.2").version_info


@pytest.mark.smoke
@pytest.mark.live
def test_every_live_broker_accepts_a_connection_and_reports_its_version(rabbitmq_servers: list[Server]) -> None:
    """A client connects, opens a channel and is routed a message; the version has three numbers."""
    import pika

    for server in rabbitmq_servers:
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        try:
            channel = connection.channel()
            queue = channel.queue_declare(unique_name("servers"), exclusive=True).method.queue
            channel.basic_publish("", queue, b"hello")
            _, _, body = channel.basic_get(queue, auto_ack=True)
            assert body == b"hello"
        finally:
            connection.close()
        assert len(server.version_info) == 3


@pytest.mark.live
def test_the_default_broker_is_the_first(rabbitmq_servers: list[Server], rabbitmq: Server) -> None:
    """Tests that need one broker get the first one named."""
    assert rabbitmq is rabbitmq_servers[0]


@pytest.mark.live
def test_every_live_kafka_keeps_a_record(kafka_servers: list[Server]) -> None:
    """A topic is created, written to and read at the address that the broker itself advertises."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    for server in kafka_servers:
        topic = unique_name("servers")
        admin = AdminClient({"bootstrap.servers": server.url})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(find_limit())
        producer = Producer({"bootstrap.servers": server.url})
        producer.produce(topic, b"hello")
        assert producer.flush(find_limit()) == 0
        consumer = Consumer({"bootstrap.servers": server.url, "group.id": topic, "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe([topic])
            message = consumer.poll(find_limit())
            assert message is not None
            assert message.value() == b"hello"
        finally:
            consumer.close()
            admin.delete_topics([topic])[topic].result(find_limit())


@pytest.mark.live
def test_the_default_kafka_is_the_first(kafka_servers: list[Server], kafka: Server) -> None:
    """Tests that need one Kafka get the first one named."""
    assert kafka is kafka_servers[0]
