"""The parts of the tests: leaf products and the core, what each is made of, and the folders of its tests.

A leaf is a product that the rest does without. In CI, the tests of a part that need more than a processor run whole if
a file has changed that it is made of (`choice.find_reasons`), else only those marked `smoke`. A new test folder belongs
to the core until a row of a leaf names it.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final, NamedTuple


class Part(NamedTuple):
    """A product that nothing else needs, or a part of the core."""

    name: str
    packages: tuple[str, ...]
    """Names of its packages and modules in the product, with that of its command."""
    folders: tuple[str, ...]
    """Folders of its tests, but for folders in these that another row names."""


LEAVES: Final = (
    Part(
        "rocketmq",
        ("bridge.rocketmq", "bridge.endpoints.rocketmq"),
        ("tests/bridge/rocketmq", "tests/bridge/endpoints/rocketmq"),
    ),
    Part("rocketmq-stores", ("bindings.archive.rocketmq",), ("tests/bindings/archive/rocketmq",)),
    Part("kafka-stores", ("bindings.archive.kafka",), ("tests/bindings/archive/kafka",)),
    Part("adapters", ("bindings.adapters",), ("tests/bindings/adapters",)),
    Part(
        "audit",
        ("bindings.auditing", "bindings.spark", "bindings.commands.audit"),
        ("tests/bindings/auditing", "tests/bindings/spark"),
    ),
    Part("dead", ("bridge.dead",), ("tests/bridge/dead",)),
    Part("drawing", ("bindings.drawing", "bindings.commands.graph"), ("tests/bindings/drawing",)),
    Part("drift", ("bindings.drift", "bindings.commands.drift"), ("tests/bindings/drift",)),
    Part("groups", ("bridge.consumers.groups",), ("tests/bridge/consumers/groups",)),
    Part("mcp", ("bindings.mcp", "bindings.commands.mcp"), ("tests/bindings/mcp",)),
    Part("recording", ("bindings.recording", "bindings.commands.record"), ("tests/bindings/recording",)),
    Part("requests", ("bridge.consumers.requests",), ("tests/bridge/consumers/requests",)),
    Part("scaling", ("bridge.scaling",), ("tests/bridge/scaling",)),
    Part("serve", ("bindings.serve", "bindings.commands.serve"), ("tests/bindings/serve",)),
    Part("upgrade", ("bindings.upgrading", "bindings.commands.upgrade"), ("tests/bindings/upgrading",)),
)


CORE: Final = (
    Part("top", ("exchange", "bindings", "bridge"), ("tests",)),
    Part("exchange", ("exchange",), ("tests/exchange",)),
    Part("bindings", ("bindings",), ("tests/bindings",)),
    Part("bridge", ("bridge",), ("tests/bridge",)),
    Part("kafka", ("bridge.endpoints.kafka",), ("tests/bridge/endpoints/kafka",)),
    Part("chaos", ("bridge",), ("tests/chaos",)),
)
"""What leaves need, and tests of everything."""

PARTS: Final = (*LEAVES, *CORE)

_OWNERS: Final = sorted(((folder, part) for part in PARTS for folder in part.folders), key=lambda row: -len(row[0]))


def find_part(path: PurePath | str) -> Part | None:
    """Return the part that a file belongs to, by its path from the top; None if it is not below ``tests``."""
    text = PurePath(path).as_posix()
    return next((part for folder, part in _OWNERS if text.startswith(f"{folder}/")), None)
