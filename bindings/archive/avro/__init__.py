"""Read container files of Avro: their blocks, their schemas as columns, and their records."""
