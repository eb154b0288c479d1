"""The test server beside the engine: the comparison that live brokers pass, with pika, on random topologies."""

from __future__ import annotations

import pytest

from bindings.testing.server import AmqpServer
from exchange import Topology
from tests.support.differential import compare
from tests.support.servers import Server


@pytest.mark.parametrize("release", ["3.10", "4.3"])
def test_every_message_arrives_where_the_engine_says(release: str) -> None:
    """The comparison with live brokers, over a real connection; policies need a management API."""
    with AmqpServer(Topology(profile=release)) as server:
        outcome = compare(Server(server.url, "in this process", release), 1_200, 7)
    assert not outcome.differences, outcome.differences[0]
    assert outcome.messages == 1_200
    assert outcome.copies > 500
    assert outcome.returned > 100
