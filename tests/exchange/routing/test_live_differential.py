"""Random topologies and messages: a live RabbitMQ delivers and returns what the engine predicts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.differential import compare

if TYPE_CHECKING:
    from tests.support.servers import Server

MESSAGES = int(os.environ.get("HASHSTAR_LIVE_MESSAGES", "4000"))
SEED = int(os.environ.get("HASHSTAR_LIVE_SEED", "2026"))


@pytest.mark.smoke
@pytest.mark.live
@pytest.mark.timeout(0)  # a full run takes long, and longer on a busy machine
def test_a_live_broker_agrees_on_every_route(
    rabbitmq_servers: list[Server], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every message arrives in exactly the queues of Router.route, once, and is returned exactly if there are none."""
    for server in rabbitmq_servers:
        outcome = compare(server, MESSAGES, SEED)
        with capsys.disabled():
            print(
                f"\nRabbitMQ {server.version}: {outcome.messages} messages, {outcome.copies} copies, "
                f"{outcome.returned} returned, {len(outcome.differences)} differences"
            )
        assert not outcome.differences, "\n\n".join(outcome.differences)
        assert outcome.messages == MESSAGES
