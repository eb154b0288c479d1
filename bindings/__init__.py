"""What the bindings do: topologies as files, and how they behave. Imports `exchange` and nothing above it.

The public names are imported when they are first used: ``import bindings`` alone loads no module of the engine.
"""

from typing import TYPE_CHECKING, Final

from bindings.public_names import import_lazily

if TYPE_CHECKING:
    from bindings.apply.apply import apply as apply
    from bindings.audit.local.selection import Selection as Selection
    from bindings.audit.run import audit as audit
    from bindings.check.check import check as check
    from bindings.check.rules.finding import Finding as Finding
    from bindings.diff.diff import Diff as Diff
    from bindings.diff.diff import diff as diff
    from bindings.report.gates import Limits as Limits
    from bindings.report.gates import Settings as Settings
    from bindings.report.model import Report as Report
    from bindings.sources.definitions import Definitions as Definitions
    from bindings.sources.document import Document as Document
    from bindings.sources.open import load as load
    from bindings.testing.server.server import AmqpServer as AmqpServer
    from bindings.testing.virtual_broker import VirtualBroker as VirtualBroker
    from bindings.upgrade.run import upgrade as upgrade
    from bindings.upgrade.upgrade import Upgrade as Upgrade

MODULES: Final = {
    # topologies
    "load": "sources.open", "Definitions": "sources.definitions", "Document": "sources.document",
    "VirtualBroker": "testing.virtual_broker", "AmqpServer": "testing.server.server",
    # what is wrong with them, and how to change them
    "check": "", "Finding": "check.rules.finding", "diff": "", "Diff": "diff.diff", "apply": "",
    "upgrade": "", "Upgrade": "upgrade.upgrade",
    # audits
    "audit": "", "Selection": "audit.local.selection", "Settings": "report.gates", "Limits": "report.gates",
    "Report": "report.model",
}  # fmt: skip
"""Public name -> the module of this package that defines it; "" if the name is that of a package that can be called."""

__all__ = tuple(MODULES)

__getattr__, __dir__ = import_lazily(__name__, MODULES)
