"""The inspector's process and its small HTTP server: hostile requests end in errors, and the next request is answered."""

import json
import re
import threading
import urllib.error
import urllib.request

import pytest

from stackmask.integration.cli import main
from stackmask.integration.demo import demo_vocabulary
from stackmask.integration.inspector import page
from stackmask.integration.inspector.local import LocalServer
from stackmask.integration.inspector.service import InspectorService, TokenizerData


@pytest.fixture(scope="module")
def service():
    service = InspectorService([TokenizerData.of("demo", demo_vocabulary())], seconds=4.0)
    yield service
    service.close()


@pytest.fixture(scope="module")
def server(service):
    server = LocalServer(service)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def request(kind, specification, **more):
    return json.dumps({"specification": {"kind": kind, "text": specification}, **more}).encode()


def fetch(server, path, data=None, **headers):
    """Status, body and headers of a request."""
    headers = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    asked = urllib.request.Request(f"http://127.0.0.1:{server.server_port}{path}", data, headers)
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


HOSTILE = [
    ("regex", "(a|b)*a(a|b){25}"),
    ("regex", "(" * 5000 + "a" + ")" * 5000),
    ("json_schema", "[" * 100_000),
    ("json_schema", json.dumps({"allOf": [{"anyOf": [{"pattern": f"a.{{{n}}}b.*{m}"} for m in range(12)]} for n in range(12)]})),
    (
        "ebnf",
        "root ::= "
        + " ".join(f"r{n}" for n in range(30))
        + "".join(f"\nr{n} ::= r{n + 1} r{n + 1} | 'a'" for n in range(30))
        + "\nr30 ::= 'b'",
    ),
    ("json_schema", json.dumps({"properties": {f"key{n}": {"type": "string", "description": "x" * 60} for n in range(12_000)}})),
]


@pytest.mark.parametrize(("kind", "text"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_specifications_do_not_stop_it(service, kind, text):
    """Whatever becomes of one request, it ends in time, and the next is answered."""
    status, body = service.ask(request(kind, text, text="aaaa"))
    assert status in (200, 400)
    assert json.loads(body)
    status, body = service.ask(request("regex", "a+", text="aa"))
    assert status == 200
    assert json.loads(body)["trace"]["complete"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"null", b"\xff", b"[" * 200_000, b'{"specification": {"kind": "regex", "text": "\\ud800"}}']
)
def test_bodies_that_are_no_requests(service, body):
    status, answer = service.ask(body)
    assert status in (200, 400)
    assert json.loads(answer)


def test_a_process_that_dies_is_replaced(service):
    service.ask(request("json", ""))
    service._process.kill()
    service._process.wait()
    assert service.ask(request("json", ""))[0] == 400
    assert service.ask(request("json", ""))[0] == 200


def test_the_page_and_its_files(server):
    """Every file comes with a policy that forbids inline scripts; each page has a nonce of its own for styles."""
    status, body, headers = fetch(server, "/inspect")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    nonce = re.search(r"'nonce-([^']+)'", policy)[1]
    assert f'content="{nonce}"'.encode() in body
    assert nonce not in fetch(server, "/inspect")[2]["Content-Security-Policy"]
    assert b"{{nonce}}" not in body
    assert not re.search(rb"<script(?![^>]*src=)|\son\w+=|style=", body)
    for path in page.FOLDER.iterdir():
        status, content, headers = fetch(server, f"/inspect/{path.name}")
        assert status == 200
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert path.name == "index.html" or content == path.read_bytes()


def test_paths_that_are_not_there(server):
    for path in ("/inspect/nothing.js", "/inspect/../inspector.py", "/inspect/%2e%2e/page.py", "/inspect/..%2fpage.py", "/other"):
        assert fetch(server, path)[0] == 404


def test_the_route(server):
    status, body, _ = fetch(server, "/v1/grammar/inspect", request("regex", "a+", text="ab"))
    assert status == 200
    assert json.loads(body)["trace"]["refusal"]["position"] == 1
    assert json.loads(fetch(server, "/v1/grammar/inspect")[1])["tokenizers"][0]["name"] == "demo"
    assert fetch(server, "/v1/grammar/inspect", b"{}", Host="evil.example")[0] == 403
    assert fetch(server, "/v1/grammar/inspect", b"{}", Content_Type="text/plain")[0] == 415
    assert fetch(server, "/v1/grammar/other", b"{}")[0] == 404
    assert fetch(server, "/")[2]["Content-Type"].startswith("text/html")


class TestCommand:
    """stackmask inspect in the terminal."""

    def run(self, capsys, *arguments):
        """Exit code and standard output."""
        code = main(["inspect", *arguments])
        return code, capsys.readouterr().out

    def test_a_trace(self, capsys):
        """Where a text is refused, why, and what is nearest; no colours where there is no terminal."""
        code, out = self.run(capsys, "--regex", r"\d{4}", "--text", "20x")
        assert code == 1
        assert "refused at line 1, column 3" in out
        assert "nearest accepted text: 2000" in out
        assert "\x1b" not in out
        code, out = self.run(capsys, "--regex", r"\d{4}", "--text", "2026")
        assert code == 0
        assert "complete" in out

    def test_controls_do_not_reach_the_terminal(self, capsys):
        """Control characters of a text are shown by their numbers."""
        _, out = self.run(capsys, "--regex", ".*", "--text", "a\x1b[31mb\r\x07")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", out)

    def test_as_json(self, capsys):
        """What the route answers."""
        code, out = self.run(capsys, "--choice", "yes", "--choice", "no", "--text", "y", "--as-json")
        assert code == 0
        assert json.loads(out)["cursor"]["forced"] == "es"

    @pytest.mark.parametrize("which", ["rules", "automaton"])
    def test_drawings(self, capsys, which):
        """Pictures are XML, and Graphviz's language, whatever the labels hold."""
        import xml.etree.ElementTree as ElementTree

        code, out = self.run(capsys, "--regex", r"[<&]+\x00|b", "--text", "<", "--svg", which)
        assert code == 0
        ElementTree.fromstring(out)
        code, out = self.run(capsys, "--regex", '["<]+|b', "--dot", which)
        assert out.startswith("digraph")
        assert out.rstrip().endswith("}")

    def test_wrong_arguments(self, capsys):
        """Exit codes as documented."""
        assert main(["inspect", "--text", "a"]) == 2
        assert main(["inspect", "--regex", "a", "--tokenizer", "/nowhere"]) == 2
        assert main(["inspect", "--regex", "(", "--text", "a"]) == 1
