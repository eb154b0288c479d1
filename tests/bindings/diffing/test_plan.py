"""The plan: it ends where it should, no broker refuses a step of it, and no message is lost on the way unannounced."""

from __future__ import annotations

from itertools import combinations, product
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bindings.analysis.key_classes import find_key_classes
from bindings.diffing.planning.plan import Plan, keep_extras, make_plan
from bindings.diffing.planning.step import Step, StepState
from exchange import Binding, Exchange, Message, Pattern, Policy, Queue, Router, Topology
from exchange.kinds import find_kind
from exchange.patterns.pattern import Word
from exchange.values.field_values import Typed
from tests.support.bindings import pairs
from tests.support.tiers import examples, scale

SEED = st.integers(0, 2**32)
KINDS = pytest.mark.parametrize("types", [("direct", "fanout", "topic"), ("topic",), pairs.TYPES])


def with_parts(topology: Topology, *parts: Exchange | Queue | Binding | Policy) -> Topology:
    """Return the topology with these parts, which replace those of the same name, even if a broker would refuse it."""
    exchanges = {**topology.exchanges, **{part.name: part for part in parts if isinstance(part, Exchange)}}
    queues = {**topology.queues, **{part.name: part for part in parts if isinstance(part, Queue)}}
    policies = {**topology.policies, **{part.name: part for part in parts if isinstance(part, Policy)}}
    bindings = [*topology.bindings, *(part for part in parts if isinstance(part, Binding))]
    return Topology(exchanges.values(), queues.values(), bindings, policies.values())


def shown(result: Plan) -> list[str]:
    """Return the steps as texts, dangerous ones with an exclamation mark."""
    return [f"{step}{' !' if step.danger else ''}" for step in result.steps]


@KINDS
@examples(120)
@given(SEED)
def test_no_step_loses_or_misleads_a_message_unless_it_is_marked(types: tuple[str, ...], seed: int) -> None:
    """For every key of up to three words, with a header and without, after every step."""
    before, after = pairs.pair(Random(seed), types)
    pairs.carry_out(before, after)


@examples(300)
@example(
    694
)  # a queue is replaced, an auto-delete exchange goes with it, and the queue is to have one more binding of it
@example(1501)  # what is bound again is refused, as its exchange has another type by then
@given(SEED)
def test_the_steps_end_at_the_second_topology_and_then_nothing_is_left_to_do(seed: int) -> None:
    """Carried out on a topology by its own rules; the plan from the result is empty."""
    before, after = pairs.pair(Random(seed), (*pairs.TYPES, "x-consistent-hash"))
    result = make_plan(before, after)
    state = StepState(before)
    for step in result.steps:
        state.apply(step)
    if not result.refused:
        assert state.topology == after
    assert not make_plan(state.topology, after).steps


def test_bindings_that_share_a_slot_of_an_exchange_end_as_they_should() -> None:
    """Those that are wanted are there, in slots that were not emptied after them, unless a step says otherwise."""
    all_bindings = [Binding.to_queue("x", queue, key) for queue, key in ("a1", "a2", "b1")]
    chosen = [list(each) for size in (1, 2, 3) for each in combinations(all_bindings, size)]
    for old, new, auto_delete in product(chosen, chosen, (False, True)):
        ring = Exchange("x", "x-consistent-hash", auto_delete=auto_delete)
        before, after = (Topology([ring], [Queue("a"), Queue("b")], bindings) for bindings in (old, new))
        state, filled = StepState(before), {binding.destination for binding in old}
        steps = make_plan(before, after).steps
        for step in steps:
            assert state.apply(step)
            if isinstance(step.part, Binding):
                (filled.add if step.added else filled.discard)(step.part.destination)
            else:  # it went with its last binding
                filled.clear()
        assert state.topology == after
        is_told = any("no effect" in str(step.danger) for step in steps)
        must_be_told = auto_delete and len({binding.destination for binding in old}) == 1  # it must keep a binding
        assert filled == {binding.destination for binding in new} or (is_told and must_be_told)


