"""The command line: results on standard output, exit codes as documented, errors without a traceback."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from stackmask.integration.cli import benchmark, command, entry, main
from stackmask.integration.cli.check import _compile, place
from stackmask.integration.cli.generate import check_answer, conclude, default_prompt
from stackmask.integration.cli.specification import Specification
from stackmask.integration.demo import demo_model_path, demo_vocabulary

EXAMPLES = Path(__file__).parents[3] / "examples"
PERSON = EXAMPLES / "person.schema.json"
GOOD = {"name": "Anna", "age": 31, "email": "a@b.org", "city": "Rome", "hobbies": ["chess"]}


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""

    def write(content, name="instance.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.fixture
def generates():
    """Skips where the packages of the demo model are missing."""
    pytest.importorskip("transformers")
    pytest.importorskip("torch").set_num_threads(1)  # the fastest for so small a model


def run(capsys, *arguments):
    """A command's exit code, standard output and standard error."""
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def usage_error(capsys, *arguments):
    """Standard error of a command that argparse refuses, with code 2."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    assert exit.value.code == 2
    return capsys.readouterr().err


class TestCheck:
    """stackmask check."""

    def test_print_grammar(self, capsys, write):
        """The compiled rules are printed as EBNF, which describes the same texts."""
        code, out, _ = run(capsys, "check", "--json-schema", PERSON, "--quiet", "--print-grammar")
        assert code == 0
        assert out.startswith("root ::= ")
        assert '"name"' in out
        grammar = write(out, "person.ebnf")
        assert run(capsys, "check", "--ebnf", grammar, "--quiet", write(json.dumps(GOOD)))[0] == 0
        assert run(capsys, "check", "--ebnf", grammar, "--quiet", write(json.dumps({**GOOD, "age": "x"})))[0] == 1

    def test_accepts_and_refuses(self, capsys, write):
        """Every instance gets a verdict; one refusal makes the exit code 1."""
        good = write(json.dumps(GOOD) + "\n", "good.json")
        bad = write(json.dumps(GOOD).replace("31", "310"), "bad.json")
        assert run(capsys, "check", "--json-schema", PERSON, good)[0] == 0
        code, out, err = run(capsys, "check", "--json-schema", PERSON, good, bad)
        assert (code, err) == (1, "")
        assert f"{PERSON}: JSON Schema, " in out
        assert f"{good}: accepted" in out and f"{bad}: refused" in out

    def test_points_at_the_first_byte_that_does_not_fit(self, capsys, write):
        """Line, column, byte, the line with a caret, and what was expected."""
        bad = write('{\n "日": 1,\n "b": x}')
        code, out, _ = run(capsys, "check", "--json", "--quiet", bad)
        assert code == 1
        assert out.splitlines()[:4] == [
            f"{bad}: refused",
            "  `/b`: expected a value, not 'x'",
            "  line 3, column 7, byte 19",
            '     "b": x}',
        ]
        assert out.splitlines()[4] == " " * 10 + "^"
        assert re.search(r"expected one of .*'\[' .*'\{'", out)

    @pytest.mark.parametrize(
        ("option", "message"),
        [("--json-schema", "where JSON is expected"), ("--ebnf", "needs a rule `root ::= ...`"), ("--lark", "needs a rule `start: ...`")],
    )
    def test_empty_specifications(self, capsys, write, option, message):
        """An empty file is named as such, in one line: there is nothing to point at."""
        for text in ("", "\n", " \n\n"):
            code, _, err = run(capsys, "check", option, write(text))
            assert code == 2 and err.count("\n") == 1 and "is empty" in err and message in err

    def test_a_text_that_ends_too_early(self, capsys, write):
        """The shortest end is named."""
        code, out, _ = run(capsys, "check", "--json", "--quiet", write('{"a": [1'))
        assert code == 1
        assert "byte 8: the text ends too early; the shortest end would be ']}'" in out

    def test_a_text_that_goes_on_too_long(self, capsys, write):
        """What was expected is the end."""
        code, out, _ = run(capsys, "check", "--choice", "yes", "--choice", "no", "--quiet", write("yesterday"))
        assert code == 1
        assert "byte 3" in out and "expected the end of the text" in out

    def test_a_choice_takes_no_file(self, capsys, write):
        """Each --choice takes one text, so that what follows is a file, with or without `--`."""
        path = write("no")
        for arguments in (("--choice", "yes", "--choice", "no", path), ("--choice", "no", "--", path)):
            assert run(capsys, "check", "--quiet", *arguments)[:2] == (0, f"{path}: accepted\n")
        assert "repeats its option" in usage_error(capsys, "generate", "--choice", "yes", "no")

    def test_unknown_options_suggest(self, capsys):
        """An option that is spelt alike is named, and what other programs call it; abbreviations stay argparse's."""
        for given, right in (
            ("--schema", "--json-schema"),
            ("--qiet", "--quiet"),
            ("--whitespace-pattern=x", "--whitespace"),
        ):
            assert f"unknown option {given.partition('=')[0]}; did you mean {right}?" in usage_error(capsys, "check", "--json", given)
        assert "did you mean --max-tokens?" in usage_error(capsys, "generate", "--json", "--max-new-tokens", "3")
        assert usage_error(capsys, "check", "--json", "--xyzzy").endswith("error: unknown option --xyzzy\n")
        for given in ("--regexp", "--regexp=a+"):  # which leaves the command without the specification that it needs
            assert usage_error(capsys, "check", given, "a+").endswith("error: unknown option --regexp; did you mean --regex?\n")
        assert usage_error(capsys, "check", "--", "--regexp").endswith("is required\n")
        assert "expected one argument" in usage_error(capsys, "check", "--regex", "--regexp")

    def test_the_last_line_end_is_the_editors(self, capsys, write):
        """One line end at the end of a file does not count, unless the grammar reads it; two do."""
        for text, code in (("a", 0), ("a\n", 0), ("a\r\n", 0), ("a\n\n", 1), ("", 1), ("\n", 1)):
            assert run(capsys, "check", "--regex", "a", write(text))[0] == code, text
        assert run(capsys, "check", "--regex", r"a\n", write("a\n"))[0] == 0
        assert run(capsys, "check", "--regex", "a?", write("\n"))[0] == 0

    def test_other_order_of_keys(self, capsys, write):
        """A refusal that is due to the order alone says so."""
        other = write(json.dumps(dict(reversed(GOOD.items()))))
        code, out, _ = run(capsys, "check", "--json-schema", PERSON, other)
        assert code == 1 and "--property-order any accepts it" in out
        assert run(capsys, "check", "--json-schema", PERSON, "--property-order", "any", other)[0] == 0

    def test_extra_properties(self, capsys, write):
        """Undeclared keys are allowed where the schema does, or not at all."""
        schema, text = write('{"properties": {"a": {}}}', "schema.json"), write('{"b": 1}')
        assert run(capsys, "check", "--json-schema", schema, text)[0] == 0
        assert run(capsys, "check", "--json-schema", schema, "--extra-properties", "schema", text)[0] == 0
        assert run(capsys, "check", "--json-schema", schema, "--extra-properties", "closed", text)[0] == 1

    def test_distinct_keys(self, capsys, write):
        """A key that is not declared may come twice, which the report says, unless keys are to differ."""
        schema, text = write('{"type": "object"}', "schema.json"), write('{"b": 1, "b": 2}')
        for kind in (["--json-schema", schema], ["--json"]):
            code, out, _ = run(capsys, "check", *kind, text)
            assert code == 0 and "allowed     /  a key that is not declared may come twice" in out
            code, out, _ = run(capsys, "check", *kind, "--distinct-keys", text)
            assert code == 1 and "allowed" not in out

    def test_grammars_and_standard_input(self, capsys, write, monkeypatch, tmp_path):
        """EBNF and Lark from files, an instance from standard input, another start rule."""
        text = tmp_path / "text"
        text.write_text("(1 + 2) * 3")
        with text.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            assert run(capsys, "check", "--ebnf", EXAMPLES / "arithmetic.ebnf", "-")[0] == 0
        code, _, err = run(capsys, "check", "--ebnf", EXAMPLES / "arithmetic.ebnf", "--root", "number", text)
        assert code == 1 and err.startswith("warning: ") and "never calls" in err
        lark = write('start: "a"+\nother: "b"', "grammar.lark")
        assert run(capsys, "check", "--lark", lark, write("aaa"))[0] == 0
        assert run(capsys, "check", "--lark", lark, "--root", "other", write("b"))[0] == 0

    def test_bytes_that_are_no_text(self, capsys, write):
        """An instance that is not UTF-8 is refused at that byte, and shown without moving the cursor."""
        code, out, _ = run(capsys, "check", "--json", "--quiet", write(b'"\x1b\xff"'))
        assert code == 1 and "byte 1" in out and "\x1b" not in out

    def test_what_is_enforced(self, capsys, write):
        """A line for each keyword, a summary where there are many, and a hint where one is misspelt."""
        code, out, _ = run(capsys, "check", "--json-schema", write('{"type": "object", "requried": ["a"]}'))
        assert code == 0 and re.search("enforced +/type", out) and "did you mean" in out
        many = write(json.dumps({"properties": {f"k{i}": {"type": "string", "title": "t"} for i in range(30)}}))
        out = run(capsys, "check", "--json-schema", many)[1]
        assert "31 enforced, 30 annotation; --full lists them" in out and "/properties/k3/type" not in out
        assert "/properties/k3/type" in run(capsys, "check", "--json-schema", many, "--full")[1]

    def test_only_the_specification(self, capsys):
        """Without instances it compiles and reports."""
        assert run(capsys, "check", "--regex", "a+")[0] == 0


