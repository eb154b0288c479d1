"""Virtual hosts of live RabbitMQs whose firehose is on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.differential import manage
from tests.support.servers import Server, missing


@contextmanager
def open_traced(server: Server, vhost: str) -> Iterator[Any]:
    """Yield a connection to a new virtual host with tracing on; remove both at the end.

    By the management API: each ``rabbitmqctl`` starts an Erlang of its own, which takes seconds.
    """
    import pika

    if server.management_url is None:
        missing(f"the RabbitMQ of {server.origin} has no management API")
    parameters = pika.URLParameters(server.url)
    parameters.virtual_host = vhost
    manage(server, "PUT", f"vhosts/{vhost}", {"tracing": True})
    try:
        user = unquote(urlsplit(server.url).username or "guest")
        manage(server, "PUT", f"permissions/{vhost}/{user}", {"configure": ".*", "write": ".*", "read": ".*"})
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection
        finally:
            connection.close()
    finally:
        manage(server, "DELETE", f"vhosts/{vhost}")
