"""The topology of definitions.json and the handlers of consume.py, tested without a broker.

Run it with ``pytest examples/consumer``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from bindings.testing.virtual_broker import VirtualBroker

pytestmark = pytest.mark.topology("definitions.json", profile="rabbitmq-4.0")


@pytest.fixture
def consumer() -> ModuleType:
    """Import the module consume.py beside this file, which needs pika."""
    pytest.importorskip("pika")
    spec = importlib.util.spec_from_file_location("consume", Path(__file__).with_name("consume.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_billing_gets_created_and_cancelled_orders(virtual_broker: VirtualBroker) -> None:
    """From all regions, also partial cancellations."""
    virtual_broker.expect("orders", "order.eu.created", queues=["billing"])
    virtual_broker.expect("orders", "order.us.cancelled.partly", queues=["billing"])


def test_nothing_is_lost(virtual_broker: VirtualBroker) -> None:
    """Messages that billing does not get go through the alternate exchange to a queue that people watch."""
    virtual_broker.publish("orders", "order.eu.shipped", b"order 17", mandatory=True)
    assert [message.body for message in virtual_broker.queues["unrouted"]] == [b"order 17"]
    assert not virtual_broker.returned


def test_every_message_that_billing_gets_has_a_handler(virtual_broker: VirtualBroker, consumer: ModuleType) -> None:
    """The queue's bindings and the consumer's patterns fit together: dispatch raises if they do not."""
    for key in ("order.eu.created", "order.us.created", "order.us.cancelled", "order.us.cancelled.partly"):
        virtual_broker.publish("orders", key, b"order 17")
    assert len(virtual_broker.queues["billing"]) == 4
    for message in virtual_broker.queues["billing"]:
        assert consumer.dispatcher.dispatch(message) >= 1
