"""The README and the guides are true: every snippet runs and prints what is shown, every command exists."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import chdir
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from bindings.report.settings import load_settings
from bridge.cli import hashstar
from tests.recorders import golden
from tests.support.cases import with_each
from tests.support.command_server import command_server
from tests.support.pages import PAGES, ROOT, Block, blocks, commands
from tests.support.waiting import find_limit

# docs/bindings.md has stricter tests of its own: tests/bindings/sources/test_language_docs.py. The steps of
# docs/first-steps.md are taken one after the other.
BLOCKS = [block for page in PAGES if page.name not in {"bindings.md", "first-steps.md"} for block in blocks(page)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
PYTEST = [block for block in PYTHON if "def test_" in block.text]
LIVE = [
    block
    for block in PYTHON
    if "await " in block.text and not any(broker in block.text for broker in ("AmqpServer(", "TestRabbitBroker("))
]
"""They need a broker: tests/bridge/rocketmq/test_rocketmq_guide_live.py,
tests/bridge/consumers/groups/test_groups_guide_live.py, tests/exchange/dispatch/test_consume_guide_live.py and
tests/bridge/consumers/requests/test_rpc_example_live.py run them."""
SPARK = [block for block in PYTHON if "spark." in block.text]
"""They need Spark: tests/bindings/auditing/test_guide.py runs them, and that with a stream
tests/bindings/spark/streams/test_streams_live.py."""
WHOLE = [block for block in PYTHON if block not in PYTEST + LIVE + SPARK]
CONSOLE = [(block, *each) for block in BLOCKS if block.language == "console" for each in commands(block)]
MAKE = [command for _, command, _ in CONSOLE if command.startswith("make ")]
PIP = [command for _, command, _ in CONSOLE if command.startswith("pip install ")]
SHOWN = [
    (block, command, output)
    for block, command, output in CONSOLE
    if output is not None and command not in MAKE + PIP
]  # fmt: skip
ASSISTANTS = [
    shlex.join([server["command"], *server["args"]])
    for block in BLOCKS
    if block.language == "json"
    for server in json.loads(block.text)["mcpServers"].values()
]
"""Commands that the settings of assistants start."""
ADAPTED = [command for _, command, output in CONSOLE if output is None and command not in MAKE + PIP] + ASSISTANTS


LINE = re.compile(
    r"(?:(?P<before>.*) \| )?hashstar (?P<arguments>.*?)(?P<quiet> 2> ?/dev/null)?"
    r"(?: \| (?P<after>[^|]*))?(?P<or> \|\| true)?",
    flags=re.DOTALL,
)
"""A line of the shell with one hashstar."""


def run(*command: str, cwd: Path = ROOT, input: str = "") -> subprocess.CompletedProcess[str]:  # noqa: A002
    """Run a command as the reader would, with this environment's programs first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    # pytest-xdist sets COLUMNS in its workers, which the commands read as the width of their terminal.
    outer = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment = {**outer, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        input=input,
        capture_output=True,
        text=True,
        timeout=find_limit(),
        check=False,
    )


def run_here(*arguments: str, given: str = "", cwd: Path = ROOT) -> Result:
    """Run a command of hashstar in this process, which saves the start of one."""
    with chdir(cwd):
        return CliRunner().invoke(hashstar, arguments, input=given, env={"COLUMNS": None, "LINES": None})


def run_line(line: str, cwd: Path) -> tuple[str, str, int]:
    """Run a line of the shell, its one hashstar in this process; return output, errors and exit code."""
    found = LINE.fullmatch(line)
    assert found is not None, line
    given = run("bash", "-c", found["before"], cwd=cwd).stdout if found["before"] else ""
    result = run_here(*shlex.split(found["arguments"]), given=given, cwd=cwd)
    errors = "" if found["quiet"] else result.stderr
    if not found["after"]:
        return result.stdout, errors, 0 if found["or"] else result.exit_code
    done = run("bash", "-c", found["after"], cwd=cwd, input=result.stdout)
    return done.stdout, errors + done.stderr, done.returncode


def is_shown(printed: str, output: str) -> bool:
    """Return whether a command printed what a page shows, in which a line ``...`` stands for any lines."""
    pattern = ".*\n".join(re.escape(part) for part in re.split(r"^\.\.\.\n", output, flags=re.MULTILINE))
    return re.fullmatch(pattern, printed, flags=re.DOTALL) is not None


