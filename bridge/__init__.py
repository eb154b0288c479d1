"""Carries the messages. Imports `exchange` and `bindings`; the console script, which shows all three, is here too.

The public names are imported when they are first used.
"""

from typing import TYPE_CHECKING, Final

from exchange.public_names import import_lazily

if TYPE_CHECKING:
    from bridge.daemon.config import Config as Config
    from bridge.daemon.config import read_config as read_config
    from bridge.daemon.run import run as run
    from bridge.endpoint import Source as Source
    from bridge.endpoint import Target as Target
    from bridge.endpoints.memory import MemorySource as MemorySource
    from bridge.endpoints.memory import MemoryTarget as MemoryTarget
    from bridge.mistakes import ConfigError as ConfigError
    from bridge.pump.inlet import Inlet as Inlet
    from bridge.pump.policy import Policy as Policy

MODULES: Final = {
    # a bridge and its configuration
    "run": "daemon.run", "read_config": "daemon.config", "Config": "daemon.config", "ConfigError": "mistakes",
    "Inlet": "pump.inlet", "Policy": "pump.policy",
    # endpoints
    "Source": "endpoint", "Target": "endpoint", "MemorySource": "endpoints.memory", "MemoryTarget": "endpoints.memory",
}  # fmt: skip
"""Public name -> the module of this package that defines it."""

__all__ = tuple(MODULES)

if not TYPE_CHECKING:  # a type checker would take any name for one of the package
    __getattr__, __dir__ = import_lazily(__name__, MODULES)
