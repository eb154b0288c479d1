"""Mutants of the bridge, written from its code: windows, gates, order, confirms, what is given back."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, mutants_of

PUMP: Final = "bridge/pump/test_pump.py simulation/test_simulation.py"

BRIDGE: Final[list[Mutant]] = [
    *mutants_of(
        "bridge/pump/dead_letters.py",
        "bridge/pump/test_dead_letter_limit.py",
        (
            "the limit of dead letters forgets them while messages wait, so that ten more pass with each ten others",
            "        tally.add(count, 0)\n        if not self._waiting:",
            "        tally.add(count, 0)\n        if True:",
        ),
        ("one dead letter too many is permitted", "max(FEWEST - self.dead,", "max(FEWEST + 1 - self.dead,"),
        ("what waits goes on by the clock alone", "self._later(self._try_permitted)", "pass"),
        (
            "a message that waits again is taken for one that was written",
            "again is not None and waits[1] is not again",
            "False",
        ),
    ),
    *mutants_of(
        "bridge/dead/logs/choices.py",
        "bridge/dead/logs/test_log_replaying.py",
        ("a second run publishes what the first one did", "if self._ledger.held[identifier]:", "if False:"),
    ),
    *mutants_of(
        "bridge/dead/logs/log.py",
        "bridge/dead/logs/test_log_replaying.py",
        ("a topic that was made anew is passed by as the one before", "parts = (self.topic_id, ", 'parts = ("", '),
        (
            "the letters of a key in two partitions pass each other",
            "(lane.letters[0].time or 0, number)",
            "(0, number)",
        ),
    ),
    *mutants_of(
        "bridge/dead/logs/source.py",
        "bridge/dead/logs/test_log_replaying.py",
        ("what was published earlier uses the limit up", " or not picked.is_earlier", " or True"),
    ),
    *mutants_of(
        "bridge/pump/outlet.py",
        "bridge/pump/test_dead_letter_limit.py",
        ("an early try leaves a second clock behind", " and outgoing.attempts == attempts", ""),
    ),
    *mutants_of(
        "bridge/pump/window.py",
        f"bridge/pump/test_window.py {PUMP}",
        (
            "bytes of a lost connection are never given back",
            "        self.messages = self.bytes = 0\n        self.full_since",
            "        self.messages = 0\n        self.full_since",
        ),
        (
            "a window that is full of bytes counts as not full",
            "and self.messages < self._most and self.bytes < self._most_bytes",
            "and self.messages < self._most",
        ),
        ("no message larger than what is left is ever read", "max(1, left // self._size)", "left // self._size"),
        (
            "one read may go over the bytes",
            "by_size = self._most if not self._size else max(1, left // self._size)",
            "by_size = self._most",
        ),
        (
            "only a window that is full of messages is full",
            "(self.messages >= self._most or self.bytes >= self._most_bytes)",
            "self.messages >= self._most",
        ),
        (
            "what is done of a lost connection is to be settled",
            "if not pending.copies and not pending.dropped:",
            "if not pending.copies:",
        ),
        (
            "a delivery of which all copies would be done is not among those",
            "if pending.copies > copies.get(pending, 0):",
            "if pending.copies >= copies.get(pending, 0):",
        ),
    ),
    *mutants_of(
        "bridge/pump/order.py",
        f"bridge/pump/test_held.py {PUMP}",
        (
            "nobody hears of a message that became the first of its key",
            "            if kept[0] is not line[0]:\n                firsts.append(kept[0])\n",
            "",
        ),
        (
            "what is forgotten counts as held",
            "        self._all = {outgoing for line in self._lines.values() for outgoing in line}\n",
            "",
        ),
    ),
    *mutants_of(
        "bridge/pump/outlet.py",
        f"bridge/pump/test_outlet.py {PUMP}",
        (
            "a message is sent again that the same report confirms",
            "self._release([first for first in firsts if self._held.is_first(first)])",
            "self._release(firsts)",
        ),
        (
            "a connection over which messages were confirmed counts as a failed try",
            "        self._progressed |= bool(known)\n",
            "",
        ),
        (
            "confirms of unknown messages are counted",
            "self._events.confirmed(self.target.name, known, ",
            "self._events.confirmed(self.target.name, messages, ",
        ),
        (
            "what the next owner of a partition writes is tried again",
            "if outgoing.context.dropped or failure.moot:",
            "if outgoing.context.dropped:",
        ),
        (
            "what the next owner of a partition writes waits for a limit of dead letters",
            "            abandon_copy(outgoing.context, outgoing.queue)\n",
            (
                "            outgoing.context.window.finish_copy(outgoing.context)\n"
                "            outgoing.context.window.settle()\n"
            ),
        ),
        (
            "what the next owner of a partition writes fills the window",
            "            abandon_copy(outgoing.context, outgoing.queue)\n",
            "",
        ),
        (
            "a second refusal of one sending counts as another try",
            "        if self._in_flight.pop(outgoing.number, None) is None:\n            return\n",
            "        self._in_flight.pop(outgoing.number, None)\n",
        ),
        (
            "a gate never has a refused message back",
            "        if gate is not None:\n            gate.under_way.discard(outgoing.number)\n        if outgoing",
            "        if outgoing",
        ),
        (
            "what can never be written is tried again",
            "if not failure.final and outgoing.attempts - outgoing.waits < self._policy.tries:",
            "if outgoing.attempts - outgoing.waits < self._policy.tries:",
        ),
        (
            "each try of a message on hold is counted as a message on hold",
            "if fate is Unroutable.HOLD and pending.held_reason is None:",
            "if fate is Unroutable.HOLD:",
        ),
        (
            "dead letters of a queue that was given up come in reverse",
            "for outgoing in sorted({refused, *waiting}, key=by_number):",
            "for outgoing in sorted({refused, *waiting}, key=by_number, reverse=True):",
        ),
        (
            "gates count what was under way over a lost connection",
            "        for gate in self._gates.values():\n            gate.under_way.clear()\n",
            "",
        ),
        (
            "after a reconnect a message passes the held one of its key",
            "if find_partition(outgoing) in self._gates or self._held.holds(outgoing):",
            "if find_partition(outgoing) in self._gates:",
        ),
    ),
    *mutants_of(
        "bridge/pump/gate.py",
        f"bridge/pump/test_gate.py {PUMP}",
        ("waits behind a gate do not grow", "        self.attempts += 1\n", ""),
        ("a gate opens by one message at a time", "min(self._wide * 2, WIDEST)", "min(self._wide + 1, WIDEST)"),
        ("a gate is gone with the first success", " and now - self.refused_at >= CALM", ""),
        (
            "the time of a gate begins again with each refusal",
            "        if self.failure is None:\n            self.since",
            "        if True:\n            self.since",
        ),
    ),
    *mutants_of(
        "bridge/pump/policy.py",
        f"bridge/pump/test_policy.py {PUMP}",
        (
            "a connection must last and bring something on to count as good",
            "if progressed or seconds >= self._backoff.most:",
            "if progressed and seconds >= self._backoff.most:",
        ),
        ("jitter takes away up to all of a wait", "(1 - random / 2)", "(1 - random)"),
    ),
    *mutants_of(
        "bridge/pump/inlet.py",
        f"bridge/pump/test_rate.py {PUMP}",
        ("ten seconds of a rate are saved up", "loop.time() - 1.0)", "loop.time() - 10.0)"),
        ("what a rate allows comes in bursts", "limit = min(limit, max(1, int(rate / 10)))", "pass"),
    ),
    *mutants_of(
        "bridge/pump/undeliverable.py",
        f"bridge/pump/test_outlet.py {PUMP}",
        (
            "dead letters are given up as other messages are",
            "patient = replace(policy, give_up_after=None)",
            "patient = policy",
        ),
        (
            "each look at an unroutable message on hold is counted",
            "        if pending.held_reason is None:",
            "        if True:",
        ),
    ),
    *mutants_of(
        "bridge/pump/pump.py",
        f"bridge/pump/test_outlet.py {PUMP}",
        ("a loop ends one bridge too early", "if hops > max_hops:", "if hops >= max_hops:"),
        (
            "what was on hold is routed although it will be read again",
            "        if not (pending.dropped or self.is_over):\n            self._route(inlet, [pending])",
            "        self._route(inlet, [pending])",
        ),
    ),
    *mutants_of(
        "bridge/rocketmq/consumer/persisting.py",
        "simulation/test_simulation.py",
        (
            "an offset of a topic that was deleted is one of the topic that is made anew",
            "reading.assigned.is_gone = True",
            "pass",
        ),
    ),
    *mutants_of(
        "bridge/rocketmq/consumer/persisting.py",
        "bridge/endpoints/rocketmq/test_rocketmq_remade.py",
        (
            "a topic that is made anew is a new group's, and begun at its end",
            "is_known = queue in self.known or queue.topic in self.known",
            "is_known = False",
        ),
    ),
    *mutants_of(
        "bridge/pump/policy.py",
        "bridge/pump/test_outages.py",
        (
            "a try to connect that has hung is waited for once more",
            " - tried_for)",
            ")",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rocketmq/writing.py",
        "simulation/test_simulation.py",
        (
            "a batch that is refused for its size is refused for ever",
            "return too_large or error.code",
            "return error.code",
        ),
        (
            "two requests of a queue are under way at once",
            "            if line.running is None:\n",
            "            if True:\n",
        ),
        (
            "halves of a refused batch are sent in reverse",
            "for part in (batch[:half], batch[half:]):",
            "for part in (batch[half:], batch[:half]):",
        ),
    ),
    *mutants_of(
        "bridge/daemon/workers.py",
        "bridge/daemon/test_workers.py",
        ("a worker that died while stopping has settled all", "            self.code = NOT_SETTLED\n", ""),
    ),
    *mutants_of(
        "bridge/endpoints/archive/rotation.py",
        "bridge/endpoints/archive/test_rotation.py bridge/endpoints/archive/test_archive.py "
        "bridge/endpoints/archive/test_archive_faults.py",
        ("a spool that became parts looks as if it was taken away", "        os.ftruncate(file, 0)", "        pass"),
        (
            "that a spool is gone is not synced",
            "        path.unlink()\n    sync_folder(root)\n",
            "        path.unlink()\n",
        ),
        (
            "damage in the midst of a spool counts as torn at its end",
            "            damaged, torn = damaged + torn, 0",
            "            torn = 0",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/archive/spool.py",
        "bridge/endpoints/archive/test_rotation.py bridge/endpoints/archive/test_archive.py "
        "bridge/endpoints/archive/test_archive_faults.py",
        (
            "what could not be synced stays in a spool",
            "                os.ftruncate(self._file, self.size)",
            "                pass",
        ),
        (
            "messages in a file that nobody finds are confirmed",
            "            sync_data(self._file)\n            self.require_place()",
            "            sync_data(self._file)",
        ),
        (
            "names of spools follow a clock that is set back",
            "_last_moment = max(time_ns() // 1_000, _last_moment + 1)",
            "_last_moment = time_ns() // 1_000",
        ),
    ),
    *mutants_of(
        "exchange/amqp/content.py",
        "exchange/amqp/test_header_bounds.py exchange/amqp/test_codec.py",
        (
            "only the first header of a name is taken away",
            "        while (found := content.find(name)) is not None:",
            "        if (found := content.find(name)) is not None:",
        ),
        (
            "a property that reaches behind the end is cut",
            "        if end > len(raw):\n            raise _truncation(raw)\n        return at, end",
            "        return at, end",
        ),
    ),
    *mutants_of(
        "exchange/amqp/fields.py",
        "exchange/amqp/test_header_bounds.py exchange/amqp/test_codec.py",
        (
            "a field of a table with one name twice may reach behind its end",
            "        if at > end:\n            raise _overrun(data, tag_at, end)\n        yield name, value",
            "        yield name, value",
        ),
        (
            "tables may be in one another without a bound",
            "return read(data, at + 5, behind, depth - 1), behind",
            "return read(data, at + 5, behind, depth), behind",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/publishing.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_publishing.py bridge/endpoints/rabbitmq/test_rabbitmq_frames.py",
        (
            "a message that the broker ends the connection for is sent again",
            "            if has_guilty and (failure",
            "            if False and (failure",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/unrouted.py",
        "bridge/endpoints/rabbitmq/test_unrouted.py",
        ("a key that was routed is at fault later", "was_routed = identity in known.routed", "was_routed = False"),
        ("a wrong key is at fault although nothing is routed", "known.last_routed >= since", "True"),
        ("each wrong key halts its source for the whole patience", "and now - known.proved_at >= PROOF", ""),
        ("the marks of bridges are taken for headers that route", 'not name.startswith("x-hashstar-")', "True"),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/suspects.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_publishing.py bridge/endpoints/rabbitmq/test_rabbitmq_too_large.py",
        ("one suspect more than there are", "            self.count -= 1\n", ""),
        (
            "a message of the greatest size is too large",
            "if most is not None and len(outgoing.message.body) > most:",
            "if most is not None and len(outgoing.message.body) >= most:",
        ),
        (
            "a broker that is back keeps its old limit",
            "        self._most_bytes = None\n        self._guilty.clear()",
            "        pass",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/frames.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_wire.py bridge/endpoints/rabbitmq/test_rabbitmq_frames.py",
        (
            "a delivery without its body is skipped",
            "if self._begun is not None and method in (DELIVER, GET_OK, RETURN):",
            "if self._begun is not None and method in (GET_OK, RETURN):",
        ),
        (
            "a body without a header gets that of the last delivery",
            "self._begun = self._missing = None",
            "self._begun, self._missing = None, 0",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/deliveries.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_source.py",
        (
            "a delivery that was left out is acknowledged",
            "    if tags == list(range(last + 1, last + 1 + len(events))):",
            "    if len(tags) == len(events):",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/ending.py",
        "bridge/endpoints/rabbitmq/test_ending.py",
        (
            "a consumer is cancelled while messages are on their way to it",
            "not self.is_cancelled and unacknowledged >= self._channel.prefetch",
            "not self.is_cancelled",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/reading.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_source.py",
        (
            "a connection that was paused is never resumed",
            "if self._arrived_bytes <= self._buffer_bytes // 2 and",
            "if False and",
        ),
        (
            "what was acknowledged is acknowledged again",
            "            self._acked = self._settled\n            self._acknowledging.note()",
            "            self._acknowledging.note()",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/acknowledging.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_source.py",
        ("each delivery is acknowledged at once", "if count < prefetch // MANY and", "if False and"),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/reading.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_reopening.py",
        (
            "a stream that was a queue is read from what comes next",
            "{STREAM_OFFSET: start, **wanted}",
            "wanted",
        ),
        (
            "a stream begins at the offset of one that is gone",
            "            self._offsets.forget()  # of a stream",
            "            # of a stream",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/reading.py",
        "bridge/endpoints/rabbitmq/test_stream_filter.py",
        (
            "with a filter, what was settled last is read again",
            "last + (self._filter is not None)",
            "last",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/filtering.py",
        "bridge/endpoints/rabbitmq/test_stream_filter.py",
        (
            "what shares a chunk with a wanted message is wanted",
            "return value in self.values if",
            "return True if",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/pacing.py",
        "bridge/endpoints/rabbitmq/test_pacing.py",
        (
            "a message that came back often is given together with others",
            "            if settled < given:\n                return 0\n            self._alone",
            "            self._alone",
        ),
        (
            "others are given while a message that came back often is alone",
            "if not arrived or settled < self._alone:",
            "if not arrived:",
        ),
        (
            "the prefetch grows while messages come that came back",
            "most = self._most if self._is_fresh else min(self._most, MAX_REDELIVERED_PREFETCH)",
            "most = self._most",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/assignment.py",
        "bridge/endpoints/kafka/test_kafka_member.py",
        (
            "what is taken away uses up the window",
            (
                "            lane = self.lanes.pop((each.topic, each.partition), None)\n"
                "            if lane is not None:\n"
                "                self.uncommitted -= len(lane.offsets)"
            ),
            (
                "            lane = self.lanes.pop((each.topic, each.partition), None)\n"
                "            if lane is not None:\n"
                "                pass"
            ),
        ),
        (
            "what is not done with is forgotten",
            "while offsets and offsets[0] < offset:",
            "while offsets and offsets[0] <= offset:",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/producer/transaction.py",
        "bridge/endpoints/kafka/test_kafka_transactions.py",
        (
            "a transaction is whole without its last delivery",
            "outgoing.delivery.position < offsets.get(",
            "outgoing.delivery.position <= offsets.get(",
        ),
        (
            "after an abort messages come in reverse",
            "self.waiting.extendleft(reversed([outgoing for outgoing in self.inside if outgoing.number not in bad]))",
            "self.waiting.extendleft([outgoing for outgoing in self.inside if outgoing.number not in bad])",
        ),
        (
            "a transaction ends in the midst of a delivery",
            "if len(inside) >= self.most_messages and outgoing.delivery is not inside[-1].delivery:",
            "if len(inside) >= self.most_messages:",
        ),
        (
            "a message that was refused in a batch is refused",
            "self.refused if batching.alone else [], [], False",
            "self.refused, [], False",
        ),
        ("what the next owner of a partition writes is refused", 'writes it", moot=True)', 'writes it")'),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/producer/plain.py",
        "bridge/endpoints/kafka/test_kafka_batches.py",
        (
            "the first batch of a partition may be overtaken",
            "is_first = not alone and (topic, number) not in opened",
            "is_first = False",
        ),
        (
            "what a producer gives back comes in the order of its reports",
            "self.waiting.extendleft(sorted(returned, key=by_number, reverse=True))",
            "self.waiting.extendleft(reversed(returned))",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rocketmq/writing.py",
        "bridge/endpoints/rocketmq/test_rocketmq_writing.py",
        (
            "a batch that is too large is sent again for ever",
            "return too_large or error.code == ResponseCode.MESSAGE_ILLEGAL",
            "return error.code == ResponseCode.MESSAGE_ILLEGAL",
        ),
        (
            "batches do not shrink",
            "        if taken:\n            line.batch_bytes",
            "        if not taken:\n            line.batch_bytes",
        ),
    ),
    *mutants_of(
        "bridge/keys.py",
        "bridge/schema/test_configuration.py",
        ("a text may not hold a variable", 'return {"anyOf": [schema, HAS_VARIABLE]}', 'return {"anyOf": [schema]}'),
        (
            "the default of a key is not that of its schema",
            '**({} if self.default is None else {"default": self.default})',
            '**({} if self.default is None else {"default": None})',
        ),
        ("a whole number may be less than the least", '"minimum": least', '"minimum": 0'),
        ("rules between keys are left out", "list(self.rules)", "[]"),
        (
            "a table may have any key",
            '            "additionalProperties": False,\n            **({"allOf": list',
            '            **({"allOf": list',
        ),
    ),
    *mutants_of(
        "bridge/registry/registry.py",
        "bridge/registry/test_registry.py",
        (
            "a message passes one whose schema is not known",
            "            elif ready == index:\n",
            "            elif True:\n",
        ),
        ("an id is no schema as soon as one server does not know it", "return None, is_sure and", "return None,"),
        (
            "a registry that is down is asked without end",
            "if self._asking is None and now >= self._again_at",
            "if self._asking is None",
        ),
        ("few schemas are kept, and asked for for ever", "while len(self._known) > 1 and", "while"),
    ),
    *mutants_of(
        "bridge/registry/client.py",
        "bridge/registry/test_client.py",
        (
            "a schema is missing wherever nothing is found",
            ' and is_error and found.get("error_code") in NOT_FOUND',
            "",
        ),
    ),
    *mutants_of(
        "bridge/registry/avro.py",
        "bridge/registry/test_avro.py",
        ("a nested value has no bounds", "depth > NESTING or ", ""),
        ("values without bytes have no bounds", " or walk.left < 0", ""),
    ),
    *mutants_of(
        "bridge/tokens.py",
        "bridge/test_oauth.py",
        ("a token is used after it has expired", "known is None or self._clock() >= known.expires_at", "known is None"),
        ("a failed renewal is tried at once", "        if now >= self._again_at:\n", "        if True:\n"),
        ("a refused token is kept", "known.text == text:\n            self._token = None", "False:\n            pass"),
        (
            "who has a token waits for who asks",
            "blocking=known is None or now >= known.expires_at",
            "blocking=True",
        ),
    ),
    *mutants_of(
        "bridge/oauth.py",
        "bridge/test_oauth.py",
        ("a server's words are shown with the secret", "shown.replace(secret, MASK)", "shown"),
        (
            "a token may break a header",
            "TOKEN.fullmatch(text) is None:\n        raise grant",
            "not text:\n        raise grant",
        ),
    ),
    *mutants_of(
        "bridge/pump/learning.py",
        "bridge/pump/test_learning.py",
        (
            "keys are learned although the router knows them",
            "        if 2 * sum(known) > len(known):\n            return\n",
            "",
        ),
        (
            "an error while learning stops the pump",
            "        except Exception:  # the pump routes each message anyway\n",
            "        except KeyError:\n",
        ),
    ),
    *mutants_of(
        "bridge/pump/pump.py",
        "bridge/pump/test_copies.py",
        (
            "dead letters beside the copies of a request do not count",
            "max(1, dead_letters + len(copies))",
            "max(1, len(copies))",
        ),
        (
            "copies beside a dead letter do not count it",
            "delivery, copies = pending.delivery, dead_letters\n",
            "delivery, copies = pending.delivery, 0\n",
        ),
        ("an incomplete message is routed", "if delivery.refusal is not None:\n", "if False:\n"),
        (
            "dead letters of expired requests do not count",
            "copies.append((dead_outlet, self._undeliverable.build(",
            "(lambda each: ready.setdefault(each[0], []).append(each[1]))((dead_outlet, self._undeliverable.build(",
        ),
    ),
    *mutants_of(
        "bridge/pump/outlet.py",
        "bridge/pump/test_outlet.py",
        (
            "what the target may still confirm is given up",
            "waiting = [each for each in held if each.number not in self._in_flight]",
            "waiting = held",
        ),
    ),
    *mutants_of(
        "bridge/pump/inlet.py",
        "simulation/test_simulation.py",
        (
            "a source that cannot settle is read on while it gives nothing",
            "                self._fault = to_disconnected(error)\n                self._interrupt()",
            "                self._fault = to_disconnected(error)",
        ),
    ),
    *mutants_of(
        "bridge/daemon/health.py",
        "bridge/daemon/test_health.py",
        (
            "a queue that took messages again refuses since the first time",
            "            del self._refusing[key]",
            "            pass",
        ),
    ),
    *mutants_of(
        "bridge/daemon/conditions.py",
        "bridge/daemon/test_health.py",
        (
            "a condition begins again with each new reason",
            "Condition(endpoint, kind, reason, known.condition.since, way_out)",
            "Condition(endpoint, kind, reason, wall, way_out)",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/reading.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_source.py",
        (
            "bytes of a lost connection count for ever",
            "        self._arrived.clear()\n        self._arrived_bytes = 0",
            "        self._arrived.clear()",
        ),
        (
            "what is settled last is not acknowledged at the end",
            "        if connection is not None:\n            self._acknowledge()\n            self._connection = None",
            "        if connection is not None:\n            self._connection = None",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/publishing.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_publishing.py",
        (
            "a refusal of several confirms them",
            "elif failure is None and event.nack:",
            "elif failure is None and event.nack and not event.multiple:",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/assignment.py",
        "bridge/endpoints/kafka/test_kafka_member.py",
        (
            "what is settled last is not committed at the end",
            "        self.commit_last(self.lanes.values())\n        self.closed",
            "        self.closed",
        ),
        (
            "a commit without an answer is not made again",
            "            if any(lane.settled > lane.committed for lane in self.lanes.values()):",
            "            if False:",
        ),
        (
            "a partition that was refused counts as committed",
            "if lane is None or each.error is not None:",
            "if lane is None:",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/producer/transactional.py",
        "bridge/endpoints/kafka/test_kafka_transactions.py",
        (
            "a transaction goes on when partitions in it are taken away",
            "            if not all(lane.current for lane in lanes):",
            "            if False:",
        ),
    ),
    *mutants_of(
        "bridge/consumers/groups/partition.py",
        "bridge/consumers/groups/test_partition.py",
        (
            "a handler that fails while it is drained ends nothing",
            "            if not worker.cancelled():\n                worker.result()",
            "            pass",
        ),
        (
            "a partition is handed over before the broker has its acknowledgements",
            "        await self._sync()\n        await asyncio.sleep(RESTING)",
            "        await asyncio.sleep(RESTING)",
        ),
        (
            "a gate that comes twice is another gate",
            "elif resize.id in self._gates or self.number not in resize.targets:",
            "elif self.number not in resize.targets:",
        ),
        (
            "a marker is announced before what is in front of it is settled",
            "        if next(iter(self._unsettled)) == tag:",
            "        if tag in self._unsettled:",
        ),
        (
            "a marker is announced before the broker has the acknowledgements in front of it",
            "        await self._sync()\n        await self._host.publish",
            "        await self._host.publish",
        ),
    ),
    *mutants_of(
        "bridge/rocketmq/consumer/share.py",
        "bridge/rocketmq/test_rocketmq_share.py",
        (
            "queues are pulled while a member leaves",
            "        await self.popping.close()\n        await self._tasks.cancel()",
            "        await self.popping.close()",
        ),
        (
            "offsets are not persisted when a member leaves",
            "        await self._tasks.cancel()\n        await self.persist()",
            "        await self._tasks.cancel()",
        ),
        (
            "a topic that was divided again is in trouble for ever",
            "                self.troubles.pop(topic, None)\n            except",
            "                pass\n            except",
        ),
        (
            "queues are unlocked before their offsets are persisted",
            "        await self._persisting.persist(group_offsets([reading]))\n        # The queue",
            "        # The queue",
        ),
        (
            "a queue whose new offset could not be committed is read from the old one on",
            "await self._persisting.persist_all(ours)",
            "await self._persisting.persist(ours)",
        ),
    ),
    *mutants_of(
        "bridge/rocketmq/consumer/assigned.py",
        "bridge/rocketmq/test_rocketmq_assigned.py",
        (
            "a queue that was read to an offset behind its end is at its end",
            "        self.max_offset = max(self.max_offset, offset)\n",
            "        self.max_offset = offset\n",
        ),
        (
            "the end of a queue is before the offset that is sought",
            "        self.max_offset = max(self.max_offset, offset)\n",
            "",
        ),
        (
            "the old offset is committed after a seek",
            "max(self.max_offset, offset)\n        self.pulled = False",
            "max(self.max_offset, offset)",
        ),
    ),
    *mutants_of(
        "bridge/rocketmq/consumer/pop/popping.py",
        "bridge/rocketmq/test_rocketmq_popping.py",
        (
            "a message is handed out that another member may pop",
            "if deadline is None or deadline < now + margin:",
            "if deadline is None:",
        ),
        (
            "a message is handed out when no time is left for it",
            "if deadline is None or deadline < now + margin:",
            "if deadline is None or deadline < now:",
        ),
    ),
    *mutants_of(
        "bridge/rocketmq/producer/tries.py",
        "bridge/rocketmq/test_rocketmq_producer.py",
        ("what has ended is under way for ever", "        self.under_way -= 1\n", ""),
        ("bytes of what has ended are under way for ever", "        self.bytes_under_way -= len(request.body)\n", ""),
    ),
    *mutants_of(
        "bridge/rocketmq/producer/transactions.py",
        "bridge/rocketmq/test_rocketmq_transactions.py",
        (
            "what was left open can never be decided",
            "if transaction.decision not in (None, Decision.UNKNOWN, decision):",
            "if transaction.decision not in (None, decision):",
        ),
        (
            "a decision cannot be sent again",
            "if transaction.decision not in (None, Decision.UNKNOWN, decision):",
            "if transaction.decision not in (None, Decision.UNKNOWN):",
        ),
    ),
    *mutants_of(
        "bridge/interop/marks.py",
        "bridge/interop/test_marks.py bridge/interop/test_mapping_identity.py",
        (
            "the identity of another message travels on",
            "                fields.append((name, own))\n                own = None\n",
            "                fields.append((name, _short_name(name) + value))\n                own = None\n",
        ),
        (
            "a message gets a second identity",
            "                fields.append((name, own))\n                own = None\n",
            "                fields.append((name, own))\n",
        ),
    ),
    *mutants_of(
        "bridge/interop/identity.py",
        "bridge/interop/test_identity_laws.py",
        ("any identity is believed", 'if carried.endswith(b"/%08x" % crc32(body, crc32(candidate))):', "if carried:"),
        ("a key proves nothing", "{crc32(body or b'', crc32(key or b'')):08x}", "{crc32(body or b''):08x}"),
        ("an identity is believed without a body", "    if carried and body:", "    if carried:"),
    ),
    *mutants_of(
        "bridge/interop/record.py",
        "bridge/interop/test_marks.py bridge/interop/test_mapping_identity.py bridge/interop/test_mapping.py",
        (
            "the first of several headers counts",
            "            last = value\n    return last",
            "            return value\n    return last",
        ),
    ),
    # What an owner could break without a sign: order, settling, windows, gates, configuration, archives.
    *mutants_of(
        "bridge/pump/window.py",
        f"bridge/pump/test_window.py {PUMP}",
        ("a delivery goes over the bytes of a window that is in use", "(count or self.messages)", "count"),
        ("the newest delivery counts as the oldest", "return min(firsts, key", "return max(firsts, key"),
        (
            "a window that is full of bytes is not full for long",
            "self.messages < self._most and self.bytes < self._most_bytes:\n            self.full_since = None",
            "self.messages < self._most:\n            self.full_since = None",
        ),
    ),
    *mutants_of(
        "bridge/pump/order.py",
        f"bridge/pump/test_held.py {PUMP}",
        (
            "what is held is sent in the order in which it came back",
            "insort(self._lines.setdefault(self._key_of(outgoing), []), outgoing, key=by_number)",
            "self._lines.setdefault(self._key_of(outgoing), []).append(outgoing)",
        ),
    ),
    *mutants_of(
        "bridge/pump/gate.py",
        f"bridge/pump/test_gate.py {PUMP}",
        (
            "a gate lets messages through while it waits",
            "while self._ready and not self.waits and",
            "while self._ready and",
        ),
        (
            "a gate stays as wide as before a refusal",
            "self.failure, self.refused_at, self._wide = failure, now, 1",
            "self.failure, self.refused_at = failure, now",
        ),
    ),
    *mutants_of(
        "bridge/pump/outlet.py",
        f"bridge/pump/test_outlet.py {PUMP}",
        (
            "nobody hears that a target has answered for a lost source",
            "            self._leave(outgoing)\n            self._changed()\n            return",
            "            self._leave(outgoing)\n            return",
            "the source looks again within a quarter of a second",
        ),
        (
            "a source is opened while a target owes answers for it",
            "return any(outgoing.context.window is window for outgoing in self._in_flight.values())",
            "return False",
        ),
        (
            "one at a time is forgotten while nothing is held",
            "if not self._held and not self._gates and not self._policy.one_at_a_time:",
            "if not self._held and not self._gates:",
        ),
        (
            "what an open target may still write is forgotten",
            "        if not self.connected:\n            for number",
            "        if True:\n            for number",
        ),
    ),
    *mutants_of(
        "bridge/pump/sending.py",
        f"bridge/pump/test_outlet.py {PUMP}",
        (
            "one message that cannot be sent breaks each connection",
            "self._one_by_one, self._left = True, connection",
            "self._left = connection",
        ),
    ),
    *mutants_of(
        "bridge/pump/inlet.py",
        f"bridge/pump/test_pump.py {PUMP}",
        (
            "a source is opened before its targets",
            " and not self._leaves and self.waiting_for() is None)\n",
            " and not self._leaves)\n",
        ),
        (
            "what a lost source has given is sent although it comes again",
            "                outlet.discard(inlet.window)\n",
            "                pass\n",
        ),
    ),
    *mutants_of(
        "bridge/pump/pump.py",
        f"bridge/pump/test_pump.py {PUMP}",
        (
            "a stop waits for nothing",
            "                await cancel_all(readers)\n                await self._drain()",
            "                await cancel_all(readers)",
        ),
    ),
    *mutants_of(
        "bridge/pump/reply_sender.py",
        "bridge/pump/test_replies.py",
        (
            "replies without a caller are never settled",
            "                self._events.replied(name, reply)\n                inlet.window.finish_copy(pending)",
            "                self._events.replied(name, reply)",
        ),
        (
            "replies that are refused are never settled",
            "    pending.window.finish_copy(pending)\n    pending.window.settle()",
            "    pending.window.settle()",
        ),
    ),
    *mutants_of(
        "bridge/pump/dead_letters.py",
        "bridge/pump/test_dead_letters.py",
        ("dead letters expire", '("expiration", properties), ', ""),
        ("dead letters are copied to where CC says", '("CC", headers), ', ""),
    ),
    *mutants_of(
        "bridge/daemon/reading/pipeline.py",
        "bridge/daemon/test_config.py",
        (
            "a source's own policy begins with the defaults",
            "read_policy(own_policy, policy)",
            "read_policy(own_policy, Policy())",
        ),
        (
            "a source with a policy of its own has no rate",
            "pump_keys.RATE.read(table) or base.rate",
            "pump_keys.RATE.read(table)",
        ),
        ("the second target of a queue has it", "if queue in by_queue:", "if False:"),
        ("all workers read what only one may read", "shared.worker is not None and shared.worker > 1:", "False:"),
    ),
    *mutants_of(
        "bridge/daemon/config.py",
        "bridge/daemon/test_config.py",
        ("the first worker has the second port", "int(port) + worker - 1", "int(port) + worker"),
    ),
    *mutants_of(
        "bridge/daemon/health.py",
        "bridge/daemon/test_health.py",
        (
            "a message on hold is a stall, too",
            "age >= stalled_after and oldest.held_reason is None",
            "age >= stalled_after",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/redeliveries.py",
        "bridge/endpoints/rabbitmq/test_redeliveries.py",
        ("a message in less danger takes the danger away", "self.most = max(self.most, count)", "self.most = count"),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/offsets.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_offsets.py",
        (
            "what is settled is not written",
            "self.path is not None and self._last is not None and self._fingerprint is not self._written",
            "self.path is not None and self._last is not None and self.fingerprint == self._written()",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/archive/replay.py",
        "bridge/endpoints/archive/test_archive.py",
        (
            "a file is counted from where an earlier replay ended",
            "number = before if file in self._ends else 0",
            "number = before",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rocketmq/source.py",
        "bridge/endpoints/rocketmq/test_rocketmq_commits.py",
        ("an offset that could not be committed is forgotten", "            lane.has_news |= offset is None\n", ""),
        (
            "a queue that is taken away uses up the window",
            "            self._uncommitted -= len(lane.offsets)\n            self._committed.set()",
            "            self._committed.set()",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/member.py",
        "bridge/endpoints/kafka/test_kafka_member.py",
        ("more is read than the window allows", "room = min(limit, self.assignment.room)", "room = limit"),
    ),
]