@examples(100)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(1, 3)), max_size=2), min_size=2, max_size=2
    )
)
def test_a_new_queue_has_the_settings_that_it_is_to_have_from_its_first_moment(
    drawn: list[list[tuple[str, int]]],
) -> None:
    """Policies come first: what it got before would have no time to live, and no dead letter exchange."""
    before, after = (
        Topology([], [Queue(name) for name in names], [], [
            Policy(f"p{n}", pattern, {"expires": value}, "queues", n) for n, (pattern, value) in enumerate(policies)
        ])
        for names, policies in zip(("c", "abc"), drawn, strict=True)
    )  # fmt: skip
    state = StepState(before)
    for step in make_plan(before, after).steps:
        state.apply(step)
        now = state.topology
        for name in now.queues.keys() - before.queues.keys():
            given_, wanted = (
                [settings.get("expires") for settings in each.policies_in_force().possible_settings(each.queues[name])]
                for each in (now, after)
            )
            assert given_ == wanted
    assert state.topology == after


@examples(200)
@given(SEED)
def test_keeping_deletes_nothing(seed: int) -> None:
    """What only the first topology has stays, and all that the second has comes."""
    before, after = pairs.pair(Random(seed))
    result = make_plan(before, keep_extras(before, after))
    if not result.replaced:
        assert all(step.added for step in result.steps)


def test_hardly_any_harmless_change_is_marked_as_dangerous() -> None:
    """Of many random changes, some of them wild; those apart that a broker cannot make in place."""
    steps = needless = 0
    for seed in range(tried := scale(600)):
        before, after = pairs.pair(Random(seed), auto_delete=False)
        result = make_plan(before, after)
        steps += len(result.steps)
        if not any(step.danger and "cannot be changed" not in step.danger for step in result.steps):
            continue
        state, astray_in = StepState(before), pairs.astray_between(before, after)
        known: set[pairs.Astray] = set()
        for step in result.steps:
            state.apply(step)
            astray = astray_in(state.topology)
            needless += bool(
                step.danger and "cannot be changed" not in step.danger and astray <= known
            ) and not isinstance(step.part, Queue)
            known = astray
    assert steps > 3 * tried
    assert needless <= steps / 200


def test_new_paths_open_from_their_end_and_old_ones_close_from_their_beginning() -> None:
    """A way through two exchanges is replaced by another through two others."""
    entry, queue = Exchange("in", "topic"), Queue("q")
    old: list[Exchange | Binding] = [
        Exchange("b", "topic"),
        Binding.to_exchange("in", "b", "#"),
        Binding.to_queue("b", "q", "#"),
    ]
    new: list[Exchange | Binding] = [
        Exchange("a", "topic"),
        Binding.to_exchange("in", "a", "#"),
        Binding.to_queue("a", "q", "#"),
    ]
    assert shown(make_plan(with_parts(Topology(), entry, queue, *old), with_parts(Topology(), entry, queue, *new))) == [
        "declare exchange 'a' (topic)",
        "bind exchange 'a' '#' -> queue 'q'",
        "bind exchange 'in' '#' -> exchange 'a'",
        "unbind exchange 'in' '#' -> exchange 'b'",
        "unbind exchange 'b' '#' -> queue 'q'",
        "delete exchange 'b'",
    ]


def test_what_is_tangled_gets_an_order_of_its_own() -> None:
    """Had the new queue been bound first, it would have got what is no longer meant for the exchange it is bound to."""
    common = with_parts(Topology(), Exchange("in", "topic"), Exchange("next", "fanout"), Queue("old"), Queue("new"))
    before = with_parts(common, Binding.to_exchange("in", "next", "#"), Binding.to_queue("next", "old"))
    after = with_parts(
        common,
        Binding.to_exchange("in", "next", "a.#"),
        Binding.to_queue("next", "old"),
        Binding.to_queue("next", "new"),
    )
    assert shown(make_plan(before, after)) == [
        "bind exchange 'in' 'a.#' -> exchange 'next'",
        "unbind exchange 'in' '#' -> exchange 'next'",
        "bind exchange 'next' '' -> queue 'new'",
    ]


