"""Transactional messages: a message that consumers get if, and only if, a local transaction is committed.

First the *half message* is sent: the broker stores it where no consumer reads. Then the local transaction is executed,
its decision is stored, and sent to the broker: commit, and it writes the message to its topic; or roll back, and it
drops it. A broker that gets no decision asks any producer of the group: the *check back*. So a producer that was killed
between the half message and the commit, and is started again, still completes the transaction
(`org.apache.rocketmq.client.producer.TransactionMQProducer`).

The message is written at least once: when the answer to a commit is lost, or a half message was stored twice because
its answer was lost, consumers get two copies with the same unique id.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any, Final, Self

from bridge.rocketmq.producer.decisions import SETTLE_SECONDS, Decision, Decisions, MemoryDecisions
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import PREPARED_PROPERTY, SendResult
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import ClientError, RemotingError
from bridge.rocketmq.remoting.ids import OffsetId
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.rocketmq.remoting.properties import IllegalMessage
from bridge.rocketmq.remoting.stored import parse_stored_messages
from exchange.errors import HashstarError, InputError
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.partitioner import Partitioner

LOG: Final = logging.getLogger(__name__)

Check = Callable[[StoredMessage], Decision | Awaitable[Decision]]
"""Function that returns the outcome of the local transaction of a half message, where no decision is stored."""

PRODUCER_GROUP: Final = "PGROUP"
END_TIMEOUT: Final = 3.0
"""Seconds until the broker must have answered a decision."""
SEND_OK: Final = "SEND_OK"

TYPES: Final = {Decision.UNKNOWN: 0, Decision.COMMIT: 0x2 << 2, Decision.ROLLBACK: 0x3 << 2}
"""`MessageSysFlag.TRANSACTION_NOT_TYPE`, ``TRANSACTION_COMMIT_TYPE``, ``TRANSACTION_ROLLBACK_TYPE``."""


class Transaction:
    """A transaction whose half message is stored."""

    def __init__(self, transactions: Transactions, message: RocketMessage, sent: SendResult) -> None:
        self.message: Final = message
        self.sent: Final = sent
        """The broker's answer: where the half message is."""
        self.decision: Decision | None = None
        """The decision; None before there is one."""
        self._transactions: Final = transactions

    @property
    def id(self) -> str:
        """The id of the transaction: the unique id of its message, which consumers see, too."""
        return self.sent.message_id

    async def commit(self) -> bool:
        """Store the decision, and have the broker write the message to its topic.

        Return whether the broker has confirmed it. If not, it asks later, and gets the decision then. Raises
        InputError if the decision cannot be stored, or another was made.
        """
        return await self._transactions.decide(self, Decision.COMMIT)

    async def rollback(self) -> bool:
        """Store the decision, and have the broker drop the message; otherwise as `commit`."""
        return await self._transactions.decide(self, Decision.ROLLBACK)

    def leave_open(self) -> None:
        """Decide nothing: the broker asks later, and the check of `Transactions` decides. A decision stays one."""
        if self.decision is None:
            self.decision = Decision.UNKNOWN


