"""Wrappers around the handling of a delivery: plain functions from a function to a function.

``dispatcher.consume(queue, middleware=[traced(), measured(), deduplicated()])`` wraps the handling of each delivery,
all its handlers together, the first wrapper outermost. One of your own::

    def in_transaction(handle):
        async def handle_in_transaction(delivery):
            async with database.transaction():
                return await handle(delivery)

        return handle_in_transaction
"""

from exchange.dispatch.middleware.duplicates import deduplicated
from exchange.dispatch.middleware.metrics import measured
from exchange.dispatch.middleware.observing import logged, observed
from exchange.dispatch.middleware.tracing import traced

__all__ = ["deduplicated", "logged", "measured", "observed", "traced"]