def test_where_no_order_is_safe_the_plan_names_a_message_and_its_fate() -> None:
    """An alternate exchange that did not exist has an alternate itself, and no bindings when it is declared."""
    before = with_parts(
        Topology(),
        Exchange("in", "topic", arguments={"alternate-exchange": "new"}),
        Exchange("last", "fanout"),
        Queue("q"),
        Queue("lost"),
        Binding.to_queue("last", "lost"),
    )
    new = Exchange("new", "fanout", arguments={"alternate-exchange": "last"})
    result = make_plan(before, with_parts(before, new, Binding.to_queue("new", "q")))
    assert [(str(step), step.danger) for step in result.steps] == [
        ("declare exchange 'new' (fanout)", "'' to exchange 'in' goes to queue 'lost' meanwhile"),
        ("bind exchange 'new' '' -> queue 'q'", None),
    ]


def test_what_cannot_be_changed_is_replaced_and_that_is_dangerous() -> None:
    """Deleted whatever is bound to it, declared, and bound again as it is to be."""
    queue, binding = Queue("q"), Binding.to_queue("x", "q", "a")
    before = with_parts(Topology(), Exchange("x", "direct"), queue, binding)
    after = with_parts(before, Exchange("x", "topic"))
    result = make_plan(before, after)
    assert shown(result) == [
        "delete exchange 'x' !",
        "declare exchange 'x' (topic) !",
        "bind exchange 'x' 'a' -> queue 'q' !",
    ]
    assert result.steps[0].in_use
    assert "publishers are refused meanwhile" in str(result.steps[0].danger)
    assert [part.name for part in result.replaced] == ["x"]


def test_an_alternate_exchange_changes_by_policy_but_not_by_argument() -> None:
    """An argument is for life."""
    bare = with_parts(
        Topology(), Exchange("x", "topic"), Exchange("rest", "fanout"), Queue("q"), Binding.to_queue("rest", "q")
    )
    policy = Policy("p", "^x$", {"alternate-exchange": "rest"}, "exchanges")
    assert shown(make_plan(bare, with_parts(bare, policy))) == ["set policy 'p'"]
    by_argument = with_parts(bare, Exchange("x", "topic", arguments={"alternate-exchange": "rest"}))
    assert [part.name for part in make_plan(bare, by_argument).replaced] == ["x"]


def test_a_queue_that_is_deleted_loses_its_messages() -> None:
    """Which is dangerous, whatever is bound to it; its bindings go first, so that it can be drained."""
    before = with_parts(Topology(), Exchange("x", "topic"), Queue("q"), Binding.to_queue("x", "q", "a"))
    after = with_parts(Topology(), Exchange("x", "topic"))
    assert shown(make_plan(before, after)) == ["unbind exchange 'x' 'a' -> queue 'q'", "delete queue 'q' !"]


def test_an_auto_delete_exchange_that_should_stay_comes_back() -> None:
    """With its last binding it goes, and so do the bindings that lead to it."""
    common = with_parts(
        Topology(),
        Exchange("x", "topic", auto_delete=True),
        Exchange("in", "fanout"),
        Queue("q"),
        Binding.to_exchange("in", "x"),
    )
    result = make_plan(with_parts(common, Binding.to_queue("x", "q", "a")), common)
    assert shown(result) == [
        "unbind exchange 'x' 'a' -> queue 'q' !",
        "declare exchange 'x' (topic) !",
        "bind exchange 'in' '' -> exchange 'x' !",
    ]


def test_parts_that_go_along_with_a_replaced_one_come_back() -> None:
    """Two auto-delete exchanges, one after the other, of which one is to be replaced itself."""
    bindings = Binding.to_exchange("y", "x", "a"), Binding.to_exchange("x", "z", "a")
    upper = Exchange("y", "fanout", auto_delete=True)
    before, after = (
        with_parts(Topology(), Exchange("z", kind), Exchange("x", kind, auto_delete=True), upper, *bindings)
        for kind in ("topic", "direct")
    )
    result = make_plan(before, after)
    state = StepState(before)
    for step in result.steps:
        state.apply(step)
    assert state.topology == after
    assert not result.refused
    assert all(step.danger for step in result.steps)


