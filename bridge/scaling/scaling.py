"""Carry out the steps that change a topic's number of queues: look, take a step or wait, look again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.remoting.admin import TopicConfig, set_topic
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError, ConnectError, RemotingTimeout, SendRequestError
from bridge.scaling.deferred import ScalingRefused
from bridge.scaling.topic_state import Scope, TopicReader, TopicState
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.clients.rocketmq.scaling import Action, ScalingStep, UnreadMessages, find_next_steps, list_steps
from exchange.text.display import list_some

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at queues that are being drained."""
KNOWN_SECONDS: Final = 35.0
"""Seconds until all name servers must have new numbers: brokers register at the latest after 30 s."""
SILENT_SECONDS: Final = 30.0
"""Seconds for which a server may not answer, as during its restart, before a run ends."""
KNOWN_EVERY: Final = 0.2
"""Seconds between two questions to the name servers."""
QUEUES_SHOWN: Final = 5
"""Maximum number of queues listed in an error."""


class StepEvent(NamedTuple):
    """What happens while a topic is scaled."""

    step: ScalingStep
    is_done: bool
    """Whether the step is taken; else it is being waited for."""
    left: float = 0
    """Seconds, or messages, that it still has to wait for."""


@dataclass(frozen=True, slots=True)
class ScalingPlan:
    """The steps from what was seen to the target."""

    scope: Scope
    state: TopicState
    steps: tuple[ScalingStep, ...]
    """All steps in a safe order, broker by broker."""
    possible: frozenset[ScalingStep]
    """Those that can be taken or waited for now; the others need these first."""


async def plan(settings: ClientSettings, scope: Scope) -> ScalingPlan:
    """Return the steps to scale a topic; nothing is changed.

    Raises ScalingRefused where messages would be lost, InputError for a topic, brokers or groups that are not there,
    and RemotingError.
    """
    async with Client(settings) as client:
        reader = TopicReader(client, scope)
        state = await _read_state(reader)
        for broker, config in state.configs.items():
            if where := await reader.disagreement(broker, config):
                raise ScalingRefused(f"{where}; brokers register every 30 s: run it again then")
        situation, target = state.situation, state.target
        return ScalingPlan(scope, state, list_steps(situation, target), frozenset(find_next_steps(situation, target)))


async def scale(
    settings: ClientSettings,
    scope: Scope,
    *,
    drain_timeout: float,
    report: Callable[[StepEvent], None] = lambda _: None,
) -> None:
    """Scale a topic: take each step when it is safe, and wait for queues to be drained.

    Queues are waited for ``drain_timeout`` seconds at most. A call may be cancelled at any time, and another one goes
    on: all state is read from the brokers. Raises as `plan`; and ScalingRefused when queues are not drained in time,
    when a broker or name server does not take a change, and when a producer has sent to a queue that no producer
    should know any more.
    """
    async with Client(settings) as client:
        await _Scaling(client, scope, drain_timeout, report).run()


async def _read_state(reader: TopicReader) -> TopicState:
    """Look at the brokers. Raises ScalingRefused also where the user may not ask what has to be known."""
    try:
        return await reader.read()
    except BrokerError as error:
        raise _explain_refusal(error) from None


def _explain_refusal(error: BrokerError) -> Exception:
    """Return the error to raise for a refusal: for a missing permission one with the way out."""
    if error.code == ResponseCode.NO_PERMISSION or "AclException" in error.remark or "auth" in error.remark.lower():
        return ScalingRefused(f"{error}; this user may not scale topics: give --access-key of an administrator")
    return error


