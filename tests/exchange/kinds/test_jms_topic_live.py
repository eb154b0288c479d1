"""x-jms-topic: a live RabbitMQ delivers each message to the queues whose selectors the engine finds true."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pika
import pytest
from pika.exceptions import AMQPError

from exchange import Binding, Exchange, Message, Profile, Queue, Router, Topology
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError
from tests.support.amqp_wire import all_types_in_pika
from tests.support.differential import Outcome, compare_one
from tests.support.unique import unique_name

if TYPE_CHECKING:
    from tests.support.servers import Server

EXCHANGE = unique_name("jms")
NAMES = ("n", "m", "s", "b")
VALUES: tuple[Any, ...] = (
    0,
    1,
    2,
    -1,
    1.0,
    1.5,
    0.1,
    2**53 + 1,
    "",
    "a",
    "ab",
    "a%b",
    "a\nb",
    "é",
    "true",
    True,
    False,
)
LITERALS = (
    "0", "1", "2", "-1", "1.0", "0.1", "true", "false", '<<"a">>', '<<"ab">>', '<<"">>', '<<"a%b">>',
    *(f'{{ident,<<"{name}">>}}' for name in NAMES),
)  # fmt: skip
LIKE = ('<<"a%">>,no_escape', '<<"_b">>,no_escape', '<<"%">>,no_escape', '<<"a!%b">>,<<"!">>', '<<"%a%b">>,no_escape')


def test_a_live_broker_evaluates_random_selectors_alike(
    rabbitmq_servers: list[Server], capsys: pytest.CaptureFixture[str]
) -> None:
    """40 selectors of each of three rounds, and messages on which none of them fails."""
    for server in rabbitmq_servers:
        if not knows_the_type(server):
            pytest.skip(f"RabbitMQ {server.version}: the plugin rabbitmq_jms_topic_exchange is not enabled")
        outcome = Outcome()
        for seed in range(3):
            rng = Random(seed)
            topology = selectors(rng, find_profile(server.version))
            with all_types_in_pika():
                compare_one(server, topology, messages(rng, topology), outcome, f"selectors {seed}")
        with capsys.disabled():
            print(f"\nRabbitMQ {server.version}: {outcome.messages} messages, {len(outcome.differences)} differences")
        assert not outcome.differences, "\n\n".join(outcome.differences[:3])
        assert outcome.copies > outcome.messages > 300


def knows_the_type(server: Server) -> bool:
    """Return whether the broker has the plugin."""
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    try:
        connection.channel().exchange_declare(EXCHANGE, "x-jms-topic", auto_delete=True)
    except AMQPError:
        return False
    else:
        connection.channel().exchange_delete(EXCHANGE)
        return True
    finally:
        if connection.is_open:
            connection.close()


def selectors(rng: Random, profile: Profile) -> Topology:
    """Declare an exchange with a queue for each of many selectors."""
    names = [f"{EXCHANGE}-{number}" for number in range(40)]
    bindings = [
        Binding.to_queue(EXCHANGE, name, "k", {"rjms_erlang_selector": f"{condition(rng, 3)}."}) for name in names
    ]
    return Topology([Exchange(EXCHANGE, "x-jms-topic")], map(Queue, names), bindings, profile=profile)


def condition(rng: Random, depth: int) -> str:
    """Draw a term that is true, false or undefined for most messages."""
    if depth and rng.random() < 0.5:
        parts = [condition(rng, depth - 1) for _ in range(2)]
        return rng.choice(
            (f"{{'and',{parts[0]},{parts[1]}}}", f"{{'or',{parts[0]},{parts[1]}}}", f"{{'not',{parts[0]}}}")
        )
    name = f'{{ident,<<"{rng.choice(NAMES)}">>}}'
    one, other = rng.choice(LITERALS), rng.choice(LITERALS)
    return rng.choice((
        f"{{'{rng.choice(('=', '<>', '>', '<', '>=', '<='))}',{name},{other}}}",
        f"{{{rng.choice(('is_null', 'not_null'))},{name}}}",
        f"{{{rng.choice(('in', 'not_in'))},{name},[{one},{other}]}}",
        f"{{{rng.choice(('between', 'not_between'))},{name},{{range,{one},{other}}}}}",
        f'{{{rng.choice(("like", "not_like"))},{{ident,<<"s">>}},{rng.choice(LIKE)}}}',
        f"{{'=',{{'{rng.choice('+-*/')}',{{ident,<<\"n\">>}},{{ident,<<\"m\">>}}}},{rng.choice(('0', '1', '2.0'))}}}",
    ))  # fmt: skip


def messages(rng: Random, topology: Topology) -> list[Message]:
    """Draw messages whose route is decided and which crash no channel."""
    router = Router(topology)
    found: list[Message] = []
    while len(found) < 150:
        headers = {name: rng.choice(VALUES) for name in NAMES if rng.random() < 0.7}
        if rng.random() < 0.7:  # what selectors calculate with, or ask LIKE of, is mostly of the right type
            headers |= {
                "n": rng.choice((0, 1, 2.0)),
                "m": rng.choice((1, 2, 0)),
                "s": rng.choice(("a", "ab", "a%b", "b")),
            }
        message = Message(EXCHANGE, "k", headers)
        try:
            if not router.route(message).undecided:
                found.append(message)
        except BrokerError:
            continue
    return found
