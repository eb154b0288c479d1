"""The steps of the layout, each by its law, some beside a slow oracle."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.drawing.layout import NOTHING, LaidEdge, Point, Size, lay_out
from bindings.drawing.layout import slots as slots_module
from bindings.drawing.layout.coordinates import GAP, LINE_GAP, place_slots, relax
from bindings.drawing.layout.layout import PART_GAP, find_parts, pack
from bindings.drawing.layout.order import TRANSPOSITIONS, count_crossings, order_columns
from bindings.drawing.layout.order import _transpose as transpose
from bindings.drawing.layout.ranks import find_back_edges, rank_nodes
from bindings.drawing.layout.slots import MAX_SLOTS, build_slots

Graph = tuple[int, list[tuple[int, int]]]
Neighbours = Sequence[Sequence[int]]


@cache
def graphs_of(count: int) -> st.SearchStrategy[Graph]:
    """Make graphs of some nodes, by their number."""
    nodes = st.integers(0, count - 1)
    return st.tuples(st.just(count), st.lists(st.tuples(nodes, nodes), max_size=25))


graphs = st.integers(1, 12).flatmap(graphs_of)


def without_cycles(graph: Graph) -> list[tuple[int, int]]:
    """Return the edges, each from the smaller to the greater node."""
    return sorted({(min(edge), max(edge)) for edge in graph[1] if edge[0] != edge[1]})


@given(graphs)
def test_without_its_back_edges_a_graph_has_no_cycle(graph: Graph) -> None:
    """And none is a back edge where there was no cycle."""
    count, edges = graph
    back = find_back_edges(count, edges)
    left = {edge for edge, is_back in zip(edges, back, strict=True) if not is_back and edge[0] != edge[1]}
    free = set(range(count))
    while True:  # take nodes away that nothing leads to, as long as there are some
        gone = free - {target for source, target in left if source in free}
        if not gone:
            break
        free -= gone
    assert free == set()
    assert not any(find_back_edges(count, without_cycles(graph)))


@given(graphs)
def test_each_edge_leads_to_a_greater_rank_and_ranks_beat_the_longest_path(graph: Graph) -> None:
    count, edges = graph[0], without_cycles(graph)
    ranks = rank_nodes(count, edges)
    longest = [0] * count
    for source, target in edges:  # sorted by source, and each leads to a greater number
        longest[target] = max(longest[target], longest[source] + 1)
    assert all(ranks[source] < ranks[target] for source, target in edges)
    assert min(ranks) == 0
    assert sum(ranks[b] - ranks[a] for a, b in edges) <= sum(longest[b] - longest[a] for a, b in edges)


def test_a_source_stands_next_to_what_it_leads_to() -> None:
    """Here 4, which the longest path would put at the far left."""
    assert rank_nodes(5, [(0, 1), (1, 2), (2, 3), (4, 3)]) == [0, 1, 2, 3, 2]


@given(graphs)
def test_crossings_are_counted_as_by_comparing_all_pairs(graph: Graph) -> None:
    """Two columns; and ordering never makes more of them."""
    half = 6
    edges = sorted({(a % half, half + b % half) for a, b in graph[1]})
    columns = [list(range(half)), list(range(half, 2 * half))]
    after: list[list[int]] = [[] for _ in range(2 * half)]
    before: list[list[int]] = [[] for _ in range(2 * half)]
    for source, target in edges:
        after[source].append(target)
        before[target].append(source)

    def count(columns: list[list[int]]) -> int:
        position = [0] * (2 * half)
        for column in columns:
            for at, slot in enumerate(column):
                position[slot] = at
        slow = sum(
            (position[a] - position[c]) * (position[b] - position[d]) < 0 for (a, b), (c, d) in combinations(edges, 2)
        )
        assert count_crossings(columns, after, position) == slow
        return slow

    ordered = order_columns(columns, before, after)
    assert [sorted(column) for column in ordered] == columns
    assert count(ordered) <= count(columns)


@pytest.mark.parametrize("seed", range(12))
def test_neighbours_change_places_as_if_all_were_looked_at_in_each_round(seed: int) -> None:
    random = Random(seed)
    columns: list[list[int]] = []
    for _ in range(random.randint(2, 5)):
        first = sum(map(len, columns))
        columns.append([*range(first, first + random.randint(2, 9))])
    count = sum(map(len, columns))
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for left, right in pairwise(columns):
        for _ in range(2 * max(len(left), len(right))):
            one, two = random.choice(left), random.choice(right)
            if two not in after[one]:
                after[one].append(two)
                before[two].append(one)
    expected = [list(column) for column in columns]
    transpose_slowly(expected, after)
    position = [0] * count
    for column in columns:
        for at, slot in enumerate(column):
            position[slot] = at
    transpose(columns, before, after, position)
    assert columns == expected
    assert all(position[slot] == at for column in columns for at, slot in enumerate(column))


def transpose_slowly(columns: list[list[int]], after: Neighbours) -> None:
    def count_around(at: int) -> int:
        position = {slot: row for column in columns for row, slot in enumerate(column)}
        lines = [
            [(position[a], position[b]) for a in column for b in after[a]]
            for column in columns[max(0, at - 1) : at + 1]
        ]
        return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for each in lines for a, b in combinations(each, 2))

    pending = {*range(len(columns))}
    for _ in range(TRANSPOSITIONS):
        changed: set[int] = set()
        for at in sorted(pending):
            column = columns[at]
            for row in range(len(column) - 1):
                crossings = count_around(at)
                column[row], column[row + 1] = column[row + 1], column[row]
                if count_around(at) < crossings:
                    changed |= {at - 1, at, at + 1}
                else:
                    column[row], column[row + 1] = column[row + 1], column[row]
        pending = changed & {*range(len(columns))}


@pytest.mark.parametrize("size", [3, 10, 40])
def test_a_tree_and_a_ladder_have_no_crossings(size: int) -> None:
    """Whatever the order in which their edges come."""
    random = Random(size)
    tree = [((node - 1) // 2, node) for node in range(1, size)]
    ladder = [(at, size + at) for at in range(size)]
    for edges in (tree, ladder):
        random.shuffle(edges)
        lines = [LaidEdge(source, target) for source, target in edges]
        count = 2 * size
        slots = build_slots([Size(10, 10)] * count, rank_nodes(count, edges), lines)
        columns = order_columns(slots.columns, slots.before, slots.after)
        position = [0] * count
        for column in columns:
            for at, slot in enumerate(column):
                position[slot] = at
        assert count_crossings(columns, slots.after, position) == 0


@given(graphs, st.randoms())
def test_slots_of_a_column_keep_their_order_and_distance(graph: Graph, random: Random) -> None:
    count, edges = graph[0], without_cycles(graph)
    sizes = [Size(20, random.uniform(10, 60)) for _ in range(count)]
    lines = [LaidEdge(source, target, random.choice((NOTHING, Size(30, 14)))) for source, target in edges]
    slots = build_slots(sizes, rank_nodes(count, edges), lines)
    columns = order_columns(slots.columns, slots.before, slots.after)
    middles = place_slots(slots, columns)
    for column in columns:
        for one, two in pairwise(column):
            gap = LINE_GAP if slots.is_line[one] or slots.is_line[two] else GAP
            assert middles[two] - middles[one] >= (slots.sizes[one].height + slots.sizes[two].height) / 2 + gap - 1e-6
    assert min(middle - size.height / 2 for middle, size in zip(middles, slots.sizes, strict=True)) == pytest.approx(0)


@given(graphs, st.randoms())
def test_relaxed_slots_are_closer_to_their_neighbours(graph: Graph, random: Random) -> None:
    """From any positions that keep the distances: edges rise and fall no more than before, straight ones stay so."""
    count, edges = graph[0], without_cycles(graph)
    slots = build_slots([Size(20, 10)] * count, rank_nodes(count, edges), [LaidEdge(*edge) for edge in edges])
    middles = [0.0] * len(slots.sizes)
    gaps = {}
    for column in slots.columns:
        y = 0.0
        for one, two in pairwise(column):
            gaps[one, two] = 20.0
            y += random.choice((20, 20, 40, 100))
            middles[two] = y
    moved = relax(slots, slots.columns, gaps, middles)
    pairs = [(one, two) for one, others in enumerate(slots.after) for two in others]
    assert sum(abs(moved[a] - moved[b]) for a, b in pairs) <= sum(abs(middles[a] - middles[b]) for a, b in pairs) + 1e-6
    assert all(moved[a] == pytest.approx(moved[b]) for a, b in pairs if middles[a] == middles[b])
    assert all(moved[two] - moved[one] >= gap - 1e-6 for (one, two), gap in gaps.items())


def test_the_queues_of_an_exchange_stand_close_together() -> None:
    """Beside a chain that pulls its exchange elsewhere."""
    lines = [
        LaidEdge(0, 1),
        LaidEdge(1, 2),
        LaidEdge(2, 3),
        *(LaidEdge(1, at) for at in range(4, 10)),
        *(LaidEdge(2, 10 + at) for at in range(8)),
    ]
    nodes = lay_out([Size(30, 20)] * 18, lines).nodes
    for group in (range(4, 10), range(10, 18)):
        ys = sorted(nodes[at].y for at in group)
        assert [two - one for one, two in pairwise(ys)].count(20 + GAP) >= len(ys) - 2


def test_a_long_edge_is_straight() -> None:
    """It passes four columns beside a chain, and bends only where it leaves and enters."""
    layout = lay_out([Size(40, 20)] * 6, [LaidEdge(at, at + 1) for at in range(5)] + [LaidEdge(0, 5)])
    inner = {round(point.y, 3) for point in layout.edges[-1].curve[4:-4]}
    assert len(inner) == 1


def test_edges_of_a_strand_share_their_way_to_the_same_target() -> None:
    """A hundred sources of a target far away need a line in each column, not a hundred."""
    chain = [LaidEdge(at, at + 1) for at in range(10)]
    fan = [LaidEdge(11, 0), *(LaidEdge(at, 10) for at in range(11, 111))]
    shared = build_slots([Size(9, 9)] * 111, [*range(1, 12), *[0] * 100], [*chain, *fan[1:]])
    assert len(shared.sizes) - 111 == 10
    apart = build_slots(
        [Size(9, 9)] * 111, [*range(1, 12), *[0] * 100],
        [*chain, *(line._replace(strand=at) for at, line in enumerate(fan[1:]))],
    )  # fmt: skip
    assert len(apart.sizes) - 111 == 1_000


@given(graphs, st.randoms())
def test_edges_that_are_led_around_pass_no_node(graph: Graph, random: Random) -> None:
    """As if there were room for no slot: each line is below all nodes, or in a channel between two columns."""
    count, edges = graph[0], without_cycles(graph)
    lines = [LaidEdge(source, target, random.choice((NOTHING, Size(30, 14)))) for source, target in edges]
    sizes = [Size(random.uniform(10, 60), 20.0) for _ in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots_module, "MAX_SLOTS", 0)
        layout = lay_out(sizes, lines)
    for (source, target, *_), edge in zip(lines, layout.edges, strict=True):
        for one, two in pairwise(edge.curve):
            for node, corner in enumerate(layout.nodes):
                if node in (source, target) or abs(one.y - two.y) > 1e-6:
                    continue
                beside = max(one.x, two.x) <= corner.x or min(one.x, two.x) >= corner.x + sizes[node].width
                assert beside or not corner.y < one.y < corner.y + 20


def test_long_chains_and_many_parts_need_room_and_time_in_proportion() -> None:
    """Parts times columns, and edges times columns, were the square and the cube of the topology."""
    chain = [LaidEdge(number, number + 1) for number in range(300)]
    fan = [LaidEdge(number, 300) for number in range(299)]  # each passes all columns in between
    pairs = [LaidEdge(301 + 2 * number, 302 + 2 * number) for number in range(300)]
    layout = lay_out([Size(10, 10)] * 901, [*chain, *fan, *pairs])
    assert all(layout.nodes[line.target].x > layout.nodes[line.source].x for line in (*chain, *fan, *pairs))
    web = [LaidEdge(a, b, strand=a) for a in range(110) for b in range(a + 1, 110, 3)]
    assert sum(line.target - line.source for line in web) > 3 * MAX_SLOTS
    assert lay_out([Size(10, 10)] * 110, web).size.height < 50_000


@given(st.lists(st.builds(Size, st.floats(1, 500), st.floats(1, 500)), max_size=25))
def test_packed_parts_are_apart_and_inside(sizes: list[Size]) -> None:
    corners, whole = pack(sizes)
    for (a, one), (b, two) in combinations(zip(corners, sizes, strict=True), 2):
        across = a.x + one.width + PART_GAP <= b.x + 1e-3 or b.x + two.width + PART_GAP <= a.x + 1e-3
        down = a.y + one.height + PART_GAP <= b.y + 1e-3 or b.y + two.height + PART_GAP <= a.y + 1e-3
        assert across or down
    for corner, size in zip(corners, sizes, strict=True):
        assert min(corner) >= 0
        assert corner.x + size.width <= whole.width + 1e-6
        assert corner.y + size.height <= whole.height + 1e-6


@given(st.lists(st.builds(Size, st.sampled_from((5.0, 40.0, 200.0)), st.sampled_from((5.0, 30.0))), max_size=25))
def test_each_part_takes_the_highest_free_place_and_there_the_leftmost(sizes: list[Size]) -> None:
    placed: list[tuple[Point, Size]] = []
    corners, _ = pack(sizes)
    limit = max((corner.x + size.width for corner, size in zip(corners, sizes, strict=True)), default=0.0)
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index].height, index)):
        size, corner = sizes[index], corners[index]
        edges = {0.0, *(at.x + other.width + PART_GAP for at, other in placed), *(at.x for at, _ in placed)}
        free = [
            (
                max(
                    (
                        at.y + other.height + PART_GAP
                        for at, other in placed
                        if at.x < x + size.width + PART_GAP and x < at.x + other.width + PART_GAP
                    ),
                    default=0.0,
                ),
                x,
            )
            for x in edges
            if x + size.width <= limit
        ]
        assert (corner.y, corner.x) == min(free)
        placed.append((corner, size))


@given(graphs)
def test_parts_are_what_edges_connect(graph: Graph) -> None:
    count, edges = graph
    label = list(range(count))
    for _ in range(count):  # each node takes the smallest label beside it
        for a, b in edges:
            label[a] = label[b] = min(label[a], label[b])
    parts = find_parts(count, edges)
    assert parts == [[node for node in range(count) if label[node] == each] for each in sorted(set(label))]


def test_what_could_change_places_stands_in_the_order_of_its_numbers() -> None:
    """Queues of one exchange, with labels and without, and exchanges of one queue."""
    random = Random(5)
    for turn in (False, True):
        ends = list(range(1, 40))
        random.shuffle(ends)
        lines = [LaidEdge(*((end, 0) if turn else (0, end)), random.choice((NOTHING, Size(9, 9)))) for end in ends]
        plain = [end for end, line in zip(ends, lines, strict=True) if not line.label.width]
        nodes = lay_out([Size(10, 10)] * 40, lines).nodes
        for kind in (plain, [end for end in ends if end not in plain]):
            assert sorted(kind, key=lambda end: nodes[end].y) == sorted(kind)


def test_equal_parts_stand_in_the_order_of_their_nodes() -> None:
    layout = lay_out([Size(10, 10)] * 8, [LaidEdge(at, at + 1) for at in range(0, 8, 2)])
    starts = [layout.nodes[at] for at in range(0, 8, 2)]
    assert starts == sorted(starts, key=lambda point: (point.y, point.x))
    assert isinstance(starts[0], Point)
