"""Processes that run a module of ours.

`python -m` puts the working directory first on the path of modules: a folder `bridge` or a file `queue.py` there would
be imported instead. And what this process imports may be on a path of its own, as in a notebook.
"""

from __future__ import annotations

import os
import sys


def build_command(module: str) -> list[str]:
    """Return the command that runs a module with this Python; for `build_environment`."""
    return [sys.executable, "-P", "-m", module]


def build_environment() -> dict[str, str]:
    """Return the environment variables of this process, with its path of modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([path or os.getcwd() for path in sys.path])}  # noqa: PTH109
