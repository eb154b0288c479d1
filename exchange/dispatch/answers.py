"""The answers to the deliveries of one channel, joined where the broker allows it.

``basic.ack`` with ``multiple`` acknowledges all deliveries of a channel up to a tag: one frame instead of hundreds. It
is right only where all these deliveries came to this consumer and are handled. So answers are joined up to the first
delivery that is not handled, and never on a channel with another consumer, which shows as a gap in the tags.

Without I/O: the consumer sends the frames.
"""

from __future__ import annotations

from typing import NamedTuple

from exchange.dispatch.delivery import Answer


class AnswerFrame(NamedTuple):
    """An answer frame: ``basic.ack`` or ``basic.nack``."""

    tag: int
    answer: Answer
    multiple: bool = False
    """Whether it also answers all unanswered deliveries up to this tag."""


class Answers:
    """The answers that are to be sent on one channel. Keeps one entry for each unanswered delivery."""

    def __init__(self) -> None:
        self._last = 0
        """The last tag that was received."""
        self._alone = True
        """Whether this consumer got all deliveries of the channel so far."""
        self._unanswered: dict[int, None] = {}
        """Tags that were received and not answered, in their order."""
        self._done: set[int] = set()
        """Tags that are to be acknowledged."""
        self._refused: list[AnswerFrame] = []

    def receive(self, tag: int) -> None:
        """Note that a delivery has come."""
        if tag != self._last + 1:
            self._alone = False
        self._last = tag
        self._unanswered[tag] = None

    def add(self, tag: int, answer: Answer) -> None:
        """Add the answer to a delivery. Each received delivery gets exactly one."""
        if answer == "ack":
            self._done.add(tag)
        else:
            self._refused.append(AnswerFrame(tag, answer))

    @property
    def pending(self) -> int:
        """Number of answers that `take` would return, if none were joined."""
        return len(self._done) + len(self._refused)

    def take(self) -> list[AnswerFrame]:
        """Return the frames to send now, in order: a refusal before an acknowledgement that would cover it."""
        frames, self._refused = self._refused, []
        done, self._done = self._done, set()
        for frame in frames:
            del self._unanswered[frame.tag]
        joined: list[int] = []
        if self._alone:
            for tag in self._unanswered:
                if tag not in done:
                    break
                joined.append(tag)
            done.difference_update(joined)
        if joined:
            frames.append(AnswerFrame(joined[-1], "ack", len(joined) > 1))
        frames += [AnswerFrame(tag, "ack") for tag in sorted(done)]
        for tag in (*joined, *done):
            del self._unanswered[tag]
        return frames
