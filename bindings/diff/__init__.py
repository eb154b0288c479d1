"""The difference of two topologies: what to do, and what it means for messages.

The package is called as a function: ``bindings.diff(...)`` is `bindings.diff.diff.diff`.
"""

from bindings.public_names import make_callable

make_callable(__name__, "diff")
