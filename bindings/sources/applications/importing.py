"""Find the object of an application that a user names, as ``package.module:app``."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Final

from exchange.errors import InputError
from exchange.text.display import escape_line, suggest

FORM: Final = "PACKAGE.MODULE:NAME, such as shop.celery:app"


def import_object(address: str) -> object:
    """Import a module and return its object of this name, which may have dots; the current folder is searched, too.

    Importing runs the code of the module. Raises InputError for another form, if the module cannot be imported, and if
    it has no such object.
    """
    module_name, colon, path = address.partition(":")
    if not (colon and module_name and path):
        raise InputError(f"{address!r} names no object: write {FORM}")
    here = os.getcwd()  # noqa: PTH109  a text for sys.path
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InputError(f"{address}: cannot import {module_name}: {describe(error)}") from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            near = suggest(name, [each for each in dir(found) if not each.startswith("__")])
            raise InputError(f"{address}: {module_name} has no {path!r}{near}") from None
        except Exception as error:
            raise InputError(f"{address}: cannot get {path!r} of {module_name}: {describe(error)}") from error
    return found


def describe(error: BaseException) -> str:
    """Return the class and text of an exception of the user's code, in one line."""
    return escape_line(f"{type(error).__name__}: {error}")
