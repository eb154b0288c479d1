"""The route has a routing key that the queue is not bound for."""

from celery import Celery
from kombu import Exchange, Queue

app = Celery("shop", broker="amqp://")
app.conf.task_queues = [Queue("mail", Exchange("tasks", "topic"), routing_key="mail.*")]
app.conf.task_default_queue = "mail"
app.conf.task_routes = {"send_mail": {"queue": "mail", "routing_key": "mail"}}


@app.task(name="send_mail")
def send_mail() -> None:
    """Send a mail."""
