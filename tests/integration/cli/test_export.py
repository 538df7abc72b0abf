"""`stackmask export`."""

import json

from stackmask.integration.cli import main
from stackmask.pda.ebnf import ebnf_grammar


def test_gbnf(tmp_path, capsys):
    """The grammar goes to standard output, what is lost to standard error; with --exact a loss is a failure."""
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"type": "array", "items": {"type": "string", "maxLength": 65536}, "maxItems": 3000}))
    assert main(["export", "--gbnf", "--exact", "--json-schema", str(path)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert ebnf_grammar(said.out)
    path.write_text(json.dumps({"type": "array", "items": {"type": "string"}, "uniqueItems": True}))
    assert main(["export", "--gbnf", "--json-schema", str(path)]) == 0
    said = capsys.readouterr()
    assert "differ" in said.err
    assert said.out.startswith("root ::=")
    assert main(["export", "--gbnf", "--exact", "--json-schema", str(path)]) != 0
    assert capsys.readouterr().out == ""


def test_what_llama_cpp_does_not_take(tmp_path, capsys):
    """A grammar that it would refuse is an error that names the rule."""
    path = tmp_path / "sums.ebnf"
    path.write_text('root ::= root "+" [0-9] | [0-9]')
    assert main(["export", "--gbnf", "--ebnf", str(path)]) == 2
    assert "`root` is left-recursive" in capsys.readouterr().err
