"""The table of docs/adapters.md: what RabbitMQ was recorded to do, what libraries do, and what they do with us."""

from __future__ import annotations

import pytest

from tests.recorders import golden
from tests.recorders.rabbitmq_topics import KEYS, PATTERNS
from tests.support.wrong_routes import Count, faststream_topics, kombu_memory_topics, kombu_transport_topics

SOME_KEYS = KEYS[::9]
MENDED = "is exact by itself now: change docs/adapters.md, and say from which release on"


def test_releases_of_rabbitmq_agree_on_the_recorded_truth() -> None:
    newest, oldest = (golden.read(name)["answers"] for name in ("rabbitmq-topics-4.3", "rabbitmq-topics-3.10"))
    assert newest == oldest
    assert len(newest) == len(KEYS)
    assert max(map(max, filter(None, newest))) < len(PATTERNS)


@pytest.mark.parametrize("routes", [
    pytest.param(lambda: kombu_memory_topics(exact=True), id="kombu, memory"),
    pytest.param(kombu_transport_topics, id="kombu, hashstar"),
    pytest.param(lambda: faststream_topics(SOME_KEYS, exact=True), id="FastStream"),
])  # fmt: skip
def test_no_adapter_routes_a_recorded_pair_wrongly(routes: object) -> None:
    assert callable(routes)
    count: Count = routes()
    assert count.examples == ()
    assert count.pairs > 6_000


def test_kombu_is_wrong_by_itself() -> None:
    count = kombu_memory_topics(SOME_KEYS, exact=False)
    assert count.wrong > 100, f"kombu {MENDED}"


def test_faststream_is_wrong_by_itself() -> None:
    count = faststream_topics(KEYS[:20], exact=False)
    assert count.wrong > 100, f"FastStream {MENDED}"
