"""Apply a topology to a live RabbitMQ: plan the steps, and carry them out."""
