"""What the sources of a replay have in common: letters that are chosen, and those that stay where they are."""

from __future__ import annotations

from bridge.endpoint import Delivery, Source


class LetterSource(Source):
    """Dead letters, each a lane of its own: what becomes of one does not depend on others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.left: dict[int, str] = {}
        """Position -> why a letter that was to be published stays where it is."""
        self.is_settled = False
        """Whether all that was published is settled; known when it is closed."""
        self.fault: str | None = None
        """Why it cannot be read, whatever is tried; None if it can be."""
        self.is_missing = False
        """Whether that is because there is no such queue."""
        self.epoch = 0
        """Number of times that it was opened."""

    def leave(self, delivery: Delivery, reason: str) -> None:
        """Leave a letter where it is, though it is settled."""
        if self.is_current(delivery):
            self.left[delivery.position] = reason

    def is_current(self, delivery: Delivery) -> bool:
        """Return whether a letter was read since the source was opened, so that it is not read once more."""
        return delivery.lane == (self.epoch, delivery.position)
