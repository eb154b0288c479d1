"""Exact routing for kombu, and so for Celery.

`transport` is a transport of its own, ``hashstar://``, which routes in memory as RabbitMQ does. `virtual` corrects the
transports that kombu has (memory, Redis, SQS, filesystem ...) while it is installed.
"""

from exchange.text.site import how_to_install

try:
    import kombu as _kombu
except ImportError:
    raise ImportError(f"bindings.adapters.kombu needs kombu: {how_to_install('kombu')}") from None

from bindings.adapters.kombu.transport import MemoryBroker, Transport, broker_at, register
from bindings.adapters.kombu.virtual import exact_routing, install, uninstall

__all__ = ["MemoryBroker", "Transport", "broker_at", "exact_routing", "install", "register", "uninstall"]

del _kombu
