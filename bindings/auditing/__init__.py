"""The audit: test the bindings of a topology against the messages of an archive, on Spark or in this process.

`bindings.auditing.local.study` defines what a pass over an archive may count; `bindings.auditing.spark.job` runs the
pass on Spark, `bindings.auditing.local.run` without it. Spark is imported only where it is used.
"""
