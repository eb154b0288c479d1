"""Random arguments of queues, and the recorded patterns: a live broker answers as the engine does."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from exchange import Policy, Queue, Topology
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError
from tests.recorders import policy_patterns
from tests.recorders.policy_patterns import NAMES, PATTERNS
from tests.recorders.rabbitmq_arguments import NAME, TYPES, VALUES, Declarer

if TYPE_CHECKING:
    from tests.support.servers import Server

QUEUES = 300


@pytest.mark.live
def test_a_live_broker_refuses_the_same_random_queues(rabbitmq_servers: list[Server]) -> None:
    """With the same words, where it is not that the broker itself fails."""
    for server in rabbitmq_servers:
        rng, topology = Random(15), Topology(profile=find_profile(server.version))
        declarer = Declarer(server.url)
        for _ in range(QUEUES):
            some = rng.sample(sorted(VALUES), rng.randrange(4))
            arguments = {**rng.choice(TYPES), **{name: rng.choice(VALUES[name]) for name in some}}
            queue = Queue(NAME, arguments=arguments)
            try:
                topology.declare_queue(queue)
                ours = None
            except BrokerError as error:
                ours = str(error)
            answer = declarer.answer_to(queue)
            failed = answer is not None and answer.startswith("541")
            assert ours is not None if failed else ours == answer, (server.version, arguments)
        declarer.close()


@pytest.mark.live
def test_a_live_broker_applies_policies_to_the_same_names(rabbitmq_servers: list[Server]) -> None:
    """Where the engine gives an answer."""
    for server in rabbitmq_servers:
        if server.management_url is None:
            pytest.skip("needs the management API")
        policy_patterns.declare(server)
        try:
            for pattern in PATTERNS:
                applied = policy_patterns.apply(server, pattern)
                for name in NAMES if applied is not None else ():
                    assert Policy("p", pattern).is_found_in(name) in (None, name in (applied or ())), (pattern, name)
        finally:
            policy_patterns.delete(server)
