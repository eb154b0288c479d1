"""The engine over columns of messages: numpy finds messages that are alike, the router routes one of each kind.

Needs numpy and pyarrow (the extra ``spark``); nothing that works without them imports it.
"""
