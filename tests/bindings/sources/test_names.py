"""Names that a shell completes are those of the topology, or are asked of its reader."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bindings.sources.document import Document
from bindings.sources.names import read_names
from bindings.sources.open import load
from bindings.sources.section import Section
from exchange import Topology
from exchange.entities.releases import PROFILES
from tests.support.bindings.documents import documents
from tests.support.topologies import topology


def names_of(text: str) -> dict[str, list[str]]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_text(text, "utf-8", "surrogatepass")
        return read_names(path)


def expected(whole: Topology) -> dict[str, list[str]]:
    return {"exchanges": list(whole.exchanges), "queues": list(whole.queues)}


@given(documents())
@example(Document({"/": Section(topology(Random(1), list(PROFILES.values())[-1]))}))
def test_names_of_any_text_are_those_of_the_document_or_asked(document: Document) -> None:
    """With odd names, several virtual hosts, arguments and expectations."""
    found = names_of(document.dump())
    if found:
        [section] = document.sections.values()
        assert found.items() <= expected(section.topology).items()


@given(st.integers(0, 2**32))
def test_names_of_plain_topologies_are_read_from_both_forms(seed: int) -> None:
    made = topology(Random(seed), list(PROFILES.values())[-1])
    document = Document({"/": Section(made)})
    assert names_of(document.dump()) == expected(made)
    from_json = names_of(document.definitions().dump())
    assert {kind: sorted(names) for kind, names in from_json.items()} == {
        kind: sorted(names) for kind, names in expected(made).items()
    }


@pytest.mark.parametrize(
    "text",
    [
        "vhost a\nqueue x\nvhost b\nqueue y\n",
        "queue x\nvhost a\nqueue y\n",
        '{"queues": [{"name": "a", "vhost": "/"}, {"name": "b", "vhost": "x"}]}',
        '{"queues": 3}',
        '{"queues": [3]}',
        '{"queues": [{"name": 3}]}',
        '{"bindings": []}',
    ],
)
def test_what_the_text_alone_does_not_show_is_left_to_its_reader(text: str) -> None:
    assert names_of(text) == {}


def test_statements_that_go_on_and_comments_are_no_declarations(tmp_path: Path) -> None:
    text = (
        "# queue no\nqueue yes # queue neither\nexchange e: topic,\n    alternate yes\n"
        'e -> exchange e,\n  queue yes: "a"\n'
    )
    path = tmp_path / "t.bindings"
    path.write_text(text)
    assert names_of(text) == expected(load(path))


def test_a_damaged_json_text_is_an_error_that_shells_do_not_show() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        names_of('{"queues": ')


def test_variables_leave_the_other_kind_to_be_read() -> None:
    text = 'let n = a, b\nexchange e: topic\nfor i in n:\n  queue q{i}\n  e -> q{i}: "{i}"\n'
    assert [*names_of(text)] == ["exchanges"]
    assert names_of(text)["exchanges"][-1] == "e"
    assert [*names_of('exchange e: topic\nqueue "a\\"b"\n')] == ["exchanges"]
    assert names_of("let n = a\nqueue q{n}\nqueue r\n").keys() == {"exchanges"}
