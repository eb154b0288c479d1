"""Readers of the files in a RocketMQ broker's store."""
