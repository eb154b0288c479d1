"""The pytest plugin: the fixtures `virtual_broker` and `amqp_server`, which route by your topology without a broker.

It is loaded at the start of every run by ``pytest_plugins = ["bindings.pytest_plugin"]`` in the top conftest.py. So it
imports pytest and nothing else until a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bindings.testing.server import AmqpServer
    from bindings.testing.virtual_broker import VirtualBroker
    from exchange import Profile, Topology

MARKER = "topology"
INI = "hashstar_definitions"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the ini option."""
    parser.addini(
        INI, "topology of virtual_broker and amqp_server (.bindings or definitions), relative to the ini file"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(definitions=None, *, vhost=None, profile=None): the topology of virtual_broker and amqp_server: "
        f"a .bindings or definitions file, relative to the test's own file, or a Topology; else the ini option {INI}",
    )


@pytest.fixture
def virtual_broker(request: pytest.FixtureRequest) -> VirtualBroker:
    """Return a broker inside this process, new for each test: publish to it, then look at its ``queues``.

    Its topology is that of the nearest ``@pytest.mark.topology("definitions.json", vhost="/", profile="rabbitmq-4.0")``
    or ``@pytest.mark.topology(Topology(...))``, else the one of the ini option ``hashstar_definitions``, else that of
    an empty virtual host. See `bindings.testing.virtual_broker.VirtualBroker`.
    """
    from bindings.testing.virtual_broker import VirtualBroker

    return VirtualBroker(_marked_topology(request))


@pytest.fixture
def amqp_server(request: pytest.FixtureRequest) -> Iterator[AmqpServer]:
    """Yield a broker at the address ``amqp_server.url`` of this machine, new for each test, for any AMQP client.

    Its topology is found as that of `virtual_broker`. See `bindings.testing.server.AmqpServer`.
    """
    from bindings.testing.server import AmqpServer

    with AmqpServer(_marked_topology(request)) as server:
        yield server


def _marked_topology(request: pytest.FixtureRequest) -> Topology:
    marker = request.node.get_closest_marker(MARKER)
    args, kwargs = (marker.args, marker.kwargs) if marker is not None else ((), {})
    return _topology(request, *args, **kwargs)


def _topology(
    request: pytest.FixtureRequest,
    definitions: Topology | str | Path | None = None,
    *,
    vhost: str | None = None,
    profile: Profile | str | None = None,
) -> Topology:
    from exchange import InputError, Topology

    if isinstance(definitions, Topology):
        if vhost is not None:
            pytest.fail(f"@pytest.mark.{MARKER}: a Topology has its vhost, {definitions.vhost!r}", pytrace=False)
        return definitions if profile is None else definitions.with_profile(profile)
    if definitions is not None:
        path = request.path.parent / definitions
    elif request.config.getini(INI):
        ini = request.config.inipath
        path = (ini.parent if ini is not None else request.config.rootpath) / request.config.getini(INI)
    else:
        topology = Topology() if vhost is None else Topology(vhost=vhost)
        return topology if profile is None else topology.with_profile(profile)
    try:
        return _load(path, vhost, profile, path.stat().st_mtime_ns if path.exists() else 0)
    except InputError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None  # the file is wrong, not the code


@lru_cache(maxsize=16)
def _load(path: Path, vhost: str | None, profile: Profile | str | None, modified_ns: int) -> Topology:
    # Topologies are immutable, so the tests of a run share them; with its new time, a rewritten file is loaded again.
    from bindings.sources.open import load

    return load(str(path), vhost, profile)
