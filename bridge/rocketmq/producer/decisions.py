"""Decisions about local transactions, commit or roll back, kept over a restart of the producer.

A broker that gets no decision about a half message asks, and may ask a restarted producer: so a decision is
stored before it is sent to the broker. Where the local transaction is one of a database, its commit is the decision:
then `Decisions` is best a look-up in that database, of a row that the transaction writes with the id of the message.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol

from bridge.aside import call_aside
from bridge.rocketmq.remoting.command import now_ms
from exchange.errors import InputError

KEEP_SECONDS: Final = 72 * 3600.0
"""Seconds for which a decision is kept that no broker has confirmed: as long as brokers keep messages by default."""
KEEP_CONFIRMED_SECONDS: Final = 3600.0
"""Seconds for which a decision is kept once it is confirmed: a broker that is killed then may ask again."""
SETTLE_SECONDS: Final = 30.0
"""Seconds after the confirmation of a decision in which a broker that asks does not get it again. Brokers of 5.x note
decisions 3 s later, or more, and a commit that is sent twice makes two messages."""
CLEAN_EVERY: Final = 1_000
"""Number of decisions after which old ones are removed."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS decisions (
    id TEXT PRIMARY KEY, decision TEXT NOT NULL, decided_ms INTEGER NOT NULL, confirmed_ms INTEGER
) WITHOUT ROWID
"""


class Decision(Enum):
    """The outcome of a local transaction (`LocalTransactionState`)."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"
    """It is not known yet: the broker asks again, 15 times by default, and then drops the message."""


class Decisions(Protocol):
    """A store of decisions, by the id of the transaction: the unique id of its message."""

    async def record(self, transaction_id: str, decision: Decision) -> None:
        """Store a decision; when this returns, a crash does not lose it any more."""

    async def find(self, transaction_id: str) -> Decision | None:
        """Return the decision of a transaction; None: there is none.

        For one that was confirmed within `SETTLE_SECONDS`, it may return UNKNOWN: the broker knows it.
        """

    async def confirm(self, transaction_id: str) -> None:
        """Note that the broker has executed a decision; the store may forget it some time later."""


class MemoryDecisions:
    """Decisions in memory, for as long as the process runs; of those confirmed, the last 10,000."""

    def __init__(self) -> None:
        self._known: Final[dict[str, Decision]] = {}
        self._confirmed: Final[dict[str, None]] = {}

    async def record(self, transaction_id: str, decision: Decision) -> None:
        self._known[transaction_id] = decision

    async def find(self, transaction_id: str) -> Decision | None:
        return self._known.get(transaction_id)

    async def confirm(self, transaction_id: str) -> None:
        if transaction_id in self._known:
            self._confirmed[transaction_id] = None
            if len(self._confirmed) > 10_000:
                oldest = next(iter(self._confirmed))
                del self._confirmed[oldest], self._known[oldest]


class SqliteDecisions:
    """Decisions in a file of SQLite, the table ``decisions``; several producers of a machine may share it.

    Raises InputError for a file that is no such database, or cannot be written.
    """

    def __init__(self, path: Path | str) -> None:
        self.path: Final = Path(path)
        self._lock: Final = Lock()
        self._since_clean = 0
        try:
            with ExitStack() as opened:
                database = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
                self._database: Final = opened.enter_context(closing(database))
                for statement in ("PRAGMA synchronous=FULL", "PRAGMA journal_mode=WAL", SCHEMA):
                    database.execute(statement)
                self._clean()
                opened.pop_all()
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: no store of decisions: {error}") from None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    async def record(self, transaction_id: str, decision: Decision) -> None:
        """Store a decision; a later one of the same transaction replaces it. Raises InputError."""
        statement = "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, NULL)"
        await call_aside(self._run, statement, transaction_id, decision.value, now_ms())

    async def find(self, transaction_id: str) -> Decision | None:
        """Return the decision of a transaction, UNKNOWN if it was just confirmed. Raises InputError."""
        settled = now_ms() - round(SETTLE_SECONDS * 1000)
        statement = "SELECT decision, confirmed_ms > ? FROM decisions WHERE id = ?"
        rows = await call_aside(self._run, statement, settled, transaction_id)
        if rows and rows[0][1]:
            return Decision.UNKNOWN
        try:
            return Decision(rows[0][0]) if rows else None
        except ValueError:
            raise InputError(f"{self.path}: transaction {transaction_id} has decision {rows[0][0]!r}") from None

    async def confirm(self, transaction_id: str) -> None:
        """Note that a decision was executed. Raises InputError."""
        statement = "UPDATE decisions SET confirmed_ms = ? WHERE id = ?"
        await call_aside(self._run, statement, now_ms(), transaction_id)

    def _run(self, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        """Execute a statement in a transaction of its own, on the disk when this returns. Raises InputError."""
        try:
            with self._lock:
                rows = self._database.execute(statement, values).fetchall()
                self._since_clean += 1
                if self._since_clean >= CLEAN_EVERY:
                    self._clean()
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: {error}") from None
        return rows

    def _clean(self) -> None:
        """Remove decisions that are too old."""
        now = now_ms()
        self._database.execute(
            "DELETE FROM decisions WHERE decided_ms < ? OR confirmed_ms < ?",
            (now - round(KEEP_SECONDS * 1000), now - round(KEEP_CONFIRMED_SECONDS * 1000)),
        )
        self._since_clean = 0
