"""Whether a client's brokers are connected and answer, by librdkafka's statistics.

librdkafka keeps on trying by itself and raises nothing while its brokers are stopped, paused, cut off or full: only
its statistics show it. A request that has no answer, a broker that is not connected, a partition without a leader and a
group without a coordinator are all normal for a moment; what lasts for `PATIENCE` seconds is trouble.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final

from bridge.client_errors import explain
from bridge.endpoint import Disconnected
from exchange.values.json_text import parse_leniently

MEASURE_EVERY: Final = 1.0
"""Seconds between statistics."""

PATIENCE: Final = 5.0
"""Seconds that a problem must last to be trouble."""

FORGOTTEN: Final = 3.0
"""Seconds without the address of any broker, after which librdkafka is taken to have none for ever."""

NO_BROKER: Final = "librdkafka knows no broker any more, as one that was being stopped or started named none"

DOWN: Final = "down"
"""Key of the problem that no broker is connected."""

CONNECTED: Final = frozenset({"UP", "UPDATE"})
"""States of a broker that is connected."""

UNWANTED: Final = frozenset({"INIT"})
"""States of a broker that is not needed: librdkafka does not connect to it. So it is with all of a consumer that has
enough messages ahead, after their restart, for as long as these last; only the group's coordinator is connected then.
"""

Problem = tuple[Hashable, str]
"""The key of a problem and its text. The key stays the same as long as the problem lasts."""


class ClientHealth:
    """Remembers since when each problem has lasted. ``reason`` returns the last error of a connection, or "";
    ``is_tls`` whether that may be one of TLS, given whether brokers took requests since. ``connects_within``
    are the seconds after which librdkafka ends the making of a connection. ``connected`` is called with the names of
    brokers that are connected, and of the others, while there are some of the former: errors before that explain
    nothing any more.
    """

    def __init__(
        self,
        reason: Callable[[], str],
        is_tls: Callable[[bool], bool] = lambda _: False,
        connects_within: float = 30.0,
        connected: Callable[[list[str], list[str]], None] = lambda *_: None,
    ) -> None:
        self._reason = reason
        self._is_tls = is_tls
        self._connects_within = connects_within
        self._connected = connected
        self._since: dict[Hashable, float] = {}
        self._sent: Mapping[str, int] = {}
        """Broker -> number of requests that it was sent before no broker was connected any more."""
        self._throttled: dict[str, float] = {}
        """Brokers that have let this client wait for a quota: until when at most, in seconds."""
        self.trouble: str | None = None
        """Problem that has lasted for long, if there is one."""
        self._addressed_at = float("inf")
        """When librdkafka last had the address of a broker, in seconds."""
        self.abandoned: str | None = None
        """Why the client must be made anew; None if it need not be. A broker that is being stopped or started may
        answer that there are no brokers; librdkafka believes it, and has none left that could name others (its issue
        5301). And it reads the files of certificates only once: if no broker is connected for a reason of TLS, they may
        have been replaced since."""

    def look(self, statistics: str, now: float, assigned: Iterable[tuple[str, int]] = ()) -> Mapping[str, Any]:
        """Look at the JSON that librdkafka gives to its ``stats_cb``, and return it decoded. Raises Disconnected.

        ``now`` is in seconds; ``assigned`` are the partitions that a consumer reads.
        """
        try:
            decoded: Mapping[str, Any] = parse_leniently(statistics)
        except ValueError as error:  # librdkafka writes names of brokers as they are, without escapes
            raise Disconnected(
                f"statistics of librdkafka are no JSON ({error}): a broker's name may have a quote"
            ) from None
        if _addressed_brokers(decoded):
            self._addressed_at = now
        self._addressed_at = min(self._addressed_at, now)
        for each in _addressed_brokers(decoded):
            if milliseconds := each.get("throttle", {}).get("max", 0):
                self._throttled[each["name"]] = now + milliseconds / 1_000
        problems = dict(self._problems(decoded, assigned, now))
        sent = {each["name"]: each.get("tx", 0) for each in _addressed_brokers(decoded)}
        states = {each["name"]: each["state"] in CONNECTED for each in _addressed_brokers(decoded)}
        if any(states.values()):
            self._sent = sent
            self._connected([name for name in states if states[name]], [name for name in states if not states[name]])
        self._since = {key: self._since.get(key, now) for key in problems}
        lasting = [key for key, since in self._since.items() if now - since >= PATIENCE]
        self.trouble = problems[lasting[0]] if lasting else None
        if now - self._addressed_at >= FORGOTTEN:
            self.abandoned = NO_BROKER
        elif DOWN in lasting and self._is_tls(any(count > self._sent.get(name, 0) for name, count in sent.items())):
            self.abandoned = problems[DOWN]
        else:
            self.abandoned = None
        return decoded

    def find_quota(self, now: float, broker: str = "") -> str:
        """Return how long a broker, or one of all, lets this client wait for a quota; "" if none has lately."""
        known = tuple(self._throttled.items())  # another thread may add some meanwhile
        until = [end for name, end in known if broker in ("", name)]
        waits = max(until, default=now - PATIENCE) - now
        if waits <= -PATIENCE:
            return ""
        return f"a quota of this client lets it wait{f' for {waits:.0f} s' if waits > 0 else ''}"

    def _problems(
        self, statistics: Mapping[str, Any], assigned: Iterable[tuple[str, int]], now: float
    ) -> Iterator[Problem]:
        brokers = _addressed_brokers(statistics)
        has_coordinator = "cgrp" in statistics and statistics["cgrp"]["state"] == "up"
        needs_none = has_coordinator and all(each["state"] in UNWANTED for each in brokers)
        if not needs_none and not any(each["state"] in CONNECTED for each in brokers):
            # librdkafka cannot end the making of a connection only while it looks up a name.
            within = 1e6 * (self._connects_within + PATIENCE)
            unnamed = [each for each in brokers if each["state"] == "CONNECT" and each["stateage"] > within]
            reason = explain(f"{unnamed[0]['nodename']}: no answer from name servers") if unnamed else self._reason()
            yield DOWN, f"no broker is connected{': ' if reason else ''}{reason}"
        for each in brokers:
            # Each answer raises ``rx`` and so changes the key: only a problem without any answer lasts.
            if each["state"] in CONNECTED and each["waitresp_cnt"] > 0:
                quota = self.find_quota(now, each["name"])
                yield (each["name"], each["rx"]), f"broker {each['name']} does not answer{quota and ': '}{quota}"
        states = {each["nodeid"]: each for each in brokers}
        for topic, partition in assigned:
            known = statistics["topics"].get(topic, {"partitions": {}})["partitions"].get(str(partition))
            if known is None:
                continue
            leader = states.get(known["leader"])
            if known["leader"] == -1:
                yield ("leader", topic, partition), f"{topic}-{partition} has no leader"
            elif leader is not None and leader["state"] not in CONNECTED | UNWANTED:
                yield (
                    ("leader", topic, partition),
                    f"{leader['name']}, which leads {topic}-{partition}, is not connected",
                )
        if "cgrp" in statistics and not has_coordinator:
            yield "group", "the group has no coordinator that is connected"


def find_away(statistics: Mapping[str, Any]) -> str | None:
    """Return the name of a broker that librdkafka wants to be connected to and is not; None if there is none."""
    states = {each["name"]: each["state"] for each in _addressed_brokers(statistics)}
    return next((name for name, state in states.items() if state not in CONNECTED | UNWANTED), None)


def _addressed_brokers(statistics: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the brokers that have an address. The statistics also list a group's coordinator, which is one of them."""
    return [each for each in statistics["brokers"].values() if each["source"] in ("configured", "learned")]