@pytest.mark.process
def test_the_first_steps_can_be_taken(tmp_path: Path) -> None:
    """One after the other, in an empty folder: the file is saved, each command and snippet prints what is shown."""
    page = ROOT / "docs" / "first-steps.md"
    steps = blocks(page)
    assert [block.language for block in steps].count("bindings") == 1
    for block in steps:
        if block.language == "bindings":
            (tmp_path / "shop.bindings").write_text(block.text)
        elif block.language == "python":
            result = run(sys.executable, "-W", "error", "-c", block.text, cwd=tmp_path)
            assert (result.stdout, result.stderr) == (block.output, "")
        else:
            for command, output in commands(block):
                result = run("bash", "-c", command, cwd=tmp_path)
                assert is_shown(result.stdout, output or ""), f"{command}\n{result.stdout}"
                assert result.stderr == "", command
                assert result.returncode in ((1,) if re.match(r"hashstar diff[^|]*$", command) else (0,)), command


@pytest.mark.parametrize("block", WHOLE, ids=str)
def test_a_snippet_runs_and_prints_what_is_shown(block: Block, tmp_path: Path) -> None:
    """Each Python snippet is whole: it runs alone, and what it prints is the output shown after it."""
    file = tmp_path / "snippet.py"
    file.write_text(block.text)
    result = command_server().run_file(file)
    assert (result.err, result.code) == ("", 0)
    assert result.out == (block.output or "")


@pytest.mark.parametrize("block", PYTEST, ids=str)
def test_a_snippet_of_a_test_passes(block: Block, tmp_path: Path) -> None:
    """The example of a user's test passes with the plugin, from the repository's folder."""
    text = block.text.replace('"examples/', f'"{ROOT}/examples/')
    (tmp_path / "test_snippet.py").write_text(text)
    plugins = ("-p", "bindings.pytest_plugin", "--disable-plugin-autoload")
    result = run(sys.executable, "-m", "pytest", "-q", *plugins, str(tmp_path), cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which commands of docs/rocketmq-store.md run: it has a broker's directory, ``store``."""
    folder = tmp_path_factory.mktemp("rocketmq")
    golden.unpack("rocketmq-log-5.5.0", folder / "store")
    return folder


@pytest.mark.parametrize(("block", "command", "output"), SHOWN, ids=[f"{block} {text}" for block, text, _ in SHOWN])
def test_a_command_prints_what_is_shown(block: Block, command: str, output: str, store: Path) -> None:
    """Its output is the one shown, where ``...`` stands for any lines; it ends with 0, or 1 for an answer "no"."""
    printed, errors, code = run_line(command, store if block.page == "docs/rocketmq-store.md" else ROOT)
    assert is_shown(printed, output), printed
    assert errors == ""
    assert code in ((0, 1) if command.startswith("hashstar selector") else (0,))


@pytest.mark.parametrize("command", sorted(set(MAKE)))
def test_a_target_of_make_is_there(command: str) -> None:
    """Only its recipe is looked at: some would run these tests again, others need brokers."""
    result = run("bash", "-c", command.replace("make ", "make --dry-run ", 1))
    assert result.returncode == 0, result.stderr
    assert {"make demo": "-m examples.demo", "make test": "-m pytest"}.get(command, "") in result.stdout
    assert result.stdout


@pytest.mark.parametrize("command", sorted(set(PIP)))
def test_an_installation_names_extras_that_are_there(command: str) -> None:
    """What stands in brackets is in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [extras] = re.findall(r"\.\[(.*)\]", command)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


@with_each("command", sorted(set(ADAPTED)))
def test_a_command_to_adapt_has_the_options_that_it_shows(command: str) -> None:
    """The files that it names are the reader's; commands, options and files of ours are there."""
    program, *arguments = shlex.split(command)
    if program == "hashstar":
        current: click.Command = hashstar
        context = click.Context(current)
        while isinstance(current, click.Group):
            if current.get_command(context, arguments[0]) is None and current.name == "audit":
                arguments.insert(0, "run")  # the command that `hashstar audit` is short for
            found = current.get_command(context, arguments.pop(0))
            assert found is not None, command
            current, context = found, click.Context(found, parent=context)
        current.make_parser(context).parse_args(arguments)  # raises for an option that is not there
    else:
        others = {"bash", "export", "opentelemetry-instrument", "pip", "python", "ruff", "spark-submit"}
        assert program in {*others, ".venv/bin/python"}, command
        assert [name for name in arguments if name.startswith("examples/") and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "bindings"], ids=str)
