"""What an upgrade of RabbitMQ does to a topology: what is refused or lost, what means something else, the steps.

The package is called as a function: ``bindings.upgrade(...)`` is `bindings.upgrade.run.upgrade`.
"""

from bindings.public_names import make_callable

make_callable(__name__, "run")
