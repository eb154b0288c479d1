"""Two queues are bound for the routing key of the task."""

from celery import Celery
from kombu import Exchange, Queue

app = Celery("shop", broker="amqp://")
tasks = Exchange("tasks", "topic")
app.conf.task_queues = [
    Queue("mail", tasks, routing_key="mail.#"),
    Queue("default", tasks, routing_key="#"),
]
app.conf.task_default_queue = "default"
app.conf.task_routes = {"send_bill": {"queue": "mail", "routing_key": "mail.new"}}


@app.task(name="send_bill")
def send_bill() -> None:
    """Send a bill."""
