"""Wrappers around the handling of a delivery: plain functions from a function to a function.

``dispatcher.consume(queue, middleware=[trace(), measure(), deduplicate()])`` wraps the handling of each delivery,
all its handlers together, the first wrapper outermost. One of your own::

    def in_transaction(handle):
        async def handle_in_transaction(delivery):
            async with database.transaction():
                return await handle(delivery)

        return handle_in_transaction
"""

from exchange.dispatch.middleware.duplicates import deduplicate
from exchange.dispatch.middleware.metrics import measure
from exchange.dispatch.middleware.observing import log_deliveries, observe
from exchange.dispatch.middleware.tracing import trace

__all__ = ["deduplicate", "log_deliveries", "measure", "observe", "trace"]
