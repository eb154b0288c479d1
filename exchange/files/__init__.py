"""What commands, readers and the bridge share of files: how one is replaced, what names stand for, and what
not every system has.

The engine does no I/O and imports none of it.
"""
