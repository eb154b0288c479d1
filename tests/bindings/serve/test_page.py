"""The page in a browser: what lights up is what the router returns, "why not" is answered, drafts change no file."""

import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from urllib.parse import quote, urlencode

import pytest
from click.testing import CliRunner

from bindings.serve import site
from bindings.sources.document import Document
from bindings.sources.section import Section
from bridge.cli import hashstar
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.entities.releases import LATEST_PROFILE
from tests.support import topologies
from tests.support.browser import CHROMIUM, NO_BROWSER, Browser
from tests.support.served import Served, serve_here
from tests.support.waiting import stretch

pytestmark = pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)

ORDERS = Path("examples/orders/orders.bindings")
KINDS = topologies.Kinds(
    ("direct", "fanout", "topic", "topic", "headers", "x-recent-history", "x-consistent-hash", "x-modulus-hash"), 0
)
READY = "document.documentElement.dataset.state === 'ready'"
LIT = """JSON.stringify([...document.querySelectorAll('#picture .node.lit')]
  .map((node) => node.dataset.kind + ':' + node.dataset.name).sort())"""


@pytest.fixture
def page(browser: Browser) -> Browser:
    return browser


@pytest.fixture(scope="module")
def orders() -> Iterator[Served]:
    with serve_here(ORDERS) as served:
        yield served


def show(page: Browser, served: Served, *, width: int = 1280, **fields: str) -> None:
    """Open the page with these fields in its fragment."""
    page.visit(f"{served.address}#{urlencode(fields, quote_via=quote, errors='surrogatepass')}", width=width)
    wait(page)


def wait(page: Browser) -> None:
    """Wait until all that was asked is answered, and drawn; what is drawn may ask for more, frames later if busy."""
    page.wait(READY)
    page.settle()
    page.wait(READY)


def put(page: Browser, field: str, text: str) -> None:
    """Put a text into a field, as pasting does, and wait for the answer."""
    page.evaluate("document.documentElement.dataset.state = 'busy'")
    page.evaluate(f"""(() => {{
      const field = document.getElementById({json.dumps(field)});
      field.value = {json.dumps(text)};
      field.dispatchEvent(new Event('input'));
    }})()""")
    wait(page)


def press(page: Browser, selector: str) -> None:
    """Click an element, which may be a part of the picture."""
    page.evaluate(
        f"document.querySelector({json.dumps(selector)}).dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
    )


def text_of(page: Browser, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))


def lit(page: Browser) -> list[str]:
    found: list[str] = json.loads(page.evaluate(LIT))
    return found


def no_errors(page: Browser) -> None:
    """Check that no script failed, and that the page's policy refused nothing of its own."""
    assert page.evaluate("document.documentElement.dataset.errors || ''") == ""
    # What the broker or the language would refuse has the status 422, which a browser notes.
    assert [error for error in page.errors if "status of 422" not in error] == []


def expected(router: Router, message: Message) -> list[str]:
    """Return the nodes that a message passes, by the router."""
    explanation = router.explain(message)
    exchanges = {f"exchange:{hop.exchange.name}" for hop in explanation.hops}
    return sorted({*exchanges, *(f"queue:{name}" for name in explanation.route.queues)})


def drawn(page: Browser) -> set[str]:
    nodes = "[...document.querySelectorAll('#drawing .node')].map((n) => n.dataset.kind + ':' + n.dataset.name)"
    return set(page.evaluate(nodes))


@pytest.mark.smoke
def test_each_key_lights_up_what_the_router_returns(page: Browser, tmp_path: Path) -> None:
    rng = Random(17)
    for number in range(3):
        topology = topologies.topology(rng, LATEST_PROFILE, KINDS)
        path = tmp_path / f"{number}.bindings"
        Document({topology.vhost: Section(topology)}).save(path)
        router = Router(topology)
        with serve_here(path) as served:
            show(page, served)
            for _ in range(15):
                message = topologies.message(rng, topology)
                plain = Message(message.exchange, message.routing_key)
                page.evaluate(f"document.getElementById('exchange').value = {json.dumps(plain.exchange)}")
                put(page, "key", plain.routing_key)
                queues = json.loads(page.evaluate("document.getElementById('route').dataset.queues"))
                assert queues == list(router.route(plain).queues)
                assert lit(page) == [name for name in expected(router, plain) if name in drawn(page)]
                assert {f"queue:{name}" for name in queues} <= set(lit(page))
            no_errors(page)


