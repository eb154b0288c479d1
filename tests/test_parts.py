"""Which tests CI runs whole: those of the parts that are made of something that has changed."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path, PurePath
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import with_each
from tests.support.git import commit, git, make_repository, needs_git
from tests.support.inner_runs import run_each
from tests.support.measured import read_complete_runs
from tests.support.parts import __main__ as program
from tests.support.parts.changes import VARIABLE, Proof, find_changes, find_proof, keep_proofs
from tests.support.parts.choice import PRODUCT, Contents, find_contents, find_reasons, owns
from tests.support.parts.graph import Graph, read_graph
from tests.support.parts.table import LEAVES, PARTS, Part, find_part
from tests.support.tiers import examples, is_live

TOP = Path(__file__).parents[1]
LEAF = Part("leaf", ("bindings.leaf",), ("tests/bindings/leaf",))
TREE = {
    "exchange/__init__.py": "from exchange.far import public",
    "exchange/errors.py": "",
    "exchange/far.py": "",
    "bindings/__init__.py": "",
    "bindings/base.py": "import exchange.errors",
    "bindings/inside.py": "",
    "bindings/typed.py": "",
    "bindings/named.py": "",
    "bindings/other.py": "import bindings.leaf.main",
    "bindings/shapes/__init__.py": "from importlib import import_module\nROWS = ('round', 'far')",
    "bindings/shapes/round.py": "",
    "bindings/shapes/square.py": "",
    "bindings/leaf/__init__.py": "",
    "bindings/leaf/main.py": """
from __future__ import annotations
from typing import TYPE_CHECKING
from bindings import base, shapes
if TYPE_CHECKING:
    import bindings.typed
def run():
    from .. import inside
LATER = "bindings.named"
""",
    "tests/conftest.py": "from tests.support import everyone",
    "tests/support/everyone.py": "",
    "tests/support/helper.py": """
import bindings.other
GUIDE = 'docs/leaf.md', ROOT / 'docs' / 'guide' / 'start.md', copy(EXAMPLES / 'shop'), "kafka"
""",
    "tests/support/stranger.py": "import bindings.leaf.main",
    "tests/bindings/leaf/test_leaf.py": "KINDS = 'rocketmq'",
    "tests/bindings/leaf/test_leaf_live.py": """
