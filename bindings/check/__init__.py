"""What is wrong, doubtful or worth knowing about a topology, each with a witness and a way out.

The package is called as a function: ``bindings.check(...)`` is `bindings.check.check.check`.
"""

from bindings.public_names import make_callable

make_callable(__name__, "check")
