"""Archives as endpoints: a spool that is safe at once, parts of Parquet that anybody can read, and replays."""
