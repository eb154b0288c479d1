"""Apply a topology to a live RabbitMQ: plan the steps, and carry them out.

The package is called as a function: ``bindings.apply(...)`` is `bindings.apply.apply.apply`.
"""

from bindings.public_names import make_callable

make_callable(__name__, "apply")
