"""An HTTP service that consumes a queue in the same event loop: FastAPI, aio-pika and a dispatcher."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
from fastapi import FastAPI, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from exchange import Delivery, Dispatcher, Retry
from exchange.dispatch.middleware import deduplicate, log_deliveries, measure

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/")
QUEUE = os.environ.get("ORDERS_QUEUE", "orders-service")

dispatcher = Dispatcher()
orders: dict[str, dict[str, Any]] = {}  # a database, in a real service


@dispatcher.on("order.{region}.created")
async def create(delivery: Delivery) -> None:
    """Store a new order."""
    order = json.loads(delivery.body)
    await asyncio.sleep(0.01)  # the database
    orders[order["id"]] = {**order, "region": delivery.words["region"], "state": "created"}


@dispatcher.on("order.*.paid")
async def pay(delivery: Delivery) -> None:
    """Mark an order as paid. One that is not there yet is retried: its message may be under way."""
    orders[json.loads(delivery.body)["id"]]["state"] = "paid"


@dispatcher.on("price.{product}")
def price(delivery: Delivery) -> dict[str, object]:
    """Answer a question for a price: a plain function, which runs in a thread and may block."""
    return {"product": delivery.words["product"], "cents": 1299}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Consume as long as the service runs; at its end, finish what is under way, acknowledge, and leave."""
    connection = await aio_pika.connect_robust(URL)
    async with connection, connection.channel() as channel:
        arguments = {
            "x-queue-type": "quorum",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{QUEUE}.dead",
        }
        queue = await channel.declare_queue(QUEUE, durable=True, arguments=arguments)
        await channel.declare_queue(f"{QUEUE}.dead", durable=True)
        for pattern in dispatcher.patterns:
            await queue.bind("amq.topic", pattern.text)
        app.state.consumer = await dispatcher.consume(
            queue,
            prefetch=50,
            order_by='body "/id"',
            timeout=30,
            on_error=Retry((0.5, 5, 60)),
            middleware=[app.state.metrics, log_deliveries(), deduplicate()],
        )
        yield
        await app.state.consumer.stop(timeout=20)


app = FastAPI(lifespan=lifespan)
app.state.metrics = measure()  # once for each process


@app.get("/orders/{order_id}")
async def show(order_id: str) -> dict[str, Any]:
    """Show an order."""
    if order_id not in orders:
        raise HTTPException(404)
    return orders[order_id]


@app.get("/health")
async def health(response: Response) -> dict[str, Any]:
    """Return 200 to the load balancer while the service consumes, else 503."""
    consumer = app.state.consumer
    if not consumer.running:
        response.status_code = 503
    return {"consuming": consumer.running, "in_flight": consumer.in_flight, "waiting": consumer.waiting}


@app.get("/metrics")
async def metrics() -> Response:
    """Show the metrics of this process to Prometheus."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
