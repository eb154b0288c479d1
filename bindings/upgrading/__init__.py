"""What an upgrade of RabbitMQ does to a topology: what is refused or lost, what means something else, the steps."""
