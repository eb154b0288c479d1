"""Which tests CI runs whole: those of the core always, those of a leaf product if what it is made of has changed.

``python -m tests.support.leaves`` compares the files here with those of the last complete proof, and prints the leaves
that are to run whole, for pytest's ``--leaves``; why each is or is not goes to standard error.
"""
