"""The engine over columns of messages: which are alike, found by numpy; what becomes of each sort, asked of the router.

Needs numpy and pyarrow (the extra ``spark``), and is imported by nothing that can do without them.
"""
