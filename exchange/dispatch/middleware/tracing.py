"""OpenTelemetry spans of deliveries; needs the extra ``opentelemetry``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from exchange.dispatch.delivery import Delivery
from exchange.dispatch.middleware.observing import check_is_no_handler
from exchange.dispatch.policy import Handle
from exchange.text.site import build_install_command

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


def trace(provider: TracerProvider | None = None) -> Callable[[Handle], Handle]:
    """Return a wrapper that handles each delivery in a span, whose parent is that of the publisher.

    The parent is read from the headers (``traceparent``) by the propagator of the process; names and attributes follow
    OpenTelemetry's conventions for RabbitMQ. ``provider`` is that of the process by default. Raises ModuleNotFoundError
    without the extra.
    """
    check_is_no_handler(provider, "traced")
    try:
        from opentelemetry import propagate, trace  # not at the top: an extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"trace() needs opentelemetry-api: {build_install_command('opentelemetry')}"
        ) from error
    tracer = trace.get_tracer("hashstar", tracer_provider=provider)

    def wrap(handle: Handle) -> Handle:
        async def handle_in_span(delivery: Delivery) -> object:
            headers = {name: value for name, value in delivery.headers.items() if isinstance(value, str)}
            # A span records the exceptions that leave it, and has the status "error" then.
            with tracer.start_as_current_span(
                f"process {delivery.queue}",
                context=propagate.extract(headers),
                kind=trace.SpanKind.CONSUMER,
                attributes=_attributes(delivery),
            ):
                return await handle(delivery)

        return handle_in_span

    return wrap


def join_destination(*names: str) -> str:
    """Return a destination: exchange, routing key and queue, those that are not empty, and equal ones once.

    As OpenTelemetry's conventions for RabbitMQ have it.

    >>> join_destination("orders", "order.eu", "billing"), join_destination("", "billing", "billing")
    ('orders:order.eu:billing', 'billing')
    """
    return to_exportable(":".join(dict.fromkeys(filter(None, names))))


def to_exportable(text: str) -> str:
    """Return a text that can be exported: names are bytes, and may be no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _attributes(delivery: Delivery) -> dict[str, Any]:
    attributes = {
        "messaging.system": "rabbitmq",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": join_destination(delivery.exchange, delivery.routing_key, delivery.queue),
        "messaging.rabbitmq.destination.routing_key": delivery.routing_key,
        "messaging.rabbitmq.message.delivery_tag": delivery.delivery_tag,
        "messaging.message.body.size": len(delivery.body),
        "messaging.message.id": delivery.properties.get("message_id"),
        "messaging.message.conversation_id": delivery.properties.get("correlation_id"),
    }
    return {name: value for name, value in attributes.items() if value is not None}
