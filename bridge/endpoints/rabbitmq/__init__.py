"""A RabbitMQ connection on asyncio: pika opens and keeps it, what there is a lot of passes by pika."""
