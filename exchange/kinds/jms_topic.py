"""x-jms-topic: a message takes the bindings whose selector, an expression over headers, is true.

JMS clients bind such an exchange to a topic exchange, which routes by key, and bind their queues to it with the
compiled SQL of the subscription in the argument ``rjms_erlang_selector``. The key of a binding is not matched. The
broker stores selectors by key and destination (the slot), apart from the bindings: if two bindings have the same key
and destination, the selector of the later one counts for both; unbinding one of them leaves the other without a
selector, so that it matches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

from exchange.entities.entities import Binding, Destination, Exchange
from exchange.entities.indexes import Tables
from exchange.entities.profile import Profile
from exchange.errors import BrokerError, InputError, PreconditionFailed
from exchange.kinds.kind import Choose, Decider, Kind, Reads, Unsure
from exchange.kinds.misses import MATCH, Miss
from exchange.text.display import clip_line
from exchange.values.field_values import resolve_type
from exchange.values.message import Message

if TYPE_CHECKING:
    from types import ModuleType

SELECTOR: Final = "rjms_erlang_selector"

Term = Any
"""A selector as parsed by `exchange.kinds.jms_selector`; None if it cannot be parsed."""


class JmsTopicExchange(Kind):
    """`rabbit_jms_topic_exchange.erl` of the plugin rabbitmq_jms_topic_exchange."""

    routes_as = "x-jms-topic"
    decider = Decider.SELECTOR

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        self._profile = profile
        self._bindings: dict[Binding, None] = {}
        self._selectors: dict[Hashable, tuple[str | None, Term, str]] = {}
        """Slot -> selector, its term, and why it cannot be parsed, "" if it can."""

    def bind(self, binding: Binding) -> None:
        self._bindings[binding] = None
        selector = _selector(binding)
        self._selectors[self.slot(binding)] = (selector, *_read(selector))

    def unbind(self, binding: Binding) -> None:
        del self._bindings[binding]
        self._selectors.pop(self.slot(binding), None)

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        jms = _jms()
        headers = jms.list_headers(message)
        answers: dict[str | None, bool] = {}
        matching: list[Binding] = []
        unsure = crash = no_text = ""
        for binding in self._bindings:
            slot = self.slot(binding)
            if slot not in self._selectors:
                continue
            selector, term, why = self._selectors[slot]
            if selector not in answers:  # each selector is evaluated once; it matches nothing if it fails
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
                matching.append(binding)
        if no_text and self._profile.like_without_text_matches_nothing:
            if crash:  # which of both happens first depends on the broker's order of bindings, which is not known
                raise Unsure((), crash)
            return ()
        if crash or no_text:
            raise BrokerError(f"the channel crashes on {crash or no_text}")
        if unsure:
            raise Unsure(matching, unsure)
        return matching

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        selector = _selector(binding)
        if selector is None:
            raise BrokerError(f"the channel crashes on a binding without a long string '{SELECTOR}'")
        if not profile.selectors_are_checked:
            if not selector.rstrip().endswith("."):
                raise BrokerError("the channel crashes on a selector that does not end with a full stop")
            return
        from exchange.kinds.jms_grammar import find_refusal  # not at the top: few topologies need it

        refusal = find_refusal(selector, checks_patterns=profile.selector_patterns_are_checked)
        if refusal:
            raise PreconditionFailed(refusal)

    @classmethod
    def reads(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Reads:
        terms = [_read(selector)[0] for selector in {_selector(binding) for binding in bindings}]
        return Reads(frozenset([name for term in terms for name in _jms().list_identifiers(term)]))

    @classmethod
    def sequence(cls, bindings: Collection[Binding]) -> tuple[Hashable, ...]:
        last = {(tuple(binding.destination), binding.routing_key): _selector(binding) for binding in bindings}
        return tuple(sorted([(*slot, selector or "") for slot, selector in last.items()]))

    @classmethod
    def rules(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Hashable:
        return profile.signed_zeros_differ, profile.like_without_text_matches_nothing

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
        headers = jms.list_headers(message)
        try:
            value = jms.evaluate(term, headers, signed_zeros_differ=profile.signed_zeros_differ)
        except (jms.Crash, jms.NotKnown) as error:
            return Miss(0.5, str(error))
        if value == "true":
            return MATCH
        absent = [name for name in dict.fromkeys(jms.list_identifiers(term)) if name not in message.headers]
        lacking = "".join([f"; header '{name}' is not there" for name in absent])
        is_ = "false" if value == "false" else "not true"
        return Miss(1.0, f"its selector {clip_line(str(selector), 200)} is {is_}{lacking}")


def _selector(binding: Binding) -> str | None:
    """Return a binding's selector, one character for each byte, as the broker reads it; None if there is none."""
    kind, value = resolve_type(binding.arguments.get(SELECTOR))
    return value.decode("latin-1") if kind == "longstr" else None


def _read(selector: str | None) -> tuple[Term, str]:
    """Return the term of a selector, or None and why it cannot be parsed."""
    if selector is None:
        return None, f"a binding lacks the argument '{SELECTOR}', and no broker takes such a binding"
    try:
        return _jms().parse_selector(selector), ""
    except InputError as error:
        return None, f"a selector is not understood here: {error}"


def _jms() -> ModuleType:
    from exchange.kinds import jms_selector  # not at the top: few topologies need it

    return jms_selector
