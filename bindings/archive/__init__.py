"""Messages at rest: one record of a message, the formats that archives come in, and the inspection of an archive.

`bindings.archive.record` has the record, `bindings.archive.reading` the base class of formats and
`bindings.archive.formats.detect` the table of formats. All of it needs pyarrow, none of it needs Spark.
"""
