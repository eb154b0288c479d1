"""What is wrong, doubtful or worth knowing about a topology, each with a witness and a way out."""

from bindings.public_names import make_callable

make_callable(__name__, "check")
