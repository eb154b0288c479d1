"""What is missing where a configuration points to: every endpoint is opened once, and closed."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.config import Config
from bridge.endpoint import Disconnected, Failure, Outgoing, Source
from exchange.errors import HashstarError

__all__ = ["missing"]


class _Deaf:
    """A receiver of a target that is sent nothing."""

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        """Nothing was sent."""

    def failed(self, message: Outgoing, failure: Failure) -> None:
        """Nothing was sent."""

    def lost(self, error: Disconnected) -> None:
        """It was open, which is what was asked."""


async def missing(config: Config) -> list[str]:
    """What is wrong with each endpoint that cannot be opened. What a source reads meanwhile it reads again later."""
    found = []
    for endpoint in config.endpoints:
        try:
            if isinstance(endpoint, Source):
                await endpoint.open()
            else:
                await endpoint.open(_Deaf())
        except HashstarError as error:
            found.append(f"{endpoint.name}: {error}")
        finally:
            await endpoint.close()
    return found
