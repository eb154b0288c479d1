"""Mutants that a simulated life must notice: of reloads, pump, window, order, offsets, batches, archives, RocketMQ."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, mutants_of

SIMULATED: Final = "simulation/test_simulation.py"

LIVES: Final[list[Mutant]] = [
    *mutants_of(
        "bridge/daemon/pipelines.py",
        SIMULATED,
        (
            "a reload begins pumps before those that they follow have ended",
            "            await asyncio.wait(ending)\n        goes_back",
            "            await asyncio.sleep(0)\n        goes_back",
        ),
        (
            "a file with a mistake is taken",
            "            if mistakes:\n                raise HashstarError",
            "            if False:\n                raise HashstarError",
        ),
        ("a paused bridge reads after a reload", "                built.pump.pause()\n", "                pass\n"),
        ("a drained bridge reads after a reload", "                built.pump.drain()\n", "                pass\n"),
        (
            "each reload has all named pipelines begin anew",
            "if not (name in new and is_same(old[name], new[name]))]",
            "if True]",
        ),
        (
            "a pipeline that is changed runs on",
            "return bool(old.name) and old.written == new.written and",
            "return bool(old.name) and",
        ),
    ),
    *mutants_of(
        "bridge/pump/window.py",
        SIMULATED,
        (
            "a lane is settled past what is not done",
            "while lane and not lane[0].copies:",
            "while lane and not (lane[0].copies and lane[-1].copies):",
        ),
        (
            "the window has room for more than it holds",
            "return min(self._most - self.messages, by_size)",
            "return min(self._most, by_size)",
        ),
        (
            "what is settled still fills the window",
            "                self.bytes -= last.size\n",
            "",
        ),
        (
            "any number of bytes fits",
            "if left < 0 and (count or self.messages):",
            "if False:",
        ),
        (
            "a delivery that is larger than the window waits for ever",
            "if left < 0 and (count or self.messages):",
            "if left < 0:",
        ),
        (
            "what is dropped is settled",
            "if not pending.copies and not pending.dropped:",
            "if not pending.copies:",
        ),
        (
            "what a lost connection had read is tried again",
            "                pending.dropped = True\n",
            "                pass\n",
        ),
    ),
    *mutants_of(
        "bridge/pump/order.py",
        SIMULATED,
        (
            "no key is held",
            "        return self._key_of(outgoing) in self._lines",
            "        return False",
        ),
        (
            "each held message is the first of its key",
            "return line is not None and line[0] is outgoing",
            "return line is not None",
        ),
    ),
    *mutants_of(
        "bridge/pump/outlet.py",
        SIMULATED,
        (
            "what was in flight is sent again in any order",
            "under_way = sorted(self._in_flight.values(), key=by_number)",
            "under_way = sorted(self._in_flight.values(), key=by_number, reverse=True)",
        ),
        (
            "what was in flight is forgotten with its connection",
            "        self._launch(again)\n        self._release([outgoing for",
            "        self._release([outgoing for",
        ),
        (
            "a try too few",
            "outgoing.attempts - outgoing.waits < self._policy.tries:",
            "outgoing.attempts - outgoing.waits < self._policy.tries - 1:",
        ),
        (
            "nothing waits behind a gate",
            "waits = self._gates and find_partition(outgoing) in self._gates",
            "waits = False",
        ),
        (
            "a message that waits is given up at once",
            "now - outgoing.waiting[1] < patience:",
            "now - outgoing.waiting[1] < 0:",
        ),
        (
            "a lost target is not opened again",
            "        self.error = error\n        self._gone.set()",
            "        self.error = error",
        ),
        (
            "a message is done before its dead letter is written",
            (
                "            self._send_dead_letter(outgoing, failure)\n"
                "            self._leave(outgoing)\n"
                "        else:\n"
                "            self._hold(outgoing, failure, fate)"
            ),
            (
                "            self._send_dead_letter(outgoing, failure)\n"
                "            finish_copies([outgoing.context])\n"
                "            outgoing.context.window.settle()\n"
                "            self._leave(outgoing)\n"
                "        else:\n"
                "            self._hold(outgoing, failure, fate)"
            ),
        ),
    ),
    *mutants_of(
        "bridge/pump/gate.py",
        SIMULATED,
        (
            "a gate never opens again",
            "        self.waits = False\n\n    def accept",
            "        self.waits = True\n\n    def accept",
        ),
        (
            "a gate is removed at once",
            " and now - self.refused_at >= CALM",
            "",
        ),
    ),
    *mutants_of(
        "bridge/pump/inlet.py",
        SIMULATED,
        (
            "a source is opened before its targets",
            "closed = [outlet.target.name for outlet in self._outlets if not outlet.connected]",
            "closed = list[str]()",
        ),
        (
            "a source that cannot settle is read for ever",
            "                self._fault = to_disconnected(error)\n                self._interrupt()\n",
            "                self._fault = to_disconnected(error)\n",
        ),
    ),
    *mutants_of(
        "bridge/pump/pump.py",
        SIMULATED,
        (
            "sources are closed before targets",
            (
                "            await run_within(seconds, [outlet.close() for outlet in self._all_outlets])\n"
                "            await run_within(seconds, [reading.close() for reading in self._readings.values()])"
            ),
            (
                "            await run_within(seconds, [reading.close() for reading in self._readings.values()])\n"
                "            await run_within(seconds, [outlet.close() for outlet in self._all_outlets])"
            ),
        ),
        (
            "one copy of many is all",
            "            pending.copies = copies\n",
            "            pending.copies = 1\n",
        ),
        (
            "what a filter rejects is never done",
            "delivery, objection)\n                    inlet.window.finish_copy(pending)\n",
            "delivery, objection)\n",
        ),
        (
            "what a filter rejects goes on",
            "                    self._events.filtered(inlet.source.name, delivery, objection)\n",
            "                    raise HashstarError(objection)\n",
        ),
    ),
    *mutants_of(
        "bridge/pump/dead_letters.py",
        SIMULATED,
        (
            "all may become dead letters at once",
            ("        return max(FEWEST - self.dead, floor((share * self.messages - self.dead) / (1 - share)), 0)"),
            "        return maxsize",
        ),
    ),
    *mutants_of(
        "bridge/pump/undeliverable.py",
        SIMULATED,
        (
            "what is dropped is never done",
            ("            pending.held_reason = None\n            inlet.window.finish_copy(pending)\n        elif"),
            "            pending.held_reason = None\n        elif",
        ),
    ),
    *mutants_of(
        "bridge/pump/sending.py",
        SIMULATED,
        (
            "a message that cannot be sent is forgotten",
            "                loop.call_soon(connection.failed, outgoing, failure)",
            "                pass",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/share.py",
        SIMULATED,
        (
            "settled records are not acknowledged",
            "        self._acknowledge(record, AcknowledgeType.ACCEPT)\n",
            "",
        ),
        (
            "what is settled is given back",
            "        self._acknowledge(record, AcknowledgeType.ACCEPT)\n",
            "        self._acknowledge(record, AcknowledgeType.RELEASE)\n",
        ),
        (
            "what is open when the source is closed is accepted",
            "                self._acknowledge(record, AcknowledgeType.RELEASE)\n        self._consumer",
            "                self._acknowledge(record, AcknowledgeType.ACCEPT)\n        self._consumer",
        ),
        (
            "parts of a batch are acknowledged with its last record only",
            "            await asyncio.sleep(COMMIT_EVERY)\n            self._send()",
            "            await asyncio.sleep(COMMIT_EVERY)",
        ),
        (
            "the next batch is polled while records of this one are open",
            "            if not self._unsettled:\n                self._poll()",
            "            if not self._unread:\n                self._poll()",
        ),
        (
            "a late batch is given up",
            "        return self._lost or self._reasons.trouble",
            (
                "        late = self.trouble if self._unsettled else None\n"
                "        return self._lost or self._reasons.trouble or (None if late is None else Disconnected(late))"
            ),
        ),
        ("what an earlier connection had read is given to the pump", "        self._unread.clear()\n", ""),
        (
            "records of an earlier connection are waited for",
            "        self._unsettled = set()\n        if calls",
            "        if calls",
        ),
        (
            "a source that is to take no more polls on",
            "            if self._is_stopped:\n                raise EndOfStream\n",
            "",
        ),
    ),
    # The pump never reads on after a pause in a read, nor settles what it has dropped; the forbidden are given nothing.
    *mutants_of(
        "bridge/endpoints/kafka/consumer/share.py",
        "simulation/test_models.py",
        (
            "what another member has by now is read after a pause",
            "is_stale = self._polled_at - before > self._group.lock_seconds + FETCHING",
            "is_stale = False",
        ),
        (
            "a record of an earlier connection is accepted",
            "        if record not in self._unsettled:  # of an earlier connection\n            return\n",
            "",
        ),
        (
            "a missing permission is passed over",
            "if error.fatal() or error.code() in PERMISSIONS:",
            "if error.fatal():",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/producer/transaction.py",
        SIMULATED,
        (
            "messages of a partition that is gone are taken",
            "            if not lane.current:\n",
            "            if False:\n",
        ),
        (
            "what an aborted transaction had is forgotten",
            "extendleft(reversed([outgoing for outgoing in self.inside if outgoing.number not in bad]))",
            "extendleft(())",
        ),
        (
            "what an aborted transaction had comes again in any order",
            "extendleft(reversed([outgoing for outgoing in self.inside if outgoing.number not in bad]))",
            "extendleft([outgoing for outgoing in self.inside if outgoing.number not in bad])",
        ),
        ("what was refused alone is written again", "if outgoing.number not in bad]))", "if True]))"),
        (
            "offsets are committed past what is not done",
            "offset = offset if last is None else max(offset, last.position + 1)",
            "offset = max([pending.delivery.position for pending in copies[lane]]) + 1",
        ),
        ("the last message inside is read again", "max(offset, last.position + 1)", "max(offset, last.position)"),
        (
            "offsets are not in the transaction",
            "self._retry(partial(self.producer.send_offsets_to_transaction, offsets, metadata[assignment]))",
            "pass",
        ),
        ("what is not taken now is forgotten", "        waiting.extendleft(reversed(later))\n", ""),
        (
            "a knotted transaction takes more than it may",
            " or (only and total > self.most_messages)",
            "",
        ),
        (
            "each message of a refused batch is refused",
            "self.refused if batching.alone else [], [], False",
            "self.refused, [], False",
        ),
        (
            "what the next owner writes is refused for good",
            "failed.append((waiting.popleft(), MOOT))",
            'failed.append((waiting.popleft(), Failure("gone", final=True)))',
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/producer/transactional.py",
        SIMULATED,
        (
            "a transaction is committed that is not whole",
            "            if full and connection.is_whole():",
            "            if full:",
        ),
        (
            "what a transaction wrote is confirmed before its commit",
            "            connection.take()\n            connection.producer.poll(0)\n",
            (
                "            connection.take()\n            connection.receiver.confirmed(connection.inside)\n"
                "            connection.producer.poll(0)\n"
            ),
        ),
        (
            "nothing is read again after a transaction of which the outcome is unknown",
            'assignment.rewind(f"a transaction failed: {trouble}")',
            "pass",
        ),
        (
            "a transaction of which the outcome is unknown is begun anew",
            "if cause.fatal() or not cause.txn_requires_abort() or cause.code() in PERMISSIONS:",
            "if cause.fatal() or cause.code() in PERMISSIONS:",
        ),
        (
            "what was committed stays inside",
            "        done, connection.inside = connection.inside, []\n",
            "        done = connection.inside\n",
        ),
        (
            "a transaction waits for its own messages, again and again",
            "            connection.is_knotted |= isinstance(reason, Knotted)\n",
            "",
        ),
        (
            "after a refused batch the next one is refused as well",
            "            await self._renew(connection, calls, ONE_BY_ONE)\n",
            "            pass\n",
        ),
        (
            "an aborted transaction is still open",
            "        await _call_within(calls, connection.abort, connection.patience)\n",
            "",
        ),
        (
            "offsets of what went elsewhere are never committed",
            "                if connection.waiting or connection.offsets():\n",
            "                if connection.waiting:\n",
        ),
        (
            "offsets of partitions that were taken away are committed",
            "            if not all(lane.current for lane in lanes):\n                raise Incomplete",
            "            if False:\n                raise Incomplete",
            "a commit takes the offsets of partitions that are there, and is_whole misses those of others",
        ),
        (
            "a transaction with a refused message is committed",
            "            if offsets and not connection.refused:\n",
            "            if offsets:\n",
            "the commit looks at it once more, when all reports are in",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/assignment.py",
        SIMULATED,
        (
            "the offset behind the next is committed",
            "        offset = delivery.position + 1\n",
            "        offset = delivery.position + 2\n",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/member.py",
        SIMULATED,
        (
            "what is read is given before its topic is known",
            "                if lane.checked:\n                    taken.append(delivery)",
            "                if True:\n                    taken.append(delivery)",
        ),
        (
            "offsets that go back are one lane",
            "                if message.offset() < lane.next:",
            "                if False:",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/producer/plain.py",
        SIMULATED,
        (
            "a batch that is refused is not given back",
            "            batching.suspect(outgoing, error)\n            self._returned.append(outgoing)",
            "            batching.suspect(outgoing, error)",
        ),
        (
            "each message of a refused batch is refused",
            "        elif error.code() in REFUSALS:\n            self._stopping",
            "        elif error.code() in ():\n            self._stopping",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/archive/spool.py",
        SIMULATED,
        (
            "what is not synced is confirmed",
            "            sync_data(self._file)\n",
            "",
        ),
        (
            "a part of a batch that failed is left",
            "                os.ftruncate(self._file, self.size)\n",
            "                pass\n",
        ),
        (
            "the name of a spool is not synced",
            (
                "            os.fsync(self._file)\n"
                "            sync_folder(folder)\n"
                "        except OSError:\n"
                "            self.discard()"
            ),
            "            os.fsync(self._file)\n        except OSError:\n            self.discard()",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/archive/writing.py",
        SIMULATED,
        (
            "what is written is confirmed before",
            "                await asyncio.shield(appending)\n            except",
            "                await asyncio.sleep(0)\n            except",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rocketmq/writing.py",
        SIMULATED,
        (
            "what is not stored safely is confirmed",
            'if status == "SEND_OK" or self._confirm_not_store_ok:',
            "if True:",
        ),
        (
            "a message that is illegal alone is forgotten",
            '                self._receiver.failed(batch[0][0], Failure(f"illegal: {error}", final=True))',
            "                pass",
        ),
    ),
]
