"""Carries the messages. Imports `exchange` and `bindings`; the console script, which shows all three, is here too."""

import exchange.moved  # noqa: F401  finds the old names of modules
