"""Carries the messages. Imports `exchange` and `bindings`; the console script, which shows all three, is here too."""