def test_a_key_that_is_typed_is_answered_at_each_stroke(page: Browser, orders: Served) -> None:
    show(page, orders, exchange="orders")
    page.evaluate("document.getElementById('key').focus()")
    page.type_text("order.eu.paid")
    page.wait('document.getElementById(\'route\').dataset.queues === \'["audit","billing","warehouse-eu"]\'')
    page.wait(READY)
    assert lit(page) == ["exchange:orders", "queue:audit", "queue:billing", "queue:warehouse-eu"]
    assert "Routed to 3 queues" in text_of(page, "#route")
    page.wait("new URLSearchParams(location.hash.slice(1)).get('key') === 'order.eu.paid'")
    put(page, "key", "nonsense")
    assert lit(page) == ["exchange:orders", "exchange:unrouted", "queue:lost-and-found"]
    assert "alternate exchange unrouted: taken" in text_of(page, "#route")
    no_errors(page)


def test_headers_and_the_partition_are_shown(page: Browser, orders: Served) -> None:
    show(page, orders, exchange="orders", key="order.us.paid", headers='{"tenant": "acme"}')
    assert page.evaluate("document.querySelector('#picture .badge').textContent") == "partition 0"
    assert "kafka.murmur2 over 12" in text_of(page, "#route")
    put(page, "exchange", "documents")
    put(page, "headers", '{"format": "pdf", "pages": 1}')
    assert lit(page) == ["exchange:documents", "queue:print"]
    put(page, "headers", '{"format": ')
    assert page.evaluate("document.getElementById('headers').getAttribute('aria-invalid')") == "true"
    assert lit(page) == ["exchange:documents", "queue:print"]  # what was asked last
    no_errors(page)