def test_an_auto_delete_exchange_that_should_go_needs_no_deletion() -> None:
    """It goes with its last binding."""
    after = with_parts(Topology(), Queue("q"))
    before = with_parts(after, Exchange("x", "topic", auto_delete=True), Binding.to_queue("x", "q", "a"))
    assert shown(make_plan(before, after)) == ["unbind exchange 'x' 'a' -> queue 'q'"]


def test_what_the_broker_named_is_left_alone() -> None:
    """A queue amq.gen-... and its bindings are not deleted; one that is wanted cannot be declared."""
    generated = with_parts(
        Topology(), Exchange("x", "topic"), Queue("amq.gen-1"), Binding.to_queue("x", "amq.gen-1", "a"),
        Binding.to_queue("amq.topic", "amq.gen-1", "b"),
    )  # fmt: skip
    plain = with_parts(Topology(), Exchange("x", "topic"))
    result = make_plan(generated, plain)
    assert not result.steps
    assert len(result.left_alone) == 3
    wanted = make_plan(plain, generated)
    assert [str(error)[:13] for _, error in wanted.refused] == ["404 NOT_FOUND"] * 2


def test_bindings_of_exclusive_queues_are_left_alone() -> None:
    """RabbitMQ exports them without their queues."""
    after = with_parts(Topology(), Exchange("x", "topic"))
    before = with_parts(after, Binding.to_queue("x", "exclusive", "a"))
    for wanted in (after, keep_extras(before, after)):
        result = make_plan(before, wanted)
        assert not result.steps
        assert not result.refused
        assert len(result.left_alone) == 1


def test_a_change_that_no_broker_sees_is_no_step() -> None:
    """x-queue-type classic is as none, an integer's width does not matter, and partitions are no broker's business."""
    quorum = Queue("quorum", arguments={"x-queue-type": "quorum"})
    before = with_parts(Topology(), Queue("q", arguments={"x-queue-type": "classic", "x-max-length": 5}), quorum)
    after = with_parts(Topology(), Queue("q", arguments={"x-max-length": Typed("short", 5)}), quorum)
    assert not make_plan(before, after).steps
    assert [part.name for part in make_plan(before, with_parts(after, Queue("quorum"))).replaced] == ["quorum"]
    assert make_plan(before, with_parts(after, Queue("q", arguments={"x-max-length": 6}))).replaced


def test_a_step_that_a_broker_would_refuse_is_reported_and_not_planned() -> None:
    """With its own words."""
    binding = Binding.to_queue("x", "nowhere", "a")
    result = make_plan(Topology(), with_parts(Topology(), Exchange("x", "topic"), binding))
    assert shown(result) == ["declare exchange 'x' (topic)"]
    assert [(step, str(error)) for step, error in result.refused] == [
        (Step(True, binding), "404 NOT_FOUND - no queue 'nowhere' in vhost '/'")
    ]


def test_steps_that_move_keys_between_queues_are_marked() -> None:
    """A hash exchange gives keys elsewhere whenever a binding comes or goes; a single change is what is asked for."""
    before = with_parts(
        Topology(),
        Exchange("h", "x-consistent-hash"),
        *(Queue(name) for name in "abcd"),
        Binding.to_queue("h", "a", "1"),
    )
    one = with_parts(before, Binding.to_queue("h", "b", "1"))
    assert not make_plan(before, one).dangerous
    two = with_parts(one, Binding.to_queue("h", "c", "1"))
    assert all("keys move" in str(step.danger) for step in make_plan(before, two).steps)


def test_steps_that_are_too_many_to_look_at_are_marked_as_dangerous() -> None:
    """A change on both sides of an exchange of a type whose routes chance decides."""
    common = with_parts(Topology(), Exchange("in", "topic"), Exchange("r", "x-random"), Queue("a"), Queue("b"))
    before = with_parts(common, Binding.to_exchange("in", "r", "x"), Binding.to_queue("r", "a"))
    after = with_parts(common, Binding.to_exchange("in", "r", "y"), Binding.to_queue("r", "b"))
    dangers = {step.danger for step in make_plan(before, after).steps}
    why = "'in', 'r' change and hand messages on, and exchange 'r' is of type x-random"
    assert dangers == {f"messages may be lost or reach other queues meanwhile: {why}"}


