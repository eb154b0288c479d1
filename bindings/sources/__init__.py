"""Where topologies come from: definitions, ``.bindings`` files and the management API."""

from typing import TYPE_CHECKING

from exchange.public_names import import_lazily

if TYPE_CHECKING:
    from bindings.sources.open import load

__all__ = ["load"]

if not TYPE_CHECKING:  # modules of this package are imported without what opens them all
    __getattr__, __dir__ = import_lazily(__name__, {"load": "open"})
