"""Record what RocketMQ's producer does about faults, and how its consumers share queues.

``python -m tests.recorders.rocketmq_faults``. Scripts of sends are played to the real `MQFaultStrategy`; its random
numbers and its clock are the script's. The versions are one of each era in
`exchange.partition.clients.rocketmq.faults`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath

VERSIONS: Final = ("4.7.1", "4.8.0", "4.9.6", "4.9.8", "5.0.0", "5.1.3", "5.5.0")
ALLOCATING: Final = ("4.7.1", "4.9.8", "5.5.0")
HERE: Final = Path(__file__).parent
OPEN: Final = ("--add-opens", "java.base/java.util=ALL-UNNAMED", "-Dfile.encoding=UTF-8")

STEPS: Final = (50, 100, 550, 1000, 1800, 2000, 3000, 5000, 10_000, 15_000, 30_000)
LATENCIES: Final = tuple(
    sorted(
        {-1, 0, 1, 10**6, 2**31, 2**63 - 1, *range(0, 20_000, 97)}
        | {step + more for step in STEPS for more in (-1, 0, 1)}
    )
)
"""Milliseconds."""

BROKERS: Final = ("broker-a", "broker-b", "c", "Aa", "BB", "Ab", "BC", "\U0001f600", "\uffee", "broker-c", "q", "")
"""Aa and BB have one hash, and Ab and BC."""

LEAST, GREATEST = -(2**31), 2**31 - 1
INDEXES: Final = (0, 5, LEAST, LEAST + 1, -1, GREATEST, GREATEST - 1, GREATEST - 4)


def _script(random: Random) -> dict[str, Any]:
    brokers = random.sample(BROKERS, random.choice((1, 2, 2, 3, 3, 4, 8)))
    listed = [[name, at] for name in brokers for at in range(random.randint(1, 4))]
    route = [[name, sum(queue[0] == name for queue in listed), 6] for name in brokers]
    if random.random() < 0.3:  # a broker that lost its master is in the route, but not in the list
        gone = random.choice(BROKERS)
        if gone not in brokers:
            route.insert(random.randint(0, len(route)), [gone, random.randint(0, 3), random.choice((6, 4))])
    if random.random() < 0.2:  # and of one that is in the list the permission was just taken away
        random.choice(route)[1:] = [random.randint(0, 3), 4]
    known = [*brokers, *{row[0] for row in route}.difference(brokers), random.choice(BROKERS)]
    steps: list[list[Any]] = []
    if random.random() < 0.4:  # no broker is available
        steps += [["update", name, 10, True, random.random() < 0.6] for name in random.sample(known, len(known))]
    last = None
    for _ in range(random.randint(5, 40)):
        kind = random.random()
        if kind < 0.35:
            slow = random.choice((0, 7, 60, 549, 550, 1200, 1800, 2500, 3000, 5000, 16_000))
            steps.append(["update", random.choice(known), slow, random.random() < 0.35, random.random() < 0.6])
        elif kind < 0.75:
            last = random.choice((None, *brokers, last))
            steps.append(["select", last, random.random() < 0.3])
        elif kind < 0.9:
            steps.append(["pass", random.choice((100, 1000, 2000, 5000, 10_000, 29_900, 30_000, 120_000, 600_000))])
        elif kind < 0.95:
            steps.append(["pick"])
        else:
            answers = {name: random.choice(("answers", "does not")) for name in known if random.random() < 0.8}
            steps.append(["detect", answers])
    return {
        "enabled": random.random() < 0.9,
        "queues": listed,
        "route": route,
        "seed": random.getrandbits(40),
        "turn": random.choice((None, None, *INDEXES)),
        "worst": random.choice((None, None, *INDEXES)),
        "now": 1_000_000,
        "steps": steps,
    }


def _scripts(count: int = 250) -> tuple[dict[str, Any], ...]:
    random = Random(0)
    return tuple([_script(random) for _ in range(count)])


SCRIPTS: Final = _scripts()
"""Scripts of events for a producer, step by step; a step is a list with its name first.

``update`` broker, latency, isolated, reachable; ``select`` last broker, reset the index; ``pass`` milliseconds;
``pick``; ``detect`` who has an address and whether it answers. Only 5.1.4 and later have the last one.
"""

ROOMS: Final = ("r1", "r2", "中", "\U0001f600", "\uffee")
CLIENTS: Final = (
    "10.0.0.1@1", "10.0.0.2@1", "10.0.0.10@1", "10.0.0.1@17", "r1@c", "r1@d", "r2@c", "中@x", "\U0001f600@x",
    "\uffee@x", "A@x", "a@x", "z@1#2", "r3@e",
)  # fmt: skip
ROOM_BROKERS: Final = (
    "r1@a", "r1@b", "r2@a", "中@a", "\U0001f600@a", "\uffee@a", "r1@", "@a", "r1@a@b", "@", "plain", "r1@a@@", "r4@x",
)  # fmt: skip


def _allocation(random: Random) -> dict[str, Any]:
    brokers = random.sample(ROOM_BROKERS, random.randint(1, 6))
    queues = [[name, at] for name in brokers for at in range(random.choice((1, 2, 3, 4, 5, 12)))]
    random.shuffle(queues)
    clients = random.sample(CLIENTS, random.randint(1, 9))
    if random.random() < 0.15:
        clients.append(random.choice(clients))
    strange = random.random()
    return {
        "topic": random.choice(("T", "%RETRY%group", "主题")),
        "queues": [] if strange < 0.03 else queues,
        "clients": [] if 0.03 < strange < 0.06 else clients,
        "current": random.choice(("", "nobody")) if strange > 0.94 else random.choice(clients),
        "sorted": random.random() < 0.8,
        "virtual_nodes": random.choice((0, 1, 10, 10, 10, 100)),
        "rooms": random.sample(ROOMS, random.randint(0, 3)),
    }


def _allocations(count: int = 400) -> tuple[dict[str, Any], ...]:
    random = Random(1)
    return tuple([_allocation(random) for _ in range(count)])


ALLOCATIONS: Final = _allocations()
"""Queues and clients of a group; ``sorted``: as a consumer sorts them before it asks its strategy.

The room of a broker or client is what stands before the first @, for `AllocateMachineRoomNearby`.
"""


def main() -> None:
    """Record."""
    for version in VERSIONS:
        jars = find_classpath(f"org.apache.rocketmq:rocketmq-client:{version}")
        scripts = [
            script | {"steps": [step for step in script["steps"] if step[0] != "detect" or version == "5.5.0"]}
            for script in SCRIPTS
        ]
        question = {"latencies": LATENCIES, "scripts": scripts}
        answers = ask(HERE / "RocketmqFaults.java", jars, question, *OPEN)
        golden.write(f"rocketmq-faults-{version}", "rocketmq-client MQFaultStrategy", version, answers)
        if version in ALLOCATING:
            answers = {"allocations": ask(HERE / "RocketmqAllocation.java", jars, ALLOCATIONS, *OPEN)}
            golden.write(f"rocketmq-allocation-{version}", "rocketmq-client rebalance strategies", version, answers)


if __name__ == "__main__":
    main()
