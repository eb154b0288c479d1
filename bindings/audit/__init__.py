"""The audit: what the messages of an archive say about the bindings of a topology, on Spark or in this process.

`bindings.audit.study` says what a pass over an archive may count, `bindings.audit.spark.job` makes the pass on Spark,
`bindings.audit.local` makes it without. Spark is imported only where it is used.
"""

from bindings.public_names import make_callable

make_callable(__name__, "run")
