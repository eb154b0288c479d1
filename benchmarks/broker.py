"""RabbitMQ's own topic matcher, timed inside the broker's virtual machine: the peer that matters.

``HASHSTAR_BENCH_RABBITMQ`` names the images to start, separated by commas; each is started on a port of 127.0.0.1 and
removed again by its id. Bindings are made over AMQP, as any client would; then `rabbitmqctl eval` calls the module that
the broker's topic exchange calls for each message, with no network, channel or queue in the way, and an empty function
in the same loop, whose cost is subtracted.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from benchmarks.workloads import EXCHANGE, Topics

VARIABLE: Final = "HASHSTAR_BENCH_RABBITMQ"

QUEUES: Final = 100
"""Number of queues: pattern n is bound to queue n modulo this number."""

START_SECONDS: Final = 600

KEYS: Final = 1_000

ROUNDS: Final = 5


class Timing(NamedTuple):
    """The duration of one key in microseconds, round by round, and the queues of each of the first keys."""

    version: str
    rounds: list[float]
    queues: list[set[int]]
    bind_seconds: float


def images() -> list[str]:
    """Return the images to compare with, as named by the environment."""
    return [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]


def time_inside(image: str, topics: Topics) -> Timing:
    """Bind the patterns on a broker of this image and time its matcher on the first keys."""
    with _container(image) as container, _channel(container) as channel:
        start = time.perf_counter()
        _bind(channel, topics.patterns)
        took = time.perf_counter() - start
        keys = " ".join(topics.keys[:KEYS])
        script = SCRIPT % {"exchange": EXCHANGE, "keys": keys, "rounds": ROUNDS}
        version, rounds, queues = json.loads(_eval(container, script))
    return Timing(".".join(map(str, version)), rounds, [set(numbers) for numbers in queues], took)


SCRIPT: Final = """
X = rabbit_misc:r(<<"/">>, exchange, <<"%(exchange)s">>),
Keys = binary:split(<<"%(keys)s">>, <<" ">>, [global]),
{ok, Exchange} = rabbit_exchange:lookup(X),
code:ensure_loaded(rabbit_db_topic_exchange),
Has = fun(Arity) -> erlang:function_exported(rabbit_db_topic_exchange, match, Arity) end,
Match = case {Has(3), Has(2)} of
    {true, _} -> fun(Key) -> rabbit_db_topic_exchange:match(X, Key, #{}) end;
    {_, true} -> fun(Key) -> rabbit_db_topic_exchange:match(X, Key) end;
    _ -> fun(Key) -> rabbit_exchange_type_topic:route(Exchange,
        {delivery, false, false, self(), {basic_message, X, [Key], none, <<>>, false}, undefined, noflow}) end
end,
Time = fun(Call) -> element(1, timer:tc(lists, foreach, [Call, Keys])) / length(Keys) end,
Rounds = [Time(Match) - Time(fun(_) -> ok end) || _ <- lists:seq(1, %(rounds)s)],
Queues = [[binary_to_integer(element(4, Queue)) || Queue <- lists:usort(Match(Key))] || Key <- Keys],
Version = [list_to_integer(Part) || Part <- string:tokens(rabbit_misc:version(), ".")],
lists:flatten(io_lib:format("~w", [[Version, Rounds, Queues]])).
"""


def find_bound(patterns: Sequence[str]) -> dict[str, int]:
    """Return pattern -> queue for patterns that every broker accepts: since 4.3.5 a pattern has at most two ``#``."""
    accepted = [pattern for pattern in patterns if pattern.split(".").count("#") <= 2]
    return {pattern: number % QUEUES for number, pattern in enumerate(accepted)}


def _bind(channel: BlockingChannel, patterns: Sequence[str]) -> None:
    channel.exchange_declare(EXCHANGE, "topic", durable=True)
    for number in range(QUEUES):
        channel.queue_declare(str(number), exclusive=True)
    for pattern, number in find_bound(patterns).items():
        # Without a callback this is a bind that waits for no answer, which a blocking channel does not offer.
        channel._impl.queue_bind(str(number), EXCHANGE, pattern, callback=None)
        channel.connection.process_data_events(0)
    channel.queue_declare("0", passive=True)  # the answer comes after all bindings are made


@contextmanager
def _container(image: str) -> Iterator[str]:
    container = _docker("run", "-d", "--rm", "-p", "127.0.0.1::5672", image)
    try:
        yield container
    finally:
        _docker("rm", "-f", "-v", container)


@contextmanager
def run_broker(image: str) -> Iterator[str]:
    """Start a broker of this image, and yield its URL once it accepts connections."""
    with _container(image) as container:
        port = _port(container)
        _connect(pika.ConnectionParameters("127.0.0.1", port)).close()
        yield f"amqp://guest:guest@127.0.0.1:{port}/%2F?heartbeat=0"


def _port(container: str) -> int:
    return int(_docker("port", container, "5672/tcp").splitlines()[0].rpartition(":")[2])


@contextmanager
def _channel(container: str) -> Iterator[BlockingChannel]:
    connection = _connect(pika.ConnectionParameters("127.0.0.1", _port(container), heartbeat=0))
    try:
        yield connection.channel()
    finally:
        connection.close()


def _connect(parameters: pika.ConnectionParameters) -> pika.BlockingConnection:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return pika.BlockingConnection(parameters)
        except (AMQPError, OSError):
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def _eval(container: str, expression: str) -> str:
    """Return the value of an Erlang expression, a string that the tool may break into several."""
    return re.sub(r"[^-+.,e\d\[\]]", "", _docker("exec", container, "rabbitmqctl", "eval", expression))


def _docker(*arguments: str) -> str:
    run = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if run.returncode:
        raise RuntimeError(f"docker {arguments[0]}: {(run.stderr or run.stdout).strip()[:500]}")
    return run.stdout.strip()