class TestErrors:
    """Errors are messages, with code 2."""

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--json-schema", "no-such-file.json"], "no-such-file.json: No such file or directory"),
            (["--json-schema", str(EXAMPLES)], "Is a directory"),
            (["--json-schema", str(EXAMPLES / "arithmetic.ebnf")], "arithmetic.ebnf: not JSON"),
            (["--regex", "a(b"], "line 1, column 2"),
            (["--json", "--root", "x"], "--root has no effect with --json"),
            (["--regex", "a", "--lenient"], "--lenient has no effect with --regex"),
            (["--ebnf", str(EXAMPLES / "arithmetic.ebnf"), "--root", "nothing"], "nothing"),
        ],
    )
    def test_bad_specifications(self, capsys, arguments, message):
        """The message names the file or the place."""
        code, out, err = run(capsys, "check", *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("stackmask: error: ") and message in err and "Traceback" not in err

    def test_a_schema_that_is_not_utf8(self, capsys, write):
        """The byte is named."""
        assert "not UTF-8: byte 1 is 0xFF" in run(capsys, "check", "--json-schema", write(b'"\xff"'))[2]

    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["nonsense"],
            ["check"],
            ["check", "--json", "--regex", "a"],
            ["generate", "--json", "--max-tokens", "0"],
            ["generate", "--json", "--num", "x"],
            ["generate", "--json", "--temperature", "-1"],
            ["generate", "--json", "--temperature", "warm"],
        ],
    )
    def test_bad_usage(self, capsys, arguments):
        """A usage line."""
        assert "usage: stackmask" in usage_error(capsys, *arguments)

    def test_a_missing_package_is_named_with_its_extra(self, capsys, monkeypatch):
        """Without torch, the way to get it."""
        monkeypatch.setitem(sys.modules, "torch", None)
        monkeypatch.setitem(sys.modules, "transformers.utils", None)
        code, _, err = run(capsys, "generate", "--json")
        assert code == 2 and "pip install 'stackmask[hf]'" in err

    def test_other_missing_modules_are_not_hidden(self, monkeypatch):
        """An import that fails for another reason is an error of ours, with its traceback."""

        def broken(arguments):
            raise ModuleNotFoundError("No module named 'gone'", name="gone")

        monkeypatch.setattr(entry, "COMMANDS", (command.Command("broken", "break", lambda parser: None, broken),))
        with pytest.raises(ModuleNotFoundError):
            main(["broken"])

    @pytest.mark.parametrize("error, code", [(KeyboardInterrupt(), 130), (OSError("odd"), 2)])
    def test_interruption_and_nameless_errors(self, monkeypatch, capsys, error, code):
        """Ctrl-C is 130."""

        def fail(arguments):
            raise error

        monkeypatch.setattr(entry, "COMMANDS", (command.Command("fail", "fail", lambda parser: None, fail),))
        assert main(["fail"]) == code


