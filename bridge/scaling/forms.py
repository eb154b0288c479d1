"""What `hashstar rocketmq scale` prints: a plan and its steps as lines for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NotRequired, TypedDict

from bridge.scaling.scaling import ScalingPlan
from exchange.partition.clients.rocketmq.queues import WRITE
from exchange.partition.clients.rocketmq.scaling import (
    Action,
    QueueCounts,
    ScalingStep,
    count_after,
    count_moved_keys,
    explain_refusal,
)
from exchange.partition.moves import KeyCounts, Moves
from exchange.partition.partitioner import Partitioner
from exchange.text.display import count_noun, count_rest, list_some

SAMPLE: Final = 10_000
"""Number of keys that stand for those of the topic, if none are given: the numbers from 0 on as text."""
LINES_SHOWN: Final = 20
"""Maximum number of steps, groups or queues listed."""
QUEUES_SHOWN: Final = 5
"""Maximum number of queues listed in one step."""


class BrokerJson(TypedDict):
    """The numbers of queues of a broker."""

    broker: str
    write: int
    """Number of queues that producers use."""
    read: int
    """Number of queues that consumers use."""
    to: int | None
    """Number that both are to have; null for a broker that is left as it is."""


class GroupJson(TypedDict):
    """A consumer group that subscribes to the topic, or has an offset in it."""

    group: str
    members: int
    """Number of clients that are connected."""
    broadcasting: bool
    counted: bool
    """Whether queues are hidden only when it has read them."""


class UnreadJson(TypedDict):
    """Messages that keep a queue from being hidden."""

    queue: str
    """``broker-a:12``"""
    group: str | None
    """The group that has not read them; null for delayed and transactional messages that are not in the queue yet."""
    messages: int


class StepJson(TypedDict):
    """A step."""

    action: Action
    broker: str | None
    """null for a step at all brokers."""
    number: int
    """Number of queues: to set, or that stay when the others are drained; of ``settle`` milliseconds to wait."""
    safe: bool
    """Whether it can be taken, or waited for, now."""
    waits_for: str
    """Why it cannot; "" if it can."""
    unread: list[UnreadJson]


class MovesJson(TypedDict):
    """The keys that move to another queue when all steps are done."""

    partitioner: str
    sampled: bool
    """Whether the keys are a sample, as none were given."""
    keys: int
    keys_moved: int


class ScaleJson(TypedDict):
    """The output of ``hashstar rocketmq scale --format json``."""

    topic: str
    to: int
    brokers: list[BrokerJson]
    """Their numbers before the first step."""
    groups: list[GroupJson]
    steps: list[StepJson]
    """All steps, as they were known before the first; empty if the brokers have the numbers already."""
    moves: MovesJson | None
    """null if no number of written queues changes, or the keys do not decide the queue."""
    dry_run: bool
    done: bool
    """Whether the brokers have the numbers now."""
    refused: NotRequired[str]
    """Why it stopped, with the way out."""


def to_text(plan: ScalingPlan, moves: Moves | None, partitioner: str, *, sampled: bool) -> Iterator[str]:
    """Yield a plan, and what moves by it."""
    yield from plan_lines(plan)
    if moves is not None:
        yield format_moves(moves, partitioner, sampled=sampled)


def plan_lines(plan: ScalingPlan) -> Iterator[str]:
    """Yield the lines about a plan: the brokers, the groups, the steps with what they wait for."""
    situation, target = plan.state.situation, plan.state.target
    yield f"topic {plan.scope.topic}, to {count_noun(plan.scope.queues, 'queue')} on each broker"
    width = max(map(len, (*situation.counts, "broker")))
    yield f"{'broker':{width}}  {'write':>6}  {'read':>6}  {'to':>6}"
    for broker, counts in situation.counts.items():
        yield f"{broker:{width}}  {counts.write:>6}  {counts.read:>6}  {target.get(broker, '-'):>6}"
    groups = [
        f"{name} ({'broadcasting, ' if members.is_broadcasting else ''}{count_noun(len(members.client_ids), 'member')}"
        f"{'' if _counts(plan, name) else ', not counted'})"
        for name, members in sorted(plan.state.groups.items())
    ]
    yield f"consumer groups: {list_some(groups, LINES_SHOWN) or 'none'}"
    if not plan.steps:
        yield "nothing to do"
        return
    if plan.state.is_resumed:
        yield "a change is under way already; it is continued from here"
    yield "steps:"
    numbers = situation.counts
    for step in plan.steps[:LINES_SHOWN]:
        yield f"  {describe_step(step, numbers)}"
        yield f"      {_why(plan, step)}"
        numbers = count_after(numbers, step)
    yield from count_rest(len(plan.steps), LINES_SHOWN)


def describe_step(step: ScalingStep, numbers: Mapping[str, QueueCounts]) -> str:
    """Return a step as a line; ``numbers`` are those of the brokers before it."""
    where = f"{step.broker}: " if step.broker else ""
    counts = numbers.get(step.broker)
    if step.action == Action.STOP_PRODUCERS:
        return "stop the producers"
    if step.action == Action.SETTLE:
        return f"{where}wait {step.number / 1000:g} s, until no producer has the old route"
    if step.action == Action.SET_OFFSETS:
        queues = sorted({each.queue.queue_id for each in step.offsets})
        groups = list(dict.fromkeys([each.group for each in step.offsets]))
        return f"{where}give {list_some(groups, QUEUES_SHOWN)} an offset in queues {queues[0]} to {queues[-1]}"
    if step.action == Action.DRAIN:
        queues_text = "all queues"
        if counts is not None:
            queues_text = f"queues {step.number} to {max(counts) - 1}"
        return f"{where}drain {queues_text}"
    before = "" if counts is None else f"{counts.read if step.action == Action.SET_READ else counts.write} -> "
    return f"{where}{step.action} {before}{step.number}"


def count_moves(plan: ScalingPlan, partitioner: Partitioner, keys: KeyCounts | None) -> Moves | None:
    """Return which keys move, or those of a sample; None if no queue list changes, or it cannot be known."""
    state = plan.state
    written = {
        broker: counts
        for broker, counts in state.situation.counts.items()
        if counts.write and state.configs[broker].perm & WRITE
    }
    target = {broker: number for broker, number in state.target.items() if broker in written}
    if all(written[broker].write == number for broker, number in target.items()):
        return None
    if keys is None:
        keys = KeyCounts()
        for number in range(SAMPLE):
            keys.add(str(number))
    moves = count_moved_keys(keys, partitioner, written, target)
    return None if moves.messages_undecided == moves.messages else moves


def format_moves(moves: Moves, partitioner: str, *, sampled: bool) -> str:
    """Return which share of the keys moves, as a line."""
    share = 100 * moves.keys_moved / max(moves.keys, 1)
    what = f"{'a sample of ' if sampled else ''}{count_noun(moves.keys, 'key')}"
    return f"{share:.1f}% of {what} move to another queue ({partitioner}); their new messages can overtake the old ones"


def to_json(
    plan: ScalingPlan, moves: Moves | None, partitioner: str, *, sampled: bool, dry_run: bool, done: bool, refused: str
) -> ScaleJson:
    """Return a plan, and what became of it, as JSON."""
    situation, target = plan.state.situation, plan.state.target
    result: ScaleJson = {
        "topic": plan.scope.topic,
        "to": plan.scope.queues,
        "brokers": [
            {"broker": broker, "write": counts.write, "read": counts.read, "to": target.get(broker)}
            for broker, counts in situation.counts.items()
        ],
        "groups": [
            {
                "group": name, "members": len(members.client_ids), "broadcasting": members.is_broadcasting,
                "counted": _counts(plan, name),
            }
            for name, members in sorted(plan.state.groups.items())
        ],
        "steps": [
            {
                "action": step.action, "broker": step.broker or None, "number": step.number,
                "safe": step in plan.possible, "waits_for": "" if step in plan.possible else _waits_for(plan, step),
                "unread": [
                    {"queue": each.queue.name, "group": each.group or None, "messages": each.messages}
                    for each in step.unread
                ],
            }
            for step in plan.steps
        ],
        "moves": None if moves is None else {
            "partitioner": partitioner, "sampled": sampled, "keys": moves.keys, "keys_moved": moves.keys_moved,
        },
        "dry_run": dry_run,
        "done": done,
    }  # fmt: skip
    if refused:
        result["refused"] = refused
    return result


def _counts(plan: ScalingPlan, group: str) -> bool:
    return not plan.scope.groups or group in plan.scope.groups


def _why(plan: ScalingPlan, step: ScalingStep) -> str:
    """Return why a step is safe now, or what it waits for."""
    if step not in plan.possible:
        return f"waits: {_waits_for(plan, step)}"
    if step.unread:
        return f"now: {list_some(_texts(step), QUEUES_SHOWN)}"
    if step.action == Action.STOP_PRODUCERS:
        return "now, by you: --producers-stopped"
    return "safe now"


def _waits_for(plan: ScalingPlan, step: ScalingStep) -> str:
    """Return what a step that is not possible now waits for."""
    reason = explain_refusal(plan.state.situation, step)
    if reason:
        return reason
    if step.action == Action.DRAIN and step.unread:
        return f"for the steps before it; {list_some(_texts(step), QUEUES_SHOWN)}"
    return "for the steps before it"


def _texts(step: ScalingStep) -> Sequence[str]:
    return list(map(str, step.unread))
