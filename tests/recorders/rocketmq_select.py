"""Record what RocketMQ's clients and its proxy choose: selectors, queue lists, turns, message groups.

The versions are one of each era; the three of ``WHOLE`` are asked for everything, the others for what differs.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath
from tests.recorders.keys import COUNTS, KEYS

WHOLE: Final = ("4.7.1", "4.9.8", "5.5.0")
OTHERS: Final = ("4.1.0-incubating", "4.8.0", "4.9.3", "5.0.0", "5.1.3")
GRPC_CLIENT: Final = "5.2.0"
HERE: Final = Path(__file__).parent
OPEN: Final = ("--add-opens", "java.base/java.util=ALL-UNNAMED")
"""fastjson and the seeding of a selector look into java.util."""

LEAST, GREATEST = -(2**31), 2**31 - 1
SEEDS: Final = ("0", "1", "42", "1700000000000", "1700000000001", "-1", str(2**63 - 1), str(-(2**63)))
"""Seeds of java.util.Random."""


def _typed() -> tuple[tuple[str, str], ...]:
    random = Random(1)
    cases = [("bool", "true"), ("bool", "false")]
    for kind, bits in (("byte", 8), ("short", 16), ("signedint", 32), ("long", 64)):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        numbers = {low, low + 1, -1, 0, 1, high - 1, high, *(random.randint(low, high) for _ in range(60))}
        if bits == 64:
            numbers |= {LEAST - 1, LEAST, GREATEST, GREATEST + 1, 2**32, 0x7FFFFFFF_FFFFFFFF ^ 0x80000000}
        cases += [(kind, str(number)) for number in sorted(numbers)]
    for kind, bits, special in (
        ("float", 32, (0x7FC00000, 0x7F800001, 0x7F800000, 0x80000000, 0x00000001, 0x3F800000)),
        ("double", 64, (0x7FF8 << 48, 0x7FF0 << 48 | 1, 0x7FF0 << 48, 1 << 63, 1, 0x3FF0 << 48, 0x8000000080000000)),
    ):
        patterns = {0, *special, *(pattern | 1 << bits - 1 for pattern in special)}
        patterns |= {random.getrandbits(bits) for _ in range(60)}
        cases += [(kind, str(p - (1 << bits) if p >> bits - 1 else p)) for p in sorted(patterns)]
    return tuple(cases)


TYPED: Final = _typed()
"""A type as `Typed` names it, and the number as text; of float and double, the bits of the number."""

NAMES: Final = ("broker-a", "broker-b", "broker-c", "Broker-a", "b", "", "a@b", "中", "\U0001f600", "\uffee", "z", "zz")
"""Brokers; of U+1F600 and U+FFEE, code points and UTF-16 code units tell another order."""


def _routes(count: int = 300) -> tuple[str, ...]:
    random = Random(2)
    routes = []
    for _ in range(count):
        names = random.sample(NAMES, random.randint(1, 6))
        data = [
            {
                "brokerName": name,
                "readQueueNums": random.randint(0, 5),
                "writeQueueNums": random.randint(0, 5),
                "perm": random.choice((6, 6, 6, 6, 4, 2, 0, 7)),
                "topicSysFlag": 0,
            }
            for name in names
        ]
        known = [name for name in names if random.random() < 0.9]
        brokers: list[dict[str, Any]] = [
            {
                "cluster": "c",
                "brokerName": name,
                "brokerAddrs": {
                    str(at): f"10.0.0.{at}:10911" for at in random.choice(((0,), (0, 1), (0,), (1,), (2, 0), ()))
                },
            }
            for name in random.sample(known, len(known))
        ]
        route: dict[str, Any] = {"queueDatas": data, "brokerDatas": brokers, "filterServerTable": {}}
        kind = random.random()
        if kind < 0.2:
            some = random.sample(names, random.randint(1, len(names)))
            items = ";".join(f"{name}:{random.randint(0, 4)}" for name in some)
            route["orderTopicConf"] = items + random.choice(("", ";", ";;", ":x"))
        elif kind < 0.3:
            route["orderTopicConf"] = random.choice(
                ("", ";", "a", "a:", "a:4;;b:4", "a: 4", "a:+2;b:-1;c:1", " ", ":2")
            )
        elif kind < 0.45:
            route["topicQueueMappingByBroker"] = {
                name: {
                    "topic": "topic",
                    "scope": "__global__" if kind < 0.4 else "mine",
                    "totalQueues": random.randint(0, 9),
                    "bname": name,
                    "epoch": random.choice((1, 2, 3, -1, -2)),
                    "currIdMap": {},
                }
                for name in names
            }
            if random.random() < 0.2:
                route["orderTopicConf"] = ""
        routes.append(json.dumps(route))
    return tuple(routes)


ROUTES: Final = _routes()
"""Routes of a topic as a name server returns them, in JSON."""


def _turns() -> tuple[dict[str, Any], ...]:
    random = Random(3)
    layouts: tuple[tuple[tuple[str, int], ...], ...] = (
        (("a", 1),), (("a", 7),), (("a", 4), ("b", 4)), (("a", 2), ("b", 1), ("c", 3)), (("a", 5), ("b", 1)),
        (("a", 1), ("b", 1), ("c", 1)), (("a", 16),), (("a", 3), ("b", 97)),
    )  # fmt: skip
    edges = (0, 1, -1, LEAST, LEAST + 1, LEAST + 2, LEAST + 6, GREATEST - 12, GREATEST - 6, GREATEST - 1, GREATEST)
    return tuple([
        {"brokers": brokers, "drawn": drawn, "last": [random.choice((None, None, "a", "b", "x")) for _ in range(30)]}
        for brokers in layouts
        for drawn in (*edges, random.randint(LEAST, GREATEST))
    ])  # fmt: skip


TURNS: Final = _turns()
"""Brokers with their numbers of queues, the first nextInt(), and for each message the broker that failed before."""


def _route_of(count: int) -> str:
    return json.dumps({
        "queueDatas": [{"brokerName": "b", "readQueueNums": count, "writeQueueNums": count, "perm": 6}],
        "brokerDatas": [{"brokerName": "b", "brokerAddrs": {"0": "10.0.0.1:10911"}}],
    })  # fmt: skip


def main() -> None:
    """Record everything again."""
    for version in WHOLE + OTHERS:
        question: dict[str, Any] = {"counts": COUNTS, "seeds": SEEDS, "turns": TURNS}
        if version in WHOLE:
            question |= {"keys": KEYS, "typed": TYPED, "routes": ROUTES}
        jars = find_classpath(f"org.apache.rocketmq:rocketmq-client:{version}")
        answers = ask(HERE / "RocketmqSelect.java", jars, question, *OPEN)
        golden.write(f"rocketmq-select-{version}", "rocketmq-client", version, answers)
        print(f"rocketmq-client {version}")

    jars = find_classpath(f"org.apache.rocketmq:rocketmq-proxy:{WHOLE[-1]}")
    asked = {"keys": KEYS, "routes_of_counts": [_route_of(count) for count in COUNTS], "routes": ROUTES}
    answers = ask(HERE / "RocketmqSelectProxy.java", jars, asked, *OPEN)
    golden.write("rocketmq-select-proxy", "rocketmq-proxy", WHOLE[-1], answers)
    print("rocketmq-proxy")

    jars = find_classpath(f"org.apache.rocketmq:rocketmq-client-java:{GRPC_CLIENT}", "com.alibaba:fastjson:1.2.83")
    answers = ask(HERE / "RocketmqSelectGrpc.java", jars, {"keys": KEYS, "counts": COUNTS})
    golden.write("rocketmq-select-grpc", "rocketmq-client-java", GRPC_CLIENT, answers)
    print("rocketmq-client-java")


if __name__ == "__main__":
    main()
