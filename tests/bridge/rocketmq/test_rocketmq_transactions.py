"""Transactions without a broker: what is stored and told, and what is answered to a broker that asks."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.rocketmq.producer.decisions import Decision, Decisions, MemoryDecisions, SqliteDecisions
from bridge.rocketmq.producer.publishing import ProducerSettings, SendResult
from bridge.rocketmq.producer.transactions import Check, Transactions
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import ClientError, RemotingError, SendRequestError
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.rocketmq.offset_id import format_id
from tests.support.archives.rocketmq_files import message as stored_message
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


class Broker:
    """A client, a producer and their broker, which confirms or fails."""

    def __init__(self, failure: RemotingError | None = None, status: str = "SEND_OK") -> None:
        self.settings = ProducerSettings("group")
        self.client = self
        self.failure = failure
        self.status = status
        self.told: list[tuple[str, str]] = []
        """Id, and the type of each decision: 8 commits, 12 rolls back, 0 is not known."""
        self.sent: list[RocketMessage] = []
        self.handler: Callable[[Command], None] = lambda _: None

    def handle(self, code: int, handler: Callable[[Command], None]) -> Callable[[], None]:
        assert code == RequestCode.CHECK_TRANSACTION_STATE
        self.handler = handler
        return lambda: None

    async def heartbeat(self) -> None:
        pass

    def address(self, name: str) -> str:
        if name != "b":
            raise ClientError(f"no broker {name}")
        return "127.0.0.1:10911"

    async def send(self, message: RocketMessage, **_: Any) -> SendResult:
        self.sent.append(message)
        return SendResult(self.status, f"ID{len(self.sent)}", format_id(HOST, 77), MessageQueue("b", 0), 5)

    async def ask(self, address: str, code: int, fields: Mapping[str, str], **_: Any) -> Command:
        assert (address, code) == ("127.0.0.1:10911", RequestCode.END_TRANSACTION)
        if self.failure is not None:
            raise self.failure
        self.told.append((fields["msgId"], fields["commitOrRollback"]))
        self.fields = fields
        return Command(0)

    async def channel(self, _: str) -> Broker:
        return self

    def oneway(self, _: int, fields: Mapping[str, str]) -> None:
        self.told.append((fields["msgId"], fields["commitOrRollback"]))


def run(
    broker: Broker,
    work: Callable[[Transactions], Awaitable[None]],
    decisions: Decisions | None = None,
    check: Check | None = None,
) -> None:
    async def go() -> None:
        async with Transactions(broker, decisions, check) as transactions:  # type: ignore[arg-type]
            await work(transactions)

    run_virtually(go())


def test_the_end_of_the_block_commits_and_an_exception_rolls_back() -> None:
    async def work(transactions: Transactions) -> None:
        async with transactions.begin(RocketMessage("t", b"1")) as transaction:
            assert transaction.id == "ID1"
        with pytest.raises(KeyError):
            async with transactions.begin(RocketMessage("t", b"2")):
                raise KeyError
        async with transactions.begin(RocketMessage("t", b"3")) as transaction:
            assert await transaction.rollback()
        async with transactions.begin(RocketMessage("t", b"4")) as transaction:
            transaction.leave_open()

    broker = Broker()
    run(broker, work)
    assert broker.told == [("ID1", "8"), ("ID2", "12"), ("ID3", "12")]
    assert [each.properties["TRAN_MSG"] for each in broker.sent] == ["true"] * 4
    assert {each.properties["PGROUP"] for each in broker.sent} == {"group"}
    assert broker.fields == {
        "topic": "t", "tranStateTableOffset": "5", "commitLogOffset": "77", "msgId": "ID3", "transactionId": "ID3",
        "bname": "b", "producerGroup": "group", "commitOrRollback": "12", "fromTransactionCheck": "false",
    }  # fmt: skip


def test_a_cancelled_block_is_rolled_back() -> None:
    async def work(transactions: Transactions) -> None:
        async def block() -> None:
            async with transactions.begin(RocketMessage("t", b"1")):
                await asyncio.Event().wait()

        task = asyncio.create_task(block())
        await pass_time(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    broker = Broker()
    run(broker, work)
    assert broker.told == [("ID1", "12")]


def test_a_half_message_that_is_not_stored_safely_is_rolled_back() -> None:
    async def work(transactions: Transactions) -> None:
        with pytest.raises(ClientError, match="FLUSH_DISK_TIMEOUT"):
            async with transactions.begin(RocketMessage("t", b"1")):
                raise AssertionError("the block must not be executed")

    broker = Broker(status="FLUSH_DISK_TIMEOUT")
    run(broker, work)
    assert broker.told == [("ID1", "12")]


def asked(number: int, group: str = "group") -> Command:
    """Return the request of a broker that asks about a transaction."""
    properties = {"PGROUP": group, "UNIQ_KEY": f"ID{number}"}
    body = stored_message(77, "t", properties, b"body")
    fields = {"tranStateTableOffset": "5", "commitLogOffset": "77", "msgId": f"ID{number}", "bname": "b"}
    return Command(RequestCode.CHECK_TRANSACTION_STATE, fields, body)


def ask_after(
    broker: Broker, number: int, decisions: Decisions | None = None, check: Check | None = None, group: str = "group"
) -> list[tuple[str, str]]:
    async def work(_: Transactions) -> None:
        broker.handler(asked(number, group))
        await pass_time(0.05)

    broker.told.clear()
    run(broker, work, decisions, check)
    return broker.told


def test_a_broker_that_got_no_word_is_told_the_stored_decision_when_it_asks() -> None:
    async def work(transactions: Transactions) -> None:
        async with transactions.begin(RocketMessage("t", b"1")) as transaction:
            assert not await transaction.commit()
            with pytest.raises(InputError, match="is decided already: COMMIT_MESSAGE"):
                await transaction.rollback()

    broker, decisions = Broker(SendRequestError("gone")), MemoryDecisions()
    run(broker, work, decisions)
    assert broker.told == []
    broker.failure = None

    def check(_: StoredMessage) -> Decision:
        raise AssertionError("the store knows it")

    assert ask_after(broker, 1, decisions, check) == [("ID1", "8")]
    assert broker.fields["fromTransactionCheck"] == "true"


def test_what_the_store_does_not_know_is_checked_and_what_nobody_knows_is_unknown() -> None:
    async def later(_: StoredMessage) -> Decision:
        return Decision.ROLLBACK

    def fail(_: StoredMessage) -> Decision:
        raise RuntimeError("no database")

    assert ask_after(Broker(), 1, check=later) == [("ID1", "12")]
    assert ask_after(Broker(), 1, check=lambda _: Decision.COMMIT) == [("ID1", "8")]
    assert ask_after(Broker(), 1, check=fail) == [("ID1", "0")]
    assert ask_after(Broker(), 1) == [("ID1", "0")]
    assert ask_after(Broker(), 1, check=later, group="other") == []


def test_a_broker_that_asks_about_a_transaction_under_way_or_just_confirmed_is_told_nothing() -> None:
    def check(_: StoredMessage) -> Decision:
        return Decision.ROLLBACK  # the database does not have it yet

    async def work(transactions: Transactions) -> None:
        async with transactions.begin(RocketMessage("t", b"1")):
            broker.handler(asked(1))
            await pass_time(0.05)
        broker.handler(asked(1))
        await pass_time(0.05)

    broker = Broker()
    run(broker, work, check=check)
    assert broker.told == [("ID1", "0"), ("ID1", "8"), ("ID1", "0")]


def test_a_request_without_a_message_is_ignored() -> None:
    async def work(_: Transactions) -> None:
        broker.handler(Command(RequestCode.CHECK_TRANSACTION_STATE, {}, b"\x00" * 200))
        broker.handler(Command(RequestCode.CHECK_TRANSACTION_STATE, {}, b""))

    broker = Broker()
    run(broker, work)
    assert broker.told == []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_store_has_the_last_decision(kind: str, tmp_path: Path) -> None:
    async def work() -> None:
        store: Decisions = MemoryDecisions()
        if kind == "sqlite":
            store = opened.enter_context(closing(SqliteDecisions(tmp_path / "d.db")))
        assert await store.find("a") is None
        await store.record("a", Decision.COMMIT)
        await store.record("b", Decision.COMMIT)
        await store.record("b", Decision.ROLLBACK)
        await store.confirm("unheard of")
        assert [await store.find(each) for each in "abc"] == [Decision.COMMIT, Decision.ROLLBACK, None]

    with ExitStack() as opened:
        asyncio.run(work())


def test_decisions_in_a_file_survive_and_are_forgotten_when_they_are_old(tmp_path: Path) -> None:
    path = tmp_path / "d.db"

    async def work() -> None:
        store = SqliteDecisions(path)
        for each in ("kept", "confirmed", "just confirmed", "old"):
            await store.record(each, Decision.COMMIT)
        await store.confirm("confirmed")
        await store.confirm("just confirmed")
        store.close()
        now = int(time.time() * 1000)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("UPDATE decisions SET confirmed_ms = ? WHERE id = 'confirmed'", (now - 3_700_000,))
            database.execute("UPDATE decisions SET decided_ms = ? WHERE id = 'old'", (now - 73 * 3_600_000,))
        with closing(SqliteDecisions(path)) as other:
            found = [await other.find(each) for each in ("kept", "confirmed", "just confirmed", "old")]
        assert found == [Decision.COMMIT, None, Decision.UNKNOWN, None]

    asyncio.run(work())


def test_a_file_that_is_no_store_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no database" * 100)
    with pytest.raises(InputError, match="text: no store of decisions: file is not a database"):
        SqliteDecisions(path)
    with pytest.raises(InputError, match="unable to open database file"):
        SqliteDecisions(tmp_path / "missing" / "d.db")


@examples(200)
@given(
    st.lists(st.tuples(st.sampled_from(["commit", "rollback", "leave open"]), st.booleans()), max_size=5), st.booleans()
)
def test_a_transaction_has_one_decision_which_may_be_sent_again(steps: list[tuple[str, bool]], fails: bool) -> None:
    """Until it is decided it may be left open; the end of the block decides only what nobody has decided."""
    broker, decisions = Broker(), MemoryDecisions()
    told: list[tuple[str, str]] = []
    decided: Decision | None = None

    async def work() -> None:
        nonlocal decided
        left_open = False
        async with Transactions(broker, decisions) as transactions:  # type: ignore[arg-type]
            try:
                async with transactions.begin(RocketMessage("t", b"1")) as transaction:
                    for step, reaches in steps:
                        broker.failure = None if reaches else SendRequestError("gone")
                        if step == "leave open":
                            transaction.leave_open()  # which changes nothing once it is decided
                            left_open = True
                            continue
                        wanted = Decision.COMMIT if step == "commit" else Decision.ROLLBACK
                        if decided not in (None, wanted):
                            with pytest.raises(InputError, match="is decided already"):
                                await (transaction.commit() if step == "commit" else transaction.rollback())
                            continue
                        assert await (transaction.commit() if step == "commit" else transaction.rollback()) == reaches
                        decided = wanted
                        told.extend([("ID1", "8" if step == "commit" else "12")] * reaches)
                    broker.failure = None
                    if fails:
                        raise KeyError  # noqa: TRY301  it ends the block
            except KeyError:
                pass
        if decided is None and not left_open:
            decided = Decision.ROLLBACK if fails else Decision.COMMIT
            told.append(("ID1", "12" if fails else "8"))

    run_virtually(work())
    assert broker.told == told
    if decided is not None and told:
        assert asyncio.run(decisions.find("ID1")) in (decided, Decision.UNKNOWN)
