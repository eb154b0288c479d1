"""Brokers of each release make of an argument what the table of effects says: their queues are asked for their state."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from exchange import Queue
from exchange.entities.in_force import Policies
from exchange.entities.queue_arguments import refuse_queue
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError
from tests.support.archives.containers import run_inside
from tests.support.servers import Server
from tests.support.unique import unique_name

LETTERS: Final = {"x-dead-letter-exchange": "amq.fanout"}
SURE: Final = {**LETTERS, "x-overflow": "reject-publish"}
RETRIES: Final = {"x-delayed-retry-type": "all", "x-delayed-retry-min": 5}
CASES: Final[tuple[tuple[dict[str, Any], str, Any], ...]] = (
    ({}, "x-expires", 3_600_000), ({}, "x-message-ttl", 5000), ({}, "x-dead-letter-exchange", "amq.fanout"),
    (LETTERS, "x-dead-letter-routing-key", "k"), (SURE, "x-dead-letter-strategy", "at-least-once"),
    (LETTERS, "x-dead-letter-strategy", "at-least-once"), ({}, "x-dead-letter-strategy", "at-least-once"),
    ({}, "x-max-length", 5), ({}, "x-max-length-bytes", 500), ({}, "x-max-priority", 5),
    ({}, "x-overflow", "reject-publish"), ({}, "x-overflow", "reject-publish-dlx"),
    ({}, "x-single-active-consumer", True), ({}, "x-queue-mode", "lazy"), ({}, "x-delivery-limit", 7),
    ({}, "x-max-in-memory-length", 5), ({}, "x-max-in-memory-bytes", 5), ({}, "x-max-age", "1h"),
    ({}, "x-stream-max-segment-size-bytes", 500_000), ({}, "x-stream-filter-size-bytes", 32),
    ({}, "x-consumer-disconnected-timeout", 5), (RETRIES, "x-delayed-retry-max", 9),
    ({"x-delayed-retry-type": "all"}, "x-delayed-retry-min", 9), ({}, "x-delayed-retry-min", 9),
    ({}, "x-delayed-retry-type", "all"), ({"x-delayed-retry-min": 9}, "x-delayed-retry-type", "al"),
    ({}, "x-max-lenght", 5), ({}, "x-dead-letter-exhange", "amq.fanout"), ({}, "message-ttl", 5),
    ({}, "alternate-exchange", "amq.fanout"), ({}, "x-match", "any"), ({}, "x-ha-policy", "all"), ({}, "x-owner", "a"),
    ({}, "X-Message-TTL", 5), ({}, "x-delivery-limit", 2.5), ({}, "x-delivery-limit", -5), (RETRIES, "x-delayed-retry-max", -1),
    ({"x-delayed-retry-type": "all"}, "x-delayed-retry-min", -5), (RETRIES, "x-delayed-retry-max", 500.5),
    ({"x-delayed-retry-type": "all"}, "x-delayed-retry-min", 500.5),
)  # fmt: skip
"""Arguments of a queue, and one more: its name and value."""

STATE: Final = r"""
F = fun(T, N, As) ->
  R = rabbit_misc:r(<<"/">>, queue, N),
  {new, Q} = rabbit_amqqueue:declare(R, true, false, [{<<"x-queue-type">>, longstr, T} | As], none, <<"guest">>),
  P = amqqueue:get_pid(Q),
  V = case T of
    <<"quorum">> -> {ok, {_, O}, _} =
      ra:local_query(P, fun(M) -> {maps:get(config, rabbit_fifo:overview(M)), element(2, M)} end), O;
    <<"stream">> -> {ok, C} = rabbit_amqqueue:lookup(R),
      maps:with([retention, max_segment_size_bytes, filter_size], amqqueue:get_type_state(C));
    <<"classic">> ->
      [W] = [E || E <- tuple_to_list(sys:get_state(P)), is_tuple(E), element(1, E) =:= q],
      [B] = [E || E <- tuple_to_list(W), is_tuple(E), lists:member(element(1, E), [passthrough, state]),
        tuple_size(E) > 2, element(2, E) =:= rabbit_variable_queue],
      {[E || E <- tuple_to_list(W), is_integer(E) orelse is_atom(E) orelse is_binary(E)
        orelse (is_tuple(E) andalso element(1, E) =:= resource)],
       element(1, B), [E || element(1, B) =:= passthrough, E <- tuple_to_list(element(3, B)), is_atom(E)]}
  end,
  rabbit_amqqueue:delete(Q, false, false, <<"guest">>),
  lists:flatten(io_lib:format("~0p", [V])) end,
lists:foreach(fun({T, N, As}) -> io:format("STATE ~s~n", [F(T, N, As)]) end, CASES), ok.
"""


def write_arguments(arguments: dict[str, Any]) -> str:
    fields = []
    for name, value in arguments.items():
        kind = {bool: "bool", int: "long", str: "longstr", float: "double"}[type(value)]
        shown = f'<<"{value}">>' if isinstance(value, str) else json.dumps(value)
        fields.append(f'{{<<"{name}">>, {kind}, {shown}}}')
    return f"[{', '.join(fields)}]"


def test_an_argument_changes_a_queue_if_and_only_if_it_has_an_effect(rabbitmq_servers: list[Server]) -> None:
    for server in rabbitmq_servers:
        profile = find_profile(server.version)
        asked: list[tuple[str, dict[str, Any], str, bool]] = []
        queues: list[str] = []
        prefix = unique_name("effects")
        for kind in ("classic", "quorum", "stream"):
            for base, name, value in CASES:
                arguments = {**base, name: value}
                queue = Queue("q", arguments={"x-queue-type": kind, **arguments})
                try:
                    refuse_queue(queue, "q", profile)
                except BrokerError:
                    continue
                [settings] = Policies({}, profile=profile).possible_settings(queue)
                asked.append((kind, arguments, name, name not in settings.without_effect))
                for number, given in enumerate((base, arguments), 2 * len(asked)):
                    queues.append(f'{{<<"{kind}">>, <<"{prefix}{number:03}">>, {write_arguments(given)}}}')
        answer = run_inside(server, "rabbitmqctl", "eval", STATE.replace("CASES", f"[{', '.join(queues)}]"))
        states = [re.sub(f"{prefix}[0-9]{{3}}", "q", line) for line in answer.splitlines() if line.startswith("STATE ")]
        assert len(states) == 2 * len(asked), answer[-3000:]
        wrong = [
            (server.version, *case)
            for at, case in enumerate(asked)
            if (states[2 * at] != states[2 * at + 1]) is not case[-1]
        ]
        assert not wrong
