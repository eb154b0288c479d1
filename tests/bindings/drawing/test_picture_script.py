"""The script of a picture, in a browser: it moves, zooms and searches, and nothing is loaded or run but itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bindings.drawing.drawing import draw
from bindings.drawing.forms import make_picture
from bindings.drawing.model import Drawing, NodeId
from bindings.drawing.svg import to_svg
from exchange import Binding, Exchange, Queue, Topology
from tests.support.browser import CHROMIUM, NO_BROWSER, Browser
from tests.support.company_topologies import make_company

pytestmark = pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)

SMALL = make_picture(draw(Topology(
    [Exchange("orders", "topic"), Exchange("other", "fanout")],
    [Queue("billing"), Queue("far")],
    [Binding.to_queue("orders", "billing", "order.#"), Binding.to_queue("other", "far")],
)))  # fmt: skip


class Opened:
    """A picture in the browser."""

    def __init__(self, browser: Browser, folder: Path, drawing: Drawing, address: str = "") -> None:
        self.browser = browser
        file = folder / "picture.svg"
        file.write_text(to_svg(drawing, "picture"), "utf-8")
        browser.open(file, width=1200, height=900, address=address)
        assert self.ask("document.documentElement.dataset.state") == "ready"
        assert browser.errors == []
        assert browser.requests == [file.as_uri()]

    def ask(self, script: str) -> Any:
        return self.browser.evaluate(script)

    @property
    def count(self) -> str:
        return str(self.ask("document.querySelector('output, #bar output').textContent"))

    @property
    def place(self) -> tuple[float, float, float]:
        """The position of the drawing in the window, and its scale."""
        x, y, scale = self.ask(
            "(([x, y, scale]) => [x, y, scale])(document.getElementById('view').getAttribute('transform')"
            ".match(/[-0-9.]+/g).map(Number))"
        )
        return x, y, scale

    def names(self, style: str) -> set[str]:
        """Return the names of the nodes of a style."""
        found = self.ask(f"[...document.querySelectorAll('#drawing .node.{style} > title')].map((t) => t.textContent)")
        return {title.split("'")[1] for title in found}


@pytest.mark.smoke
def test_a_search_marks_nodes_and_keys(browser: Browser, tmp_path: Path) -> None:
    """Typed into the field, which ``/`` enters; Enter goes to the next match, Escape ends it."""
    picture = Opened(browser, tmp_path, SMALL)
    for key in ("/", "o", "r", "d", "e", "r"):
        browser.press(key)
    assert picture.count == "1 of 2"  # the exchange, and the edge with its key
    assert picture.names("found") == {"orders"}
    browser.press("Enter")
    assert picture.count == "2 of 2"
    browser.press("Enter")
    assert picture.count == "1 of 2"
    picture.ask("document.querySelector('#bar input').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    assert (picture.count, picture.names("found")) == ("", set())


def test_a_whole_name_is_found_before_parts_keys_and_references(browser: Browser, tmp_path: Path) -> None:
    """And it is in the middle of the window, large enough to be read."""
    drawing = make_picture(draw(make_company(400)))
    [at] = [at for at, node in enumerate(drawing.nodes) if node.id == NodeId("exchange", "unrouted")]
    picture = Opened(browser, tmp_path, drawing, "#unrouted")
    assert picture.count.startswith("1 of ")
    x, y = picture.ask(
        f"((box) => [box.left + box.width / 2, box.top + box.height / 2])"
        f"(document.getElementById('n{at}').getBoundingClientRect())"
    )
    assert (round(x), round(y)) == (600, 450)
    assert picture.place[2] >= 0.6


def test_a_search_finds_a_queue_in_a_bundle(browser: Browser, tmp_path: Path) -> None:
    names = [f"q{at}" for at in range(200)]
    topology = Topology([Exchange("e", "fanout")], list(map(Queue, names)), [Binding.to_queue("e", n) for n in names])
    drawing = make_picture(draw(topology))
    assert Opened(browser, tmp_path, drawing, "#q187").count == "1 of 1"
    assert Opened(browser, tmp_path, drawing, "#q200").count == "none"
    assert Opened(browser, tmp_path, drawing, "#100%25%").count == "none"  # no address of any text


def test_a_picture_is_moved_and_zoomed(browser: Browser, tmp_path: Path) -> None:
    picture = Opened(browser, tmp_path, make_picture(draw(make_company(60))))
    still = picture.place
    browser.press("ArrowDown")
    assert picture.place == (still[0], still[1] - 80, still[2])
    browser.press("+")
    nearer = picture.place
    assert nearer[2] > still[2]
    picture.ask(
        "document.documentElement.dispatchEvent("
        "new WheelEvent('wheel', { deltaY: 300, clientX: 300, clientY: 200, cancelable: true }))"
    )
    farther = picture.place
    assert farther[2] < nearer[2]
    for at, pointer in enumerate((300, 200)):  # what is under the pointer stays there
        assert (pointer - farther[at]) / farther[2] == pytest.approx((pointer - nearer[at]) / nearer[2])
    picture.ask("""for (const [name, x, y] of [["down", 10, 10], ["move", 40, 60], ["up", 40, 60]])
      document.documentElement.dispatchEvent(
        new PointerEvent(`pointer${name}`, { pointerId: 1, clientX: x, clientY: y })
      )
    """)
    assert picture.place == (farther[0] + 30, farther[1] + 50, farther[2])
    browser.press("0")
    box = "document.getElementById('view').getBoundingClientRect()"
    assert picture.ask(f"{box}.width") <= 1200
    assert picture.ask(f"{box}.height") <= 900


def test_a_click_shows_the_neighbours_of_a_node(browser: Browser, tmp_path: Path) -> None:
    """All else is dimmed; Escape, or a click on the paper, shows all again."""
    picture = Opened(browser, tmp_path, SMALL)
    click = "document.querySelector('{}').dispatchEvent(new MouseEvent('click', {{ bubbles: true }}))"
    picture.ask(click.format("#n0"))
    assert picture.names("dim") == {"other", "far"}
    assert picture.names("chosen") == {"orders"}
    browser.press("Escape")
    assert picture.names("dim") == set()
    picture.ask(click.format("#n0 text"))
    assert picture.names("dim") == {"other", "far"}
    picture.ask(click.format("svg"))
    assert picture.names("dim") == set()


def test_a_click_on_a_reference_goes_to_its_node(browser: Browser, tmp_path: Path) -> None:
    drawing = make_picture(draw(make_company(300)))
    [hub] = [at for at, node in enumerate(drawing.nodes) if node.id == NodeId("exchange", "unrouted")]
    picture = Opened(browser, tmp_path, drawing)
    picture.ask("document.querySelector('.node.reference[data-refers]').dispatchEvent("
                "new MouseEvent('click', { bubbles: true }))")  # fmt: skip
    assert picture.names("chosen") == {"unrouted"}
    box = f"document.getElementById('n{hub}').getBoundingClientRect()"
    assert picture.ask(f"Math.abs({box}.left + {box}.width / 2 - innerWidth / 2)") < 1
    assert picture.ask(f"Math.abs({box}.top + {box}.height / 2 - innerHeight / 2)") < 1


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    """No element and no script of their own, in names, keys, members of bundles and the address."""
    evil = "</title></text><script>document.documentElement.dataset.owned = 1</script><image href='x'/>"
    topology = Topology(
        [Exchange(evil, "topic")],
        [Queue(f"{evil}{at}") for at in range(9)],
        [Binding.to_queue(evil, f"{evil}{at}", evil) for at in range(9)],
    )
    picture = Opened(browser, tmp_path, make_picture(draw(topology)), "#%3Cscript%3E")
    assert picture.ask("document.documentElement.dataset.owned ?? ''") == ""
    assert picture.ask("document.querySelectorAll('image, script').length") == 1
    assert picture.count == "1 of 3"


def test_a_picture_in_a_page_is_left_alone(browser: Browser, tmp_path: Path) -> None:
    """Its natural size and its viewBox stay."""
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><body>{to_svg(SMALL, 'picture')}</body>", "utf-8")
    browser.open(page)
    assert browser.errors == []
    assert browser.evaluate("document.querySelector('svg').hasAttribute('viewBox')")
    assert browser.evaluate("document.querySelectorAll('foreignObject').length") == 0


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 27)")])
def test_the_palette_is_that_of_the_reader(browser: Browser, tmp_path: Path, scheme: str, paper: str) -> None:
    file = tmp_path / "picture.svg"
    file.write_text(to_svg(SMALL, "picture"), "utf-8")
    browser.open(file, prefers_color_scheme=scheme)
    assert browser.evaluate("getComputedStyle(document.documentElement).backgroundColor") == paper


def test_texts_are_as_wide_as_the_room_that_is_kept_for_them(browser: Browser, tmp_path: Path) -> None:
    """In the font of the browser, whatever the script; those that are not ASCII are fitted."""
    names = ["plain.name-with_ascii", "日本語のキュー", "очередь", "é\u0301à", "🙂🙂", "كلمة"]
    topology = Topology([Exchange(name, "topic") for name in names])
    picture = Opened(browser, tmp_path, draw(topology))
    outside = picture.ask("""[...document.querySelectorAll("#drawing .node")].filter((node) => {
      const shape = node.querySelector(".shape").getBBox();
      return [...node.querySelectorAll("text")].some((text) => {
        const box = text.getBBox();
        return box.x < shape.x || box.x + box.width > shape.x + shape.width + 0.5;
      });
    }).map((node) => node.textContent)""")
    assert outside == []
