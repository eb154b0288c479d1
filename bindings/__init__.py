"""What the bindings do: topologies as files, and how they behave. Imports `exchange` and nothing above it."""

import sys
from importlib.machinery import ModuleSpec
from typing import Any


class _Moved:
    """Finds old names when nobody else finds a module; until then the pytest plugin needs nothing of the engine."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith("bindings."):
            return None
        from exchange.moved import find_moved

        return find_moved(fullname)


sys.meta_path.append(_Moved())
