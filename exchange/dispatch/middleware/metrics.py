"""Prometheus metrics of deliveries; needs the extra ``prometheus``."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from exchange.dispatch.delivery import Delivery
from exchange.dispatch.middleware.observing import check_is_no_handler, observe
from exchange.dispatch.policy import Handle
from exchange.text.site import build_install_command

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper bounds of the histogram, in seconds."""

_wrappers: Final[WeakKeyDictionary[CollectorRegistry, Callable[[Handle], Handle]]] = WeakKeyDictionary()


def measure(registry: CollectorRegistry | None = None) -> Callable[[Handle], Handle]:
    """Return a wrapper that counts and times deliveries in a registry, by default that of the process.

    ``hashstar_deliveries_total`` by queue and outcome (handled, failed, cancelled), ``hashstar_delivery_seconds`` and
    ``hashstar_deliveries_at_work`` by queue. Called again for a registry, it returns the same wrapper. Raises
    ModuleNotFoundError without the extra, ValueError where others have registered metrics of these names.
    """
    check_is_no_handler(registry, "measured")
    try:
        from prometheus_client import REGISTRY, Counter, Gauge, Histogram  # not at the top: an extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"measure() needs prometheus-client: {build_install_command('prometheus')}"
        ) from error
    registry = registry or REGISTRY
    if (known := _wrappers.get(registry)) is not None:
        return known
    ended = Counter(
        "hashstar_deliveries", "Deliveries that were handled, or were not", ["queue", "outcome"], registry=registry
    )
    seconds = Histogram(
        "hashstar_delivery_seconds", "Duration of the handlers of a delivery", ["queue"],
        registry=registry, buckets=BUCKETS,
    )  # fmt: skip
    at_work = Gauge("hashstar_deliveries_at_work", "Deliveries whose handlers run", ["queue"], registry=registry)

    def count(delivery: Delivery, duration: float, error: BaseException | None) -> None:
        outcome = "handled" if error is None else "cancelled" if isinstance(error, CancelledError) else "failed"
        ended.labels(delivery.queue, outcome).inc()
        seconds.labels(delivery.queue).observe(duration)

    def wrap(handle: Handle) -> Handle:
        timed = observe(count)(handle)

        async def measure(delivery: Delivery) -> object:
            with at_work.labels(delivery.queue).track_inprogress():
                return await timed(delivery)

        return measure

    _wrappers[registry] = wrap
    return wrap
