"""The public names of a package: imported at their first use, and packages among them that are called as functions.

The main functions of `bindings` have the names of the packages that implement them: ``bindings.audit(...)`` beside
``bindings.audit.run``. Importing a package sets the attribute of its name, so a function of that name would be gone as
soon as something imports the package. Instead the package itself is called; docs/decisions/0020-packages-are-called-as-
functions.md explains it. This module is imported with every package: it needs nothing but the standard library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["import_lazily", "make_callable"]


def import_lazily(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose public names are imported at their first use.

    ``modules`` maps a name to the module of the package that defines it; to "" if it is the name of a package.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{modules[name] or name}")
        value = getattr(module, name) if modules[name] else module
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *modules})


class _CallableModule(ModuleType):
    """A package that is called as a function of one of its modules, which is imported at the first call."""

    implementation: str
    extra: str

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function; `inspect.signature` looks for it here."""
        try:
            module = import_module(self.implementation)
        except ModuleNotFoundError as error:
            if not self.extra:
                raise
            from exchange.text.site import how_to_install

            reason = f"{self.__name__} needs {error.name}: {how_to_install(self.extra)}"
            raise ModuleNotFoundError(reason, name=error.name) from None
        function: Callable[..., Any] = getattr(module, self.__name__.rpartition(".")[2])
        return function

    # Python looks for __call__ in the class and binds it: the property returns the function, with its own docstring.
    __call__ = __wrapped__

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickle the package by its name, as any module: functions that are sent to Spark's workers may refer to it."""
        return import_module, (self.__name__,)


def make_callable(package: str, module: str, extra: str = "") -> None:
    """Let an imported package be called as the function of its own name in one of its modules.

    ``extra`` has the packages that the module needs, for the error where they are missing.
    ``bindings.audit`` with ``run`` is called as ``bindings.audit.run.audit``.
    """
    called = sys.modules[package]
    called.__class__ = _CallableModule
    vars(called).update(implementation=f"{package}.{module}", extra=extra)
