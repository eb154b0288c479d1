"""Why a message died, by the settings in force of the queue where it did; and what would become of it, published again.

It would go where the router sends it now. It dies again if its queue still gets it, and may still do what it died of:
the dead letter is recorded and routed as in `exchange.lifecycle.broker`, of which the tests run the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from bridge.dead.conventions import ADDED, CONVENTIONS, Death
from exchange.entities.in_force import SettingsInForce
from exchange.errors import BrokerError, InputError
from exchange.lifecycle.content import publish_content, record_death
from exchange.lifecycle.limits import Limits, build_limits
from exchange.lifecycle.outcomes import find_targets
from exchange.lifecycle.possible import REASONS, Reason
from exchange.routing.router import Router
from exchange.text.display import list_some, write_milliseconds
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread, format_not_proved
from exchange.values.documents import document
from exchange.values.message import Message

OF_AMQP: Final = frozenset([each.name for each in CONVENTIONS if not each.has_topics])
"""Conventions of which the exchange and the routing key of a topology are known."""
REMEMBERED: Final = 200_000
"""Maximum number of verdicts that are kept."""
SHOWN: Final = 4
"""Maximum number of queues that a text names."""


@document("VerdictJson", "goes, dies_again, then")
class Verdict(NamedTuple):
    """What would become of a message that is published again as it was."""

    goes: tuple[str, ...] | None
    """Queues that would get it; null where it is not routed: its headers name no exchange of the topology, or none."""
    targets: tuple[str, ...]
    dies_again: bool | None
    """Whether the queue where it died would get it and may do the same again; null where that is not known."""
    then: str
    """What would happen then, in words."""


class Judge:
    """Judges messages by one topology."""

    def __init__(self, topology: Topology) -> None:
        self.unread: Final = find_unread(topology)
        """Parts of the topology that were not read: nothing is proved then."""
        self._topology: Final = topology
        self._router: Final = Router(topology)
        self._policies: Final = topology.policies_in_force()
        self._known: Final[dict[tuple[str, str, str, str, str], Verdict]] = {}

    def recall(self, death: Death, key: str) -> Verdict | None:
        """Return the verdict of messages whose key alone decides, without CC and BCC; None if more decides."""
        if death.exchange is None:
            return NOT_KNOWN
        if not self._is_routed(death):
            return NOT_ROUTED
        asked = (death.by, death.reason, death.queue, death.exchange, key)
        verdict = self._known.get(asked)
        if verdict is None:
            verdict = self.judge(death, Message(death.exchange, key))
            if self._topology.exchanges.get(death.exchange) and self._router.recall(death.exchange, key) is None:
                return None
            if len(self._known) < REMEMBERED:
                self._known[asked] = verdict
        return verdict

    def judge(self, death: Death, message: Message) -> Verdict:
        """Return what would become of a message that died, published again, as far as the topology was read."""
        verdict = self._judge(death, message)
        if verdict.goes is None or not self.unread:
            return verdict
        return verdict._replace(dies_again=None, then=f"{verdict.then}; {format_not_proved(self.unread)}")

    def _judge(self, death: Death, message: Message) -> Verdict:
        if death.exchange is None:
            return NOT_KNOWN
        if not self._is_routed(death):
            return NOT_ROUTED
        release = self._topology.profile.lives
        headers = {name: value for name, value in message.headers.items() if not name.startswith(ADDED)}
        properties = {name: value for name, value in message.properties.items() if name != "expiration"}
        message = Message(message.exchange, message.routing_key, headers, properties)
        try:
            route = self._router.route(message)
            content = publish_content(message, release)
        except (BrokerError, InputError) as error:
            return Verdict((), (), None, f"refused: {error}")
        case = self._look(death, tuple(route.queues), is_decided=not route.undecided)
        for holds, dies_again, then in ENDS:
            if holds(case):
                return Verdict(case.goes, (), dies_again, case.write(then))
        reason, address = cast("Reason", case.reason), cast("tuple[str, str | None]", case.address)
        dead = record_death(content, death.queue, reason, address, 0, release)
        targets, cause, later = find_targets(self._router, dead, reason, release)
        targets = (*targets, *[name for each in later for name in each.route.queues])
        end = f"to {list_some(targets, SHOWN)}" if targets else f"lost: {cause}"
        return Verdict(case.goes, targets, True, f"{case.write(AGAIN)}: {end}")

    def _look(self, death: Death, goes: tuple[str, ...], *, is_decided: bool) -> _Case:
        """Return what decides about a message that goes to these queues."""
        case = _Case(is_decided, goes, _find_reason(death), death.queue)
        if case.reason is None or death.queue not in goes:
            return case
        queue = self._topology.queues[death.queue]
        settings, *others = self._policies.possible_settings(queue)
        limits = build_limits(settings, queue, self._policies.profile)
        is_possible = explain_setting(case.reason, settings, limits) is not None
        return case._replace(is_known=not others, is_possible=is_possible, address=limits.dead_letter_address)

    def _is_routed(self, death: Death) -> bool:
        return death.by in OF_AMQP or (not death.by and death.exchange in self._topology.exchanges)

    def explain(self, death: Death) -> str:
        """Return why messages died, by the settings in force of the queue; "" if its system is another one."""
        if (reason := _find_reason(death)) is None:
            return ""
        queue = self._topology.queues.get(death.queue)
        if queue is None:
            return f"the topology has no queue '{death.queue}'"
        possible = self._policies.possible_settings(queue)
        causes = []
        for settings in possible:
            limits = build_limits(settings, queue, self._policies.profile)
            cause = explain_setting(reason, settings, limits)
            causes.append(cause or ABSENT.get(reason, f"the queue has no {SETTINGS[reason]}"))
        return " or ".join(dict.fromkeys(causes))


class _Case(NamedTuple):
    """What decides about a message that died, published again."""

    is_decided: bool
    """Whether its route is known."""
    goes: tuple[str, ...]
    reason: Reason | None
    queue: str
    """The queue where it died; what follows is of this queue."""
    is_known: bool = True
    """Whether its settings are known."""
    is_possible: bool = False
    """Whether they make a death of this reason possible."""
    address: tuple[str, str | None] | None = None
    """Its dead letter exchange and the routing key that it sets."""

    def write(self, text: str) -> str:
        """Return a text of `ENDS` about this message."""
        words = ("", "") if self.reason is None else (REASONS[self.reason], SETTINGS[self.reason])
        goes = list_some(self.goes, SHOWN)
        return text.format(goes=goes, queue=self.queue, died=words[0], setting=words[1])


AGAIN: Final = "{died} again in '{queue}'"
ENDS: Final[Sequence[tuple[Callable[[_Case], bool], bool | None, str]]] = (
    (lambda case: not case.is_decided, None, "undecided, as not all that decides is known"),
    (lambda case: not case.goes, None, "lost: no queue gets it"),
    (lambda case: case.reason is None, None, "goes to {goes}"),
    (lambda case: case.queue not in case.goes, False, "goes to {goes}, and not to '{queue}' any more"),
    (lambda case: not case.is_known, None, "undecided: it is not known which policy is in force in '{queue}'"),
    (lambda case: not case.is_possible, False, "goes to {goes}; '{queue}' has no {setting} any more"),
    (lambda case: case.address is None, True, f"{AGAIN}: lost, as there is no dead letter exchange"),
)
"""When a verdict ends with a text, whether the message dies again, and the text; the first that holds counts."""

NOT_ROUTED: Final = Verdict(None, (), None, "not routed: its headers name no exchange of a topology")
NOT_KNOWN: Final = Verdict(None, (), None, "not known: its headers do not say how it was published")
SETTINGS: Final[Mapping[Reason, str]] = {
    "rejected": "consumer", "expired": "message-ttl", "maxlen": "max-length that drops messages",
    "delivery_limit": "delivery-limit",
}  # fmt: skip
"""Reason -> the setting that makes it possible."""
ABSENT: Final[Mapping[Reason, str]] = {
    "expired": "the queue has no message-ttl: the message had an expiration, or the setting is gone"
}


def _find_reason(death: Death) -> Reason | None:
    """Return of what a message of RabbitMQ died; None for others, and for a reason that no broker gives."""
    return next((each for each in REASONS if each == death.reason), None) if death.by == "RabbitMQ" else None


def explain_setting(reason: Reason, settings: SettingsInForce, limits: Limits) -> str | None:
    """Return the setting of a queue that makes a death possible, in words; None if none does."""
    if limits.type == "stream":
        return None
    if reason == "rejected":
        return "a consumer rejected it (basic.reject or basic.nack without requeue)"
    if reason == "expired":
        return (
            None
            if limits.ttl is None
            else f"message-ttl {write_milliseconds(limits.ttl)} ({settings.values['message-ttl']})"
        )
    if reason == "maxlen":
        if not limits.has_length or limits.overflow == "reject-publish":
            return None
        names = [name for name in ("max-length", "max-length-bytes") if settings.integer(name) is not None]
        return " and ".join([f"{name} {settings.integer(name):,} ({settings.values[name]})" for name in names])
    if limits.delivery_limit is None:
        return None
    given = settings.values.get("delivery-limit")
    return f"delivery-limit {limits.delivery_limit} ({given or 'the default of the release'})"
