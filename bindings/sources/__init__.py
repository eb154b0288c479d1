"""Where topologies come from: definitions, ``.bindings`` files and the management API."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bindings.sources.open import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bindings.sources.open import load  # modules of this package are imported without what opens them all

    return load
