"""Seeds of languages and of values as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

from bindings.archive.formats.json_lines import encode_line
from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.sources.formats import FORMATS
from bindings.sources.formats.format import WriteTarget
from exchange.partition.partitioning.strategies import STRATEGIES
from tests.fuzz.seeds_files import sample_records
from tests.fuzz.target import PART
from tests.recorders.rocketmq_filter import EXPRESSIONS
from tests.support.bindings import reports
from tests.support.bindings.written_terraform import plan_of
from tests.support.topologies import topology

ROOT: Final = Path(__file__).parents[2]


def _in_format(name: str, text: bytes) -> bytes:
    written = FORMATS[name].write(Document.loads(text.decode()).definitions(), WriteTarget("some.yaml", "rabbit"))
    made = "".join(written.chunks)
    return (plan_of(made) if name == "terraform" else made).encode()


def languages() -> Mapping[str, list[bytes]]:
    """Return inputs by target."""
    docs = (ROOT / "docs/bindings.md").read_text("utf-8")
    examples = [
        (ROOT / path).read_bytes() for path in ("examples/orders/orders.bindings", "examples/bridge/shop.bindings")
    ]
    blocks = [block.encode() for block in re.findall(r"```(?:bindings)?\n(.*?)```", docs, re.DOTALL)]
    rng = Random(15)
    drawn = [topology(rng, reports.ORDERS.profile) for _ in range(3)]

    dumps = [Definitions().with_topology(each).dump().encode() for each in drawn]
    consumer = (ROOT / "examples/consumer/definitions.json").read_bytes()
    return {
        "pattern-amqp": [
            b"order.*.created\norder.eu.created\n#.paid\na.paid\n#\n\n*.#.*\na.b\n#.b.#.b\nb.b.a.b\n\n.",
            b"a..b\na..b\n*\n\n",
        ],
        "pattern-mqtt": [
            b"order/+/created\norder/eu/created\n#\na/b\n+/#\n$SYS/a\n$SYS/#\n$SYS/a/b\n/+\n/a",
            b"a/#\na",
        ],
        "pattern-nats": [b"order.*.created\norder.eu.created\n>\na.b\n*.>\na\norder.>\norder.eu\n*.*\na.b"],
        **{name: [_in_format(name, each) for each in examples] for name in FORMATS},
        "bindings-language": [each for each in [*examples, *blocks] if len(each) < 2_500],
        "definitions": [consumer, *[dump for dump in dumps if len(dump) <= 8_000]],
        "selector": [expression.encode() + PART + b"a=5\nb=x'y\nregion=eu\nc=-2.5" for expression in EXPRESSIONS[::180]]
        + [b"paid || shipped" + PART + b"TAGS=paid"],
        "partitioning": [
            *[f"{name} over 12 by word 2".encode() for name in STRATEGIES],
            b'kafka.nearest(rack=eu-1) over a@eu-1:4,b@eu-2:4 by header "h"' + PART + b"key",
            b'rocketmq.hash over a:4,"b c":4 by body "/customer/id"' + PART + b'{"customer":{"id":7}}',
            b"rabbitmq.super_stream over s-0,s-1,s-2 by property message_id",
            b"erlang.phash2 over 3",
        ],
        "body-keys": [
            b"/a/0/b~1c" + PART + b'{"a":[{"b/c":"key"}]}',
            b"" + PART + b"12345678901",
            b"/id" + PART + b'{"id":-7}',
            b"/x" + PART + b'{"x":[1.5,true,null]}',
            b"/s" + PART + '{"s":"größe"}'.encode(),
        ],
    }


def values() -> Mapping[str, list[bytes]]:
    """Return inputs by target."""
    line = encode_line(sample_records()[0])
    typed = [
        {"!short": -5},
        {"!unsignedint": 7},
        {"!timestamp": 9},
        {"!decimal": "1.25"},
        {"!float": "NaN"},
        {"!bytes": "/w=="},
        {"!table": {"!x": 1}},
        {"!longstr": {"!bytes": "/w=="}},
        {"!array": [1]},
        {"!double": "Infinity"},
        {"!void": None},
    ]
    return {
        "message-line": [
            line,
            b'{"exchange":"e","routing_key":"k","headers":{"h":' + json.dumps(typed).encode() + b'},"body":"x"}\r\n',
        ],
        "message-value": [line],
        "typed-value": [json.dumps(each).encode() for each in [typed, {"a": [1, 2.5, "x", True, None, {"b": {}}]}]],
        "typed-texts": [
            kind + PART + text
            for kind, text in (
                (b"long", b"-5"),
                (b"longstr", b"text"),
                (b"decimal", b"1.25"),
                (b"timestamp", b"9"),
                (b"bool", b"true"),
                (b"table", b'{"a":1}'),
                (b"array", b"[1]"),
                (b"float", b"0.5"),
                (b"binary", b"/w=="),
                (b"void", b""),
                (b"double", b"1e300"),
                (b"unsignedbyte", b"255"),
            )
        ],
        "times": [
            b'"2026-11-21T06:28:37.431+00:00"',
            b"2026-11-21T06:28:37Z",
            b"1700000000.5",
            b"1700000000000",
            b"-1",
            b"1e18",
        ],
    }
