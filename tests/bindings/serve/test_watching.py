"""A file is read again when it changes, and a mistake in it leaves the last good topology there."""

import os
import threading
from pathlib import Path

import pytest

from bindings.serve.watching import ReadFault, WatchedSource
from bindings.sources.open import open_source
from exchange.errors import InputError
from tests.support.waiting import find_limit


def watched(path: Path, vhost: str | None = None) -> WatchedSource:
    return WatchedSource(lambda: open_source(str(path), vhost), str(path), vhost, None)


def fault_of(source: WatchedSource) -> ReadFault | None:
    return source.fault


def write(path: Path, text: str) -> None:
    """Write as editors do: a new file takes the place of the old one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_a_change_is_read_and_a_mistake_is_not(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text("queue a\n")
    source = watched(path)
    assert [*source.reading.view(None).topology.queues] == ["a"]
    source.check_file()
    assert source.reading.version == 1
    write(path, "queue a\nqueue b\n")
    source.check_file()
    assert source.reading.version == 2
    assert fault_of(source) is None
    assert [*source.reading.view(None).topology.queues] == ["a", "b"]
    write(path, "queue a\nqueue b\nquue c\n")
    source.check_file()
    assert source.reading.version == 2
    fault = fault_of(source)
    assert fault is not None
    assert fault.line == 3
    assert [*source.reading.view(None).topology.queues] == ["a", "b"]
    write(path, "queue c\n")
    source.check_file()
    assert source.reading.version == 3
    assert fault_of(source) is None


def test_a_file_that_is_gone_is_a_fault_without_a_line(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text("queue a\n")
    source = watched(path)
    path.unlink()
    source.check_file()
    assert source.fault is not None
    assert source.fault.line is None
    assert "No such file" in source.fault.message


def test_what_cannot_be_read_at_first_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text("quue a\n")
    with pytest.raises(InputError, match=r"t\.bindings:1"):
        watched(path)


def test_the_virtual_host_shown_first_is_the_one_asked_for_else_the_default_else_the_first(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text('vhost "/b"\nqueue b\nvhost "/a"\nqueue a\n')
    assert watched(path).vhost == "/b"
    assert watched(path, "/a").vhost == "/a"
    with pytest.raises(InputError, match="no virtual host"):
        watched(path, "/c")
    write(path, 'vhost "/b"\nqueue b\nvhost "/"\nqueue a\n')
    assert watched(path).vhost == "/"


def test_a_thread_watches_the_file_until_it_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text("queue a\n")
    source = watched(path)
    source.start()
    threads = [thread for thread in threading.enumerate() if thread.name == "hashstar-watch"]
    assert len(threads) == 1
    write(path, "queue b\n")
    os.utime(path, (1, 1))  # an older time is a change, too
    threads[0].join(0.1)
    for _ in range(100):
        if source.reading.version > 1:
            break
        threads[0].join(0.1)
    assert [*source.reading.view(None).topology.queues] == ["b"]
    source.stop()
    threads[0].join(find_limit())
    assert not threads[0].is_alive()


def test_a_folder_is_read_again_when_one_of_its_files_changes(tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    queue = "apiVersion: rabbitmq.com/v1beta1\nkind: Queue\nspec: {{name: {name}}}\n"
    file.write_text(queue.format(name="a"))
    source = watched(tmp_path)
    assert [*source.reading.view(None).topology.queues] == ["a"]
    assert source.reading.text() == 'vhost "/"\n\nqueue a\n'
    file.write_text(queue.format(name="other"))
    source.check_file()
    assert [*source.reading.view(None).topology.queues] == ["other"]
    (tmp_path / "more.yaml").write_text(queue.format(name="more"))
    source.check_file()
    assert sorted(source.reading.view(None).topology.queues) == ["more", "other"]


def test_the_text_is_the_file_itself_with_its_comments_or_else_the_language(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text("# mine\nqueue a\n")
    assert watched(path).reading.text() == "# mine\nqueue a\n"
    path = tmp_path / "t.json"
    path.write_text('{"vhosts": [{"name": "/"}], "queues": [{"name": "a", "vhost": "/", "durable": true, '
                    '"auto_delete": false, "arguments": {}}]}')  # fmt: skip
    assert watched(path).reading.text() == 'vhost "/"\n\nqueue a\n'
