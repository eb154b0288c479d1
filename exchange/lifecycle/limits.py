"""What limits the life of a message in a queue: the settings in force, as numbers and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exchange.entities.entities import Queue
from exchange.entities.in_force import NO_DEAD_LETTERS, DeadLetters, Policies, Settings
from exchange.entities.profile import Profile
from exchange.lifecycle.release import RELEASES

__all__ = ["Limits", "limits_of"]

OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a queue and where its dead letters go; None means no limit.

    ``ttl`` and ``expires`` are milliseconds, ``max_length`` and ``max_bytes`` count messages that are ready.
    """

    type: str
    max_length: int | None = None
    max_bytes: int | None = None
    ttl: int | None = None
    expires: int | None = None
    overflow: str = "drop-head"
    delivery_limit: int | None = None
    max_priority: int = 0
    """Highest priority of a classic queue; 0 for a queue without priorities."""
    single_active_consumer: bool = False
    dead_letters: DeadLetters = NO_DEAD_LETTERS

    @property
    def dead_letter_address(self) -> tuple[str, str | None] | None:
        """Dead letter exchange and its routing key, None to keep a message's keys; None for no dead letters."""
        exchange, key, _ = self.dead_letters
        return None if exchange is None else (exchange, key)


def limits_of(queue: Queue, policies: Policies) -> Limits:
    """Return the limits of a queue under these policies.

    Where RabbitMQ does not define which of several policies is in force, one of them is taken.
    """
    settings = policies.possible_settings(queue)[0]
    profile = policies.profile
    is_quorum = queue.type == "quorum"
    overflow = settings.text("overflow")
    if overflow not in OVERFLOWS or (is_quorum and overflow == "reject-publish-dlx"):
        overflow = "drop-head"  # a quorum queue logs a warning and drops
    is_stream = queue.type == "stream"
    return Limits(
        queue.type,
        None if is_stream else settings.integer("max-length"),
        None if is_stream else settings.integer("max-length-bytes"),
        None if is_stream else settings.integer("message-ttl"),
        None if is_stream else settings.integer("expires"),
        overflow,
        _delivery_limit(settings, profile) if is_quorum else None,
        0 if is_quorum or is_stream else _max_priority(settings.integer("max-priority")),
        settings.get("single-active-consumer") is True,
        policies.dead_letters_by(settings, queue.type),
    )


def _delivery_limit(settings: Settings, profile: Profile) -> int | None:
    """Return the delivery limit; a negative one, which releases before 4.0 refuse, is none."""
    given = settings.integer("delivery-limit")
    if given is None:
        return RELEASES[profile.lives].delivery_limit
    return None if given < 0 else given


def _max_priority(given: int | None) -> int:
    """Return the highest priority; a topology from a file may have one that a broker refuses."""
    return min(max(given or 0, 0), 255)
