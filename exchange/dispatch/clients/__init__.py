"""The client libraries that deliveries come from. None is imported here: an application gives its own objects."""
