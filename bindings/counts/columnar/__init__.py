"""The engine over columns of messages: numpy groups messages that route alike, and the router routes one of each.

Needs numpy and pyarrow (the extra ``spark``); nothing that works without them imports it.
"""
