"""Record what RocketMQ's Java producer does after each outcome: ``python -m tests.recorders.rocketmq_send``.

The real `DefaultMQProducerImpl` sends; its network is a script of outcomes, and its table of faults writes down what it
is told. Times are multiples of 50 milliseconds; a script in which anything else took as long is played again.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath

VERSIONS: Final = ("4.7.1", "4.9.8", "5.1.3", "5.5.0")
HERE: Final = Path(__file__).parent
OPEN: Final = ("--add-opens", "java.base/java.nio=ALL-UNNAMED")
"""For the Netty of 4.7."""

CODES: Final = (0, 0, 10, 11, 12, 1, 2, 13, 14, 16, 17, 204, 205, 1500, 215, 29)
"""Codes of responses: 0 is SEND_OK, 10 to 12 the other statuses."""
THROWN: Final = (
    "MQClientException", "RemotingConnectException", "RemotingTimeoutException", "RemotingSendRequestException",
    "InterruptedException", "RemotingTooMuchRequestException",
)  # fmt: skip
"""The last one only where nobody waits for an answer."""


def _send(random: Random) -> dict[str, Any]:
    how = random.choice(("sync", "sync", "sync", "sync", "selector", "oneway"))
    thrown = THROWN if how == "oneway" else THROWN[:-1]
    timeout = random.choice((150, 3000, 3000, 3000, 3000))
    limit = random.choice((-1, -1, -1, 50, 100, 5000))
    outcomes: list[list[Any]] = []
    for _ in range(6):
        delay = random.choice((0, 200)) if timeout == 150 else 0
        name = random.choice(("response", "response", "response", *thrown))
        outcomes.append([name, delay, random.choice(CODES) if name == "response" else 0])
    if random.random() < 0.4:  # so that more than the first try matters
        outcomes[0] = [random.choice(THROWN[:4]), outcomes[0][1], 0]
    return {
        "how": how,
        "detector": random.random() < 0.3,
        "settings": {
            "setSendMsgTimeout": timeout,
            "setSendMsgMaxTimeoutPerRequest": limit,
            "setRetryTimesWhenSendFailed": random.choice((0, 1, 2, 2, 2, 4)),
            "setRetryAnotherBrokerWhenNotStoreOK": random.random() < 0.5,
        },
        "outcomes": outcomes,
    }


def _sends(count: int = 400) -> tuple[dict[str, Any], ...]:
    random = Random(0)
    return tuple([_send(random) for _ in range(count)])


SENDS: Final = _sends()
"""A producer's settings and what its tries come to: name, milliseconds it takes, response code."""


def main() -> None:
    """Record; before 5.1.4 there is no detector."""
    for version in VERSIONS:
        jars = find_classpath(f"org.apache.rocketmq:rocketmq-client:{version}")
        sends = [send | {"detector": send["detector"] and version == "5.5.0"} for send in SENDS]
        answers = {"sends": ask(HERE / "RocketmqSend.java", jars, sends, *OPEN)}
        golden.write(f"rocketmq-send-{version}", "rocketmq-client DefaultMQProducerImpl", version, answers)


if __name__ == "__main__":
    main()