class TestGenerate:
    """stackmask generate."""

    def test_json_schema(self, capsys, generates):
        """One JSON object on standard output, the verdict on standard error; the same seed gives the same object."""
        code, out, err = run(capsys, "generate", "--json-schema", PERSON, "--stats")
        assert code == 0
        assert json.loads(out).keys() == GOOD.keys()
        assert re.match(r"complete: \d+ tokens, checked by a fresh matcher, json, jsonschema\n", err)
        assert "tokens/s" in err and "\x1b" not in out + err
        assert run(capsys, "generate", "--json-schema", PERSON)[1] == out

    @pytest.mark.parametrize(
        ("arguments", "pattern"),
        [
            (["--regex", r"\d{4}-\d\d-\d\d"], r"\d{4}-\d\d-\d\d\n"),
            (["--choice", "red", "--choice", "blue"], "(red|blue)\n"),
            (["--json"], r"(?s).+"),
            (["--ebnf", EXAMPLES / "arithmetic.ebnf", "--root", "factor", "--prompt", "Give me a number."], r"[-0-9 +*/()]+\n"),
        ],
    )
    def test_other_kinds(self, capsys, generates, arguments, pattern):
        """Each kind gives a text that matches."""
        code, out, _ = run(capsys, "generate", *arguments)
        assert code == 0 and re.fullmatch(pattern, out)

    def test_warnings(self, capsys, generates, write):
        """What a schema says in vain is said before the answer."""
        code, _, err = run(capsys, "generate", "--json-schema", write('{"type": "null", "requried": ["a"]}'))
        assert code == 0 and err.startswith("warning: ") and "/requried: " in err

    def test_cut(self, capsys, generates):
        """Code 3 inside the structure, with what is missing; code 0 where the text may end there."""
        code, out, err = run(capsys, "generate", "--json-schema", PERSON, "--max-tokens", "4")
        assert code == 3 and out.startswith("{")
        assert "cut by --max-tokens 4 after 4 tokens, inside the structure; the shortest end would be" in err
        code, _, err = run(capsys, "generate", "--regex", "[a-z]*", "--max-tokens", "2", "--temperature", "1.5")
        assert code == 0 and "complete" in err

    def test_several(self, capsys, generates):
        """--num texts with the seeds after --seed."""
        _, out, _ = run(capsys, "generate", "--regex", "[a-z]{8}", "--num", "3", "--temperature", "2", "--seed", "5")
        texts = out.split()
        assert len(set(texts)) == 3
        assert run(capsys, "generate", "--regex", "[a-z]{8}", "--temperature", "2", "--seed", "6")[1].split() == [texts[1]]

    def test_no_such_model(self, capsys, generates, tmp_path):
        """A folder without a model, a file and a name that nobody knows are errors of one line, at once."""
        file = tmp_path / "model.bin"
        file.touch()
        for model, said in (
            (tmp_path, str(tmp_path)),
            (file, "is a file"),
            ("nodir", "nodir is neither a directory nor"),
            ("/no/dir", "nor"),
        ):
            code, _, err = run(capsys, "generate", "--json", "--model", model)
            assert code == 2 and err.count("\n") == 1 and "cannot load a model: " in err and said in err

    def test_a_prompt_that_is_too_long(self, capsys, generates):
        """A prompt that fills the context is an error of one line."""
        code, _, err = run(capsys, "generate", "--json", "--prompt", "x y " * 3000)
        assert code == 2 and err.count("\n") == 1 and "fills the model's context of 2048" in err

    def test_a_model_by_its_directory(self, capsys, generates):
        """--model takes what transformers loads; the question then holds the schema."""
        from stackmask.integration.demo import demo_model_path

        code, out, _ = run(capsys, "generate", "--json-schema", PERSON, "--model", demo_model_path(), "--max-tokens", "600")
        assert code in (0, 3) and out.startswith("{")

    def test_without_jsonschema(self, capsys, generates, monkeypatch):
        """The check by jsonschema is one more, not a need."""
        monkeypatch.setitem(sys.modules, "jsonschema", None)
        code, _, err = run(capsys, "generate", "--json-schema", PERSON)
        assert code == 0 and "checked by a fresh matcher, json\n" in err

    def test_the_question_follows_from_the_specification(self):
        """Without --prompt the model is asked for what it must give; one that is not the demo sees the specification."""

        def question(kind, value, demo=True):
            return default_prompt(Specification(kind, value, {}, ""), demo=demo)

        assert question("json_schema", '{"title": "Order", "properties": {"id": {}}}') == "Write an order as indented JSON with id."
        assert question("json_schema", "true") == "Write a record as indented JSON."
        assert question("json_schema", "true", demo=False) == "Write JSON that matches this JSON Schema:\ntrue"
        assert question("choice", ["a", "b"]) == "Choose one of: a, b."
        assert question("ebnf", "root ::= [0-9]", demo=False).endswith("\nroot ::= [0-9]")

    def test_a_wrong_answer_would_be_found(self, capsys, generates):
        """The checks do not trust the matcher that made the text."""
        anything = Specification("json", None, {}, "")
        schema = Specification("json_schema", '{"type": "integer"}', {}, "")
        grammar = _compile(Specification("regex", ".*", {}, ""))

        def answer(text):
            return SimpleNamespace(text=text, token_ids=tuple(text.encode()), complete=True, finish_reason="stop")

        assert "not JSON" in check_answer(anything, grammar, answer("{"))[1]
        assert "jsonschema refuses" in check_answer(schema, grammar, answer("{}"))[1]
        assert "refuses token 1" in check_answer(schema, grammar, answer("1\n"))[1]
        assert conclude(schema, grammar, answer("{}"), 9) == 1
        assert "an error in stackmask" in capsys.readouterr().err


