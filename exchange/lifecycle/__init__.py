"""What becomes of a message after its route: a broker's queues as a model, without I/O, on a clock of its own."""
