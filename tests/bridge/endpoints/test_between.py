"""What is wrong between pipelines is a warning at one of them; what they may share is none."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.endpoint import Place
from bridge.endpoints.between import PipelineFlow, find_conflicts
from bridge.pump.pump import Inlet
from exchange import Binding, Exchange, Queue, Topology
from tests.bridge.endpoints.test_loops import From, To, rabbit
from tests.support.cases import with_each

TOPOLOGY = (
    Topology()
    .declare_exchange(Exchange("in", "topic"))
    .declare_queue(Queue("q"))
    .bind(Binding.to_queue("in", "q", "#"))
)
QUEUE = rabbit("queue orders")
TOPIC, OTHER = Place("kafka", "h:9092", "topic a"), Place("kafka", "h:9092", "topic b")
ALL_TOPICS = Place("kafka", "h:9092", "topic ^a.*")
ARCHIVE = Place("archive", "/in", "")


class Kept(From):
    """A source that keeps in a place of its own how far it has read."""

    def __init__(self, kept: str | None, *places: Place) -> None:
        super().__init__("s", *places)
        self._kept = kept

    @property
    def settled_in(self) -> str | None:
        return self._kept


def make_flow(source: From, writes: Place | None = None, dead: Place | None = None) -> PipelineFlow:
    target = To("t", *([] if writes is None else [writes]))
    return PipelineFlow(
        (Inlet(source, "in"),), {"q": target}, TOPOLOGY, None if dead is None else To("dead_letters", dead)
    )


def find(flows: Mapping[str, PipelineFlow]) -> list[tuple[str, str, str]]:
    return [(each.table, each.key, each.problem) for each in find_conflicts(flows)]


@with_each(
    ("first", "second", "key", "words"),
    [
        (Kept("", QUEUE), Kept("", QUEUE), "queue", "reads queue orders, too: each gets some"),
        (Kept("g", TOPIC), Kept("g", TOPIC), "group", "reads topic a in group 'g', too: each message goes to one"),
        (Kept("g", ALL_TOPICS), Kept("g", TOPIC), "group", "reads topic a in group 'g', too"),
        (Kept("g", TOPIC), Kept("g", ALL_TOPICS), "group", "reads topic a in group 'g', too"),
        (Kept("g", TOPIC), Kept("g", OTHER), "group", "with other topics: whatever stops or starts one, stops both"),
        (
            Kept("g", TOPIC._replace(system="rocketmq")), Kept("g", OTHER._replace(system="rocketmq")),
            "group", "with other topics: the broker gives messages of each to both",
        ),
        (Kept("/at", rabbit("queue s1")), Kept("/at", rabbit("queue s2")), "offsets", "keeps there how far"),
        (Kept("/at", ARCHIVE), Kept("/at", ARCHIVE), "state", "keeps there how far"),
        (Kept("", QUEUE), Kept("", rabbit("queue other")), "", ""),
        (Kept("", QUEUE), Kept("", rabbit("queue orders", "other:5672//")), "", ""),
        (Kept("g", TOPIC), Kept("h", TOPIC), "", ""),
        (Kept("g", TOPIC), Kept("g", TOPIC._replace(cluster="other:9092")), "", ""),
        (Kept("/at", ARCHIVE), Kept("/there", ARCHIVE), "", ""),
        (Kept("x", rabbit("queue x")), Kept("x", TOPIC), "", ""),
        (Kept(None, ARCHIVE), Kept(None, ARCHIVE), "", ""),
    ],
)  # fmt: skip
def test_sources_that_take_messages_from_each_other_are_named_at_the_second(
    first: From, second: From, key: str, words: str
) -> None:
    found = find({"one": make_flow(first), "two": make_flow(second)})
    if not key:
        assert found == []
        return
    [(table, found_key, problem)] = found
    assert (table, found_key) == ("two.sources.s", key)
    assert problem.startswith("[pipelines.one.sources.s] ")
    assert words in problem


def test_sources_of_one_pipeline_are_no_matter_between_pipelines() -> None:
    flow = PipelineFlow((Inlet(Kept("", QUEUE)), Inlet(Kept("", QUEUE))), {}, TOPOLOGY)
    assert find({"one": flow}) == []


def test_writers_that_put_out_each_other_are_named_and_those_of_other_clusters_are_not() -> None:
    def make_writer(name: str | None, place: Place = TOPIC) -> PipelineFlow:
        target = To("t", place)
        target.sole_writer = name
        return PipelineFlow((), {"q": target}, TOPOLOGY)

    [(table, key, problem)] = find({"one": make_writer("id"), "two": make_writer("id")})
    assert (table, key) == ("two.targets.t", "transactional_id")
    assert problem.startswith("[pipelines.one.targets.t] has it, too: each would put out the other")
    assert find({"one": make_writer(None), "two": make_writer(None)}) == []
    assert find({"one": make_writer("id"), "two": make_writer("other")}) == []
    assert find({"one": make_writer("id"), "two": make_writer("id", TOPIC._replace(cluster="o:9092"))}) == []


def test_a_chain_of_pipelines_is_no_loop_and_a_circle_is_named_once() -> None:
    places = [rabbit(f"queue {n}") for n in range(4)]
    flows = {f"p{n}": make_flow(From("s", places[n]), places[n + 1]) for n in range(3)}
    assert find(flows) == []
    flows["p3"] = make_flow(From("s", places[3]), places[0])
    [(table, key, problem)] = find(flows)
    assert (table, key) == ("p0.targets.t", "queues")
    assert "p0.s -> p1.s -> p2.s -> p3.s -> p0.s" in problem
    assert problem.startswith("its queue 1 is what [pipelines.p1.sources.s] reads, and messages come back from there")
    assert "[policy] max_hops ends such a loop" in problem
    assert "unless" not in problem


def test_dead_letters_that_come_back_are_a_loop_and_an_outlet_for_all_is_none() -> None:
    dead, orders = rabbit("queue dead"), rabbit("queue orders")
    shared = {name: make_flow(From("s", rabbit(f"queue {name}")), TOPIC, dead) for name in ("one", "two")}
    assert find(shared) == []
    assert find({**shared, "mend": make_flow(From("s", dead), TOPIC)}) == []
    flows = {"one": make_flow(From("s", orders), TOPIC, dead), "mend": make_flow(From("s", dead), orders)}
    [(table, key, problem)] = find(flows)
    assert (table, key) == ("one", "dead_letters")
    assert "one.s -> mend.s -> one.s), unless none becomes a dead letter" in problem
