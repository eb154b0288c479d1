"""Write ``docs/python.md``: the public names of the packages, each with the first sentence about it.

::

    $ python -m docs.scripts.python_page
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parents[1] / "python.md"

PACKAGES: Final[Mapping[str, str]] = {
    "exchange": "Topologies, routing and its explanation, dispatch to handlers. It reads no file, and opens no socket.",
    "bindings": "Topologies as files and on brokers, what is wrong with them, what a change means, and audits.",
    "bindings.spark": "Routes of messages inside Spark: of DataFrames, and of SQL.",
    "bridge": "A bridge in a program of your own, and what endpoints are made of.",
}
"""Package -> what is in it."""

VALUES: Final[Mapping[str, str]] = {
    "LATEST_PROFILE": "The profile of the newest release of RabbitMQ that is known.",
    "PROFILES": "Name of a profile -> the profile, the oldest first.",
}
"""Names of values, which have no docstring of their own."""

HEAD: Final = """# The Python API

These are the public names. `help(exchange.Router)` prints the signatures, units, errors and examples of one; the
website has those of all. What is not in these tables may change with any release ([versions](versioning.md)).

The guides show them at work: [route](embed.md), [consume](consume.md), [test](testing.md), [partitions](partitions.md),
[audit](audit.md), [upgrade](upgrade.md), [bridge](bridge.md).
"""


def write_page() -> str:
    """Return the page as Markdown."""
    return HEAD + "".join(line for package in PACKAGES for line in _write_package(package))


def _write_package(package: str) -> Iterator[str]:
    yield f"\n## {package}\n\n{PACKAGES[package]}\n\n| name | |\n|---|---|\n"
    module = import_module(package)
    for name in module.__all__:
        value: Any = inspect.unwrap(getattr(module, name))  # the function, of a package that is called as one
        paragraph = VALUES[name] if name in VALUES else (inspect.getdoc(value) or "").partition("\n\n")[0]
        sentence = re.split(r"(?<=\.)\s", paragraph)[0]
        text = " ".join(sentence.replace("``", "`").replace("|", "\\|").split())
        yield f"| `{package}.{name}` | {text} |\n"


if __name__ == "__main__":
    PAGE.write_text(write_page(), "utf-8")
