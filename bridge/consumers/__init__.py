"""Products for those who consume from RabbitMQ, and carry nothing: groups that share a queue, requests with replies."""