PATTERN = st.lists(st.sampled_from(["a", "b", "*", "#", ""]), max_size=4).map(".".join)


@examples(200)
@given(st.lists(PATTERN, max_size=5))
def test_every_key_is_of_the_class_of_one_listed(patterns: list[str]) -> None:
    """It matches the same patterns; and no two that are listed do."""
    words: list[tuple[Word, ...]] = [Pattern(pattern).words for pattern in patterns]

    def matched(key: str) -> tuple[bool, ...]:
        return tuple(Pattern(pattern).matches(key) for pattern in patterns)

    keys = find_key_classes(words, 10_000)
    assert keys is not None
    listed = [matched(key) for key in keys]
    assert len(set(listed)) == len(listed)
    everything = [*pairs.KEYS, "a.", ".a", ".", "..", "a..b", "b.", ".b"]
    assert {matched(key) for key in everything} <= set(listed)


def test_an_exchange_that_does_not_go_by_the_key_has_no_words() -> None:
    """Which is what keeps it from being looked at."""
    assert find_kind(Exchange("x", "x-random")).pattern(Binding.to_queue("x", "q", "a")) is None
    pattern = find_kind(Exchange("x", "direct")).pattern(Binding.to_queue("x", "q", "a.*"))
    assert pattern is not None
    assert pattern.words == ("a", "*")


def hashing(rng: Random, type_: str) -> Topology:
    """Draw bindings of one exchange, of which a broker keeps one for each destination, or each key and destination."""
    places = [(key, f"q{number}") for number in range(4) for key in ("1", "2") if rng.random() < 0.4]
    bindings = []
    for key, queue in places:
        selector = {"rjms_erlang_selector": rng.choice(("true.", '{is_null,{ident,<<"h">>}}.'))}
        bindings.append(Binding.to_queue("x", queue, key, selector if type_ == "x-jms-topic" else {}))
    return Topology([Exchange("x", type_)], [Queue(f"q{number}") for number in range(4)], bindings)


@pytest.mark.parametrize("type_", ["x-consistent-hash", "x-jms-topic"])
@examples(80)
@given(SEED)
def test_a_binding_that_replaces_another_one_has_effect_in_the_end(type_: str, seed: int) -> None:
    """A broker keeps one binding of such a place, and forgets that one with any of them: a router shows it."""
    rng = Random(seed)
    before, after = hashing(rng, type_), hashing(rng, type_)
    router, wanted = Router(before), Router(after)
    for step in make_plan(before, after).steps:
        assert isinstance(step.part, Binding)
        (router.bind if step.added else router.unbind)(step.part)
    assert router.topology == after
    messages = [Message("x", f"key {number}", headers) for number in range(300) for headers in ({}, {"h": 1})]
    reached = {queue for message in messages for queue in router.route(message).queues}
    assert reached == {queue for message in messages for queue in wanted.route(message).queues}
    if type_ == "x-jms-topic":
        assert [router.route(message) for message in messages[:2]] == [
            wanted.route(message) for message in messages[:2]
        ]


def test_a_binding_that_replaces_another_one_is_marked_as_missed_by_messages_meanwhile() -> None:
    """And of an exchange that goes with its last binding, that the new one has no effect."""

    def bound(selector: str, *, auto_delete: bool) -> Topology:
        binding = Binding.to_queue("x", "q", "k", {"rjms_erlang_selector": selector})
        return Topology([Exchange("x", "x-jms-topic", auto_delete=auto_delete)], [Queue("q")], [binding])

    steps = make_plan(bound("true.", auto_delete=False), bound("false.", auto_delete=False)).steps
    assert [(step.added, step.danger) for step in steps] == [
        (added, "messages miss queue 'q' between these steps: exchange 'x' keeps one such binding")
        for added in (False, True)
    ]
    steps = make_plan(bound("true.", auto_delete=True), bound("false.", auto_delete=True)).steps
    assert [step.added for step in steps] == [True, False]
    assert all(step.danger is not None and "no effect" in step.danger for step in steps)
