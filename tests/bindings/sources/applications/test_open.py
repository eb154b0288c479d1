"""Applications as sources of commands: ``celery:MODULE:APP`` and ``faststream:MODULE:BROKER``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from exchange.text.site import build_install_command
from tests.support.program import invoke

SHOP = """
from celery import Celery
from kombu import Exchange, Queue
app = Celery("shop", broker="amqp://user:secret@example.invalid//shop")
app.conf.task_queues = [Queue("mail", Exchange("tasks", "topic"), "mail.*")]
app.conf.task_default_queue = "mail"
app.conf.task_routes = {"send": {"queue": "mail", "routing_key": "mail.new"}, "gone.*": "mail"}
@app.task(name="send", shared=False)
def send(): ...
class names:
    number = 3
"""
STREAM = """
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
broker = RabbitBroker("amqp://user:secret@example.invalid/")
orders = RabbitExchange("orders", type=ExchangeType.TOPIC)
europe = RabbitExchange("europe", type=ExchangeType.FANOUT, bind_to=orders, routing_key="*.eu.#")
@broker.subscriber(RabbitQueue("billing", routing_key="order.{region}"), orders)
async def bill(body: str) -> None: ...
@broker.subscriber("all", europe)
async def keep(body: str) -> None: ...
broker.publisher(routing_key="x", exchange=RabbitExchange("out"))
"""
BROKEN = {
    "ends_for_tests": "import sys; sys.exit('usage: ...')",
    "lazy_for_tests": "class Lazy:\n    @property\n    def app(self): raise RuntimeError('no context')\nlazy = Lazy()",
    "transport_for_tests": "from celery import Celery\napp = Celery('t', broker='hashstar://t/shop')",
    "settings_for_tests": "from celery import Celery\napp = Celery('s', set_as_current=False)\n"
    "app.config_from_object('no_such_settings')",
    "stream_broken_for_tests": "class Broker:\n    subscribers = property(lambda self: [3])\nbroker = Broker()",
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the modules, which are imported once: Celery complains about tasks that are made again."""
    folder = tmp_path_factory.mktemp("applications")
    for name, text in {
        "shop_for_tests": SHOP,
        "stream_for_tests": STREAM,
        "broken_for_tests": "1 / 0",
        **BROKEN,
    }.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def folder(modules: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return modules


def test_a_celery_app_can_be_routed_through_explained_and_converted(folder: Path) -> None:
    app = "celery:shop_for_tests:app"
    assert "'mail.*'" in invoke("explain", "-t", app, "tasks", "mail.new").stdout
    converted = invoke("convert", "--format", "bindings", app)
    assert 'tasks -> mail: "mail.*"' in converted.stdout
    assert "secret" not in converted.output
    assert 'vhost "/shop"' in converted.stdout
    (folder / "before.bindings").write_text("vhost /shop\nexchange tasks: topic\nqueue mail\n")
    assert invoke("diff", "before.bindings", app).exit_code == 1


def test_a_faststream_broker_is_a_source(folder: Path) -> None:
    broker = "faststream:stream_for_tests:broker"
    explained = invoke("explain", "-t", broker, "orders", "order.eu").stdout
    assert "queue 'billing'" in explained
    assert "queue 'all'" in explained
    converted = invoke("convert", "--format", "bindings", broker).stdout
    for line in ('orders -> billing: "order.*"', 'orders -> exchange europe: "*.eu.#"', "exchange out: direct"):
        assert line in converted


def test_tasks_are_checked_against_the_topology_of_a_file(folder: Path) -> None:
    (folder / "broker.bindings").write_text('exchange tasks: topic\nqueue other\ntasks -> other: "#"\n')
    result = invoke("check", "--tasks", "shop_for_tests:app", "--select", "HS81", "--format", "json", "broker.bindings")
    findings = json.loads(result.stdout)["vhosts"][0]["findings"]
    [finding] = [each for each in findings if "'send'" in each["message"]]  # apps of other tests share their tasks
    assert finding["code"] == "HS812"
    assert "also gets to 'other'" in finding["message"]
    assert invoke("check", "--select", "HS81", "celery:shop_for_tests:app").exit_code == 0


def test_tasks_take_the_name_that_the_app_has_as_a_topology(folder: Path) -> None:
    """With ``celery:`` before it, or without."""
    named = [invoke("check", "--tasks", f"{scheme}shop_for_tests:app", "broker.bindings") for scheme in ("", "celery:")]
    assert named[0].stdout == named[1].stdout
    assert "HS812" in named[1].stdout


@pytest.mark.parametrize("form", ["github", "gitlab", "json", "junit", "sarif", "text"])
def test_findings_name_the_application_in_each_form(folder: Path, form: str) -> None:
    app = "celery:shop_for_tests:app"
    result = invoke("check", "--format", form, "--select", "HS815", app)
    assert result.exit_code == 0
    assert app in unquote(result.stdout) or form == "github", "GitHub shows findings in files"
    assert "gone.*" in result.stdout


@pytest.mark.parametrize(("name", "text"), [
    ("celery:shop_for_tests", "names no object: write PACKAGE.MODULE:NAME"),
    ("celery:no_such_module_for_tests:app", "cannot import no_such_module_for_tests: ModuleNotFoundError"),
    ("celery:broken_for_tests:app", "cannot import broken_for_tests: ZeroDivisionError: division by zero"),
    ("celery:shop_for_tests:nothing", "shop_for_tests has no 'nothing'\n"),
    ("celery:shop_for_tests:ap", "shop_for_tests has no 'ap'; did you mean 'app'?"),
    ("celery:shop_for_tests:names.number", "no Celery app, but an object of int"),
    ("celery:ends_for_tests:app", "cannot import ends_for_tests: SystemExit: usage: ..."),
    ("celery:lazy_for_tests:lazy.app", "cannot get 'lazy.app' of lazy_for_tests: RuntimeError: no context"),
    ("celery:settings_for_tests:app", "ModuleNotFoundError: No module named 'no_such_settings'"),
    ("faststream:stream_broken_for_tests:broker", "AttributeError: 'int' object has no attribute"),
    ("shop_for_tests:app", "an application is named celery:shop_for_tests:app or faststream:shop_for_tests:app"),
    ("faststream:shop_for_tests:app", "no broker of FastStream, but an object of Celery"),
])  # fmt: skip
def test_what_cannot_be_opened_is_named(folder: Path, name: str, text: str) -> None:
    result = invoke("check", name)
    assert result.exit_code == 2
    assert text in result.stderr
    assert "Traceback" not in result.output


def test_a_transport_that_is_not_installed_is_not_needed(folder: Path) -> None:
    result = invoke("convert", "--to", "bindings", "celery:transport_for_tests:app")
    assert result.exit_code == 0
    assert 'vhost "shop"' in result.stdout


def test_no_library_is_imported_before_it_is_asked_for() -> None:
    code = "import sys, bindings, bindings.checking.check, bindings.sources.open, bindings.adapters\n"
    code += "assert not {'kombu', 'celery', 'faststream', 'aio_pika', 'pika'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("module", "library"), [("kombu", "kombu"), ("faststream", "faststream"), ("celery", "celery")]
)
def test_an_adapter_without_its_library_names_the_extra(module: str, library: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import bindings.adapters.{module}"
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert build_install_command(library) in result.stderr.splitlines()[-1]
