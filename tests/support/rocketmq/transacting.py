"""A transactional producer in a process of its own, to be killed: ``python -m tests.support.rocketmq.transacting``.

Of its transactions some are complete, some are decided and not told to the broker, and some are not decided at all. It
writes a line for each half message, and ``ready`` when there are some of each kind.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from bridge.rocketmq.producer.decisions import Decision, SqliteDecisions
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.producer.transactions import Transactions
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.partition.clients.rocketmq.send import SendSettings

GROUP: Final = "transacting"
AT_ONCE: Final = 20


async def main(namesrv: str, topic: str, path: str, count: int) -> None:
    """Complete ``count`` transactions, of which every third is rolled back, and leave 30 of each other kind."""
    decisions = SqliteDecisions(path)
    stuck = 0
    turns = asyncio.Semaphore(AT_ONCE)

    async def complete(number: int) -> None:
        async with turns, transactions.begin(RocketMessage.build(topic, b"%d" % number)) as transaction:
            print(transaction.id, flush=True)
            if number % 3 == 0:
                await transaction.rollback()

    async def stick(number: int) -> None:
        nonlocal stuck
        async with transactions.begin(RocketMessage.build(topic, b"%d" % number)) as transaction:
            print(transaction.id, flush=True)
            if number % 3:
                await decisions.record(transaction.id, (Decision.ROLLBACK, Decision.COMMIT)[number % 3 - 1])
            stuck += 1
            if stuck == 90:
                print("ready", flush=True)
            await asyncio.Event().wait()

    async with (
        Client(ClientSettings(namesrv)) as client,
        Producer(client, ProducerSettings(GROUP, SendSettings(send_msg_timeout=60_000))) as producer,
        Transactions(producer, decisions) as transactions,
    ):
        await asyncio.gather(*[complete(number) for number in range(count)])
        await asyncio.gather(*[stick(number) for number in range(count, count + 90)])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
