"""A page to explore a topology: `hashstar serve`.

The page asks questions over HTTP, and each question is a function of a virtual host and of JSON values; see
``docs/serve.md`` for all of them. Nothing here changes a file or a broker.
"""