from tests.support.helper import GUIDE
read(f'kafka-log-{1}')
@pytest.mark.live
def test_leaf(rabbitmq_servers): ...
""",
    "tests/bindings/test_core.py": "import bindings.leaf.main",
    "examples/leaf/run.py": "",
}


@pytest.fixture(scope="module")
def _tree() -> None:
    """Read the tree, once for all tests that look at it: that is no cost of the first of them."""
    read_graph(TOP)


@cache
def contents_of(part: Part) -> Contents:
    return find_contents(part, read_graph(TOP))


def reasons(path: str) -> list[str]:
    graph = Graph(TREE)
    return find_reasons(find_contents(LEAF, graph), graph, [path])


@with_each(
    ("path", "reason"),
    [
        ("bindings/leaf/main.py", "a part of it"),
        ("bindings/leaf/page/main.js", "a part of it"),
        ("bindings/base.py", "bindings.leaf.main -> bindings.base"),
        ("exchange/errors.py", "bindings.leaf.main -> bindings.base -> exchange.errors"),
        ("exchange/__init__.py", "bindings.leaf.main -> bindings.base -> exchange.errors -> exchange"),
        ("bindings/inside.py", "bindings.leaf.main -> bindings.inside"),
        ("bindings/typed.py", "bindings.leaf.main -> bindings.typed"),
        ("bindings/named.py", "bindings.leaf.main -> bindings.named"),
        ("bindings/shapes/round.py", "bindings.leaf.main -> bindings.shapes -> bindings.shapes.round"),
        ("bindings/shapes/page.css", "bindings.leaf.main -> bindings.shapes -> page.css"),
        ("bindings/leaflet/page.js", "bindings.leaf -> bindings -> page.js"),
        ("bindings/leaf/was_removed.py", "bindings.leaf -> was_removed.py"),
        ("tests/bindings/leaf/test_leaf_live.py", "a test of it"),
        ("tests/bindings/leaf/data/answers.json", "a test of it"),
        ("tests/conftest.py", "a part of it"),
        ("tests/support/everyone.py", "tests.conftest -> tests.support.everyone"),
        ("tests/support/helper.py", "tests.bindings.leaf.test_leaf_live -> tests.support.helper"),
        ("tests/golden/kafka-log-1.json", "named in tests.bindings.leaf.test_leaf_live"),
        ("docs/leaf.md", "named in tests.support.helper"),
        ("docs/guide/start.md", "named in tests.support.helper"),
        ("examples/shop/orders.json", "named in tests.support.helper"),
        (".ci/images.d/kafka/Dockerfile", "an image of kafka, which its tests use"),
        (".ci/images.d/rabbitmq/Dockerfile", "an image of rabbitmq, which its tests use"),
        ("tests/requirements.txt", "all tests may depend on it"),
        ("pyproject.toml", "all tests may depend on it"),
        ("Makefile", "all tests may depend on it"),
        (".ci/images", "all tests may depend on it"),
        ("something/new.txt", "all tests may depend on it"),
    ],
)  # fmt: skip
def test_what_a_part_is_made_of_selects_it(path: str, reason: str) -> None:
    assert reasons(path) == [f"{path} ({reason})"]


@with_each(
    "path",
    [
        # Public names are not followed, nor what tests import of the product beside the part.
        "exchange/far.py", "bindings/other.py", "bindings/shapes/square.py",
        "docs/findings/leaf.md", "tests/golden/kafka-folder-1.json", "tests/support/stranger.py",
        "tests/bindings/test_core.py", "examples/leaf/run.py", "docs/other.md",
        "tests/golden/rabbitmq-lives-4.0.json", ".ci/images.d/rocketmq/Dockerfile", ".ci/images.d/python/install",
        "README.md", "CHANGELOG.md", ".gitignore",
    ],
)  # fmt: skip
def test_nothing_else_does(path: str) -> None:
    assert reasons(path) == []


@examples(100)
@given(st.integers(0, 2**32))
def test_a_part_is_selected_by_all_that_it_reaches_and_by_nothing_else(seed: int) -> None:
    """The oracle: pairs that are joined until no pair is new."""
    random = Random(seed)
    count = random.randint(1, 8)
    pairs = {(random.randrange(count), random.randrange(count)) for _ in range(random.randrange(2 * count + 1))}
    texts = {f"bindings/m{n}.py": "\n".join(f"import bindings.m{b}" for a, b in pairs if a == n) for n in range(count)}
    graph = Graph(texts)
    contents = find_contents(Part("leaf", ("bindings.m0",), ()), graph)
    reached = {(n, n) for n in range(count)} | pairs
    while more := {(a, d) for a, b in reached for c, d in reached if b == c} - reached:
        reached |= more
    selecting = {n for n in range(count) if find_reasons(contents, graph, [f"bindings/m{n}.py"])}
    assert selecting == {b for a, b in reached if a == 0}


@pytest.mark.usefixtures("_tree")
def test_what_grimp_finds_is_in_each_leaf() -> None:
    grimp = pytest.importorskip("grimp", reason="the group lint is not installed")
    graph = grimp.build_graph(*PRODUCT, cache_dir=None)
    for leaf in LEAVES:
        own = {name for package in leaf.packages for name in read_graph(TOP).find_members(package)}
        found = own.union(*(graph.find_upstream_modules(name, as_package=True) for name in leaf.packages))
        assert not found - set(PRODUCT) - contents_of(leaf).product.keys(), leaf.name


def own_tests(part: Part) -> list[Path]:
    return [
        path for name in part.folders for path in (TOP / name).rglob("test_*.py") if owns(part, path.relative_to(TOP))
    ]


def test_what_parts_are_made_of_is_in_the_tree() -> None:
    wrong = [
        *(f"{part.name}: {name}" for part in PARTS for name in part.packages if name not in read_graph(TOP).paths),
        *(f"{part.name}: {name}" for part in PARTS for name in part.folders if not [*(TOP / name).glob("test_*.py")]),
    ]
    assert wrong == ["bindings: tests/bindings"] * (not [*(TOP / "tests/bindings").glob("test_*.py")])


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_a_test_of_a_part_selects_it_and_those_whose_tests_import_it(part: Part) -> None:
    """Those at the top look at all tests."""
    graph = read_graph(TOP)
    others = [each for each in PARTS if each.name != "top"]
    for path in (path.relative_to(TOP).as_posix() for path in own_tests(part)[:20]):
        module = path.removesuffix(".py").replace("/", ".")
        selected = {each.name for each in others if find_reasons(contents_of(each), graph, [path])}
        assert selected == {each.name for each in others if each is part or module in contents_of(each).around}


def test_each_test_belongs_to_one_part() -> None:
    for path in (path.relative_to(TOP) for path in (TOP / "tests").rglob("test_*.py")):
        assert [part for part in PARTS if owns(part, path)] == [find_part(path)]


def test_tests_of_a_leaf_are_in_its_folder_alone() -> None:
    """A package of a leaf has its tests where its row says, as folders of tests mirror those of the product."""
    wrong = []
    for leaf in LEAVES:
        for package in leaf.packages:
            mirror = "tests/" + package.replace(".", "/")
            if (TOP / mirror).is_dir() and not any(PurePath(mirror).is_relative_to(each) for each in leaf.folders):
                wrong.append(mirror)
    assert wrong == []


def read_marks(path: Path) -> list[set[str]]:
    """Return the marks that each test of a module has, by its decorators and the module's own; none if none matters."""
    text = path.read_text("utf-8")
    if not (is_live(path.name) or "mark.live" in text or "mark.smoke" in text):
        return []  # most modules, which need not be parsed
    tree = ast.parse(text)
    own = re.findall(r"^pytestmark = .*", text, re.MULTILINE)
    shared = set(re.findall(r"mark\.(\w+)", " ".join(own))) | ({"live"} if is_live(path.name) else set())
    return [
        shared | set(re.findall(r"mark\.(\w+)", " ".join(map(ast.unparse, node.decorator_list))))
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    ]


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_each_part_has_a_smoke_test_and_a_live_one_if_it_has_live_tests(part: Part) -> None:
    marks = [each for path in own_tests(part) for each in read_marks(path)]
    assert any("smoke" in each for each in marks)
    assert any({"smoke", "live"} <= each for each in marks) == any("live" in each for each in marks)