class TestBench:
    """stackmask bench."""

    def test_a_table(self, capsys):
        """A line for each case."""
        code, out, err = run(capsys, "bench", "--rounds", "1", "--engine", "stackmask")
        assert code == 0 and "microseconds" in err
        assert out.startswith("case ") and out.count("stackmask") == 7 and "refuses" not in out

    def test_json(self, capsys):
        """The same as JSON."""
        timings = json.loads(run(capsys, "bench", "--rounds", "1", "--engine", "stackmask", "--as-json")[1])
        assert all(timing["mean"] > 0 and timing["steps"] > 0 and not timing["error"] for timing in timings)
        assert {timing["tokens"] for timing in timings} == {demo_vocabulary().size}

    def test_the_vocabulary_of_a_model(self, capsys, data, tmp_path):
        """A large vocabulary by its tokenizer or by a model; both are named, and what is wrong is said."""
        folder = data / "tokenizers" / "llama3"
        code, out, err = run(capsys, "bench", "--rounds", "1", "--engine", "stackmask", "--tokenizer", str(folder))
        assert code == 0 and "vocabulary of llama3: 128,256 tokens" in err and "refuses" not in out
        code, _, err = run(capsys, "bench", "--rounds", "1", "--engine", "stackmask", "--model", str(demo_model_path()))
        assert code == 0 and f"{demo_model_path()}: {demo_vocabulary().size:,} tokens" in err
        endless = json.loads((demo_model_path() / "tokenizer.json").read_text("utf-8"))
        endless["added_tokens"] = []
        (tmp_path / "tokenizer.json").write_text(json.dumps(endless))
        for option, path, said in (
            ("--tokenizer", tmp_path, "no token is known to end a text"),
            ("--tokenizer", tmp_path / "none", "no such tokenizer.json"),
            ("--model", tmp_path, str(tmp_path)),
            ("--model", "nodir", "nodir is neither a directory nor"),
        ):
            code, _, err = run(capsys, "bench", option, str(path))
            assert code == 2 and said in err

    @pytest.mark.parametrize("engine", ["llguidance", "xgrammar"])
    def test_other_engines(self, capsys, engine):
        """Engines that are installed walk the same documents."""
        pytest.importorskip(engine)
        code, out, _ = run(capsys, "bench", "--rounds", "1", "--engine", engine)
        assert code == 0 and out.count(engine) == 7 and "refuses" not in out

    def test_a_wrong_verdict(self, capsys, monkeypatch):
        """A case that stackmask gets wrong is shown, and the exit code says so."""
        monkeypatch.setattr(benchmark, "CASES", {"wrong": ({"type": "null"}, 1)})
        code, out, _ = run(capsys, "bench", "--rounds", "1", "--engine", "stackmask")
        assert code == 1 and "refuses token 0 of the document" in out

    def test_missing_engines(self, capsys, monkeypatch):
        """Engines that are not installed are left out, unless asked for by name."""
        monkeypatch.setitem(sys.modules, "llguidance", None)
        monkeypatch.setitem(sys.modules, "xgrammar", None)
        code, out, err = run(capsys, "bench", "--rounds", "1")
        assert code == 0 and "xgrammar: not installed" in err and "xgrammar" not in out
        assert run(capsys, "bench", "--engine", "llguidance")[0] == 2


