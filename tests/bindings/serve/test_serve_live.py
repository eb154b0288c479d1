"""``hashstar serve`` of a live broker."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import pytest

from tests.support.differential import manage
from tests.support.served import Served, serve
from tests.support.servers import Server, addresses_of
from tests.support.unique import unique_name
from tests.support.waiting import find_limit


def explain(served: Served, exchange: str, key: str) -> list[str]:
    """Ask the server where a message goes, as the page does."""
    question = {"message": {"exchange": exchange, "routing_key": key}}
    request = Request(
        f"http://127.0.0.1:{served.port}/api/explain",
        json.dumps(question).encode(),
        {"Content-Type": "application/json", "X-Hashstar-Token": served.token},
    )
    with urlopen(request, timeout=find_limit()) as answer:  # noqa: S310  as above
        queues: list[str] = json.load(answer)["queues"]
    return queues


@pytest.mark.smoke
def test_the_topology_of_a_live_broker_answers(rabbitmq: Server) -> None:
    vhost = unique_name("serve")
    manage(rabbitmq, "PUT", f"vhosts/{vhost}")
    try:
        manage(rabbitmq, "PUT", f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        manage(rabbitmq, "PUT", f"queues/{vhost}/billing", {"durable": True})
        manage(rabbitmq, "POST", f"bindings/{vhost}/e/amq.topic/q/billing", {"routing_key": "order.#"})
        with serve(f"{addresses_of(rabbitmq)[0]}/{vhost}", "--listen", "0") as served:
            assert explain(served, "amq.topic", "order.eu.created") == ["billing"]
            assert explain(served, "amq.topic", "invoice.eu") == []
    finally:
        manage(rabbitmq, "DELETE", f"vhosts/{vhost}")
