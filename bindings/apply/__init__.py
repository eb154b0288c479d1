"""Carrying out a plan on a live RabbitMQ."""

from bindings.public_names import make_callable

make_callable(__name__, "apply")