def test_a_topology_is_as_shown(block: Block, tmp_path: Path) -> None:
    """It is formatted, and its expectations hold: nothing more severe than a warning is found."""
    (tmp_path / "readme.bindings").write_text(block.text)
    for command in (("fmt", "--check"), ("check",)):
        result = run_here(*command, str(tmp_path / "readme.bindings"))
        assert result.exit_code == 0, result.output


def test_the_bridge_of_the_readme_is_the_one_of_the_guide_without_dead_letters() -> None:
    """The guide's runs between real brokers, in tests/bridge/daemon/test_daemon_live.py."""
    [short] = [block.text for block in BLOCKS if block.language == "toml" and block.page == "README.md"]
    guide, _ = [block.text for block in BLOCKS if block.language == "toml" and block.page == "docs/bridge.md"]
    assert guide.startswith(f"{short}\n[dead_letters]")


@pytest.mark.parametrize("page", ["README.md", "docs/bridge.md", "docs/bridge-configuration.md"])
def test_the_bridge_is_a_right_configuration(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside its topology, with its password in the environment."""
    text, *_ = [block.text for block in BLOCKS if block.language == "toml" and block.page == page]
    (tmp_path / "bridge.toml").write_text(text)
    (tmp_path / "shop.bindings").write_text((ROOT / "examples/bridge/shop.bindings").read_text())
    monkeypatch.setenv("BRIDGE_PASSWORD", "hush")
    result = run_here("bridge", "check", "--offline", "bridge.toml", cwd=tmp_path)
    assert result.exit_code == 0, result.output


def test_the_bridge_for_requests_is_a_right_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the topology that its comment describes."""
    _, text = [block.text for block in BLOCKS if block.language == "toml" and block.page == "docs/bridge.md"]
    topology = text.splitlines()[0].partition("# ")[2]
    (tmp_path / "bridge.toml").write_text(text)
    (tmp_path / "prices.bindings").write_text(topology.replace("; ", "\n"))
    monkeypatch.setenv("BRIDGE_PASSWORD", "hush")
    result = run_here("bridge", "check", "--offline", "bridge.toml", cwd=tmp_path)
    assert result.exit_code == 0, result.output
    assert "[replies.kafka]" in result.stdout


def test_the_settings_of_the_audit_are_right(tmp_path: Path) -> None:
    """They have a threshold for everything, one for an exchange, and an ignored binding."""
    [text] = [block.text for block in BLOCKS if block.language == "toml" and block.page == "docs/audit.md"]
    (tmp_path / "hashstar.toml").write_text(text)
    settings = load_settings(tmp_path / "hashstar.toml")
    assert settings.limits.fail_under == 90
    assert (len(settings.exchanges), len(settings.ignore)) == (1, 1)


def test_all_kinds_of_blocks_are_tested() -> None:
    """No block escapes by its language or its page."""
    drawn = {block.page for block in BLOCKS if block.language in {"text", "mermaid"}}
    # Diagrams, the forms of what `bridge check`, `drift`, `upgrade --live` and a simulation print, foreign records, a
    # command of Kafka.
    assert drawn == {
        "docs/architecture.md", "docs/bridge.md", "docs/bridge-kafka.md", "docs/layouts.md", "docs/testing.md",
        "docs/topology.md", "docs/upgrade.md",
    }  # fmt: skip
    assert {block.language for block in BLOCKS} == {
        "python",
        "console",
        "bindings",
        "toml",
        "text",
        "mermaid",
        "yaml",
        "json",
    }
    assert {block.page for block in LIVE} == {
        "docs/rocketmq.md", "docs/rocketmq-produce.md", "docs/rocketmq-consume.md",
        "docs/consume.md", "docs/requests.md", "docs/groups.md",
    }  # fmt: skip
    assert {block.page for block in SPARK} == {"docs/audit.md"}
    assert {block.page for block in BLOCKS if block.language == "toml"} == {
        "README.md", "docs/audit.md", "docs/bridge.md", "docs/bridge-configuration.md",
    }  # fmt: skip
    assert len(SHOWN) >= 13
