"""Applications as sources of topologies: what a Celery app or a FastStream broker declares when it runs."""
