"""Every block of the README and the documentation does what its page says, by itself."""

import shutil

import pytest
from support.blocks import ROOT, Block, BlockError, check_block, indented_blocks, matches, missing_client, pages, read_blocks

for module in ("torch", "transformers", "fastapi", "uvicorn", "prometheus_client", "pydantic"):
    pytest.importorskip(module)

BLOCKS = [block for page in pages() for block in read_blocks(page)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_block(block, session):
    """It runs, alone, and prints what the page shows; one that cannot run here says why."""
    if client := missing_client(block):
        pytest.skip(f"{client} is not installed")
    if "curl" in block.code.split() and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    if (reason := check_block(block, session)) is not None:
        pytest.skip(reason)


def test_code_is_fenced():
    """No page has code that is only indented: it has no language, so nothing would run it."""
    assert {str(page.relative_to(ROOT)): lines for page in pages() if (lines := indented_blocks(page))} == {}


def test_every_block_that_is_not_run_says_why():
    """The reason is a few words, and no block of a language that is only parsed has one."""
    reasons = [(block, block.not_run) for block in BLOCKS if block.not_run is not None]
    assert all(len(reason.split()) >= 2 for _, reason in reasons)
    assert {block.language for block, _ in reasons} <= {"python", "bash", "console", "ebnf", "lark"}


WRONG = {
    "another output": ("python", "print(1 + 1)\n#> 3\n", "this is printed"),
    "output that a formatter changed": ("python", "print(1 + 1)\n# > 2\n", "is no output"),
    "a name from nowhere": ("python", "print(grammar)\n", "given"),
    "a name that is not there": ("python", "from stackmask import Compilr\n", "no Compilr in stackmask"),
    "a module that is not there": ("python", "import stackmask.integration.nothing\n", "no module stackmask.integration.nothing"),
    "an option that is not there": ("bash", "stackmask serve --nothing\n", "--nothing"),
    "a command that fails": ("bash", "stackmask check --regex a missing.txt\n", "ends with 2"),
    "output of another command": ("console", "$ stackmask --version\nstackmask 0.0.0\n", "this is printed"),
    "an extra that is not there": ("bash", "pip install 'stackmask[nothing]'\n", "no extra nothing"),
    "a command of another program": ("bash", "rm -rf x\n", "rm is no command that blocks run"),
    "a language without a rule": ("cobol", "STOP RUN.\n", "no rule for blocks of the language 'cobol'"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_block_is_noticed(case, session):
    """The checks fail where a block does not do what it says."""
    language, code, message = case
    with pytest.raises(BlockError, match=message):
        check_block(Block(ROOT / "README.md", 1, 0, language, None, code), session)


def test_wrong_data_and_grammars_are_noticed(session):
    """JSON, YAML, TOML, grammars and regexes are read."""
    wrong = {"json": "{'a': 1}", "jsonl": "{}\n{", "yaml": "a: [", "toml": "a =", "ebnf": "root ::= (", "lark": "start: (", "regex": "("}
    for language, code in wrong.items():
        with pytest.raises(Exception, match=r"."):
            check_block(Block(ROOT / "README.md", 1, 0, language, None, code), session)


def test_what_is_not_run_is_compiled(session):
    """Python that is not run has to be Python, and to import what is there."""
    with pytest.raises(SyntaxError):
        check_block(Block(ROOT / "README.md", 1, 0, "python", None, "f(", (), "needs a GPU"), session)
    with pytest.raises(BlockError, match="no Compilr"):
        check_block(Block(ROOT / "README.md", 1, 0, "python", None, "from stackmask import Compilr", (), "needs a GPU"), session)
    assert check_block(Block(ROOT / "README.md", 1, 0, "python", None, "import vllm", (), "needs vLLM"), session) == "needs vLLM"


def test_output_matches_but_for_what_varies():
    """Dots leave things out, and numbers with a unit may differ; all else may not."""
    assert matches("compiled in 0.42 ms", "compiled in 1,234.5 ms\n")
    assert matches("3 rules... end", "3 rules, and more\nthan that: end")
    assert not matches("3 rules", "4 rules")
    assert not matches("3 rules in 2 ms", "4 rules in 2 ms")
    assert not matches("a.c", "abc")


def test_reading(tmp_path):
    """Titles, comments, fences inside of lists and inside of longer fences are read."""
    page = tmp_path / "page.md"
    page.write_text(
        'a\n\n<!-- given: model, tokenizer -->\n```python\nx\n```\n\n<!-- not run: needs\n```json title="a.json"\n{}\n```\n'
        "- item\n\n  ````text\n  ```\n  ````\n\n<!-- not run: needs a GPU -->\n\n```bash\nvllm\n```\n",
        encoding="utf-8",
    )
    blocks = read_blocks(page)
    assert [(b.language, b.title, b.code, b.given, b.not_run, b.line) for b in blocks] == [
        ("python", None, "x\n", ("model", "tokenizer"), None, 5),
        ("json", "a.json", "{}\n", (), None, 10),
        ("text", None, "```\n", (), None, 15),
        ("bash", None, "vllm\n", (), "needs a GPU", 21),
    ]
    page.write_text("text\n\n    code()\n\n- item\n\n    of the item\n\n```python\n\n    not here\n```\n", encoding="utf-8")
    assert indented_blocks(page) == [3]
