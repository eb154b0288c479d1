"""Which outages what waits survives, as a check reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bridge.endpoint import Disconnected, Removal
from bridge.endpoints.outages import LOOK_EVERY, KnownRemovals, find_survived, judge_removals
from bridge.endpoints.rabbitmq.consumer.queue_facts import QueueFacts, find_removals
from tests.support.virtual_loop import on_a_virtual_loop, pass_time


def judged(known: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each.level, each.text) for each in judge_removals(find_removals(known, "queue 'q'"), "queue")]


def queue(kind: str = "classic", policy: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    return {
        "type": kind, "auto_delete": False, "effective_policy_definition": policy or {},
        "arguments": {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()},
    }  # fmt: skip


DROPS_OLDEST = "its oldest messages"
UNKNOWN = "how long an outage it survives depends on what is published"
BOTH = "of the bridge or of a target"


def test_a_check_compares_what_removes_messages_with_an_outage_of_an_hour() -> None:
    for known, level, what, outage in (
        (queue(expires=6_000), "warning", "is deleted with its messages when nothing reads it for 6 s (expires)",
         "it survives an outage of 6 s of the bridge itself"),
        ({**queue(), "auto_delete": True}, "warning", "when its last reader goes (auto-delete)", "it survives none"),
        (queue(policy={"message-ttl": 90_000}), "warning", "drops messages that are not read within 90 s (message-ttl)",
         f"it survives an outage of 90 s {BOTH}"),
        (queue(message_ttl=3_599_999, policy={"message-ttl": 7_200_000}), "warning", "within 3,599,999 ms", BOTH),
        (queue(message_ttl=3_600_000), "ok", "not read within 1 h (message-ttl)", "it survives an outage of 1 h"),
        (queue(message_ttl=86_400_000, policy={"expires": 7_200_000}), "ok", "for 2 h (expires)", "an outage of 2 h"),
        (queue(max_length=10, dead_letter_exchange="d"), "warning",
         f"dead-letters {DROPS_OLDEST} when more than 10 messages wait (max-length)", UNKNOWN),
        (queue(policy={"max-length-bytes": 5_000}), "warning",
         f"drops {DROPS_OLDEST} when more than 5,000 bytes wait (max-length-bytes)", UNKNOWN),
        (queue("stream", max_age="10m"), "warning", f"{DROPS_OLDEST}, read or not (max-age is 10m)", "of 10 min"),
        (queue("stream", max_age="7D"), "ok", f"{DROPS_OLDEST}, read or not (max-age is 7D)", "an outage of 7 d"),
        (queue("stream", policy={"max-length-bytes": 5}), "warning", "(max-length-bytes is 5)", UNKNOWN),
        (queue("stream", max_age="soon"), "warning", "(max-age is soon)", UNKNOWN),
    ):  # fmt: skip
        [(judged_level, text)] = judged(known)
        assert judged_level == level, known
        assert text.startswith("queue 'q' ")
        assert what in text
        assert outage in text
    for known in (queue(), queue(max_length=10, overflow="reject-publish"),
                  queue(max_length=10, policy={"overflow": "reject-publish-dlx"})):  # fmt: skip
        assert judged(known) == []


def test_a_bridge_that_runs_knows_the_same_as_the_check() -> None:
    for known in (
        queue(expires=6_000, message_ttl=9_000),
        queue("quorum", max_length=5),
        queue("stream", max_age="1h"),
    ):
        assert QueueFacts.from_answer(known, "4.3.0", "queue 'q'").removals == (*find_removals(known, "queue 'q'"),)
    assert find_survived(find_removals(queue(expires=6_000, message_ttl=9_000), "")) == 6.0
    assert find_survived([Removal("a", messages=1)]) is None


@on_a_virtual_loop
async def test_a_setting_that_comes_while_the_bridge_runs_is_known_soon_and_kept_while_nobody_answers() -> None:
    known, answer = KnownRemovals(), list[Sequence[Removal] | Exception | None]([()])
    later = [Removal("it drops what waits", 60.0)]

    async def look() -> Sequence[Removal] | None:
        if isinstance(answer[0], Exception):
            raise answer[0]
        return answer[0]

    looking = asyncio.ensure_future(known.keep_looking(look))
    await pass_time(1)
    for answer[0], expected in (
        (later, later), (None, later), (Disconnected("away"), later), (ValueError("a mistake"), later), ((), ()),
    ):  # fmt: skip
        await pass_time(LOOK_EVERY)
        assert known.all == expected
    looking.cancel()
