"""Record what RocketMQ's Java client reads and writes of POP: ``python -m tests.recorders.rocketmq_pop``.

Handles as text, the body that acknowledges many messages, what the client makes of answers to pops, and which queues a
broker assigns to the members of a group.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, Final

from bridge.rocketmq.consumer.pop.handle import PopHandle, retry_mark
from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath

VERSION: Final = "5.5.0"
SOURCE: Final = Path(__file__).parent / "RocketmqPop.java"

HANDLES: Final = (
    (0, 1795414794403, 5000, 0, "orders", "broker-a", 0, 0),
    (12, 1795414794403, 60000, 7, "%RETRY%group_orders", "broker-a", 3, 2**40),
    (2**62, 1, 1, 999, "%RETRY%group+orders", "b", 15, 2**62 + 31),
)
"""The fields of handles, with the topic where the message is in place of its mark."""


def _text(start: int, pop_ms: int, topic: str, queue: int, offset: int, revive: int = 1) -> str:
    return PopHandle(start, pop_ms, 60_000, revive, retry_mark(topic), "broker-a", queue, offset).text


ACKS: Final = (
    (_text(0, 5, "orders", 0, 0), _text(0, 5, "orders", 0, 31), _text(0, 5, "orders", 0, 8)),
    (_text(3, 5, "orders", 0, 3), _text(3, 5, "%RETRY%group_orders", 0, 4), _text(3, 5, "%RETRY%group+orders", 0, 300)),
    (_text(3, 5, "orders", 0, 3), _text(3, 6, "orders", 0, 4), _text(3, 5, "orders", 1, 3)),
    (_text(7, 5, "orders", 2, 7, 999), _text(7, 5, "orders", 2, 9, 999)),
)
"""The handles that are acknowledged in one request."""

FIELDS: Final = {"popTime": "1795414794403", "invisibleTime": "60000", "reviveQid": "3", "restNum": "11"}


def _message(queue: int, offset: int, topic: str = "orders", times: int = 0, **properties: Any) -> dict[str, Any]:
    return {"topic": topic, "queue": queue, "offset": offset, "times": times, "properties": properties}


def _answer(messages: list[dict[str, Any]], code: int = 0, *, ordered: bool = False, **fields: str) -> dict[str, Any]:
    return {"code": code, "ordered": ordered, "fields": {**FIELDS, **fields}, "messages": messages}


FIRST: Final[dict[str, Any]] = {"1ST_POP_TIME": "77"}
V1, V2 = "%RETRY%group_orders", "%RETRY%group+orders"
ANSWERS: Final = (
    _answer([], 209), _answer([], 210), _answer([], 19), _answer([], 1),
    _answer([_message(0, 5), _message(0, 6)]),
    _answer([_message(0, 5), _message(0, 7), _message(1, 2, a="b")],
            startOffsetInfo="0 0 4;0 1 2", msgOffsetInfo="0 0 5,7;0 1 2"),
    _answer([_message(0, 9, V1, 1), _message(0, 5), _message(0, 9, V2, 2)],
            startOffsetInfo="0 0 5;1 0 8;2 0 9", msgOffsetInfo="0 0 5;1 0 9;2 0 9"),
    _answer([_message(0, 0, times=1, POP_CK=_text(0, 1795414794403, V1, 0, 0)), _message(0, 5, **FIRST)],
            startOffsetInfo="1 0 0;0 0 5", msgOffsetInfo="1 0 0;0 0 5"),
    _answer([_message(0, 5), _message(0, 6), _message(1, 2)], ordered=True, reviveQid="999",
            startOffsetInfo="0 0 5;0 1 2", msgOffsetInfo="0 0 5,6;0 1 2",
            orderCountInfo="0 qo0%6 3;0 0 1;0 1 0"),
    _answer([_message(0, 5)], startOffsetInfo="0 0", msgOffsetInfo="0 0 5"),
    _answer([_message(0, 5)], startOffsetInfo="0 0 5;0 0 5", msgOffsetInfo="0 0 5"),
    _answer([_message(0, 5)], startOffsetInfo="0 0 x", msgOffsetInfo="0 0 5"),
    _answer([_message(0, 5), _message(0, 6)], startOffsetInfo="0 0 5", msgOffsetInfo="0 0 5"),
    _answer([_message(2, 5)], startOffsetInfo="0 0 5", msgOffsetInfo="0 0 5"),
)  # fmt: skip
"""Answers to pops of the topic ``orders``, as they are on the wire."""

SHARES: Final = tuple([
    {
        "queues": [["broker-a", at] for at in range(a)] + [["broker-b", at] for at in range(b)],
        "clients": [f"client-{at}" for at in range(clients)],
        "share": share,
        "circle": circle,
    }
    for (a, b), clients, share, circle in product(
        ((4, 0), (2, 1), (3, 3)), (1, 2, 3, 5, 8), (0, 1, 2, 3), (False, True)
    )
])  # fmt: skip
"""Groups, whose members are assigned queues."""


def record() -> None:
    """Record the answers of `VERSION`."""
    question = {"handles": HANDLES, "acks": ACKS, "answers": ANSWERS, "shares": SHARES}
    answers = ask(SOURCE, find_classpath(f"org.apache.rocketmq:rocketmq-broker:{VERSION}"), question)
    client = "rocketmq-client ExtraInfoUtil, MQClientAPIImpl; rocketmq-broker QueryAssignmentProcessor"
    golden.write("rocketmq-pop", client, VERSION, answers)


if __name__ == "__main__":
    record()
