"""Live brokers deliver a message as often as `DELIVERIES` says, whose rows the model is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.exchange.lifecycle.test_odd_numbers import DELIVERIES, MOST
from tests.support.differential import manage
from tests.support.unique import unique_name

if TYPE_CHECKING:
    from tests.support.servers import Server

NAME: Final = unique_name("odd-number")


def test_live_brokers_deliver_as_often_as_recorded(rabbitmq_servers: list[Server]) -> None:
    for server in rabbitmq_servers:
        if server.management_url is None:
            pytest.skip("needs the management API")
        recorded = DELIVERIES.get(server.version, {})
        asked = {case: count_deliveries(server, *case) for case in recorded if case[0] is not None}
        assert asked == {case: times for case, times in recorded.items() if case in asked}, server.version


def count_deliveries(server: Server, limit: Any, by_policy: int | None) -> int:
    queue, policy = f"queues/%2F/{NAME}", f"policies/%2F/{NAME}"
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": limit}
    definition = {"pattern": f"^{NAME}$", "definition": {"delivery-limit": by_policy}, "apply-to": "queues"}
    try:
        if by_policy is not None:
            manage(server, "PUT", policy, definition)
        manage(server, "PUT", queue, {"durable": True, "arguments": arguments})
        message = {"properties": {}, "routing_key": NAME, "payload": "m", "payload_encoding": "string"}
        manage(server, "POST", "exchanges/%2F/amq.default/publish", message)
        get = {"count": 1, "ackmode": "reject_requeue_true", "encoding": "auto"}
        times = 0
        while times < MOST and manage(server, "POST", f"{queue}/get", get):
            times += 1
        return times
    finally:
        manage(server, "DELETE", queue)
        if by_policy is not None:
            manage(server, "DELETE", policy)
