"""x-jms-topic: the bindings whose selector, an expression over headers, is true of the message.

JMS clients bind such an exchange to a topic exchange, which looks at the key, and their queues to it with the compiled
SQL of the subscription in the argument ``rjms_erlang_selector``. A binding's key means nothing to it. The selectors are
kept by key and destination, outside of the bindings: of two bindings that differ in nothing else, the last one's
selector counts for both, and unbinding one leaves the other without a selector, so that it matches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

from exchange.display import clip_line
from exchange.entities.entities import Binding, Destination, Exchange
from exchange.entities.indexes import Tables
from exchange.entities.profile import Profile
from exchange.errors import BrokerError, InputError, PreconditionFailed
from exchange.field_values import type_and_value
from exchange.kinds.kind import Choose, Decider, Kind, Reads, Unsure
from exchange.kinds.misses import MATCH, Miss
from exchange.message import Message

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["JmsTopic"]

SELECTOR: Final = "rjms_erlang_selector"

Term = Any
"""A selector as `exchange.kinds.jms_selector` reads it; None where it is not understood."""


class JmsTopic(Kind):
    """`rabbit_jms_topic_exchange.erl` of the plugin rabbitmq_jms_topic_exchange."""

    routes_as = "x-jms-topic"
    decider = Decider.SELECTOR

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        self._profile = profile
        self._bindings: dict[Binding, None] = {}
        self._selectors: dict[Hashable, tuple[str | None, Term, str]] = {}
        """By slot: the selector, its term, and why it is not understood."""

    def bind(self, binding: Binding) -> None:
        self._bindings[binding] = None
        selector = _selector(binding)
        self._selectors[self.slot(binding)] = (selector, *_read(selector))

    def unbind(self, binding: Binding) -> None:
        del self._bindings[binding]
        self._selectors.pop(self.slot(binding), None)

    def matched(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        jms = _jms()
        headers = jms.headers_of(message)
        answers: dict[str | None, bool] = {}
        taken: list[Binding] = []
        unsure = crash = no_text = ""
        for binding in self._bindings:
            slot = self.slot(binding)
            if slot not in self._selectors:
                continue
            selector, term, why = self._selectors[slot]
            if selector not in answers:
                answers[selector] = False
                if why:
                    unsure = unsure or why
                    continue
                try:
                    value = jms.evaluate(term, headers, signed_zeros_differ=self._profile.signed_zeros_differ)
                    answers[selector] = value == "true"
                except jms.NoText as error:
                    no_text = f"the selector of {binding.destination}: {error}"
                except jms.Crash as error:
                    crash = f"the selector of {binding.destination}: {error}"
                except jms.NotKnown as error:
                    unsure = unsure or str(error)
            if answers[selector]:
                taken.append(binding)
        if no_text and self._profile.like_without_text_matches_nothing:
            if crash:  # the broker does whichever comes first, in an order of its own
                raise Unsure((), crash)
            return ()
        if crash or no_text:
            raise BrokerError(f"the channel crashes on {crash or no_text}")
        if unsure:
            raise Unsure(taken, unsure)
        return taken

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        selector = _selector(binding)
        if selector is None:
            raise BrokerError(f"the channel crashes on a binding without a long string '{SELECTOR}'")
        if not profile.selectors_are_checked:
            if not selector.rstrip().endswith("."):
                raise BrokerError("the channel crashes on a selector that does not end with a full stop")
            return
        from exchange.kinds.jms_grammar import refusal  # which few topologies need

        why = refusal(selector)
        if why:
            raise PreconditionFailed(why)

    @classmethod
    def reads(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Reads:
        terms = [_read(selector)[0] for selector in {_selector(binding) for binding in bindings}]
        return Reads(frozenset([name for term in terms for name in _jms().identifiers(term)]))

    @classmethod
    def sequence(cls, bindings: Collection[Binding]) -> tuple[Hashable, ...]:
        last = {(tuple(binding.destination), binding.routing_key): _selector(binding) for binding in bindings}
        return tuple(sorted([(*place, selector or "") for place, selector in last.items()]))

    @classmethod
    def slot(cls, binding: Binding) -> tuple[str, Destination]:
        return binding.routing_key, binding.destination

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        jms = _jms()
        selector = _selector(binding)
        term, why = _read(selector)
        if why:
            return Miss(0.5, why)
        headers = jms.headers_of(message)
        try:
            value = jms.evaluate(term, headers, signed_zeros_differ=profile.signed_zeros_differ)
        except (jms.Crash, jms.NotKnown) as error:
            return Miss(0.5, str(error))
        if value == "true":
            return MATCH
        absent = [name for name in dict.fromkeys(jms.identifiers(term)) if name not in message.headers]
        lacking = "".join([f"; header '{name}' is not there" for name in absent])
        is_ = "false" if value == "false" else "not true"
        return Miss(1.0, f"its selector {clip_line(str(selector), 200)} is {is_}{lacking}")


def _selector(binding: Binding) -> str | None:
    """Return the text of a binding's selector, a character a byte as the broker reads it; None where it has none."""
    kind, value = type_and_value(binding.arguments.get(SELECTOR))
    return value.decode("latin-1") if kind == "longstr" else None


def _read(selector: str | None) -> tuple[Term, str]:
    """Return the term of a selector, and why it is not understood here if it is not."""
    if selector is None:
        return None, f"a binding lacks the argument '{SELECTOR}', and no broker takes such a binding"
    try:
        return _jms().parse_selector(selector), ""
    except InputError as error:
        return None, f"a selector is not understood here: {error}"


def _jms() -> ModuleType:
    from exchange.kinds import jms_selector  # which few topologies need

    return jms_selector