class TestProcess:
    """What only shows in a separate process."""

    def start(self, *arguments, stdin=None):
        """A process that runs stackmask."""
        program = [sys.executable, "-u", "-m", "stackmask"]
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        # A shell's background job ignores Ctrl-C, and so would what it starts.
        return subprocess.Popen([*program, *arguments], **pipes, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def test_help(self):
        """--help imports nothing heavy, and lists the exit codes."""
        code = "import sys; from stackmask.integration.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        code += "assert not {'torch', 'transformers'} & set(sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert "exit codes:" in done.stdout

    def test_as_a_module(self, write):
        """`python -m stackmask` is the command `stackmask`: its name in messages, its output and its exit codes."""
        for arguments, code, out in ((("--version",), 0, "stackmask "), (("check", "--regex", "a", write("b")), 1, "refused"), ((), 2, "")):
            with self.start(*arguments) as process:
                said, messages = process.communicate()
            assert (process.returncode, out in said) == (code, True), messages
        assert messages.startswith("usage: stackmask ")

    def test_broken_pipe(self, write):
        """A reader that goes away is no error worth a word."""
        instances = [write("b")] * 3000
        with self.start("check", "--regex", "a", *instances) as process:
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
        assert process.returncode == command.BROKEN_PIPE

    def test_interrupt(self):
        """Ctrl-C while waiting for input ends with 130 and no traceback."""
        with self.start("check", "--regex", "a", "-", stdin=subprocess.PIPE) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.stderr.read().strip() == ""
        assert process.returncode == 130


def test_colours_are_for_terminals(monkeypatch):
    """Colours on a terminal, none in a file, none where the environment asks for none."""

    class Stream:
        def __init__(self, terminal):
            self.isatty = lambda: terminal

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert command.colour("x", "red", Stream(True)) == "\x1b[31mx\x1b[0m"
    assert command.colour("x", "red", Stream(False)) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert command.colour("x", "red", Stream(True)) == "x"


def test_places_count_characters():
    """Columns are characters, positions bytes."""
    assert place("é\naé".encode(), 4) == "line 2, column 2, byte 4"


def test_version(capsys):
    """--version names the package."""
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("stackmask ")
