"""What RabbitMQ's import refuses of a file: the fields of its entries, and what depends on more than one of them.

One entry that is refused fails the import of the whole file, and what came before it stays; a node that is to load the
file at boot does not start. What the topology of a file shows is left to the rules of `bindings.check`: arguments of
queues, types of exchanges, ends of bindings, settings of policies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from bindings.sources.definitions.entries import Entry
from bindings.sources.definitions.import_fields import (
    ABSENT,
    DECLARED,
    DEFAULT_TYPE,
    FIELDS,
    TABLE,
    UNSURE,
    VALUES,
    Known,
    find_wrong_tags,
    show_value,
)
from bindings.sources.definitions.operator_policies import read_operator_policies
from exchange.entities.entities import PREDECLARED_NAMES, Queue
from exchange.entities.policy_definitions import refuse_policy
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import PLUGIN_TYPES, refuse_queue
from exchange.errors import BrokerError
from exchange.text.display import count_noun
from exchange.values.field_values import FieldTable

CHANCE: Final = "which of them counts is left to chance, as RabbitMQ imports them at the same time"
AT_THE_SAME_TIME: Final[Mapping[str, tuple[str, ...]]] = {
    "permissions": ("user", "vhost"),
    "topic_permissions": ("user", "vhost", "exchange"),
    "vhosts": ("name",),
}
"""Section beside the topology whose entries the import handles at the same time -> the names of an entry."""
DEFAULT_USER: Final = "guest"
WRITER: Final = "user_who_performed_action"
"""Field that exports of some releases have, and no import reads."""
DEFAULT_VHOST: Final = "/"


class Refusal(NamedTuple):
    """An entry that the import refuses."""

    place: str
    text: str
    """What is wrong, and the broker's words."""
    is_sure: bool | None = True
    """Whether every broker refuses it; else one that has what the file refers to, and does not declare, takes it. None
    if only one with a feature flag refuses it."""


def find_refusals(document: Mapping[str, Any], profile: Profile, *, of_one_vhost: str | None) -> Iterator[Refusal]:
    """Yield what a broker that is new, of the profile's release, refuses of the sections of a file.

    ``of_one_vhost`` names the virtual host of an export of one, which only the management API imports: its entries
    have no field "vhost". None for other files.
    """
    known = Known(
        frozenset({DEFAULT_USER, *_names(document, "users")}),
        frozenset({DEFAULT_VHOST, *_names(document, "vhosts"), *([] if of_one_vhost is None else [of_one_vhost])}),
        _default_types(document, profile),
        frozenset((entry.vhost, entry.part.name) for entry in document.get("exchanges", ())),
        _queues_again(document),
        profile,
    )
    missing: set[str] = set()
    for section, fields in TABLE.items():
        entries = document.get(section, [])
        if not isinstance(entries, list):
            yield Refusal(section, f"{show_value(entries)} is no array: RabbitMQ's import fails (badarg)")
            continue
        if section == "users":
            yield from _find_users_again(entries)
        if section in AT_THE_SAME_TIME:
            yield from _find_again(section, entries)
        for index, entry in enumerate(entries):
            if isinstance(entry, Entry) and type(entry.written) is tuple and entry.vhost in known.vhosts:
                continue  # a plain binding: there can be a million
            item = _fields_of(entry)
            if item is None:
                continue
            place = f"{section}[{index}]"
            for name, fault in fields:
                value = item.get(name, ABSENT)
                if name == "vhost" and value is ABSENT and of_one_vhost is not None:
                    continue
                wrong = fault(value, known)
                declared = DECLARED.get(fault)
                if wrong is None or (declared is not None and wrong in missing):
                    continue
                if declared is not None:  # named once
                    missing.add(wrong)
                is_sure = declared is None or declared in document or value is ABSENT
                yield Refusal(f"{place}.{name}", wrong, is_sure and not wrong.startswith(UNSURE))
            for more in MORE.get(section, ()):
                yield from more(entry, item, place, known)
    if not profile.import_skips_bindings:
        yield from _find_default_bindings(document, profile)
    yield from _find_unused_policies(document, profile)
    if profile.import_keeps_queue_limits:
        yield from _find_over_queue_limit(document)


