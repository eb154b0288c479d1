"""The events of a pump, which are counted and logged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.pump.replies import ReplyOutcome, RequestOutcome


class TargetEvents(Protocol):
    """Receives what happens to targets and their messages, to count and log it."""

    def connected(self, name: str) -> None:
        """Take note that a source or target was opened."""

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        """Take note that a source or target was lost or could not be opened; ``wait``: seconds until the next try."""

    def sending(self, target: str, messages: Sequence[Outgoing]) -> None:
        """Take note of messages that a target is about to be given, or given again.

        What it is given is `Outgoing.message` after this call, which may add headers.
        """

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        """Take note that a target has stored these messages; ``now`` is the loop's time."""

    def refused(self, target: str, message: Outgoing, failure: Failure, retry_in: float | None) -> None:
        """Take note that a target refused a message; ``retry_in`` is in seconds, None if it is not tried again."""

    def abandoned(self, target: str, message: Outgoing) -> None:
        """Take note that a target does not write a message that its source gives again, here or to another reader."""

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        """Take note that a message is given up: ``fate`` is ``dead-letter`` or ``hold``."""


class ReplyEvents(TargetEvents, Protocol):
    """Receives what happens to replies, to count and log it."""

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        """Take note of a delivery that no queue of the topology, or no caller, gets."""

    def replied(self, source: str, outcome: ReplyOutcome) -> None:
        """Take note of a reply that a source has given."""


class PumpEvents(ReplyEvents, Protocol):
    """Receives what happens in a pump, to count and log it."""

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        """Take note of deliveries that were read."""

    def filtered(self, source: str, delivery: Delivery, reason: str) -> None:
        """Take note of a delivery that the source's filter rejects; it is settled without being sent."""

    def settled(self, source: str, delivery: Delivery) -> None:
        """Take note that a delivery and all before it in its lane are settled."""

    def requested(self, source: str, outcome: RequestOutcome) -> None:
        """Take note of a request that a source has given, and that goes to servers of another system."""

    def left(self, source: str) -> None:
        """Take note that a source was closed as the pump is drained, after all that was read is settled."""

    def ended(self, source: str) -> None:
        """Take note that a source has ended, and all its deliveries are settled."""
