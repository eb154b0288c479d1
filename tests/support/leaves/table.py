"""The parts of the tests: leaf products and the core, what each is made of, and the folders of its tests.

A leaf is a product that the rest does without. In CI, the tests of a part that need more than a processor run whole if
a file has changed that it is made of (`choice.find_reasons`), else only those marked `smoke`. A new test folder belongs
to the core until a row of a leaf names it.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final, NamedTuple


class Leaf(NamedTuple):
    """A product that nothing else needs, or a part of the core."""

    name: str
    packages: tuple[str, ...]
    """Names of its packages and modules in the product, with that of its command."""
    folders: tuple[str, ...]
    """Folders of its tests, but for folders in these that another row names."""


LEAVES: Final = (
    Leaf(
        "rocketmq",
        ("bridge.rocketmq", "bridge.endpoints.rocketmq"),
        ("tests/bridge/rocketmq", "tests/bridge/endpoints/rocketmq"),
    ),
    Leaf("rocketmq-stores", ("bindings.archive.rocketmq",), ("tests/bindings/archive/rocketmq",)),
    Leaf("kafka-stores", ("bindings.archive.kafka",), ("tests/bindings/archive/kafka",)),
    Leaf("adapters", ("bindings.adapters",), ("tests/bindings/adapters",)),
    Leaf(
        "audit",
        ("bindings.auditing", "bindings.spark", "bindings.commands.audit"),
        ("tests/bindings/auditing", "tests/bindings/spark"),
    ),
    Leaf("dead", ("bridge.dead",), ("tests/bridge/dead",)),
    Leaf("drawing", ("bindings.drawing", "bindings.commands.graph"), ("tests/bindings/drawing",)),
    Leaf("drift", ("bindings.drift", "bindings.commands.drift"), ("tests/bindings/drift",)),
    Leaf("groups", ("bridge.consumers.groups",), ("tests/bridge/consumers/groups",)),
    Leaf("mcp", ("bindings.mcp", "bindings.commands.mcp"), ("tests/bindings/mcp",)),
    Leaf("recording", ("bindings.recording", "bindings.commands.record"), ("tests/bindings/recording",)),
    Leaf("requests", ("bridge.consumers.requests",), ("tests/bridge/consumers/requests",)),
    Leaf("scaling", ("bridge.scaling",), ("tests/bridge/scaling",)),
    Leaf("serve", ("bindings.serve", "bindings.commands.serve"), ("tests/bindings/serve",)),
    Leaf("upgrade", ("bindings.upgrading", "bindings.commands.upgrade"), ("tests/bindings/upgrading",)),
)


CORE: Final = (
    Leaf("top", ("exchange", "bindings", "bridge"), ("tests",)),
    Leaf("exchange", ("exchange",), ("tests/exchange",)),
    Leaf("bindings", ("bindings",), ("tests/bindings",)),
    Leaf("bridge", ("bridge",), ("tests/bridge",)),
    Leaf("kafka", ("bridge.endpoints.kafka",), ("tests/bridge/endpoints/kafka",)),
    Leaf("chaos", ("bridge",), ("tests/chaos",)),
)
"""What leaves need, and tests of everything."""

ALL: Final = (*LEAVES, *CORE)

_OWNERS: Final = sorted(((folder, leaf) for leaf in ALL for folder in leaf.folders), key=lambda row: -len(row[0]))


def find_leaf(path: PurePath | str) -> Leaf | None:
    """Return the part that a file belongs to, by its path from the top; None if it is not below ``tests``."""
    text = PurePath(path).as_posix()
    return next((leaf for folder, leaf in _OWNERS if text.startswith(f"{folder}/")), None)
