"""The error of a topic that must not be scaled."""

from __future__ import annotations

from typing import ClassVar

from exchange.errors import HashstarError

__all__ = ["ScalingRefused"]


class ScalingRefused(HashstarError):
    """A topic must not be scaled, or not now: messages would be lost, or it cannot be known whether any would be."""

    exit_code: ClassVar[int] = 1
