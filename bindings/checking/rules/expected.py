"""8xx: expectations that fail, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bindings.checking.rules.finding import Finding
from bindings.sources.language.expectations import Expectation
from exchange.errors import BrokerError
from exchange.routing.router import Router
from exchange.text.display import escape_line
from exchange.topology.topology import Topology

__all__ = ["find"]


def find(topology: Topology, expectations: Sequence[Expectation]) -> Iterator[Finding]:
    """Yield one finding for each expectation that fails, with the trail of the message."""
    if not expectations:
        return
    router = Router(topology)
    for expectation in expectations:
        failure = expectation.find_failure(router)
        if failure is not None:
            part = topology.exchanges.get(expectation.exchange)
            message = escape_line(f"expected: {expectation}; but {failure}") + _explain(router, expectation)
            yield Finding(
                "HS801", part, message, expectation.routing_key, line=expectation.line, detail=str(expectation)
            )


def _explain(router: Router, expectation: Expectation) -> str:
    try:
        route = router.route(expectation.message)
        missing = [queue for queue in expectation.queues if queue not in route.queues]
        asked_about = missing[0] if missing and expectation.relation != "excludes" else None
        return f"\n{router.explain(expectation.message, asked_about)}"
    except BrokerError:
        return ""  # the failure has the broker's error
