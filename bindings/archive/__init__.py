"""Messages at rest: one record of a message, the formats that archives come in, and what an archive can tell.

`bindings.archive.record` has the record, `bindings.archive.reading` what a format is, `bindings.archive.formats.detect`
the table of formats; each other module is one format or a part of one. All of it needs pyarrow, none of it needs Spark.
"""