def test_the_ways_of_dead_letters_are_shown_below_the_route(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "shop.bindings"
    path.write_text(
        'queue jobs: x-dead-letter-exchange = "", x-dead-letter-routing-key = "dead"\nqueue dead\n'
        'queue lost: x-dead-letter-exchange = "gone"\namq.topic -> jobs, lost: "#"\n'
    )
    with serve_here(path) as served:
        show(page, served, exchange="amq.topic", key="k")
        letters = "[...document.querySelectorAll('.letters > li')].map((each) => each.innerText)"
        assert page.evaluate(letters) == [
            "jobs → the default exchange with the key dead → dead",
            "lost → gone with the key k: lost, as there is no such exchange",
            "dead: dropped",
        ]
        no_errors(page)


def test_a_queue_that_was_not_reached_says_why_and_offers_the_nearest_key(page: Browser, orders: Served) -> None:
    show(page, orders, exchange="orders", key="order.eu.payd")
    press(page, '#picture [data-name="warehouse-us"]')
    page.wait("document.querySelector('#selected .nearest .key-button')")
    text = text_of(page, "#selected")
    assert "does not get the message" in text
    assert "word 2 is 'eu', it wants 'us'" in text
    press(page, "#selected .nearest .key-button")
    page.wait("document.getElementById('key').value === 'order.us.paid'")
    page.wait(READY)
    assert "queue:warehouse-us" in lit(page)
    page.wait("document.querySelector('#selected').innerText.includes('gets the message')")
    press(page, '#picture [data-name="climate"]')
    page.wait("document.querySelector('#selected').innerText.includes(\"no message to exchange 'orders' gets there\")")
    no_errors(page)


def test_an_edge_shows_its_bindings_and_why_each_is_not_taken(page: Browser, orders: Served) -> None:
    show(page, orders, exchange="orders", key="order.eu.payd")
    number = page.evaluate("""[...document.querySelectorAll('#drawing .edge')].findIndex((edge) =>
      edge.querySelector('title').textContent.includes('order.*.paid'))""")
    edges = "document.querySelectorAll('#drawing .edge')"
    page.evaluate(f"{edges}[{number}].dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    page.wait("document.querySelectorAll('#selected .rows > li').length === 3")
    assert "word 3 is 'payd', it wants 'paid'" in text_of(page, "#selected")
    press(page, "#selected .rows .nearest button")
    page.wait("document.querySelector('#selected .rows .key-button')")
    no_errors(page)


def test_what_is_not_known_is_neither_reached_nor_missed(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text("exchange odd: x-mystery\nqueue q\nodd -> q\n")
    with serve_here(path) as served:
        show(page, served, exchange="odd", at='{"kind": "queue", "name": "q"}')
        assert text_of(page, "#route .outcome") == "Undecided: what odd does is not known here"
        assert "what it does is not known here" in text_of(page, "#route .hops")
        page.wait("document.querySelector('#selected .rows')")
        assert text_of(page, "#selected .outcome") == "undecided: what odd does is not known here"
        assert text_of(page, "#selected .rows .sign") == "?"
        assert lit(page) == ["exchange:odd"]
        no_errors(page)


def test_parts_that_were_not_read_are_named_below_the_verdict(page: Browser, tmp_path: Path) -> None:
    part = tmp_path / "part.json"
    names: dict[str, list[object]] = {name: [] for name in ("vhosts", "exchanges", "queues", "bindings")}
    part.write_text(json.dumps({**names, "vhosts": [{"name": "/"}], "queus": [{"name": "q"}]}))
    with serve_here(part) as served:
        show(page, served, exchange="amq.topic", key="gone")
        assert text_of(page, "#route .unread summary") == "Not proved: 1 part was not read"
        assert "queus" in page.evaluate("document.querySelector('#route .unread ul').textContent")
        no_errors(page)


def test_a_draft_changes_the_route_and_names_what_is_lost_and_gained_but_not_the_file(
    page: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "orders.bindings"
    path.write_text(ORDERS.read_text())
    before = path.read_bytes()
    with serve_here(path) as served:
        show(page, served, exchange="orders", key="order.eu.paid", at='{"kind": "queue", "name": "billing"}')
        page.wait("document.querySelectorAll('#selected .rows > li').length === 3")
        page.evaluate("""[...document.querySelectorAll('#selected .rows > li')]
          .find((row) => row.innerText.includes('order.*.paid')).querySelector('.doing button:last-child').click()""")
        page.wait("document.getElementById('meaning').dataset.ready && document.querySelector('.edits')")
        page.wait(READY)
        assert "queue:billing" not in lit(page)
        assert "no longer: billing" in text_of(page, "#route")
        assert "billing loses from exchange orders: 'order.*.paid'" in text_of(page, "#meaning").replace("\n", "")
        page.evaluate("document.getElementById('edit').value = 'queue neu'")
        page.evaluate("document.getElementById('edit').focus()")
        page.press("Enter")
        page.wait("document.querySelectorAll('.edits > li').length === 2")
        page.evaluate("document.getElementById('edit').value = '+ orders -> neu: \"order.eu.#\"'")
        page.evaluate("document.getElementById('edit').focus()")
        page.press("Enter")
        page.wait("document.querySelector('#picture [data-name=neu].lit')")
        page.evaluate("document.getElementById('edit').value = '+ orders -> nowhere: \"x\"'")
        page.evaluate("document.getElementById('edit').focus()")
        page.press("Enter")
        page.wait("document.querySelector('#edit-fault')")
        assert "404 NOT_FOUND" in text_of(page, "#edit-fault")
        assert page.evaluate("document.querySelectorAll('.edits > li.wrong').length") == 1
        press(page, "#discard")
        page.wait("!document.querySelector('.edits') && document.documentElement.dataset.state === 'ready'")
        assert "queue:billing" in lit(page)
        no_errors(page)
    assert path.read_bytes() == before


def type_into_editor(page: Browser, text: str) -> None:
    page.evaluate(f"""(() => {{
      const editor = document.getElementById('text');
      editor.focus();
      editor.value = {json.dumps(text)};
      editor.dispatchEvent(new Event('input'));
    }})()""")


def test_the_text_can_be_edited_and_its_mistakes_have_a_line(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text('# mine\nexchange x: topic\nqueue q\nx -> q: "a"\n')
    with serve_here(path) as served:
        show(page, served, exchange="x", key="b")
        assert lit(page) == ["exchange:x"]
        press(page, "#draft summary")
        press(page, "#edit-text")
        page.wait("document.getElementById('text') && document.getElementById('text').value.startsWith('# mine')")
        page.wait(READY)
        type_into_editor(page, '# mine\nexchange x: topic\nqueue q\nx -> q: "b"\n')
        page.wait("document.querySelector('#picture [data-name=q].lit')")
        type_into_editor(page, '# mine\nexchange x: topic\nqueue q\nx -> : "b"\n')
        page.wait("document.querySelector('#edit-fault')")
        assert text_of(page, "#edit-fault").startswith("line 4: ")
        assert "queue:q" in lit(page)  # the last good draft
        no_errors(page)
    assert path.read_text().endswith('x -> q: "a"\n')


def test_a_change_of_the_file_is_shown_and_a_mistake_leaves_the_last_good_topology(
    page: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "t.bindings"
    path.write_text('exchange x: topic\nqueue q\nx -> q: "a"\n')
    with serve_here(path) as served:
        show(page, served, exchange="x", key="b")
        assert lit(page) == ["exchange:x"]
        path.write_text('exchange x: topic\nqueue q\nx -> q: "b"\n')
        page.wait("document.querySelector('#picture [data-name=q].lit')")
        path.write_text('exchange x: topic\nquue q\nx -> q: "b"\n')
        page.wait("!document.getElementById('notice').hidden")
        assert "Line 2 of the file is wrong." in text_of(page, "#notice")
        assert r"\u000a" not in text_of(page, "#notice")
        assert lit(page) == ["exchange:x", "queue:q"]
        path.write_text('exchange x: topic\nqueue q\nx -> q: "c"\n')
        page.wait("document.getElementById('notice').hidden && !document.querySelector('#picture [data-name=q].lit')")
        no_errors(page)


def test_edits_that_a_change_of_the_file_makes_impossible_are_marked(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text('exchange x: topic\nqueue q\nx -> q: "a", "b"\n')
    with serve_here(path) as served:
        show(page, served, exchange="x", key="b", edit='- x -> q: "b"')
        assert lit(page) == ["exchange:x"]
        path.write_text('exchange x: topic\nqueue q\nqueue r\nx -> q: "a"\nx -> r: "b"\n')
        page.wait("document.querySelector('.edits > li.wrong')")
        page.wait(READY)
        assert "there is no such binding" in text_of(page, "#edit-fault")
        assert lit(page) == ["exchange:x", "queue:r"]  # of the file
        no_errors(page)


def test_a_text_that_is_too_long_and_a_server_that_has_ended_are_named(
    page: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "QUESTION_BYTES", 10_000)
    path = tmp_path / "t.bindings"
    path.write_text("exchange x: fanout\nqueue q\nx -> q\n")
    with serve_here(path) as served:
        show(page, served, exchange="x")
        press(page, "#draft summary")
        press(page, "#edit-text")
        page.wait("document.getElementById('text')")
        page.wait(READY)
        type_into_editor(page, "#" * 10_000)
        page.wait("document.querySelector('#edit-fault')")
        assert re.search("the body has [0-9,]+ bytes|does not answer", text_of(page, "#edit-fault"))
        assert lit(page) == ["exchange:x", "queue:q"]
    page.wait("document.getElementById('state').innerText === 'hashstar serve does not answer'")
    put(page, "key", "later")
    assert text_of(page, "#route") == "hashstar serve does not answer"
    assert page.evaluate("document.documentElement.dataset.errors || ''") == ""


def test_the_command_that_is_copied_explains_the_same_message(page: Browser, orders: Served) -> None:
    show(page, orders, exchange="documents", key="it's; $HOME", headers='{"format": "pdf", "pages": 1, "n": "5"}')
    press(page, "#copy-command")
    page.wait("document.getElementById('copy-command').dataset.copied")
    words = shlex.split(page.evaluate("document.getElementById('copy-command').dataset.copied"))
    ended = CliRunner().invoke(hashstar, [*words[1:-2], "--json", *words[-2:]])
    answer = json.loads(ended.stdout)
    assert answer["queues"] == ["print"]
    assert answer["routing_key"] == "it's; $HOME"
    assert 'n="5"' in words


def test_the_link_shows_the_same_again(page: Browser, orders: Served) -> None:
    show(
        page, orders, exchange="orders", key="order.eu.paid", at='{"kind":"queue","name":"billing"}', edit="+ queue neu"
    )
    press(page, "#copy-link")
    page.wait("document.getElementById('copy-link').dataset.copied")
    link = page.evaluate("document.getElementById('copy-link').dataset.copied")
    page.visit(link)
    page.wait(READY)
    assert page.evaluate("document.getElementById('key').value") == "order.eu.paid"
    assert page.evaluate("document.querySelector('#picture .chosen').dataset.name") == "billing"
    assert "exchange:orders" in lit(page)
    assert "queue:neu" in drawn(page)


def test_the_keyboard_finds_parts_and_moves_through_the_picture(page: Browser, orders: Served) -> None:
    show(page, orders, exchange="orders", key="order.eu.paid")
    page.press("/")
    assert page.evaluate("document.activeElement.id") == "find"
    page.type_text("warehouse")
    page.wait("document.querySelectorAll('#found [role=option]').length === 3")
    page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelector('#picture .chosen')")
    page.wait(READY)
    chosen = page.evaluate("document.querySelector('#picture .chosen').dataset.name")
    assert chosen.startswith("warehouse")
    page.evaluate("document.querySelector('#picture [tabindex=\"0\"]').focus()")
    assert page.evaluate("document.activeElement.dataset.name") == chosen
    page.press("ArrowUp")
    other = page.evaluate("document.activeElement.dataset.name")
    assert other != chosen
    page.press("Enter")
    page.wait(f"document.querySelector('#picture .chosen').dataset.name === {json.dumps(other)}")
    page.evaluate("document.activeElement.blur()")
    page.press("Escape")
    page.wait("!document.querySelector('#picture .chosen')")
    no_errors(page)


def test_a_report_colours_dead_bindings_and_offers_its_keys(page: Browser, tmp_path: Path) -> None:
    report, topology = tmp_path / "r.json", tmp_path / "t.bindings"
    topology.write_text(ORDERS.read_text() + '\nqueue unused\norders -> unused: "never.seen"\n')
    traffic = "examples/orders/traffic.jsonl"
    CliRunner().invoke(hashstar, ["audit", "-t", str(topology), "--no-spark", "--json", str(report), traffic])
    with serve_here(topology, report) as served:
        show(page, served, exchange="orders", key="x", at='{"kind":"exchange","name":"orders"}')
        dead = page.evaluate(
            """[...document.querySelectorAll('#picture .edge.is-dead title')].map((title) => title.textContent)"""
        )
        assert any("unused" in text for text in dead)
        assert text_of(page, "#counted") == ""
        page.wait("document.querySelector('#selected .keys .key-button')")
        key = page.evaluate("document.querySelector('#selected .keys .key-button .key').textContent")
        press(page, "#selected .keys .key-button")
        page.wait(f"document.getElementById('key').value === {json.dumps(key)}")
        assert re.search(r"[0-9,]+ messages?", text_of(page, "#selected"))
        topology.write_text(topology.read_text() + 'orders -> unused: "later"\n')
        page.wait("document.getElementById('counted').textContent === '; the audit has 13 of 14 bindings'")
        no_errors(page)


HOSTILE = (
    "<img src=x onerror=\"document.title='PWNED'\">", "in {braces} and $(shell)", "1 a->b, \\ \"c\" 'd'", "queue",
    "tab\tbreak\u202e", "\N{PILE OF POO}.é", "-",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_and_can_be_edited(page: Browser, tmp_path: Path, name: str) -> None:
    topology = Topology([Exchange(name, "topic")], [Queue(name)], [Binding.to_queue(name, name, f"{name}.#")])
    path = tmp_path / "t.bindings"
    Document({"/": Section(topology)}).save(path)
    with serve_here(path) as served:
        show(page, served, exchange=name, key=name, at=json.dumps({"kind": "queue", "name": name}))
        page.wait("document.querySelector('#selected .rows')")
        assert page.evaluate("document.title") == "t.bindings \N{EN DASH} hashstar"
        assert page.evaluate("document.images.length") == 0
        assert lit(page) == [f"exchange:{name}", f"queue:{name}"]
        press(page, "#selected > .actions > button:nth-child(1)")  # add a binding
        page.evaluate("document.getElementById('edit').value += 'key\"'")
        page.evaluate("document.getElementById('edit').focus()")
        page.press("Enter")
        page.wait("document.querySelectorAll('.edits > li').length === 1")
        page.wait(READY)
        assert page.evaluate("Boolean(document.querySelector('#edit-fault'))") is False
        press(page, "#selected > .actions > button:nth-child(2)")  # delete the queue
        page.wait("document.querySelectorAll('.edits > li').length === 2")
        page.wait(READY)
        assert page.evaluate("Boolean(document.querySelector('#edit-fault'))") is False
        assert f"queue:{name}" not in drawn(page)
        no_errors(page)


def test_another_virtual_host_is_shown_and_is_in_the_address(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text(
        'vhost "/a"\nexchange x: fanout\nqueue a\nx -> a\nvhost "/b"\nexchange x: fanout\nqueue b\nx -> b\n'
    )
    with serve_here(path) as served:
        show(page, served, exchange="x")
        assert lit(page) == ["exchange:x", "queue:a"]
        page.evaluate("""(() => {
          const choice = document.getElementById('vhost');
          choice.value = '/b';
          choice.dispatchEvent(new Event('change'));
        })()""")
        page.wait("document.querySelector('#picture [data-name=b].lit')")
        page.wait(READY)
        page.wait("new URLSearchParams(location.hash.slice(1)).get('vhost') === '/b'")
        show(page, served, exchange="x", vhost="/b")
        assert lit(page) == ["exchange:x", "queue:b"]
        no_errors(page)


def test_a_fanout_to_thousands_of_queues_is_shown_in_part(page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    lines = [f"queue q{number}\nx -> q{number}" for number in range(3_000)]
    path.write_text("exchange x: fanout\n" + "\n".join(lines))
    with serve_here(path) as served:
        show(page, served, exchange="x")
        assert "Routed to 3,000 queues" in text_of(page, "#route")
        assert "and 2,900 more queues" in text_of(page, "#route")
        assert page.evaluate("document.querySelectorAll('#route .queues li').length") == 101
        assert len(lit(page)) == len(drawn(page)) == 60
        show(page, served, exchange="x", at='{"kind": "queue", "name": "q2999"}')
        assert "queue:q2999" in lit(page)
        no_errors(page)


def test_a_page_without_its_token_says_what_to_open(page: Browser, orders: Served) -> None:
    page.visit(orders.address.partition("?")[0])
    text = page.evaluate("document.body.innerText")
    assert text.strip() == "open the address that hashstar serve has printed: its token is missing"


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(page: Browser, orders: Served, width: int) -> None:
    at = '{"kind":"queue","name":"billing"}'
    show(page, orders, width=width, exchange="orders", key="order.eu.paid" * 15, at=at)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_large_topology_shows_the_surroundings_of_what_is_asked(page: Browser, tmp_path: Path) -> None:
    lines = ["exchange hub: topic"]
    for number in range(2_000):
        lines += [f"exchange e{number}: topic", f"queue q{number}", f'hub -> exchange e{number}: "k{number}.#"',
                  f'e{number} -> q{number}: "#.done"']  # fmt: skip
    path = tmp_path / "t.bindings"
    path.write_text("\n".join(lines))
    with serve_here(path) as served:
        show(page, served, exchange="hub", key="k1234.x.done")
        assert lit(page) == ["exchange:e1234", "exchange:hub", "queue:q1234"]
        put(page, "key", "k77.done")
        assert lit(page) == ["exchange:e77", "exchange:hub", "queue:q77"]
        assert "of 4,001" in text_of(page, "#extent")
        began = time.monotonic()
        for number in range(10):
            put(page, "key", f"k77.x{number}.done")
        assert time.monotonic() - began < stretch(60)  # some 50 ms each; with the whole graph for each, minutes
        no_errors(page)
