"""The store of a RocketMQ broker as files."""
