"""The first pattern takes all tasks that the second one is meant for."""

from celery import Celery

app = Celery("shop", broker="amqp://")
app.conf.task_routes = {"mail.*": "mail", "mail.urgent.*": "urgent"}


@app.task(name="mail.urgent.send")
def send_mail() -> None:
    """Send a mail."""
