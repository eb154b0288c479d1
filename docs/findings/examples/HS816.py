"""Two queues declare one exchange with two types."""

from celery import Celery
from kombu import Exchange, Queue

app = Celery("shop", broker="amqp://")
app.conf.task_queues = [
    Queue("mail", Exchange("tasks", "topic"), routing_key="mail.#"),
    Queue("default", Exchange("tasks", "direct"), routing_key="default"),
]
app.conf.task_default_queue = "default"
