"""An array that grows at its end; what is in it is copied only when its room has doubled."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item", bound=np.generic)

MIN_ROOM: Final = 1 << 10
"""Number of items that a new array has room for."""


class GrowingArray(Generic[Item]):
    """An array to append to. It takes at most twice the memory of its items, and three times while they are copied."""

    def __init__(self, dtype: type[Item]) -> None:
        self._room: npt.NDArray[Item] = np.empty(MIN_ROOM, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def items(self) -> npt.NDArray[Item]:
        """The items, without a copy; what is appended later is not in it."""
        return self._room[: self._size]

    def append(self, items: npt.NDArray[Any]) -> None:
        """Add items at the end."""
        size = self._size + len(items)
        if size > len(self._room):
            room = np.empty(max(size, 2 * len(self._room)), self._room.dtype)
            room[: self._size] = self.items
            self._room = room
        self._room[self._size : size] = items
        self._size = size

    def cut(self, size: int) -> None:
        """Remove the items behind the first ``size``."""
        self._size = size
