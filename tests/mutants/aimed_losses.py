"""Mutants that lose something in silence: what a lane, a window or a queue owes, and what a sum leaves out."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, mutants_of

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
            " or (lane.begins_anew and each.offset > lane.settled)",
            "",
        ),
        ("a commit of the lane before counts as that of the same offset", "not lane.equals(each) or ", ""),
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
        "bridge/endpoints/kafka/producer/target.py",
        "bridge/endpoints/kafka/test_kafka_batches.py",
        ("the limit of a topic stays as it was", "MSG_SIZE_TOO_LARGE and asked >= ASK_EVERY", "_FATAL"),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/remade_topics.py",
        "bridge/endpoints/kafka/test_kafka_remade_topics.py",
        ("a record of a later epoch proves an offset", " and lane.epochs[0][1] == epoch:", ":"),
        ("a record before an offset proves it", "lane.epochs[0][0] >= offset and", "True and"),
        ("an answer counts for a lane that is newer", " or not (lane.checked or lane in asked):", ":"),
        ("epochs of another topic are compared", "now == ids.committed.get(key) and key in", "key in"),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/member.py",
        "bridge/endpoints/kafka/test_kafka_member.py simulation/test_simulation.py",
        (
            "what is not settled is forgotten when a log loses its end",
            "if lane.offsets and lane.offsets[0] < message.offset():",
            "if False:",
        ),
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
        ("the part of an archive that was read counts as all", "_replace(share=share)", "_replace()"),
    ),
    *mutants_of(
        "bindings/auditing/local/cache.py",
        "bindings/auditing/test_cache.py",
        ("a torn entry of a cache is trusted", " or hashlib.sha256(rest).hexdigest() != digest", ""),
        ("an entry holds whatever words bindings name", "if needs.shapes else []", "if False else []"),
    ),
    *mutants_of(
        "bindings/auditing/local/recognised.py",
        "bindings/auditing/test_cache.py",
        ("a file that was just changed is kept", "if changed is None or changed", "if changed is None and changed"),
        ("a damaged line about a format is read", " if check == _check(key, int(number))", ""),
    ),
    *mutants_of(
        "bridge/pump/sending.py",
        "bridge/pump/test_outlet.py",
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
    # What decision 0047 has mended, one kind of fault after the other.
    *mutants_of(
        "bindings/sources/files.py",
        "bindings/sources/test_files.py",
        (
            "a device with a name is a file",
            "    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):",
            "    if False:",
        ),
    ),
    *mutants_of(
        "bindings/archive/formats/detect.py",
        "bindings/archive/test_unreadable.py",
        ("an archive may be a pipe", "    if not (root.is_file() or root.is_dir()):", "    if False:"),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/unrouted.py",
        "bridge/endpoints/rabbitmq/test_unrouted.py",
        (
            "a returned message is at fault at once",
            "if now - since < self._patience and now - known.proved_at >= PROOF:",
            "if False:",
        ),
        ("each returned message has the whole patience", " and now - known.proved_at >= PROOF:", ":"),
        ("an exchange that routes nothing finds fault", "        if known.last_routed >= since:", "        if True:"),
        ("what was routed once is at fault", "was_routed = identity in known.routed", "was_routed = False"),
        ("headers are at fault without any that are routed", "by_headers and known.lone < LONE", "by_headers"),
    ),
    *mutants_of(
        "bridge/pump/dead_letters.py",
        "bridge/pump/test_dead_letter_limit.py",
        (
            "all may become dead letters",
            "        if tally.find_room(self.share):\n            tally.add(1, 1)",
            "        if True:\n            tally.add(1, 1)",
        ),
        ("the first ten may not", "max(FEWEST - self.dead, floor(", "max(0, floor("),
        (
            "what waits is not tried again when others were written",
            "        elif not self._is_due and tally.find_room(self.share):",
            "        elif False:",
        ),
        (
            "messages are forgotten while one waits",
            "            if not self._waiting:\n                tally.forget_old(self._latest)\n            return",
            "            tally.forget_old(self._latest)\n            return",
        ),
        ("what a transaction holds back does not count", "        if count > ahead:", "        if False:"),
    ),
    *mutants_of(
        "bridge/interop/rocketmq_topics.py",
        "bridge/interop/test_mapping_rocketmq.py",
        ("an error shows a name of any length", "    if len(name) > longest:", "    if False:"),
        ("an escaped name may be too long", "    if len(encoded) > longest:", "    if False:"),
        ("each escape is a call in a call", " or len(topic) > TOPIC_LENGTH", ""),
    ),
    *mutants_of(
        "bridge/client_errors.py",
        "bridge/test_client_errors.py",
        ("errors of clients have no words", 'return text if words is None else f"{text}; {words}"', "return text"),
        ("a broker without PLAIN has none", '"could not negotiate use of the"', '"never there"'),
        (
            "whatever fails without a descriptor has its own",
            "if words != DESCRIPTORS and not _has_descriptors():",
            "if False:",
        ),
    ),
    *mutants_of(
        "bindings/serve/site.py",
        "bindings/serve/test_site.py",
        (
            "the token is looked at after the body",
            '            if not self._is_token(self.headers.get("X-Hashstar-Token", "")):',
            "            if False:",
        ),
    ),
    *mutants_of(
        "bindings/http/listener.py",
        "bindings/http/test_listener.py",
        ("connections take all files", "max(MIN_CONNECTIONS, min(CONNECTIONS, files / SHARE))", "CONNECTIONS"),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/producer/plain.py",
        "bridge/endpoints/kafka/test_kafka_batches.py",
        (
            "each message of a refused batch is refused",
            "        elif error.code() in REFUSALS:\n            self._stopping",
            "        elif error.code() in ():\n            self._stopping",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/pacing.py",
        "bridge/endpoints/rabbitmq/test_pacing.py",
        ("what came back often is taken together", "return count >= self._alone_from", "return False"),
        ("a full prefetch follows the first one", "min(self.prefetch * GROWTH, self._most)", "self._most"),
    ),
    *mutants_of(
        "bridge/interop/identity.py",
        "bridge/interop/test_identity_laws.py",
        (
            "an identity goes with copied headers",
            '            if carried.endswith(b"/%08x" % crc32(body, crc32(candidate))):',
            "            if True:",
        ),
        ("empty bodies share an identity", "    if carried and body:", "    if carried:"),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/consumer/backlog.py",
        "bridge/endpoints/kafka/test_kafka_backlog.py",
        ("the lag ends at an open transaction", "max(0, high - position)", "max(0, stable - position)"),
        ("deleted records are passed over in silence", "            self.vanished += count\n", ""),
    ),
    *mutants_of(
        "exchange/text/display.py",
        "test_secrets.py",
        ("logins are shown", ' if "@" in text else text', ' if "://" in text else text'),
    ),
    *mutants_of(
        "bridge/endpoints/positions.py",
        "bridge/endpoints/test_positions.py",
        ("a position beyond the end is read on", "(self.is_other or self.position > self.end)", "self.is_other"),
        (
            "a removed position is read on",
            " and not self.is_beyond and self.start <= self.position:",
            " and not self.is_beyond:",
        ),
    ),
    *mutants_of(
        "bridge/pump/placing.py",
        "bridge/pump/test_choices.py",
        (
            "each queue of a target has turns of its own",
            "if each.partitioner == partitioner), None)",
            "if False), None)",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/outages.py",
        "bridge/endpoints/test_outages.py",
        (
            "what is not known now is forgotten",
            "            if found is not None:\n                self.all = found",
            "            self.all = found or ()",
        ),
        (
            "a look that fails is the last one",
            "            except Exception:\n                LOG.exception",
            "            except HashstarError:\n                LOG.exception",
        ),
    ),
    *mutants_of(
        "bridge/daemon/health.py",
        "bridge/daemon/test_health.py",
        (
            "no source is asked what removes messages",
            "keep_looking(each.find_removals)) for each in sources]",
            "keep_looking(each.find_removals)) for each in ()]",
        ),
        ("an outage begins anew with a reload", "= {} if before is None else before._idle", "= {}"),
        ("what brokers sent to a stopped process is not read first", "        elif now >= self._ran:", "        else:"),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/cluster/health.py",
        "bridge/endpoints/kafka/test_kafka_health.py",
        ("a broker that is not needed counts as away", "not needs_none and not any(", "not any("),
        (
            "a leader that is not needed counts as away",
            " not in CONNECTED | UNWANTED:\n                yield",
            " not in CONNECTED:\n                yield",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/kafka/cluster/errors.py",
        "bridge/endpoints/kafka/test_kafka_health.py",
        ("an error outlives the next connection", 'self._last, self._line = None, ""', "pass"),
        (
            "an error of a broker that is away ends with another's connection",
            ".startswith(tuple(lasting)):",
            ".startswith(()):",
        ),
    ),
    *mutants_of(
        "bridge/daemon/pipelines.py",
        "bridge/daemon/test_pipelines.py",
        (
            "a pump begins after the stop",
            "        if self._is_stopping:\n            raise asyncio.CancelledError\n",
            "",
        ),
        (
            "pumps begin before those that end have ended",
            "            await asyncio.wait(ending)\n",
            "            await asyncio.sleep(0)\n",
        ),
        (
            "a pipeline that is not changed begins anew",
            "return bool(old.name) and old.written == new.written and old.topology == new.topology",
            "return False",
        ),
        (
            "a mistake of ours in one pipeline ends all",
            "if isinstance(error, Exception) and name:",
            "if isinstance(error, Exception) and not name:",
        ),
    ),
    *mutants_of(
        "bridge/daemon/pipelines.py",
        "bridge/daemon/test_pipelines_file.py",
        (
            "a pipeline with another topology is the same",
            "old.written == new.written and old.topology == new.topology",
            "old.written == new.written",
        ),
    ),
    *mutants_of(
        "bridge/daemon/web.py",
        "bridge/daemon/test_pipelines_asked.py",
        (
            "a name of no pipeline stands for all",
            "if name not in names and not (name and names and may_be_new)]",
            "if name not in names and False]",
        ),
        ("a misspelt parameter stands for all", "elif names and query:", "elif False:"),
        (
            "the second of two pipelines is passed over",
            "if name in pipelines} if pipelines else pumps",
            "if name in [*pipelines][-1:]} if pipelines else pumps",
        ),
    ),
    *mutants_of(
        "bridge/pump/inlet.py",
        "bridge/pump/test_pump.py",
        (
            "what a lost connection had read is moved at a stop",
            "self._fault, self._unadmitted = None, ()",
            "self._fault = None",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/reading.py",
        "bridge/endpoints/rabbitmq/test_rabbitmq_reopening.py",
        (
            "a queue that is being opened is a stream in memory",
            "return None if self._was_stream and",
            "return None if self._is_stream and",
        ),
    ),
    # What is due and is put off: with each of these there is an order of turns in which nothing does it any more.
    *mutants_of(
        "bridge/endpoints/rabbitmq/consumer/reading.py",
        "simulation/test_wakeups.py bridge/endpoints/rabbitmq/test_rabbitmq_crash_loop.py",
        (
            "what is settled while the prefetch changes is never acknowledged",
            "            asyncio.get_running_loop().call_soon(self._ack)\n        finally:",
            "            pass\n        finally:",
        ),
        (
            "a change of the connection before counts as that of this one",
            "if connection is self._connection:  # else",
            "if True:  # else",
        ),
        (
            "a consumer that is to end while the prefetch changes never ends",
            "                self._end_consumer()\n",
            "",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rabbitmq/connection.py",
        "simulation/test_wakeups.py",
        (
            "a channel that ends behind an answer that nobody has seen is not lost",
            "if not waiting and not self._is_apart:",
            "if not self._asked and not self._is_apart:",
        ),
        ("a channel that was closed unseen is asked for ever", " or not self._looking.is_open:", ":"),
        ("an answer that is not read is not waited for", "SECONDS if self.is_paused else max", "max"),
    ),
    *mutants_of(
        "bridge/pump/outlet.py",
        "bridge/pump/test_outlet.py",
        ("a target that was lost while it was opened is connected", "if self.connected:  # else", "if True:  # else"),
        ("a connection that was never made ends the next one", "                connection.outlet = None\n", ""),
        (
            "what waits behind a gate waits for another's timer",
            "        self._launch_from_gates()  # it leaves",
            "        #",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/archive/reading.py",
        "bridge/endpoints/archive/test_rotated_logs.py",
        ("what is settled while the file is written waits for the next settling", "while self._has_news:", "if True:"),
    ),
    *mutants_of(
        "bridge/rocketmq/consumer/tasks.py",
        "bridge/rocketmq/test_rocketmq_share.py",
        ("who asks while the last rebalance fails waits for ever", "[*waiting, *self._waiting]", "waiting"),
        ("who asks after the last rebalance waits for ever", " and not self._task.done():", ":"),
    ),
    *mutants_of(
        "bridge/rocketmq/consumer/pop/popping.py",
        "bridge/rocketmq/test_rocketmq_popping.py",
        (
            "an acknowledgement during a pop is forgotten",
            "        news = asyncio.ensure",
            "        queue.acked.clear()\n        news = asyncio.ensure",
        ),
    ),
    *mutants_of(
        "bridge/endpoints/rocketmq/target.py",
        "bridge/rocketmq/test_rocketmq_ends.py",
        ("a route that changes while a target is opened is missed", "in client.routes().items():  #", "in ():  #"),
    ),
    *mutants_of(
        "bridge/dead/replaying.py",
        "bridge/dead/test_replaying.py",
        ("a stop between two pumps is forgotten", "if user.has_stopped:", "if False:"),
    ),
]
