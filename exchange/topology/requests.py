"""What a broker refuses of clients' requests for the type of the queue that they name.

Live brokers are the oracle: `tests/bindings/upgrading/test_requests_live.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from secrets import token_urlsafe

from exchange.entities.profile import QueueBehaviour
from exchange.errors import AccessRefused, NotImplementedByBroker, PreconditionFailed, ResourceLocked


def name_queue(prefix: str = "") -> str:
    """Return a name for a queue that is declared without one, as the broker makes it: ``amq.gen-`` and 22 characters.

    The prefix is that of x-name-prefix.
    """
    return f"{prefix or 'amq.gen'}-{token_urlsafe(16)}"


def refuse_consume(
    queue_type: str, what: str, lives: QueueBehaviour, *, prefetch: int, auto_ack: bool, channel_prefetch: int = 0
) -> None:
    """Raise BrokerError if a type of queues does not support a consumer; ``what`` names the queue.

    ``channel_prefetch`` is the limit that all consumers of the channel share, 0 for none.
    """
    names_streams = lives.refusals_name_streams
    if queue_type == "stream" and not prefetch:
        place = f"stream {what}" if names_streams else f"'{what}'"
        raise PreconditionFailed(f"consumer prefetch count is not set for {place}")
    if queue_type == "stream" and auto_ack:
        queues = "" if names_streams else "queues "
        raise NotImplementedByBroker(f"automatic acknowledgement not supported by stream {queues}{what}")
    if queue_type in ("quorum", "stream") and channel_prefetch:
        raise NotImplementedByBroker(f"{what} does not support global qos")


def refuse_exclusive(
    queue_type: str, what: str, *, is_exclusive: bool, has_active: bool, others: Collection[bool] = ()
) -> None:
    """Raise AccessRefused for a consumer of a classic queue that an exclusive one keeps out, or that cannot be one.

    Other types of queues do not read the flag, and a queue with a single active consumer takes no exclusive one.
    ``others`` is, for each consumer that is there, whether it is exclusive.
    """
    if queue_type == "classic" and ((is_exclusive and (has_active or others)) or any(others)):
        raise AccessRefused(f"{what} in exclusive use")


def refuse_get(queue_type: str, what: str, release: QueueBehaviour, *, has_active: bool) -> None:
    """Raise the BrokerError for a stream, or a quorum queue with a single active consumer: only consumers read them."""
    if queue_type == "quorum" and has_active:
        kind = '<<"quorum">>' if release.get_quotes_type else "quorum"
        why = f"basic.get operations are not supported by {kind} queues with single active consumer"
        raise ResourceLocked(f"cannot obtain access to locked {what}. {why}")
    if queue_type == "stream":
        raise NotImplementedByBroker(f"basic.get not supported by stream queues {what}")


def refuse_purge(queue_type: str, what: str) -> None:
    """Raise NotImplementedByBroker for a stream, which keeps its messages."""
    if queue_type == "stream":
        raise NotImplementedByBroker(f"queue.purge not supported by stream queues {what}")


def refuse_delete(queue_type: str, what: str, *, if_unused: bool, if_empty: bool) -> None:
    """Raise NotImplementedByBroker for a quorum queue that is to be deleted under a condition; streams ignore those."""
    if queue_type == "quorum" and (if_unused or if_empty):
        flag = "if-unused" if if_unused else "if-empty"
        text = f"cannot delete {what}. queue.delete operations with {flag} flag set are not supported by quorum queues"
        raise NotImplementedByBroker(text)


def refuse_prefetch_size(size: int) -> None:
    """Raise NotImplementedByBroker for a prefetch in bytes."""
    if size:
        raise NotImplementedByBroker(f"prefetch_size!=0 ({size})")
