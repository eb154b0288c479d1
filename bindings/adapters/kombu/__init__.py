"""Exact routing for kombu, and so for Celery.

`transport` is a transport of its own, ``hashstar://``, which routes in memory as RabbitMQ does. `virtual` corrects the
transports that kombu has (memory, Redis, SQS, filesystem ...) while it is installed.
"""

from exchange.text.site import build_install_command

try:
    import kombu as _kombu
except ImportError:
    raise ImportError(f"bindings.adapters.kombu needs kombu: {build_install_command('kombu')}") from None

from bindings.adapters.kombu.transport import MemoryBroker, Transport, find_broker, register
from bindings.adapters.kombu.virtual import install, route_exactly, uninstall

__all__ = ["MemoryBroker", "Transport", "find_broker", "route_exactly", "install", "register", "uninstall"]

del _kombu
