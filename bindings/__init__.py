"""What the bindings do: topologies as files, and how they behave. Imports `exchange` and nothing above it.

The public names are imported when they are first used: ``import bindings`` alone loads no module of the engine.
"""

from typing import TYPE_CHECKING, Final

from exchange.public_names import import_lazily

if TYPE_CHECKING:
    from bindings.applying.apply import apply as apply
    from bindings.archive.mapping import FieldMapping as FieldMapping
    from bindings.auditing.local.selection import Selection as Selection
    from bindings.auditing.run import audit as audit
    from bindings.checking.check import check as check
    from bindings.checking.rules.finding import Finding as Finding
    from bindings.diffing.diff import Diff as Diff
    from bindings.diffing.diff import diff as diff
    from bindings.report.frames import to_arrow as to_arrow
    from bindings.report.frames import to_pandas as to_pandas
    from bindings.report.model import Report as Report
    from bindings.report.thresholds import Limits as Limits
    from bindings.report.thresholds import Settings as Settings
    from bindings.sources.definitions import Definitions as Definitions
    from bindings.sources.document import Document as Document
    from bindings.sources.open import load as load
    from bindings.testing.server.server import AmqpServer as AmqpServer
    from bindings.testing.virtual_broker import VirtualBroker as VirtualBroker
    from bindings.upgrading.run import upgrade as upgrade
    from bindings.upgrading.upgrade import Upgrade as Upgrade

MODULES: Final = {
    # topologies
    "load": "sources.open", "Definitions": "sources.definitions", "Document": "sources.document",
    "VirtualBroker": "testing.virtual_broker", "AmqpServer": "testing.server.server",
    # what is wrong with them, and how to change them
    "check": "checking.check", "Finding": "checking.rules.finding", "diff": "diffing.diff", "Diff": "diffing.diff",
    "apply": "applying.apply", "upgrade": "upgrading.run", "Upgrade": "upgrading.upgrade",
    # audits
    "audit": "auditing.run", "Selection": "auditing.local.selection", "Settings": "report.thresholds",
    "Limits": "report.thresholds", "FieldMapping": "archive.mapping", "Report": "report.model",
    "to_arrow": "report.frames", "to_pandas": "report.frames",
}  # fmt: skip
"""Public name -> the module of this package that defines it."""

__all__ = tuple(MODULES)

if not TYPE_CHECKING:  # a type checker would take any name for one of the package
    __getattr__, __dir__ = import_lazily(__name__, MODULES)
