"""Record what x-jms-topic makes of selectors: ``python -m tests.recorders.jms_selectors AMQP-URL ...``.

Writes tests/golden/rabbitmq-jms-selectors-RELEASE.json for each broker, which needs the plugin
rabbitmq_jms_topic_exchange. Each selector is bound; where the broker takes it, each message is published to it, and
kept is whether the queue got it, None where the broker failed on it. A selector that is refused has what the broker
answered instead.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import pika
from pika.exceptions import AMQPError, ConnectionClosedByBroker, UnroutableError

from exchange.values.field_values import Typed
from tests.recorders import golden
from tests.support.amqp_wire import all_types_in_pika
from tests.support.servers import amqp_version

EXCHANGE: Final = "hashstar-jms"
QUEUE: Final = "hashstar-jms"

MESSAGES: Final[tuple[dict[str, Any], ...]] = (
    {}, {"n": 1}, {"n": 2501}, {"n": 1.0}, {"n": -0.0}, {"n": 0}, {"n": "1"}, {"n": True}, {"n": False},
    {"n": Typed("byte", 1)}, {"n": Typed("short", 1)}, {"n": Typed("unsignedbyte", 1)}, {"n": Typed("timestamp", 1)},
    {"n": Typed("float", 0.1)}, {"n": 0.1}, {"n": None}, {"n": b"1"}, {"n": [1]}, {"n": {"a": 1}}, {"n": 2**62},
    {"s": ""}, {"s": "blue"}, {"s": "Blue"}, {"s": "bl_ue"}, {"s": "b"}, {"s": "a\nb"}, {"s": "bl\n"}, {"s": "é"},
    {"s": "a.b"}, {"s": "%"}, {"s": "true"}, {"s": "undefined"}, {"s": True}, {"s": 5}, {"s": "aab"}, {"s": "ab"},
    {"n": 2501, "s": "blue"}, {"n": 1, "s": "red"}, {"b": True}, {"b": False}, {"b": 1}, {"b": "true"},
    {"n": 1, "b": True}, {"n": 3, "m": 2}, {"n": 3, "m": 0}, {"n": -3, "m": 0}, {"n": 0, "m": 0.0}, {"n": 1e308, "m": 10},
    {"n": 2**53 + 1, "m": 3}, {"CC": []}, {"x-h": "a"}, {"n": 9007199254740993, "m": 9007199254740992.0},
)  # fmt: skip

N, M, S, B = ('{ident,<<"%s">>}' % name for name in "nmsb")

SELECTORS: Final = (
    "true.", "false.", "undefined.", "1.", '<<"true">>.', f"{B}.", f"{N}.", f"{{'not',{B}}}.", f"{{'not',{N}}}.",
    f"{{'=',{N},1}}.", f"{{'=',{N},1.0}}.", f"{{'=',{N},<<\"1\">>}}.", f"{{'=',{N},0.1}}.", f"{{'=',{N},0}}.", f"{{'=',{N},true}}.",
    f"{{'<>',{N},1}}.", f"{{'<>',{S},<<\"blue\">>}}.", f"{{'>',{N},1}}.", f"{{'<',{N},2}}.", f"{{'>=',{N},1}}.", f"{{'<=',{N},1}}.",
    f"{{'>',{N},<<\"a\">>}}.", f"{{'<',{N},<<\"a\">>}}.", f"{{'>',{S},<<\"bl\">>}}.", f"{{'<',{N},true}}.", f"{{'>',{N},true}}.",
    f"{{'and',{{'=',{N},1}},{B}}}.", f"{{'or',{{'=',{N},1}},{B}}}.", f"{{'and',false,{{'+',{S},1}}}}.", f"{{'or',true,{{'+',{S},1}}}}.",
    f"{{'and',{{'=',{N},2501}},{{like,{S},<<\"bl%\">>,no_escape}}}}.", f"{{'or',{{is_null,{N}}},{{'>',{N},2500}}}}.",
    f"{{is_null,{N}}}.", f"{{not_null,{N}}}.", f"{{is_null,{S}}}.", "{is_null,1}.", '{is_null,{ident,<<"x-h">>}}.', '{not_null,{ident,<<"CC">>}}.',
    f'{{like,{S},<<"bl%">>,no_escape}}.', f'{{like,{S},<<"%b">>,no_escape}}.', f'{{like,{S},<<"bl_e">>,no_escape}}.',
    f'{{like,{S},<<"b_!_ue">>,<<"!">>}}.', f'{{like,{S},<<"bl!_ue">>,<<"!">>}}.', f'{{like,{S},<<"%">>,no_escape}}.',
    f'{{like,{S},<<"_">>,no_escape}}.', f'{{like,{S},<<"__">>,no_escape}}.', f'{{like,{S},<<"">>,no_escape}}.', f'{{like,{S},<<"a.b">>,no_escape}}.',
    f'{{like,{S},<<"a_b">>,no_escape}}.', f'{{like,{S},<<"a%b">>,no_escape}}.', f'{{like,{S},<<"!%">>,<<"!">>}}.', f'{{like,{S},<<"bl%!">>,<<"!">>}}.',
    f'{{like,{S},<<"%a%b%">>,no_escape}}.', f'{{not_like,{S},<<"bl%">>,no_escape}}.', f'{{like,{S},{{<<"bl%">>,no_escape}}}}.',
    f'{{like,{S},regex,<<"bl.*">>}}.', f'{{like,{S},regex,<<"a|ab">>}}.', f'{{like,{S},regex,<<"ab|a">>}}.', f'{{like,{S},regex,<<"[">>}}.',
    f'{{like,{S},<<"a%">>,<<"ab">>}}.', '{like,<<"abc">>,<<"a%">>,no_escape}.', f'{{like,{S},<<"[ab]^$(){{}}|?*+/\\\\">>,no_escape}}.',
    f'{{in,{S},[<<"blue">>,<<"b">>]}}.', f'{{not_in,{S},[<<"blue">>,<<"b">>]}}.', f"{{in,{N},[1,2501]}}.", f"{{in,{N},[1.0]}}.", f"{{in,{N},[]}}.",
    f"{{in,{N},[0.0]}}.", f"{{in,{N},[-0.0]}}.", f'{{in,{N},<<"a">>}}.', f"{{in,{B},[true]}}.", f'{{in,{S},"ab"}}.',
    f"{{between,{N},{{range,0,2501}}}}.", f"{{not_between,{N},{{range,0,2501}}}}.", f"{{between,{N},1,1}}.", f"{{between,{N},{{range,{M},5}}}}.",
    f'{{between,{S},{{range,<<"a">>,<<"c">>}}}}.', f"{{'and',{N},{{range,1,2}}}}.", f"{{'=',{N},{{range,1,2}}}}.",
    f"{{'=',{{'+',{N},1}},2}}.", f"{{'=',{{'-',{N},{M}}},1}}.", f"{{'=',{{'*',{N},{M}}},6}}.", f"{{'=',{{'/',{N},{M}}},1.5}}.", f"{{'>',{{'/',{N},{M}}},0}}.",
    f"{{'=',{{'-',{N}}},-1}}.", f"{{'=',{{'+',{N}}},1}}.", f"{{'>',{{'*',{N},{M}}},0}}.", f"{{'=',{N},{M}}}.", f"{{'>',{N},{M}}}.", f"{{'/',{N},0}}.",
    f"{{nonsense,{N}}}.", f"{{nonsense,{N},1}}.", f"{{'=',{N}}}.", "{ident,n}.", "{}.", "[].", '{ident,<<"n">>,1}.', "{true}.",
    f"{{'=',{S},<<\"é\"/utf8>>}}.", f"{{'=',{S},<<\"é\">>}}.", f"{{'=',{S},<<195,169>>}}.", f"{{'=',{S},\"b\"}}.", f"{{'=',{S},<<\"a\\nb\">>}}.",
    "true", "", ".", "true.true.", "{", "{'=',", "Variable.", '<<"a">>', "true. ", "{true,}.", "1e5.", "16#ff.", "$a.",
    "{'not'," * 16 + B + "}" * 16 + ".", "{'not'," * 14 + B + "}" * 14 + ".", f"{{like,{S},<<\"{'a' * 2000}%\">>,no_escape}}.",
)  # fmt: skip
TWO: Final = (f'{{like,{S},<<"bl%">>,no_escape}}.', "true.")
"""Selectors of which the first one fails on what is no text."""
# ruff: noqa: E501, UP031  a table reads best as it is


def selector(text: str) -> dict[str, str]:
    """Return the arguments of a binding with this selector."""
    return {"rjms_erlang_selector": text}


def answers(url: str, text: str | None) -> list[bool | None] | str:
    """Return the answer to each message, or what the broker answers to the binding; None leaves out the argument."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, "x-jms-topic")
    channel.queue_declare(QUEUE)
    arguments = {} if text is None else selector(text)
    found: list[bool | None] = []
    try:
        channel.queue_bind(QUEUE, EXCHANGE, "k", arguments)
        for headers in MESSAGES:
            if connection.is_closed:
                connection = pika.BlockingConnection(pika.URLParameters(url))
            found.append(_publish(connection, headers))
    except AMQPError as error:
        return f"{error.args[0]} {error.args[1]}" if len(error.args) > 1 else repr(error)
    finally:
        if connection.is_open:
            connection.close()
        clean = pika.BlockingConnection(pika.URLParameters(url))
        clean.channel().exchange_delete(EXCHANGE)
        clean.channel().queue_delete(QUEUE)
        clean.close()
    return found


