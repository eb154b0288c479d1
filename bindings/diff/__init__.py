"""The difference of two topologies: what to do, and what it means for messages."""

from bindings.public_names import make_callable

make_callable(__name__, "diff")
