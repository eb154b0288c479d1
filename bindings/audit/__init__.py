"""The audit: test the bindings of a topology against the messages of an archive, on Spark or in this process.

`bindings.audit.local.study` defines what a pass over an archive may count; `bindings.audit.spark.job` runs the pass on
Spark, `bindings.audit.local.run` without it. Spark is imported only where it is used.

The package is called as a function: ``bindings.audit(...)`` is `bindings.audit.run.audit`.
"""

from bindings.public_names import make_callable

make_callable(__name__, "run", extra="audit")
