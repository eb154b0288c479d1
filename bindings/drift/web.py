"""The HTTP answers of a watch: ``/metrics`` for Prometheus, ``/live`` for probes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bindings.drift.watch import WatchState, metric_lines
from bindings.http.exposition import METRICS
from bindings.http.handler import PLAIN, Handler
from bindings.http.hosts import HostCheck
from bindings.http.listener import Server, make_server
from exchange.errors import InputError

__all__ = ["serve_metrics"]


def serve_metrics(host: str, port: int, names: Sequence[str], read: Callable[[], WatchState]) -> Server:
    """Start to serve the metrics of what ``read`` returns, on a thread; ``names`` are further host names of requests.

    Raises InputError if the address cannot be used.
    """
    check = HostCheck(host, names)

    class MetricsHandler(Handler):
        hosts = check
        hosts_option = "--allow-host NAME"

        def answer_to(self, method: str, path: str) -> None:
            if method == "GET" and path == "/metrics":
                text = "\n".join(metric_lines(read())) + "\n"
                self.answer(200, METRICS, text.encode("utf-8", "backslashreplace"))
            elif method == "GET" and path == "/live":
                self.answer(200, PLAIN, b"ok\n")
            else:
                self.answer(404, PLAIN, b"there are /metrics and /live\n")

    try:
        server = make_server(host, port, MetricsHandler)
    except OSError as error:
        raise InputError(f"--metrics: {host}:{port} cannot be served: {error.strerror or error}") from None
    server.start()
    return server
