"""Route the messages of a file through two topologies, and count those that go elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import IO, Final, NamedTuple

from exchange.errors import BrokerError, InputError
from exchange.routing.router import Router
from exchange.text.display import count_rest, describe_exchange, write_milliseconds
from exchange.values.documents import document
from exchange.values.field_json import decode_message_line
from exchange.values.lines import read_lines
from exchange.values.message import Message

MAX_LISTED_MOVES: Final = 20
"""Maximum number of kinds of move that are listed for people."""


class QueueMove(NamedTuple):
    """The exchange that messages are published to, and the queues that they reach before and after."""

    exchange: str
    """The exchange that they are published to."""
    before: tuple[str, ...]
    """Queues that they reach before, with the partition of partitioned ones."""
    after: tuple[str, ...]


@document("MoveJson", "move.exchange, move.before, move.after, messages, first_routing_key")
class MoveCount(NamedTuple):
    """Messages that go elsewhere in the same way."""

    move: QueueMove
    messages: int
    first_routing_key: str
    """The routing key of the first of them."""


@document("MovedJson", "read, elsewhere, moves")
class Moved(NamedTuple):
    """The messages of a file that go elsewhere."""

    read: int
    """Number of messages in the file."""
    counts: Counter[QueueMove]
    first: dict[QueueMove, str]
    """The routing key of the first message of each."""

    def lines(self) -> Iterator[str]:
        """Yield the moves as text, the most frequent first."""
        yield f"messages: {self.counts.total():,} of {self.read:,} go elsewhere"
        for move, count in self.counts.most_common(MAX_LISTED_MOVES):
            yield f"  {count:,} to {describe_exchange(move.exchange)}, such as '{self.first[move]}'"
            yield f"      {_describe_move(move)}"
        yield from count_rest(len(self.counts), MAX_LISTED_MOVES, " kinds of move")

    @property
    def elsewhere(self) -> int:
        """Number of messages that go elsewhere."""
        return self.counts.total()

    @property
    def moves(self) -> list[MoveCount]:
        """The most frequent first."""
        return [MoveCount(move, count, self.first[move]) for move, count in self.counts.most_common()]


def count_moves(file: IO[bytes], before: Router, after: Router) -> Moved:
    """Return the messages of JSON lines that the two route differently. Raises InputError for a line that is none."""
    counts: Counter[QueueMove] = Counter()
    first: dict[QueueMove, str] = {}
    read = 0
    for number, line in read_lines(file):
        try:
            message = decode_message_line(line)
        except InputError as error:
            raise InputError(f"{getattr(file, 'name', '-')}:{number}: {error}") from None
        read += 1
        move = QueueMove(message.exchange, _where(before, message), _where(after, message))
        if move.before != move.after:
            counts[move] += 1
            first.setdefault(move, message.routing_key)
    return Moved(read, counts, first)


def _where(router: Router, message: Message) -> tuple[str, ...]:
    try:
        route = router.route(message)
    except BrokerError as error:
        return (f"refused ({error.code} {error.name})",)
    partitions = {placement.queue: placement.name for placement in route.placements}
    queues = [
        f"{name} partition {partitions[name] or 'any'}" if name in partitions else name for name in route.at_once.queues
    ]
    for later in route.later:
        queues += [f"{name} after {write_milliseconds(later.milliseconds)}" for name in later.route.queues]
    return (*queues, *[f"undecided at {name}" for name in route.undecided])


def _describe_move(move: QueueMove) -> str:
    """Return what changes: ``loses c``; what stays is only counted."""
    lost = [name for name in move.before if name not in move.after]
    gained = [name for name in move.after if name not in move.before]
    changes = [f"{verb} {', '.join(names)}" for verb, names in (("loses", lost), ("gains", gained)) if names]
    kept = len(move.before) - len(lost)
    stays = f"keeps {kept:,}" if kept else "goes nowhere now" if not move.after else "went nowhere before"
    if kept or not (move.before and move.after):
        changes.append(stays)
    return "; ".join(changes)
