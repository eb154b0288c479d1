"""Mutants that lose something in silence: what a lane, a window or a queue owes, and what a sum leaves out."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, mutants_of

__all__ = ["LOSSES"]

LIVES: Final = """
exchange/lifecycle/test_conservation.py exchange/lifecycle/test_broker.py exchange/lifecycle/test_recorded_lives.py
"""

LOSSES: Final[list[Mutant]] = [
    *mutants_of(
        "bridge/endpoints/kafka/consumer/assignment.py",
        "bridge/endpoints/kafka/test_kafka_assignment.py bridge/endpoints/kafka/test_kafka_member.py",
        (
            "a delivery of a lane that was taken away is settled",
            "if self.closed or not lane.current:",
            "if self.closed:",
        ),
        ("a lane that begins anew does not know it", "        new.begins_anew = True\n", ""),
        (
            "a commit of the lane before counts for the one that begins anew",
            "if lane.begins_anew and each.offset > lane.settled:",
            "if False:",
        ),
        (
            "what was read of a partition that is gone is given to the pump",
            "                self.uncommitted -= len(lane.offsets)\n        self._forget_stale()\n\n    def replace",
            "                self.uncommitted -= len(lane.offsets)\n\n    def replace",
        ),
        (
            "the lane before uses up the window",
            "        self.uncommitted -= len(lane.offsets)\n        new =",
            "        new =",
        ),
        (
            "what a transaction failed at is settled",
            "        self.fail(reason)\n        self.lanes.clear()",
            "        self.fail(reason)",
        ),
        ("an id without a generation commits", "generation >= 0 and", "True and"),
        ("unread deliveries have no room", " + len(self.unread)", ""),
    ),
    *mutants_of(
        "bridge/pump/order.py",
        "bridge/pump/test_outlet.py simulation/test_simulation.py",
        ("the next of a key is not sent after the first", "return line[0] if was_first else None", "return None"),
        (
            "keys stay held by what was lost",
            "            if not kept:\n                del self._lines[key]\n",
            "            if not kept:\n",
        ),
        (
            "a key whose first message was lost stands still",
            "            if kept[0] is not line[0]:",
            "            if False:",
        ),
    ),
    *mutants_of(
        "bridge/pump/inlet.py",
        "simulation/test_simulation.py bridge/pump/test_pump.py",
        (
            "what a lost connection had read is still sent",
            "                outlet.discard(inlet.window)\n",
            "                pass\n",
        ),
        ("a stream ends before it is settled", "                await self.empty()\n", ""),
    ),
    *mutants_of(
        "exchange/lifecycle/queues.py",
        LIVES,
        ("a closed channel keeps what it held", "        self._take_back(held, True, True)\n", ""),
        ("what is settled leaves no room", "            consumer.held -= 1\n", ""),
        ("a queue is used by a consumer that is gone", "        self.unused_since = self._host.now\n", ""),
    ),
    *mutants_of(
        "exchange/lifecycle/consumers.py",
        LIVES,
        (
            "a full consumer never gets another turn",
            "            self._turns.append(consumer)\n\n\nclass",
            "            pass\n\n\nclass",
        ),
        (
            "no other takes over from a single active consumer",
            "            self.active = None\n        self._choose()",
            "            self.active = None",
        ),
    ),
    *mutants_of(
        "exchange/lifecycle/consumers.py",
        "exchange/lifecycle/test_single_active.py",
        ("a single active consumer yields while it holds messages", "(active, True) if active.held else ", ""),
        ("a single active consumer never yields", "elif self._yields and best", "elif best is active and best"),
        ("one that is to yield goes on when the other has left", " or self._quiesces else active", " else active"),
        ("returns strand other releases", "if not (returned and self._strands):", "if not returned or self._strands:"),
    ),
    *mutants_of(
        "bindings/counts/tally.py",
        "bindings/counts/test_tally.py bindings/counts/test_tally_state.py",
        ("a sum forgets what was not read", "self.unread + other.unread", "self.unread"),
        ("a sum has the partitions of one", "sum_by_key(self.partitions, other.partitions)", "dict(self.partitions)"),
    ),
    *mutants_of(
        "bindings/auditing/local/run.py",
        "bindings/upgrading/test_run.py bindings/auditing/test_jobs.py",
        ("too many bad records in all are no error", "    check_bad(results.account, max_bad)\n", ""),
        ("the part of an archive that was read counts as all", "._replace(share=share)", ""),
    ),
    *mutants_of(
        "bridge/pump/sending.py",
        "simulation/test_simulation.py",
        ("what is read next overtakes a batch that was not sent", "if connection is self._left:", "if False:"),
    ),
    *mutants_of(
        "bridge/pump/outlet.py",
        "simulation/test_simulation.py",
        ("tries while a message waits count", "outgoing.attempts - outgoing.waits <", "outgoing.attempts <"),
    ),
    # What attacks on the bridge found once, and a simulated life must find again.
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/reading.py",
        "simulation/test_simulation.py",
        (
            "a queue has the type for ever that it had at first",
            "        self._is_stream, self._next_offset = True, None",
            (
                "        if self._epoch > 1 and not self._is_stream:\n"
                "            return await self._begin(connection, self._arguments)\n"
                "        self._is_stream, self._next_offset = True, None"
            ),
        ),
        (
            "what has arrived is acknowledged with what is settled",
            "encode_ack(self._channel.number, self._settled, multiple=True)",
            "encode_ack(self._channel.number, self._last, multiple=True)",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/unrouted.py",
        "simulation/test_simulation.py",
        (
            "a message whose binding is missing is given up by the number of its tries",
            'now, which {why}", waits=True)',
            'now, which {why}")',
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/suspects.py",
        "simulation/test_simulation.py",
        (
            "all that was under way is at fault when a connection ends",
            "        if self.count and len(under_way) == 1:",
            (
                "        if under_way:\n"
                "            return [(each, Failure(str(error), final=True)) for each in under_way]\n"
                "        if self.count and len(under_way) == 1:"
            ),
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/producer/plain.py",
        "simulation/test_simulation.py",
        (
            "the refusal of a batch is a verdict on each of its messages",
            "        elif error.code() in REFUSALS:\n            self._stopping = True\n",
            "        elif False:\n            self._stopping = True\n",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/cluster/calls.py",
        "bridge/endpoints/kafka/test_kafka_batches.py",
        ("a purge waits with Python's lock", "blocking=True", "blocking=False"),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/wire.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_connecting.py",
        ("a connection that has ended counts as open", "        if ends:", "        if False:"),
    ),
    *mutants_of(
        "bridge/rocketmq/remoting/channel.py",
        "bridge/test_client_errors.py",
        ("a look-up that hangs is a firewall", 'missing = "answer from name servers"', 'missing = "connection"'),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/wire.py",
        "bridge/test_client_errors.py",
        ("a look-up that hangs is a silent broker", "and await call_aside(", "and not await call_aside("),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/reader.py",
        "bridge/endpoints/kafka/test_kafka_records.py",
        ("an identity is bound to the value alone", "crc32(key + value) if key and value else ", ""),
        ("a time is known in milliseconds", "time = time * 1_000 if", "time = time if"),
        ("a record that cannot be read is not refused", 'f"it cannot be read: {problem}"', "None"),
    ),
    *mutants_of(
        "bindings/drawing/layout/order.py",
        "bindings/drawing/test_layout.py",
        ("slots beside a pair that changed places stay as they are", "moved[at] |= {one, two}", "pass"),
        ("slots that are joined to them stay as they are", "moved[beside] |= joined", "pass"),
    ),
]
