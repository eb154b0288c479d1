"""Archives as endpoints: a spool that is safe at once, parts of Parquet that any reader takes, and replays."""