def _find_default_bindings(document: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    """Yield the bindings from the default exchange, which no topology holds, to queues that do not exist."""
    queues = {(entry.vhost, entry.part.name) for entry in document.get("queues", ())}
    for index, (part, vhost, _) in enumerate(document.get("bindings", ())):
        if profile.leaves_out(part.destination):
            continue
        if not part.source and part.destination.kind == "queue" and (vhost, part.destination.name) not in queues:
            text = f"{part.destination} does not exist (resources_missing)"
            yield Refusal(f"bindings[{index}].destination", text)


def _find_again(section: str, entries: list[Any]) -> Iterator[Refusal]:
    """Yield entries that set again, and otherwise, what another one sets."""
    seen: dict[tuple[str, ...], Any] = {}
    for index, entry in enumerate(entries):
        if isinstance(entry, dict):
            names = tuple(show_value(entry.get(name, ABSENT)) for name in AT_THE_SAME_TIME[section])
            if seen.setdefault(names, entry) != entry:
                text = f"there is another entry for {', '.join(names)}; {CHANCE}"
                yield Refusal(f"{section}[{index}]", text, is_sure=False)


def _find_over_queue_limit(document: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield the virtual hosts whose limits are imported before their queues, and do not let all of them in."""
    parameters = document.get("parameters", [])
    limits: dict[object, tuple[int, object]] = {}
    for index, item in enumerate(parameters if isinstance(parameters, list) else ()):
        if isinstance(item, dict) and item.get("component") == "vhost-limits" and item.get("name") == "limits":
            value = item.get("value")
            limits[item.get("vhost")] = index, value.get("max-queues") if isinstance(value, dict) else None
    queues: dict[object, set[str]] = {}
    for entry in document.get("queues", ()) if limits else ():
        if not entry.part.name.startswith("amq."):
            queues.setdefault(entry.vhost, set()).add(entry.part.name)
    for vhost, (index, most) in limits.items():
        number = len(queues.get(vhost, ()))
        if isinstance(most, int) and 0 <= most < number:
            text = f"max-queues is {most}, and the file has {count_noun(number, 'queue')} in {show_value(vhost)}"
            left_out = (
                "RabbitMQ's import leaves out those over the limit without a word, and fails if bindings name them"
            )
            yield Refusal(f"parameters[{index}].value", f"{text}: {left_out}", is_sure=False)


def _find_users_again(entries: list[Any]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name in seen:
            text = (
                f"{name!r} is here again, and RabbitMQ imports them at the same time: one is refused, unless the other"
            )
            text = f"{text} is there before it ({{user_already_exists,{show_value(name)}}})"
            yield Refusal(f"users[{index}]", text)
        elif isinstance(name, str):
            seen.add(name)


def _find_in_user(entry: Any, item: Mapping[str, Any], place: str, known: Known) -> Iterator[Refusal]:
    if "password" in item and "password_hash" in item:
        yield Refusal(place, "a user has one of both (both_password_and_password_hash_are_provided)")
    algorithm = item.get("hashing_algorithm")
    if "password_hash" in item and not (algorithm is None or isinstance(algorithm, str | bool) or algorithm == []):
        yield Refusal(f"{place}.hashing_algorithm", f"{show_value(algorithm)} is no string (function_clause)")


def _find_in_vhost(entry: Any, item: Mapping[str, Any], place: str, known: Known) -> Iterator[Refusal]:
    wrong = find_wrong_tags(item.get("metadata"), known) if "tags" not in item else None
    if wrong is not None:
        yield Refusal(f"{place}.metadata.tags", wrong)


def _find_unused_policies(document: Mapping[str, Any], profile: Profile) -> Iterator[Refusal]:
    """Yield what is wrong with policies that no topology has: a later entry replaces them, or they apply to nothing."""
    operators = [*read_operator_policies(document, with_idle=True)]
    policies = [
        *((f"policies[{index}]", entry.vhost, entry.part) for index, entry in enumerate(document.get("policies", ()))),
        *(("parameters", vhost, policy) for vhost, policy in operators),
    ]
    used = {(vhost, policy.operator, policy.name): policy for _, vhost, policy in policies}
    idle = [policy for _, policy in operators]
    for _, policy in read_operator_policies(document):
        idle.remove(policy)
    for place, vhost, policy in policies:
        is_idle = policy.operator and policy in idle
        if is_idle:
            text = f"operator policy {policy.name!r} has no apply-to: RabbitMQ imports it, and it applies to nothing"
            yield Refusal(place, text, is_sure=False)
        if is_idle or used[vhost, policy.operator, policy.name] is not policy:
            try:
                refuse_policy(policy, profile)
            except BrokerError as error:
                yield Refusal(place, f"policy {policy.name!r}, which is not in force, is refused: {error}")


def _find_in_parameter(entry: Any, item: Mapping[str, Any], place: str, known: Known) -> Iterator[Refusal]:
    component, value = item.get("component"), item.get("value", ABSENT)
    fault = VALUES.get(component) if isinstance(component, str) else None
    wrong = None if fault is None else fault(value, known)
    if wrong is not None:
        yield Refusal(f"{place}.value", wrong)
    if component == "vhost-limits" and item.get("name") != "limits":
        yield Refusal(f"{place}.name", f"{show_value(item.get('name', ABSENT))} is not 'limits' (function_clause)")


def _find_in_topic_permission(entry: Any, item: Mapping[str, Any], place: str, known: Known) -> Iterator[Refusal]:
    name = item.get("exchange")
    if not isinstance(name, str) or name in PREDECLARED_NAMES:
        return
    is_declared = (item.get("vhost"), name) in known.exchanges
    if is_declared and known.profile.import_sets_topic_permissions_first:
        text = "a broker with the feature flag khepri_db and without the exchange, which is imported later, refuses"
        yield Refusal(f"{place}.exchange", f"{text} the file (mismatching_node)", is_sure=None)
    if not is_declared and known.profile.import_checks_topic_exchanges:
        yield Refusal(
            f"{place}.exchange", f"{show_value(name)} is not under exchanges ({{no_such_exchange,{show_value(name)}}})"
        )


def find_unknown_fields(document: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield each field that entries have and no broker reads: section, name, index of its first entry."""
    for section, fields in FIELDS.items():
        entries, seen = document.get(section), {*fields, WRITER}
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            for name in _fields_of(entry) or ():
                if name not in seen:
                    seen.add(name)
                    yield section, name, index


def _find_in_queue(entry: Any, item: Mapping[str, Any], place: str, known: Known) -> Iterator[Refusal]:
    """Yield what the broker makes otherwise of a queue, and what it refuses of one that gets its type by default."""
    kind = item.get("type")
    if kind in ("classic", "quorum", "stream") and kind != entry.part.type:
        text = f"RabbitMQ's import leaves the type {kind!r} out; write x-queue-type among the arguments"
        yield Refusal(f"{place}.type", text, is_sure=False)
    if item.get("exclusive") is True:
        text = "RabbitMQ's import leaves it out, and makes a queue that is not exclusive"
        yield Refusal(f"{place}.exclusive", text, is_sure=False)
    written = entry.part.arguments.get("x-queue-type")
    if isinstance(written, str) and written in PLUGIN_TYPES and known.profile.settings.has_plugin_types:
        text = (
            f"a broker without the plugin of queues of type '{written}' refuses it (unsupported queue type '{written}')"
        )
        yield Refusal(f"{place}.arguments", text, is_sure=False)
    queue = _typed_by_default(entry, known.default_types, known.profile)
    if queue is not None:
        try:
            refuse_queue(queue, f"queue '{queue.name}' in vhost '{entry.vhost}'", known.profile)
        except BrokerError as error:
            again = (entry.vhost, queue.name) in known.queues_again  # then the other one may be there before it
            yield Refusal(place, f"a queue here is a {queue.type} queue by default: {error}", is_sure=not again)


More = Callable[[Any, Mapping[str, Any], str, Known], Iterator[Refusal]]
MORE: Final[Mapping[str, tuple[More, ...]]] = {
    "users": (_find_in_user,),
    "vhosts": (_find_in_vhost,),
    "parameters": (_find_in_parameter,),
    "topic_permissions": (_find_in_topic_permission,),
    "queues": (_find_in_queue,),
}
"""Section -> what depends on more than one field of an entry."""


def _typed_by_default(entry: Entry, default_types: Mapping[str, str], profile: Profile) -> Queue | None:
    """Return the queue that a broker makes of an entry by the default type; None if that is as the entry says."""
    queue: Queue = entry.part
    kind = default_types.get(entry.vhost or "")
    written = queue.arguments.get("x-queue-type")
    is_as_none = isinstance(written, str) and written in profile.settings.texts_for_no_type
    can_have_any = queue.durable and not queue.auto_delete and "x-queue-type" not in queue.arguments
    if kind is None or not (is_as_none or can_have_any):
        return None
    return replace(queue, arguments=FieldTable({**queue.arguments, "x-queue-type": kind}))


def find_typed_by_default(document: Mapping[str, Any], profile: Profile) -> Iterator[tuple[int, str, Queue]]:
    """Yield index, virtual host and queue of each entry that the broker gives the default type of its virtual host."""
    default_types = _default_types(document, profile)
    for index, entry in enumerate(document.get("queues", ()) if default_types else ()):
        queue = _typed_by_default(entry, default_types, profile)
        if queue is not None:
            yield index, entry.vhost, queue


def _queues_again(document: Mapping[str, Any]) -> frozenset[tuple[object, object]]:
    """Return virtual host and name of each queue that a file has more than once."""
    count = Counter((entry.vhost, entry.part.name) for entry in document.get("queues", ()))
    return frozenset(name for name, number in count.items() if number > 1)


def _default_types(document: Mapping[str, Any], profile: Profile) -> dict[str, str]:
    """Return virtual host -> the type that its metadata names, which is all that an import looks at."""
    found: dict[str, str] = {}
    for vhost in document.get("vhosts", ()) if profile.import_gives_default_types else ():
        metadata = vhost.get("metadata")
        kind = metadata.get(DEFAULT_TYPE) if isinstance(metadata, dict) else None
        if kind in ("quorum", "stream"):
            found[vhost["name"]] = kind
    return found


def _fields_of(entry: Any) -> Mapping[str, Any] | None:
    """Return the fields of an entry, of a plain binding only its virtual host; None for what is no object."""
    if isinstance(entry, Entry):
        if isinstance(entry.written, dict):
            return entry.written
        return {} if entry.vhost is None else {"vhost": entry.vhost}
    return entry if isinstance(entry, dict) else None


def _names(document: Mapping[str, Any], section: str) -> Iterator[str]:
    entries = document.get(section)
    for item in entries if isinstance(entries, list) else ():
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item["name"]
