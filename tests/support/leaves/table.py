"""The leaf products: what each is made of, and the folders of its tests.

A leaf is a product that the rest does without. In CI, its tests that need more than a processor run whole if a file has
changed that it is made of (`choice.find_reasons`), else only those marked `smoke`. All other tests belong to the core,
and always run. A new test folder belongs to the core until a row names it.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final, NamedTuple


class Leaf(NamedTuple):
    """A product that nothing else needs."""

    name: str
    packages: tuple[str, ...]
    """Names of its packages and modules in the product, with that of its command."""
    folders: tuple[str, ...]
    """Folders of its tests."""


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


def find_leaf(path: PurePath | str) -> Leaf | None:
    """Return the leaf that a file of the tests belongs to, by its path from the top; None if it is the core's."""
    text = PurePath(path).as_posix()
    return next((leaf for leaf in LEAVES if text.startswith(tuple(f"{each}/" for each in leaf.folders))), None)
