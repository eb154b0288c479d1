"""What the bridge promises, as lives are judged by it: each promise has a name, and is one of the guide or contract."""

from __future__ import annotations

from typing import Final, NamedTuple

PROMISES: Final = {
    "at least once": "a message is settled only when each copy or its dead letter is confirmed, or the owner drops it",
    "nothing stands still": "once all faults are over, all messages are settled, in bounded time",
    "duplicates": "after each fault, at most the window of messages comes again",
    "order": "messages of a key arrive in order, but for those under way when one of them is refused",
    "exactly once": "in transactions, readers see each message once, and just with the offset behind it",
    "one at a time": "of a key, one message is under way with one_at_a_time, and for a minute after a push-back",
    "dead letters": "only a message that is refused for good, or often enough, or too long, becomes a dead letter",
    "tries": "a message that is refused for good, or often enough, is not sent again where dead letters have room",
    "identity": "a message has the same id however often it is read, unless its topic is another one",
    "one fate": "no dead letter is made of a message that its target has and may still confirm",
    "max_dead_letters": "beyond ten, at most the share of the messages for a queue become dead letters",
    "no early delivery": "a source is opened only while its targets are open and owe it no answer",
    "filter": "a message that its source's filter rejects is settled, with its lane, and goes nowhere",
    "window": "no more messages, or bytes, than the window are read and not settled",
    "pause": "a paused or drained bridge reads nothing, and opens nothing to read",
    "reload": "a reload is refused and changes nothing, or what the file says is what runs, and what it leaves runs on",
    "settled when written": "a share group's record is accepted once it is settled, soon, and by nothing else",
    "bounded redelivery": "a share group's record comes again only after faults: none has it dropped without several",
    "left": "a source whose client reports that it cannot go on is closed soon",
    "settling": "a source that cannot settle is read no more at once, and left within a second",
    "stop": "a stop or reload ends within the drain and five seconds",
    "drain": "a stop or reload in calm weather leaves nothing that was read unsettled, but what is on hold",
    "close": "targets are closed before sources, as they may commit what sources have given",
    "archive": "an archive has each message that it has confirmed, and once, whatever its disk does",
    "no error": "nothing raises, and nothing spins",
}  # fmt: skip
"""Name -> the promise."""


class Broken(NamedTuple):
    """A promise that a run broke."""

    promise: str
    """A name of `PROMISES`."""
    at: float
    """Virtual time, in seconds."""
    text: str

    def __str__(self) -> str:
        return f"{self.promise}: at {self.at:.3f} s, {self.text}"
