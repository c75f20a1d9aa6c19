"""``mfm serve``: a real server, asked by a real client, friendly or not."""

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from report_pages import TOKENIZER, write_run

from mindformers_megatron import IndexedDataset, SamplePlan
from mindformers_megatron.cli.main import run
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.report.lookups import look_up_source, look_up_trace
from mindformers_megatron.report.steps import StepMap
from mindformers_megatron.report.viewer import Viewer
from mindformers_megatron.settings.history import Stretch

TEXTS = [f"Document {number} says something, and it is not what the others say." for number in range(80)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    write_run(folder, {"wiki": TEXTS, "code": TEXTS[::-1]}, dataset_weights=[0.7, 0.3])
    return folder


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "mindformers_megatron.cli", "serve", "run.yaml", "--port", "0"]
    with subprocess.Popen(
        [*command, "--tokenizer", str(TOKENIZER)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline()
        yield int(url.rpartition(":")[2].strip("/\n"))
        server.terminate()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    sent = {"Host": f"127.0.0.1:{port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, path, headers=sent)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def look_up(port: int, what: str, **query: Any) -> tuple[int, dict[str, Any]]:
    status, _, body = ask(port, f"/api/{what}?{urlencode(query)}")
    return status, json.loads(body)


def test_the_page_comes_with_its_policy(port: int) -> None:
    status, headers, body = ask(port, "/")
    assert status == 200
    assert body.startswith(b"<!DOCTYPE html>")
    assert "connect-src 'self'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask(port, "/", Host=f"localhost:{port}")[0] == 200


def test_a_step_is_looked_up_as_mfm_trace_finds_it(
    port: int, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert run(["trace", "--config", "run.yaml", "--step", "17", "--json"]) == 0
    traced = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    status, found = look_up(port, "trace", step=17)
    assert status == 200
    for ours, theirs in zip(found["samples"], traced, strict=True):
        assert ours["ids"] == theirs["tokens"]
        assert ours["loss"] == theirs["loss_mask"]
        assert ours["positions"] == theirs["position_ids"]
        assert [part["number"] for part in ours["documents"]] == [part["document"] for part in theirs["documents"]]
    assert look_up(port, "trace", sample=found["samples"][2]["sample"])[1]["samples"] == [found["samples"][2]]


def test_a_document_is_looked_up_to_the_steps_that_saw_it(port: int) -> None:
    _, found = look_up(port, "trace", document="wiki:5")
    (document,) = found["documents"]
    assert document["count"] == len(document["seen"]) > 0
    for place in document["seen"][:5]:
        (sample,) = look_up(port, "trace", sample=place["sample"])[1]["samples"]
        assert 5 in [part["number"] for part in sample["documents"]]


def test_the_source_of_a_document_is_its_raw_line(port: int) -> None:
    status, found = look_up(port, "source", corpus="code", document=3)
    assert status == 200
    assert json.loads(found["text"]) == {"text": TEXTS[::-1][3]}
    assert found["line"] == 4


@pytest.mark.parametrize(
    ("what", "query", "says"),
    [
        ("trace", {}, "nothing is asked for"),
        ("trace", {"step": "0"}, "count from 1"),
        ("trace", {"step": "1", "rank": "1"}, "expected 0 to 0"),
        ("trace", {"step": "9" * 16}, "expected a whole number"),
        ("trace", {"step": "-1"}, "expected a whole number"),
        ("trace", {"sample": "²"}, "expected a whole number"),
        ("trace", {"document": "nobody"}, "is in no docs.parquet"),
        ("source", {"corpus": "../wiki", "document": "1"}, "expected one of wiki, code"),
        ("source", {"corpus": "wiki", "document": "80"}, "document 80 asked for"),
    ],
)
def test_what_cannot_be_looked_up_is_said_in_a_line(port: int, what: str, query: dict[str, str], says: str) -> None:
    status, found = look_up(port, what, **query)
    assert status == 422
    assert says in found["error"]


def test_a_step_of_more_samples_than_a_page_holds_is_cut_and_says_so(folder: Path) -> None:
    plan = SamplePlan.build([str(folder / "corpus-0")], seq_length=48)
    found = look_up_trace(plan, StepMap((Stretch(0, 0, 500, 1),)), 1, Viewer(), {"step": "1"})
    assert (len(found["samples"]), found["count"]) == (64, 500)


def test_a_step_far_beyond_the_run_is_answered(port: int) -> None:
    status, found = look_up(port, "trace", step=10**14)
    assert status == 200
    assert found["samples"][0]["step"] == 10**14


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "0.0.0.0:1", ""])
def test_another_host_name_is_refused(port: int, host: str) -> None:
    for path in ("/", "/api/trace?step=1"):
        status, _, body = ask(port, path, Host=host)
        assert status == 421
        assert b"samples" not in body


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_is_refused(port: int, site: str) -> None:
    assert ask(port, "/api/trace?step=1", Sec_Fetch_Site=site)[0] == 403


@pytest.mark.parametrize(
    "path",
    ["/run.yaml", "/../run.yaml", "/api/../run.yaml", "/%2e%2e/etc/passwd", "//etc/passwd", "/api/", "/trace",
     "/etc/passwd", "/api/source/../../run.yaml"],
)  # fmt: skip
def test_no_path_leads_to_a_file(port: int, path: str) -> None:
    status, _, body = ask(port, path)
    assert status == 404
    assert b"data_loader" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_only_get_is_known(port: int, method: str) -> None:
    assert ask(port, "/", method)[0] == 501


def test_requests_are_bounded(port: int) -> None:
    assert ask(port, "/api/trace?document=" + "x" * 3000)[0] == 414
    fields = "&".join(f"a{number}=1" for number in range(100))
    assert ask(port, f"/api/trace?{fields}")[0] == 422
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(500)) + b"\r\n")
        assert b"431" in raw.recv(64)
    assert ask(port, "/")[0] == 200


def test_connections_that_say_nothing_do_not_keep_others_out(port: int) -> None:
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    for one in silent:
        one.close()
    assert ask(port, "/api/trace?step=1")[0] == 200


def test_only_this_machine_is_listened_to(port: int) -> None:
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", port), timeout=2)


def test_raw_files_outside_of_the_folder_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_run(tmp_path, {"wiki": TEXTS})
    (tmp_path / "data" / "raw-0.jsonl").symlink_to(tmp_path / "raw-0.jsonl")
    pairs = {"wiki": IndexedDataset(tmp_path / "corpus-0")}
    query = {"corpus": "wiki", "document": "0"}
    assert look_up_source(pairs, (tmp_path,), tmp_path, query)["line"] == 1
    for root in (tmp_path, tmp_path / "data"):
        with pytest.raises(ConfigError, match="lies outside of"):
            look_up_source(pairs, (root,), tmp_path / "data", query)


def test_a_port_that_is_taken_is_one_line(folder: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(folder / "run.yaml"), "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"--port {port}" in error
    assert error.count("\n") == 1