class _Scaling:
    """One run of `scale`."""

    def __init__(self, client: Client, scope: Scope, timeout: float, report: Callable[[StepEvent], None]) -> None:
        self._client: Final = client
        self._scope: Final = scope
        self._timeout: Final = timeout
        self._report: Final = report
        self._reader: Final = TopicReader(client, scope)
        self._draining_since: float | None = None

    async def run(self) -> None:
        """Take all steps."""
        before: TopicState | None = None
        answered = time.monotonic()
        while True:
            try:
                state = await _read_state(self._reader)
            except (ConnectError, SendRequestError, RemotingTimeout):
                if time.monotonic() - answered > SILENT_SECONDS:
                    raise
                await asyncio.sleep(LOOK_EVERY)
                continue
            answered = time.monotonic()
            steps = find_next_steps(state.situation, state.target)
            if not steps:
                return
            changes = [step for step in steps if step.action.is_change]
            if changes:
                await self._take(changes[0], state)
                self._report(StepEvent(changes[0], True))
                self._draining_since = None
                before = None
                continue
            if any(step.action == Action.STOP_PRODUCERS for step in steps):
                raise ScalingRefused(
                    "keys would move to other queues, and new messages would overtake old ones: stop the producers, "
                    "and add --producers-stopped"
                )
            self._check_stopped(before, state)
            before = state
            await self._wait(steps)

    async def _wait(self, steps: tuple[ScalingStep, ...]) -> None:
        """Wait a moment for producers to settle and queues to be drained. Raises ScalingRefused after the timeout."""
        seconds = LOOK_EVERY
        unread: list[UnreadMessages] = []
        for step in steps:
            if step.action == Action.SETTLE:
                seconds = min(seconds, step.number / 1000)
                self._report(StepEvent(step, False, step.number / 1000))
            else:
                unread += step.unread
                self._report(StepEvent(step, False, sum(each.messages for each in step.unread)))
        if unread:
            now = time.monotonic()
            if self._draining_since is None:
                self._draining_since = now
            if now - self._draining_since >= self._timeout:
                raise ScalingRefused(
                    f"not drained in {self._timeout:g} s: {list_some(list(map(str, unread)), QUEUES_SHOWN)}. Start "
                    "the consumers of these groups, or name the groups that count with --group; then run it again, and "
                    "it continues"
                )
            seconds = min(seconds, self._timeout)
        await asyncio.sleep(max(seconds, 0.01))

    def _check_stopped(self, before: TopicState | None, state: TopicState) -> None:
        """Raise ScalingRefused if a producer sends although producers are to be stopped."""
        if before is None or not self._scope.producers_stopped:
            return
        sent = [
            queue.name
            for queue, offsets in state.situation.offsets.items()
            if queue in before.situation.offsets and offsets.end > before.situation.offsets[queue].end
        ]
        if sent:
            raise ScalingRefused(
                f"a producer still sends to {list_some(sent, QUEUES_SHOWN)}; stop the producers, and run it again"
            )

    async def _take(self, step: ScalingStep, state: TopicState) -> None:
        """Change one number at one broker, or set the offsets that groups need there."""
        if step.action == Action.SET_OFFSETS:
            await self._set_offsets(step)
            return
        config = state.configs[step.broker]
        if step.action == Action.SET_WRITE:
            await self._set_numbers(step.broker, state, replace(config, write_queues=step.number))
            return
        hidden = range(step.number, config.read_queues)
        await self._set_numbers(step.broker, state, replace(config, read_queues=step.number))
        after = await self._reader.ends(step.broker, hidden)
        # A message that was sent between the look and the change must have a reader all the same.
        seen = {
            each.queue_id: offsets.end
            for each, offsets in state.situation.offsets.items()
            if each.broker == step.broker
        }
        sent = [MessageQueue(step.broker, queue) for queue in hidden if after[queue] > seen[queue]]
        if sent:
            await self._set_numbers(step.broker, state, config)
            raise ScalingRefused(
                f"a producer sent to {list_some([queue.name for queue in sent], QUEUES_SHOWN)} after "
                f"{self._scope.settle:g} s; its queues are read again, and nothing is lost. Run it again with a larger "
                "--settle: pollNameServerInterval + sendMsgTimeout of the slowest producer"
            )

    async def _set_numbers(self, broker: str, state: TopicState, config: TopicConfig) -> None:
        """Set the numbers at a broker, and wait until it and all name servers have them."""
        try:
            await set_topic(self._client, state.addresses[broker], replace(config, attributes=None))
        except BrokerError as error:
            raise _explain_refusal(error) from None
        deadline = time.monotonic() + KNOWN_SECONDS
        while where := await self._reader.disagreement(broker, config):
            if time.monotonic() > deadline:
                raise ScalingRefused(
                    f"{where}, after {KNOWN_SECONDS:g} s; nothing else was changed. Run it again to continue"
                )
            await asyncio.sleep(KNOWN_EVERY)

    async def _set_offsets(self, step: ScalingStep) -> None:
        for queue, group, offset in step.offsets:
            asked = BrokerQueues(self._client, group)
            try:
                await asked.commit(TopicQueue(self._scope.topic, queue.broker, queue.queue_id), offset)
            except BrokerError as error:
                if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                    raise _explain_refusal(error) from None
                self._reader.deleted.add(group)  # its offsets are still there, and nobody reads on from them