def _publish(connection: pika.BlockingConnection, headers: dict[str, Any]) -> bool | None:
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        channel.basic_publish(EXCHANGE, "k", b"", pika.BasicProperties(headers=headers), mandatory=True)
    except UnroutableError:
        return False
    except ConnectionClosedByBroker:
        return None
    channel.close()
    return True


def answer_of_two(url: str, selectors: tuple[str, str]) -> bool | None:
    """Return whether any queue of two, bound with these selectors in this order, gets a message whose s is true."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, "x-jms-topic", auto_delete=True)
    for number, text in enumerate(selectors):
        channel.queue_declare(f"{QUEUE}-{number}", exclusive=True)
        channel.queue_bind(f"{QUEUE}-{number}", EXCHANGE, "k", selector(text))
    try:
        return _publish(connection, {"s": True})
    finally:
        if connection.is_open:
            connection.close()


def record(url: str) -> None:
    """Ask one broker, and write its answers."""
    version = amqp_version(url)
    with all_types_in_pika():
        given = {
            "answers": [answers(url, text) for text in SELECTORS],
            "without": answers(url, None),
            "of_two": [answer_of_two(url, TWO), answer_of_two(url, TWO[::-1])],
        }
    golden.write(f"rabbitmq-jms-selectors-{'.'.join(version.split('.')[:2])}", "RabbitMQ", version, given)


if __name__ == "__main__":
    for amqp in sys.argv[1:]:
        record(amqp)
