"""Open an application by name: ``celery:PACKAGE.MODULE:APP`` and ``faststream:PACKAGE.MODULE:BROKER``.

That imports the module, and so runs its code: only a name that the user of a command or function gives is opened, never
one in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bindings.sources.applications import celery, faststream
from bindings.sources.applications.application import Application, declare_parts
from bindings.sources.applications.importing import describe, import_object
from exchange.errors import InputError
from exchange.topology.topology import Topology


def is_application(where: str) -> bool:
    """Return whether a source is named as an application: ``celery:...`` or ``faststream:...``."""
    return where.partition(":")[0] in READERS


def open_application(where: str, vhost: str | None = None) -> Application:
    """Import an application and return what it declares, in ``vhost`` or the one that it connects to.

    Raises InputError, which names the application, if it cannot be imported or read.
    """
    library, _, address = where.partition(":")
    found = import_object(address)
    try:
        return READERS[library](found, vhost)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except Exception as error:  # what settings, subclasses and transports of the user raise
        raise InputError(f"{where}: it cannot be read: {describe(error)}") from error


def import_celery(address: str) -> object:
    """Import an app of Celery: ``PACKAGE.MODULE:APP``, also as a source is named. Raises InputError."""
    rest = address.removeprefix("celery:")
    return import_object(rest if ":" in rest else address)


def _read_celery(app: Any, vhost: str | None) -> Application:
    if vhost is None and hasattr(app, "conf"):
        vhost = celery.find_vhost(app)
    return celery.read_app(app, Topology(vhost=vhost or "/"))


def _read_faststream(broker: Any, vhost: str | None) -> Application:
    if not hasattr(broker, "subscribers"):
        raise InputError(f"no broker of FastStream, but an object of {type(broker).__name__}")
    declared = declare_parts(faststream.read_parts(broker), Topology(vhost=vhost or "/"))
    return Application("broker", declared)


READERS: Final[Mapping[str, Callable[[Any, str | None], Application]]] = {
    "celery": _read_celery,
    "faststream": _read_faststream,
}
"""Prefix of the name -> function that reads an imported object."""
