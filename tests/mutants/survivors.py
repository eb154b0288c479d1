"""Mutants that the tests once let live, each of which some test now kills."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, mutants_of

SURVIVORS: Final[list[Mutant]] = [
    *mutants_of(
        "exchange/patterns/matcher.py",
        "exchange/patterns/test_matcher_memory.py",
        (
            "a $ at the beginning is no part of the signature in MQTT",
            'signature = (key[:1] == "$" if key else None, *signature)',
            "pass",
        ),
        (
            "keys of exactly LONGEST words are searched for among longer ones",
            "length = len(words) if len(words) <= LONGEST else None",
            "length = len(words) if len(words) < LONGEST else None",
        ),
        (
            "the cache of answers has no bound",
            "                if len(self._answers) >= self._cache_size:\n                    self._answers.clear()\n",
            "",
        ),
    ),
    *mutants_of(
        "exchange/patterns/wildcards.py",
        "exchange/patterns/test_matcher_memory.py",
        (
            "head and tail of a long pattern may overlap",
            "if self.least > LONGEST and self.least - 1 not in dict(conditions):",
            "if False:",
        ),
    ),
    *mutants_of(
        "exchange/patterns/conjunctions.py",
        "exchange/patterns/test_matcher_memory.py",
        (
            "what is remembered of sets of headers has no bound",
            "        if len(self._lacking) >= 256:\n            self._lacking.clear()\n",
            "",
        ),
        ("wide blocks of few masks are never split", "(self._masks > MASKS or width > WIDEST)", "self._masks > MASKS"),
    ),
    *mutants_of(
        "exchange/routing/compiled.py",
        "exchange/routing/test_router_memory.py",
        ("routes by an alternate to a headers exchange are remembered by key", "pending += back.get(name, ())", "pass"),
        (
            "a new binding to a headers exchange leaves what is remembered by key",
            'if binding.destination.kind == "exchange" or binding.destination.name in self.partitioned:',
            "if binding.destination.name in self.partitioned:",
        ),
        (
            "after a queue was declared the default exchange still remembers that there is none",
            'return Stale("", part.name)',
            "return None",
        ),
    ),
    *mutants_of(
        "exchange/routing/router.py",
        "exchange/routing/test_router_memory.py",
        (
            "routes are found and remembered without the lock",
            "        with self._lock:\n            if not key_only or not self._cache_size:",
            "        if True:\n            if not key_only or not self._cache_size:",
        ),
    ),
    *mutants_of(
        "exchange/kinds/headers.py",
        "exchange/routing/test_router_memory.py",
        ("headers that begin with x and no dash are ignored", 'not name.startswith("x-")', 'not name.startswith("x")'),
    ),
    *mutants_of(
        "exchange/routing/nearest.py",
        "exchange/routing/test_nearest.py",
        (
            "a nearer way that is found later is not taken",
            'if total < best.get(earlier, float("inf")):',
            "if earlier not in best:",
        ),
    ),
    *mutants_of(
        "exchange/partition/clients/kafka.py",
        "exchange/partition/clients/test_kafka.py",
        (
            "the Scala producer refreshes a millisecond early",
            "if 0 <= self.refresh_ms < inputs.now - memory.since:",
            "if 0 <= self.refresh_ms <= inputs.now - memory.since:",
        ),
    ),
    *mutants_of(
        "bridge/pump/window.py",
        "bridge/pump/test_window.py",
        ("a window full of bytes has room for one more", "        if left <= 0:", "        if left < 0:"),
        ("bytes that were settled are never given back", "                self.bytes -= last.size\n", ""),
        (
            "the bytes of a window have no bound",
            "left = self._most_bytes - self.bytes\n        if left <= 0:",
            "left = self._most_bytes\n        if left <= 0:",
        ),
        (
            "a message larger than the window is never admitted",
            "if left < 0 and (count or self.messages):",
            "if left < 0:",
        ),
    ),
    *mutants_of(
        "bridge/pump/order.py",
        "bridge/pump/test_held.py",
        (
            "messages are held in the order in which they failed",
            "insort(self._lines.setdefault(self._key_of(outgoing), []), outgoing, key=by_number)",
            "self._lines.setdefault(self._key_of(outgoing), []).append(outgoing)",
        ),
        (
            "whatever message of a key leaves, its first is sent once more",
            "return line[0] if was_first else None",
            "return line[0]",
        ),
    ),
    *mutants_of(
        "bridge/pump/inlet.py",
        "bridge/pump/test_window.py bridge/pump/test_rate.py bridge/pump/test_pump.py",
        ("the window of a lost connection is kept", "            inlet.window.drop()\n", ""),
        (
            "a source is read although there is no room",
            "            while not self._may_move() or window.room <= 0:",
            "            while not self._may_move():",
        ),
        (
            "all that was read goes into the window at once",
            "            count = window.fitting(deliveries)\n",
            "            count = len(deliveries)\n",
        ),
        (
            "a source is read at twice the rate",
            "free_at += len(deliveries) / rate",
            "free_at += len(deliveries) / rate / 2",
        ),
    ),
    *mutants_of(
        "bridge/pump/outlet.py",
        "bridge/pump/test_outlet.py",
        (
            "after a reconnect messages are sent in the order of launching",
            "under_way = sorted(self._in_flight.values(), key=by_number)",
            "under_way = list(self._in_flight.values())",
        ),
        (
            "a second confirm of one message counts as that of another copy",
            "if forget(outgoing.number, None) is not None]",
            "if forget(outgoing.number, outgoing) is not None]",
        ),
    ),
    *mutants_of(
        "bridge/pump/policy.py",
        "bridge/pump/test_policy.py",
        ("the first wait is twice as long", "min(attempt - 1, 60)", "min(attempt, 60)"),
    ),
    *mutants_of(
        "bridge/pump/dead_letters.py",
        "bridge/pump/test_dead_letters.py",
        ("a dead letter expires", '("expiration", properties), ', ""),
    ),
    *mutants_of(
        "bridge/daemon/workers.py",
        "bridge/daemon/test_workers.py",
        (
            "a worker that starts while all are to stop hears nothing of it",
            "            if self._stopping.is_set():\n                self._process.terminate()\n",
            "",
        ),
        (
            "the exit code of all is that of the best worker",
            "return max(worker.code for worker in workers)",
            "return min(worker.code for worker in workers)",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/archive/rotation.py",
        "bridge/endpoints/archive/test_rotation.py",
        ("parts have their names before they are synced", "            os.fsync(file.fileno())", "            pass"),
    ),
    *mutants_of(
        "bridge/endpoints/archive/writing.py",
        "bridge/endpoints/archive/test_archive.py",
        (
            "messages are confirmed after the target was closed",
            "        if self._state is state:\n            if written:",
            "        if True:\n            if written:",
            "whom it reports to has forgotten the connection by then",
        ),
    ),
    *mutants_of(
        "exchange/amqp/content.py",
        "exchange/amqp/test_header_bounds.py",
        ("a header may reach behind the table", "                if behind > end:", "                if False:"),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/assignment.py",
        "bridge/endpoints/kafka/test_kafka_member.py",
        (
            "a message is committed that was not settled",
            "        offset = delivery.position + 1\n        self._fresh",
            "        offset = delivery.position + 2\n        self._fresh",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/member.py",
        "bridge/endpoints/kafka/test_kafka_member.py",
        ("offsets that are back are not noticed", "if message.offset() < lane.next:", "if False:"),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/producer/transaction.py",
        "bridge/endpoints/kafka/test_kafka_transactions.py",
        (
            "a transaction has no bound",
            "if len(inside) >= self.most_messages and outgoing.delivery is not inside[-1].delivery:",
            "if False:",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/publishing.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_publishing.py",
        (
            "a confirm of several leaves out the last one",
            "                if number > event.number:",
            "                if number >= event.number:",
        ),
        (
            "a message that was returned is confirmed",
            "failure = returned.pop(number, None) if returned else None",
            "failure = None",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/reading.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_source.py",
        (
            "a delivery of an earlier connection is settled",
            "        if delivery.lane != self._epoch:\n            return\n",
            "",
        ),
    ),
    *mutants_of(
        "bindings/analysis/crawl.py",
        "bindings/analysis/test_crawl.py",
        (
            "there is no key where a shorter word might do",
            "        if words is None and len(fresh) > 1:\n            raise OutOfBudget",
            "        if False:\n            raise OutOfBudget",
        ),
    ),
    *mutants_of(
        "bindings/diffing/planning/order.py",
        "bindings/diffing/test_plan_order.py",
        (
            "policies turn before the new bindings are there",
            "[*opening, *turning, *replacing, *closing, *swaps]",
            "[*turning, *opening, *replacing, *closing, *swaps]",
        ),
    ),
    *mutants_of(
        "bindings/counts/tally.py",
        "bindings/counts/test_tally_state.py",
        (
            "the order of a ring is not in the compute_fingerprint",
            "yield repr(list(sequence))",
            "yield repr(sorted(map(repr, sequence)))",
        ),
    ),
    *mutants_of(
        "bindings/counts/sketch.py",
        "bindings/counts/test_tally_state.py",
        ("what merging leaves out is no error", "        error += dropped\n", ""),
    ),
    *mutants_of(
        "bindings/report/build.py",
        "bindings/report/test_report.py",
        ("what was hit at the very moment is stale", "use.last < before", "use.last <= before"),
    ),
    *mutants_of(
        "bindings/counts/uses.py",
        "bindings/counts/test_coverage_edges.py",
        (
            "more than all messages may match",
            "min(1.0, RULE_OF_THREE / self.exposure)",
            "RULE_OF_THREE / self.exposure",
        ),
    ),
    *mutants_of(
        "bindings/auditing/spark/ledger.py",
        "bindings/auditing/test_ledger.py",
        (
            "the last batch that was folded is counted again",
            "        if batch <= summed:",
            "        if batch < summed:",
        ),
    ),
    *mutants_of(
        "bindings/auditing/spark/source.py",
        "bindings/auditing/test_pruning.py",
        (
            "a row group that ends at the first moment is left out",
            "greatest < wanted.first",
            "greatest <= wanted.first",
        ),
    ),
    *mutants_of(
        "bindings/archive/formats/json_lines.py",
        "bindings/archive/test_json_lines_fast.py",
        (
            "the fast path takes a virtual host with a NUL",
            "for texts in (exchange, key, vhost))",
            "for texts in (exchange, key))",
        ),
    ),
    *mutants_of(
        "bindings/archive/kafka/transactions.py",
        "bindings/archive/kafka/test_kafka_ends.py",
        (
            "the marker of an earlier transaction ends a later one",
            "if marker.producer != header.producer_id or marker.place >= (0, place):",
            "if True:",
        ),
    ),
    *mutants_of(
        "bindings/sources/document_writer.py",
        "bindings/sources/test_language_writer.py",
        ("a partitioning with a variable's braces is written bare", " and not VARIABLE.search(text)", ""),
    ),
    *mutants_of(
        "bindings/applying/broker.py",
        "bindings/applying/test_broker.py",
        (
            "a queue is deleted whatever came into it meanwhile",
            "channel.queue_delete(name, careful, careful, callback=done)",
            "channel.queue_delete(name, callback=done)",
        ),
        (
            "a binding with arguments is unbound without a look",
            "if step.added or not part.arguments or not self._live.unbind(part):",
            "if step.added or part.arguments or not self._live.unbind(part):",
        ),
    ),
    *mutants_of(
        "bindings/applying/apply.py",
        "bindings/applying/test_broker.py",
        (
            "a step is reported before it is done",
            "            broker.carry_out(step)\n",
            "            progress(step)\n            broker.carry_out(step)\n",
        ),
    ),
]