class Transactions:
    """Transactions over a producer that is open; ``async with`` opens and closes it, not the producer.

    ``decisions`` are by default kept in memory: then a transaction of an earlier run is decided by ``check`` alone. A
    stored decision takes precedence over ``check``. ``topics`` are those of earlier runs: a broker asks only producers
    that are connected to it, and a producer that has not sent anything yet is connected to the brokers of these topics.
    """

    def __init__(
        self,
        producer: Producer,
        decisions: Decisions | None = None,
        check: Check | None = None,
        *,
        topics: Iterable[str] = (),
    ) -> None:
        self._producer: Final = producer
        self._client: Final = producer.client
        self._group: Final = producer.settings.group
        self._decisions: Final[Decisions] = MemoryDecisions() if decisions is None else decisions
        self._check: Final = check
        self._topics: Final = tuple(topics)
        self._open: Final[set[str]] = set()
        """Ids of the transactions of this process that are not decided."""
        self._confirmed: Final[dict[str, float]] = {}
        """Id of a transaction -> when its decision was confirmed, by the loop's clock; of the last seconds."""
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._stop: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        self._stop = self._client.handle(RequestCode.CHECK_TRANSACTION_STATE, self._handle_check)
        for topic in self._topics:
            with suppress(ClientError):  # a topic that does not exist has no transactions
                await self._client.route(topic)
        await self._client.heartbeat()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @asynccontextmanager
    async def begin(
        self,
        message: RocketMessage,
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
    ) -> AsyncIterator[Transaction]:
        """Send the half message, and yield the transaction: the block is the local transaction.

        When the block ends, the transaction is committed, unless the block has decided otherwise. When it ends with an
        exception, the transaction is rolled back, unless the block has decided already; call `Transaction.leave_open`
        where an exception does not show whether the local transaction took place.

        Raises as `Producer.send`; IllegalMessage for a delay, which a transaction cannot have; ClientError if the
        broker has the half message, but not safely: then it is rolled back.
        """
        if message.delay_level or message.deliver_ms:
            raise IllegalMessage("a message of a transaction cannot be delayed")
        properties = {**message.properties, PREPARED_PROPERTY: "true", PRODUCER_GROUP: self._group}
        half = RocketMessage(message.topic, message.body, properties, message.flag)
        sent = await self._producer.send(half, queue=queue, selector=selector, key=key)
        transaction = Transaction(self, message, sent)
        if sent.status != SEND_OK:
            await transaction.rollback()
            raise ClientError(f"the half message {transaction.id} is not stored safely: {sent.status}")
        self._open.add(transaction.id)
        try:
            yield transaction
        except BaseException:
            if transaction.decision is None:
                await asyncio.shield(transaction.rollback())
            raise
        else:
            if transaction.decision is None:
                await asyncio.shield(transaction.commit())
        finally:
            self._open.discard(transaction.id)

    async def decide(self, transaction: Transaction, decision: Decision) -> bool:
        """Store a decision, and send it to the broker; see `Transaction.commit`."""
        if transaction.decision not in (None, Decision.UNKNOWN, decision):
            raise InputError(f"transaction {transaction.id} is decided already: {transaction.decision.value}")
        await self._decisions.record(transaction.id, decision)
        transaction.decision = decision
        self._open.discard(transaction.id)
        sent = transaction.sent
        fields = {
            "topic": transaction.message.topic,
            "tranStateTableOffset": str(sent.queue_offset),
            "commitLogOffset": str(OffsetId.parse(sent.offset_message_id).log_offset),
            "msgId": transaction.id,
            "transactionId": sent.transaction_id or transaction.id,
            "bname": sent.queue.broker,
        }
        try:
            await self._end(self._client.address(sent.queue.broker), fields, decision, is_check=False)
        except RemotingError as error:
            LOG.warning("transaction %s: the broker will ask: %s", transaction.id, error)
            return False
        await self._note_confirmed(transaction.id)
        return True

    async def _note_confirmed(self, transaction_id: str) -> None:
        now, confirmed = asyncio.get_running_loop().time(), self._confirmed
        while confirmed and next(iter(confirmed.values())) < now - SETTLE_SECONDS:
            del confirmed[next(iter(confirmed))]
        confirmed[transaction_id] = now
        await self._decisions.confirm(transaction_id)

    async def _end(self, address: str, fields: dict[str, str], decision: Decision, *, is_check: bool) -> None:
        """Send a decision to a broker (`EndTransactionRequestHeader`). Raises RemotingError; not for UNKNOWN, which no
        broker answers.
        """
        fields |= {
            "producerGroup": self._group,
            "commitOrRollback": str(TYPES[decision]),
            "fromTransactionCheck": "true" if is_check else "false",
        }
        code = RequestCode.END_TRANSACTION
        if decision is Decision.UNKNOWN:
            (await self._client.channel(address)).oneway(code, fields)
        else:
            await self._client.ask(address, code, fields, timeout=END_TIMEOUT)

    # Check back.

    def _handle_check(self, request: Command) -> None:
        """Answer a broker that asks about a half message (`ClientRemotingProcessor.checkTransactionState`)."""
        try:
            (message,) = parse_stored_messages(request.body, request.fields.get("bname", ""))
        except (InputError, ValueError) as error:
            LOG.warning("group %s: a broker asks about a transaction without its message: %s", self._group, error)
            return
        if message.properties.get(PRODUCER_GROUP) == self._group:
            task = asyncio.ensure_future(self._answer_check(message, request.fields))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer_check(self, message: StoredMessage, asked: Mapping[str, str]) -> None:
        """Answer a broker's check of a transaction: from the store, else by ``check``, else that it is unknown."""
        transaction_id = message.message_id
        try:
            decision = await self._find(transaction_id, message)
        except Exception:  # whatever the store or the check raises: the broker asks again
            LOG.exception("transaction %s: its state is not known", transaction_id)
            decision = Decision.UNKNOWN
        fields = {
            "topic": message.topic,
            "tranStateTableOffset": asked.get("tranStateTableOffset", ""),
            "commitLogOffset": asked.get("commitLogOffset", ""),
            "msgId": transaction_id,
            "transactionId": asked.get("transactionId", "") or transaction_id,
            "bname": message.broker,
        }
        try:
            await self._end(self._address_of(message), fields, decision, is_check=True)
            if decision is not Decision.UNKNOWN:
                await self._note_confirmed(transaction_id)
        except HashstarError as error:
            LOG.warning("transaction %s: the broker will ask again: %s", transaction_id, error)

    async def _find(self, transaction_id: str, message: StoredMessage) -> Decision:
        if self._confirmed.get(transaction_id, -inf) > asyncio.get_running_loop().time() - SETTLE_SECONDS:
            return Decision.UNKNOWN
        decision = await self._decisions.find(transaction_id)
        if decision is not None:
            return decision
        if transaction_id in self._open or self._check is None:
            return Decision.UNKNOWN  # where it is still being executed here, the check could only guess
        checked = self._check(message)
        return await checked if inspect.isawaitable(checked) else checked

    def _address_of(self, message: StoredMessage) -> str:
        """Return the address of the broker that asks; one of 4.x does not give its name, only the message's host."""
        with suppress(ClientError):
            return self._client.address(message.broker)
        return message.store_host
