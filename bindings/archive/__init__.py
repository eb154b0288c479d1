"""Archives of messages: the common record of a message, the formats of archives, and the inspection of an archive.

`bindings.archive.record` has the record, `bindings.archive.reading` the base class of formats and
`bindings.archive.formats.detect` the table of formats. All of it needs pyarrow, none of it needs Spark.
"""
