"""Which tests CI runs whole: those of the parts that are made of something that has changed.

``python -m tests.support.parts`` compares the files here with those of the last complete proof, and prints the parts
that are to run whole, for pytest's ``--parts``; why each is or is not goes to standard error.
"""
