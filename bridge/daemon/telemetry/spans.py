"""OpenTelemetry spans of the messages that a bridge moves, with ``tracing = true``; needs the extra ``opentelemetry``.

==================  ==================================================================================================
``process QUEUE``   from reading a message to its settling; its parent is the span that the message names
                    (``traceparent``), as in `exchange.dispatch.middleware.trace`
``send TOPIC``      from each writing of a copy to its confirm or refusal, a child of ``process``; the copy that is
                    written names it, in place of the one that the message was read with
==================  ==================================================================================================

A message of which no span is recorded, as its trace is not sampled, is written as it was read. So is a dead letter,
which can be published again as it was, and what goes to an archive. Nothing here decides what becomes of a message,
whatever a sampler or a span processor raises; none is waited for: the SDK exports its batches on a thread of its own.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Final, NamedTuple, ParamSpec

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import (
    ProxyTracerProvider,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_tracer,
    get_tracer_provider,
    set_span_in_context,
)

from bridge.daemon.config import Config
from bridge.endpoint import Delivery, Failure, Outgoing, Source, Target
from bridge.endpoints import has_groups
from bridge.pump.events import PumpEvents
from exchange.amqp import ContentHeader, MalformedHeader, build_lazy_message, get_content
from exchange.dispatch.middleware.tracing import join_destination, to_exportable
from exchange.errors import HashstarError
from exchange.values.message import Message

LOG: Final = logging.getLogger(__name__)
P = ParamSpec("P")

MEMORY: Final = "memory"
"""What ``messaging.system`` is for endpoints that name no place."""
ARCHIVE: Final = "archive"
FAILED: Final = frozenset({"dead-letter", "drop"})
"""Fates that make the span of a message one with an error."""
NOT_SAMPLED: Final = re.compile(
    rb"\x0btraceparentS\x00\x00\x007[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][02468ace]"
)
"""The header, as it is on the wire, of a message whose trace its publisher has not sampled."""
W3C: Final = frozenset({"traceparent", "tracestate", "baggage"})


def is_set_up() -> bool:
    """Return whether the process has an SDK of OpenTelemetry, so that spans go anywhere."""
    return not isinstance(get_tracer_provider(), ProxyTracerProvider)


def follows_parents(provider: TracerProvider) -> bool:
    """Return whether a trace that its publisher has not sampled never is, as by all samplers ``parentbased_...``."""
    sampler = getattr(provider, "sampler", None)
    return sampler is not None and "remoteParentNotSampled:AlwaysOffSampler" in sampler.get_description()


class _Headers(Getter[ContentHeader]):
    """Reads texts among the headers of a message for a propagator."""

    def get(self, carrier: ContentHeader, key: str) -> list[str] | None:
        value = carrier.header(key)
        return [value] if isinstance(value, str) else None

    def keys(self, carrier: ContentHeader) -> list[str]:
        return [name.decode("utf-8", "replace") for name, _ in carrier.fields()]


HEADERS: Final = _Headers()


class _Traced(NamedTuple):
    """A message that is not settled yet, and is traced."""

    span: Span
    context: Context
    """What was read from the message, with the span."""


class _TracedSource:
    """The deliveries of one source that are not settled."""

    def __init__(self, source: Source) -> None:
        self.name: Final = source.name
        self.lanes: dict[Hashable, deque[Delivery]] = {}
        place = next(iter(source.places), None)
        self.system: Final = MEMORY if place is None else place.system
        self.queue: Final = source.name if place is None else place.name.partition(" ")[2] or source.name
        self.own: Final[dict[str, Any]] = {
            "messaging.system": self.system, "messaging.operation.type": "process",
            "messaging.operation.name": "process",
        }  # fmt: skip
        if has_groups(self.system):
            with suppress(HashstarError):  # of a secret among the settings that cannot be read now
                self.own["messaging.consumer.group.name"] = source.settled_in or ""

    def describe(self, delivery: Delivery) -> tuple[str, dict[str, Any]]:
        """Return name and attributes of the span of a delivery."""
        message = delivery.message
        lane: Any = delivery.lane  # of Kafka and RocketMQ as their sources have them
        more: dict[str, Any] = {}
        queue = self.queue
        if self.system == "rabbitmq":
            more["messaging.destination.name"] = join_destination(message.exchange, message.routing_key, queue)
            more["messaging.rabbitmq.destination.routing_key"] = to_exportable(message.routing_key)
            more["messaging.rabbitmq.message.delivery_tag"] = delivery.position
        elif self.system == "kafka":
            queue = more["messaging.destination.name"] = lane.topic
            more["messaging.destination.partition.id"] = str(lane.partition)
            more["messaging.kafka.offset"] = delivery.position
        elif self.system == "rocketmq":
            assigned = lane.assigned.queue
            queue = more["messaging.destination.name"] = assigned.topic
            more["messaging.destination.partition.id"] = f"{assigned.broker}:{assigned.queue_id}"
        else:
            more["messaging.destination.name"] = queue
        return f"process {queue}", {**self.own, **more, "messaging.message.body.size": len(message.body)}


class _TracedTarget:
    """The messages that one target was given and has not answered for."""

    def __init__(self, target: Target, *, keeps: bool) -> None:
        self.target: Final = target
        self.sent: dict[Outgoing, Span] = {}
        systems = {place.system for place in target.places}
        self.system: Final = next(iter(systems), MEMORY)
        self.keeps: Final = keeps or self.system == ARCHIVE
        """Whether messages are written as they were read."""
        self.own: Final[dict[str, Any]] = {
            "messaging.system": self.system, "messaging.operation.type": "send", "messaging.operation.name": "send",
        }  # fmt: skip

    def describe(self, outgoing: Outgoing) -> tuple[str, dict[str, Any]]:
        """Return name and attributes of the span of a message."""
        attributes = {**self.own, "messaging.message.body.size": len(outgoing.message.body)}
        try:
            destination = self.target.name_destination(outgoing)
        except Exception:  # noqa: BLE001  whatever is wrong with the message, the target will refuse it
            destination = (self.target.name,)
        attributes["messaging.destination.name"] = join_destination(*destination)
        if self.system == "rabbitmq" and len(destination) == 2:
            attributes["messaging.rabbitmq.destination.routing_key"] = destination[1]
        elif outgoing.placement is not None and outgoing.placement.partition is not None:
            attributes["messaging.destination.partition.id"] = str(outgoing.placement.partition)
        return f"send {destination[0] or self.target.name}", attributes


def _guarded(act: Callable[P, None]) -> Callable[P, None]:
    """Log what goes wrong with spans, and move messages all the same."""

    @wraps(act)
    def act_safely(*arguments: P.args, **named: P.kwargs) -> None:
        try:
            act(*arguments, **named)
        except Exception:
            LOG.exception("tracing")

    return act_safely


class TracedEvents:
    """Makes spans of what happens in a pump, and passes all of it on to ``events``.

    ``provider`` is the one of the process by default.
    """

    def __init__(self, events: PumpEvents, config: Config, provider: TracerProvider | None = None) -> None:
        self._events: Final = events
        self._tracer: Final[Tracer] = get_tracer("hashstar", tracer_provider=provider)
        fields = propagate.get_global_textmap().fields
        self._fields: Final = [name.encode() for name in fields]
        """Names of the headers that the propagator of the process reads."""
        self._skips: Final = fields <= W3C and follows_parents(provider or get_tracer_provider())
        """Whether a message needs no look by the SDK if its publisher has not sampled its trace."""
        self._sources: Final = {each.source.name: _TracedSource(each.source) for each in config.inlets}
        self._targets: Final = {
            each.name: _TracedTarget(each, keeps=each is config.dead_letters)
            for each in config.endpoints
            if isinstance(each, Target)
        }
        self._traced: Final[dict[Delivery, _Traced]] = {}
        """Those whose span is recorded."""
        self.connected, self.ended = events.connected, events.ended
        self.requested, self.replied = events.requested, events.replied

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        self._events.read(source, deliveries)
        self._begin(self._sources[source], deliveries)

    def settled(self, source: str, delivery: Delivery) -> None:
        self._finish(self._sources[source].lanes, delivery)

    def sending(self, target: str, messages: Sequence[Outgoing]) -> None:
        if self._traced:
            self._send(self._targets[target], messages)

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        self._events.confirmed(target, messages, now)
        if sent := self._targets[target].sent:
            self._answer(sent, messages)

    def refused(self, target: str, message: Outgoing, failure: Failure, retry_in: float | None) -> None:
        self._events.refused(target, message, failure, retry_in)
        self._answer(self._targets[target].sent, [message], failure.reason)

    def abandoned(self, target: str, message: Outgoing) -> None:
        self._events.abandoned(target, message)
        self._answer(self._targets[target].sent, [message], "not written: its source gives it again")

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        self._events.gave_up(target, message, failure, fate)
        self._answer(self._targets[target].sent, [message], failure.reason)
        self._note(message.delivery, fate, failure.reason, message.queue)

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        self._events.unroutable(source, delivery, fate, reason)
        self._note(delivery, fate, reason)

    def filtered(self, source: str, delivery: Delivery, reason: str) -> None:
        self._events.filtered(source, delivery, reason)
        self._note(delivery, "filtered", reason)

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        self._events.disconnected(name, error, wait)
        self._lose(name, str(error))

    def left(self, source: str) -> None:
        self._events.left(source)
        self._lose(source, "its source is closed")

    @_guarded
    def _begin(self, source: _TracedSource, deliveries: Sequence[Delivery]) -> None:
        lanes, start, skips = source.lanes, self._tracer.start_span, self._skips
        for delivery in deliveries:
            lane = lanes.get(delivery.lane)
            if lane is None:
                lane = lanes[delivery.lane] = deque()
            lane.append(delivery)
            content = get_content(delivery.message)
            if skips and NOT_SAMPLED.search(content.raw):
                continue
            context = self._extract(content)
            name, attributes = source.describe(delivery)
            span = start(name, context, SpanKind.CONSUMER, attributes)
            if span.is_recording():
                self._traced[delivery] = _Traced(span, set_span_in_context(span, context))

    def _extract(self, content: ContentHeader) -> Context:
        if any(name in content.raw for name in self._fields):
            try:
                return propagate.extract(content, Context(), HEADERS)
            except MalformedHeader:  # the message is a dead letter, and its span begins a trace
                pass
        return Context()

    @_guarded
    def _finish(self, lanes: dict[Hashable, deque[Delivery]], delivery: Delivery) -> None:
        lane = lanes.get(delivery.lane)
        while lane:
            first = lane.popleft()
            if (traced := self._traced.pop(first, None)) is not None:
                traced.span.end()
            if first is delivery:
                break
        if not lane:
            lanes.pop(delivery.lane, None)

    @_guarded
    def _send(self, target: _TracedTarget, messages: Sequence[Outgoing]) -> None:
        sent, start = target.sent, self._tracer.start_span
        for outgoing in messages:
            traced = self._traced.get(outgoing.delivery)
            if traced is None:
                continue
            if (before := sent.pop(outgoing, None)) is not None:
                _end(before, "no answer: it is sent again")
            name, attributes = target.describe(outgoing)
            span = sent[outgoing] = start(name, traced.context, SpanKind.PRODUCER, attributes)
            if not target.keeps:
                outgoing.message = inject(outgoing.message, set_span_in_context(span, traced.context))

    @_guarded
    def _answer(self, sent: dict[Outgoing, Span], messages: Iterable[Outgoing], reason: str | None = None) -> None:
        for outgoing in messages:
            if (span := sent.pop(outgoing, None)) is not None:
                _end(span, reason)

    @_guarded
    def _note(self, delivery: Delivery, fate: str, reason: str, queue: str = "") -> None:
        """Have the span of a message say what has become of it."""
        if (traced := self._traced.get(delivery)) is not None:
            about = {"reason": to_exportable(reason), **({"queue": to_exportable(queue)} if queue else {})}
            traced.span.add_event(fate, about)
            if fate in FAILED:
                _fail(traced.span, reason)

    @_guarded
    def _lose(self, name: str, reason: str) -> None:
        """End the spans of what a source will give again, or a target has not answered for."""
        if (target := self._targets.get(name)) is not None:
            self._answer(target.sent, [*target.sent], reason)
        if (source := self._sources.get(name)) is not None:
            gone = {delivery for lane in source.lanes.values() for delivery in lane}
            source.lanes.clear()
            for each in self._targets.values() if gone else ():
                self._answer(each.sent, [outgoing for outgoing in each.sent if outgoing.delivery in gone], reason)
            for delivery in gone:
                if (traced := self._traced.pop(delivery, None)) is not None:
                    _end(traced.span, reason)


def inject(message: Message, context: Context) -> Message:
    """Return a message that names the span of a context; as it is if its headers cannot be read."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    try:
        content = get_content(message)
        for name, value in carrier.items():
            content = content.with_header(name, value)
    except (MalformedHeader, ValueError):
        return message
    return build_lazy_message(message.exchange, message.routing_key, content, message.body)


def _end(span: Span, reason: str | None) -> None:
    if reason is not None:
        _fail(span, reason)
    span.end()


def _fail(span: Span, reason: str) -> None:
    """Give a span an error: its kind is what stands before the first colon, ``returned`` or ``too large``."""
    text = to_exportable(reason)
    span.set_attribute("error.type", text.partition(":")[0])
    span.set_status(Status(StatusCode.ERROR, text))
