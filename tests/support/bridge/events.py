"""An observer of the pump that records its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Events:
    """Records each event: the name of the observer's method, and its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.calls.append((name, *arguments))

    def calls_of(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of each event of this name."""
        return [call[1:] for call in self.calls if call[0] == name]