TESTS = """
import pytest
from hypothesis import given, strategies as st

def test_plain(): ...

@pytest.mark.live
def test_live(): ...

@pytest.mark.live
@pytest.mark.smoke
def test_live_smoke(): ...

@pytest.mark.process
@pytest.mark.smoke
def test_process_smoke(): ...

@given(st.none())
def test_law(_): ...
"""


@pytest.mark.process
def test_a_part_that_is_not_whole_runs_its_smoke_tests(tmp_path: Path) -> None:
    """That is `serve`; what is beside it, such as `check`, is of the part `bindings`."""
    tests = {f"tests/bindings/{folder}/test_it.py": TESTS for folder in ("serve", "check")}
    whole = {"live", "live_smoke", "law"}
    smoke = {"live_smoke"}
    expected = {
        "all": (whole, whole), "none": (smoke, smoke), "upgrade,serve": (whole, smoke), "bindings": (smoke, whole)
    }  # fmt: skip
    printed = run_each(tmp_path, tests, {name: ["--tier=rest", f"--parts={name}"] for name in expected})
    for name, ran in expected.items():
        passed = set(re.findall(r"^PASSED .*tests/bindings/(\w+)/.*::test_(\w+)", printed[name], flags=re.MULTILINE))
        for folder, tests_of_it in zip(("serve", "check"), ran, strict=True):
            assert {test for each, test in passed if each == folder} == tests_of_it, printed[name]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    make_repository(tmp_path / "here", {"pyproject.toml": "[project]\nname = 'a'\n", "a.py": "1", "b.py": "1"})
    return tmp_path / "here"


def test_changes_are_those_of_commits_and_of_files_here(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "mv", "a.py", "c.py")
    commit(repository)
    (repository / "b.py").write_text("2")
    (repository / "new é.py").write_text("3")
    assert find_changes(repository, first) == {"a.py", "b.py", "c.py", "new é.py"}
    assert find_changes(repository, "HEAD") == {"b.py", "new é.py"}


