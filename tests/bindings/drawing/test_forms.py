"""Mermaid and DOT: any name comes back unchanged, and nothing in a name is a statement of the language."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from bindings.commands.graph import graph_command
from bindings.drawing.captions import caption_edge, caption_node, describe_edge, describe_node
from bindings.drawing.dot import to_dot
from bindings.drawing.drawing import draw
from bindings.drawing.forms import FORMS, make_picture
from bindings.drawing.mermaid import MAX_EDGES, to_mermaid
from bindings.drawing.model import Drawing
from exchange import Binding, Exchange, Queue, Topology
from exchange.values.forms import find_by_suffix
from tests.support.company_topologies import make_company

HOSTILE = (
    '"', "[x]", "a\nb", "x\u202ey", "<script>alert(1)</script>", "end", "`code`", "#quot;", "&lt;", "\\N\\l", "a\\",
    "%%{init: {}}%%", "a --> b", "1. x", "- y", "**b**", "_x_", "; |", "日本 🙂", "</text>", "]]>", "fa:fa-car",
    "$$x^2$$", "\ud800", "\x00", "click n0 href", "subgraph", "https://example.com", '"]; n9 [label="',
)  # fmt: skip
names = st.sampled_from(HOSTILE) | st.text(max_size=12)


def draw_names(one: str, two: str, key: str) -> Drawing:
    """Draw an exchange, a queue, and a binding between them with a key that is always shown."""
    bindings = [Binding.to_queue(one, two, key), Binding.to_queue(one, two, "x")]
    return make_picture(draw(Topology([Exchange(one, "topic")], [Queue(two)], bindings)))


@given(names, names, names, names)
@example("\\", '\\"', "&amp;", '"')
def test_dot_holds_any_name(one: str, two: str, key: str, title: str) -> None:
    """Quoted strings, read as Graphviz does: a backslash takes the next character with it, entities are resolved."""
    drawing = draw_names(one, two, key)
    text = to_dot(drawing, title)
    string = r'"(?:[^"\\]|\\.)*"'
    attribute = rf"\w+=(?:{string}|[\w.]+)"
    statement = rf"  (?:n\d+(?: -> n\d+)?|graph|node|edge) \[{attribute}(?:, {attribute})*\]"
    first, *lines, last = text.splitlines()
    assert re.fullmatch(rf"digraph {string} {{", first)
    assert [line for line in lines if not re.fullmatch(statement, line)] == []
    assert last == "}"

    def read(quoted: str) -> list[str]:
        parts = re.findall(r"\\.|[^\\]", quoted)
        return [unescape(line) for line in "".join("\n" if p == "\\n" else p[-1] for p in parts).split("\n")]

    shown = [read(label) for label in re.findall(r'\blabel="((?:[^"\\]|\\.)*)"', text)]
    tips = [read(label) for label in re.findall(r'\b(?:edge)?tooltip="((?:[^"\\]|\\.)*)"', text)]
    assert shown == [*map(caption_node, drawing.nodes), *([caption_edge(edge)] for edge in drawing.edges)]
    assert tips == [*map(describe_node, drawing.nodes), *map(describe_edge, drawing.edges)]


@given(names, names, names, names)
@example("1. a", "- b", "a. b", "%%{init}%%")
def test_mermaid_holds_any_name(one: str, two: str, key: str, title: str) -> None:
    """Quoted texts with entities, of which a zero-width separator is no part."""
    drawing = draw_names(one, two, key)
    comment, head, *lines = to_mermaid(drawing, title).splitlines()
    quoted = r'"(?:[\w .,:/-]|#\d+;|<br/>)*"'
    node = rf"  n\d+[\[({{>/\\]+{quoted}[\])}}/\\]+"
    edge = rf"  n\d+ (?:-->|==>|-\.->)(?:\|{quoted}\|)? n\d+"
    style = r"  class(?:Def)? [\w,]+ [\w#:, -]+"
    assert re.fullmatch(r"%% [^{}%]*", comment)
    assert head == "flowchart LR"
    assert [line for line in lines if not re.fullmatch(f"{node}|{edge}|{style}", line)] == []
    shown = [
        [re.sub(r"#(\d+);", lambda match: chr(int(match[1])), part).replace("\u200c", "") for part in parts]
        for parts in (match.split("<br/>") for line in lines for match in re.findall(r'"([^"]*)"', line))
    ]
    captions = [*map(caption_node, drawing.nodes), *([caption_edge(edge)] for edge in drawing.edges)]
    assert shown == captions
    for raw in re.findall(r'"([^"]*)"', "\n".join(lines)):
        assert not re.search(r"(?:^|>)(?:[-+*]|\d+[.)]) ", raw)  # Markdown would make it a list


@pytest.mark.parametrize("form", ["mermaid", "dot", "svg"])
def test_findings_are_marked_by_more_than_a_colour(form: str, tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text('exchange e: topic\nqueue q\nqueue alone\ne -> q: "a.#", "a.#.#"\n')
    text = CliRunner().invoke(graph_command, [str(path), "--format", form]).stdout
    found = {"svg": ">!</text>", "dot": '[label="! a.#, a.#.#"', "mermaid": '"#33; a.#35;, a.#35;.#35;"'}
    assert found[form] in text
    found = {"svg": ">i</text>", "dot": 'label="i alone\\nclassic"', "mermaid": '"i alone<br/>classic"'}
    assert found[form] in text
    plain = CliRunner().invoke(graph_command, [str(path), "--format", form, "--no-findings"]).stdout
    assert found[form] not in plain


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.svg", "svg"), ("a.SVG", "svg"), ("a.mmd", "mermaid"), ("a.mermaid", "mermaid"), ("a.dot", "dot"),
     ("a.gv", "dot"), ("a.gv.gz", "dot"), ("a.txt", "text"), ("a", "svg")],
)  # fmt: skip
def test_the_suffix_chooses_the_form(name: str, form: str) -> None:
    assert find_by_suffix(FORMS, Path(name)) == form


@pytest.mark.parametrize("name", ["x.png", "x.html", "x.pdf", "x.svg.zip", "x.json"])
def test_a_suffix_that_no_form_has_is_refused(name: str, tmp_path: Path) -> None:
    """A file named .png would hold SVG, which no viewer of pictures opens."""
    path = tmp_path / "t.bindings"
    path.write_text("queue q\n")
    result = CliRunner().invoke(graph_command, [str(path), "-o", str(tmp_path / name)])
    assert result.exit_code == 2
    assert f"no form has the suffix {Path(name).suffix}: there are .txt, .svg, .mmd" in result.stderr
    assert not (tmp_path / name).exists()
    result = CliRunner().invoke(graph_command, [str(path), "-o", str(tmp_path / name), "--format", "svg"])
    assert result.exit_code == 0
    assert (tmp_path / name).read_text().startswith("<svg ")


def test_the_command_writes_every_form_to_a_file_or_prints_it(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text('exchange e: topic\nqueue q\ne -> q: "a.#"\n')
    begins = {"text": "e (exchange: topic)", "svg": "<svg ", "mermaid": "%% t.bindings", "dot": 'digraph "t.bindings'}
    assert list(begins) == list(FORMS)
    for form, beginning in begins.items():
        printed = CliRunner().invoke(graph_command, [str(path), "--format", form])
        assert (printed.exit_code, printed.stderr) == (0, "")
        assert printed.stdout.startswith(beginning)
        output = tmp_path / f"picture{FORMS[form].suffixes[0]}"
        assert CliRunner().invoke(graph_command, [str(path), "-o", str(output)]).exit_code == 0
        assert output.read_text() == printed.stdout
    other = tmp_path / "picture.svg"
    assert CliRunner().invoke(graph_command, [str(path), "-o", str(other), "--format", "dot"]).exit_code == 0
    assert other.read_text().startswith("digraph")
    assert CliRunner().invoke(graph_command, [str(path), "--format", "png"]).exit_code == 2


def test_the_command_says_how_to_look_at_a_part_of_a_large_topology(tmp_path: Path) -> None:
    """On standard error; and that Mermaid has limits of its own."""
    path = tmp_path / "t.bindings"
    path.write_text('exchange e: topic\nfor n in 1..600:\n    queue q{n}\n    e -> q{n}: "a.{n}"\n')
    run = CliRunner().invoke(graph_command, [str(path)])
    hint = "hashstar: 1 exchange, 600 queues, 600 bindings drawn; to look at a part: --around NAME --depth 1\n"
    assert run.stderr == hint
    assert run.output.startswith(hint)  # before the picture, which may take long
    run = CliRunner().invoke(graph_command, [str(path), "--format", "mermaid"])
    assert f"Mermaid refuses more than {MAX_EDGES} edges" in run.stderr
    run = CliRunner().invoke(graph_command, [str(path), "--format", "mermaid", "--around", "q7", "--depth", "1"])
    assert run.stderr == ""


def test_equal_topologies_have_equal_texts_in_every_form() -> None:
    drawing = make_picture(draw(make_company(30)))
    again = make_picture(draw(make_company(30)))
    for name, form in FORMS.items():
        title = [] if name == "text" else ["t"]
        assert form.encode(drawing, *title) == form.encode(again, *title)