def test_settings_of_linters_are_no_change(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    project = repository / "pyproject.toml"
    project.write_text(project.read_text() + "[tool.ruff]\nline-length = 120\n[tool.mypy]\nstrict = true\n")
    assert find_changes(repository, first) == frozenset()
    project.write_text(project.read_text() + "[tool.pytest.ini_options]\ntimeout = 1\n")
    assert find_changes(repository, first) == {"pyproject.toml"}


def page(*commits: str) -> str:
    rows = "".join(f"| 2026-11-2{n} | `{each}` | two cores | all |\n" for n, each in enumerate(commits))
    other = "| date | commit | broker | routes |\n|---|---|---|---|\n| 2026-11-27 | `abcdef0123` | 4.3.6 | 9 |\n"
    return f"# Measured\n\n| date | commit | machine | figures |\n|---|---|---|---|\n{rows}\n{other}"


def test_a_proof_is_named_kept_or_that_of_the_last_complete_run_that_is_here(repository: Path, tmp_path: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    environ = {"HASHSTAR_CACHE": str(tmp_path)}
    assert find_proof(repository, "serve", environ) == "no complete run is known whose commit is in this clone"
    (repository / "docs").mkdir()
    (repository / "docs" / "measured.md").write_text(page(first, "0123456789"))
    second = commit(repository)
    assert find_proof(repository, "serve", environ) == Proof(first, "docs/measured.md, 2026-11-20")
    assert keep_proofs(repository, ["serve"], environ) == second
    assert find_proof(repository, "serve", environ) == Proof(second, "CI on this machine")
    assert find_proof(repository, "upgrade", environ) == Proof(first, "docs/measured.md, 2026-11-20")
    assert find_proof(repository, "serve", {**environ, VARIABLE: "HEAD~1"}) == Proof(first, VARIABLE)
    none = find_proof(repository, "serve", {**environ, VARIABLE: "none"})
    assert none == f"{VARIABLE} is none, which is no commit here"
    (tmp_path / "proved.json").write_text(json.dumps({"serve": "0" * 40}))
    assert find_proof(repository, "serve", environ) == Proof(first, "docs/measured.md, 2026-11-20")


def test_files_that_are_no_commit_are_not_proved(repository: Path, tmp_path: Path) -> None:
    (repository / "b.py").write_text("2")
    assert keep_proofs(repository, ["serve"], {"HASHSTAR_CACHE": str(tmp_path)}) is None
    assert not (tmp_path / "proved.json").exists()


@pytest.fixture
def program_there(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let CI run in the repository, and return its commit."""
    monkeypatch.setattr(program, "TOP", repository)
    monkeypatch.setenv("HASHSTAR_CACHE", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    (repository / "docs").mkdir()
    (repository / "docs/measured.md").write_text(page())
    return commit(repository)


def find_proved(top: Path) -> set[str]:
    return {part.name for part in PARTS if isinstance(find_proof(top, part.name), Proof)}


@pytest.mark.parametrize(
    ("whole", "figures"),
    [(",".join(part.name for part in PARTS), "every part"), ("serve,kafka", "serve, kafka"), ("none", None)],
)
def test_a_run_that_passes_proves_every_part_and_adds_a_row(
    repository: Path, tmp_path: Path, program_there: str, whole: str, figures: str | None
) -> None:
    program.main(["prove", whole, "1234"])
    assert find_proved(repository) == {part.name for part in PARTS}
    rows = read_complete_runs(repository)
    assert (repository / "docs/measured.md").read_text().endswith("| 9 |\n")
    assert [row.commit for row in rows] == [program_there[:12]] * (figures is not None)
    assert all(row.figures == f"CI with {figures} whole, in 1,234 s; no night" for row in rows)
    (tmp_path / "proved.json").unlink()
    assert bool(find_proved(repository)) is (figures is not None), "as on another machine"


@pytest.mark.parametrize(
    ("exits", "proved"), [((0, 1), {"kafka", "bridge"}), ((0, 2), set()), ((0, None), set())]
)  # fmt: skip
def test_a_run_that_fails_proves_the_parts_without_a_failed_test(
    repository: Path, tmp_path: Path, program_there: str, exits: tuple[int | None, ...], proved: set[str]
) -> None:
    assert program_there
    failed = [{"test": "tests/bindings/serve/test_page.py::test_it[a::b]"}]
    for number, code in enumerate(exits):
        if code is not None:
            outcome = {"exit": code, "failures": failed if code else []}
            (tmp_path / f"{number}.json").write_text(json.dumps(outcome))
    program.main(["prove", "serve,kafka,bridge", "9", *[str(tmp_path / f"{n}.json") for n in range(len(exits))]])
    assert find_proved(repository) == proved
    assert read_complete_runs(repository) == []


@needs_git
def test_a_clone_without_the_proof_runs_all_parts_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "none")
    program.main([])
    out, err = capsys.readouterr()
    assert out.strip().split(",") == [part.name for part in PARTS]
    assert err.count(f"whole: {VARIABLE} is none, which is no commit here") == len(PARTS)


def test_without_changes_no_part_is_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(program, "find_proof", lambda *_: Proof("0" * 40, "a test"))
    monkeypatch.setattr(program, "find_changes", lambda *_: frozenset())
    program.main([])
    assert capsys.readouterr().out == "none\n"
    monkeypatch.setattr(program, "find_changes", lambda *_: frozenset({"bindings/serve/page/main.js"}))
    program.main([])
    out, err = capsys.readouterr()
    assert out == "serve\n"
    assert "serve: whole: 1 files of it have changed since 00000000 (a test)" in err
    assert "bindings/serve/page/main.js (a part of it)" in err
