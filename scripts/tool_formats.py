"""Print the table of tool-call formats for docs/tool_calling.md."""

from stackmask.integration.tools.formats import FORMATS, Format
from stackmask.schema.structural_tag.notations import NOTATIONS

GAP, NEWLINE = "·", "⏎"


def main() -> None:
    """Print it."""
    print(table())


def table() -> str:
    """A row for each format."""
    rows = ["| name | families | a call | in vLLM and SGLang |", "|---|---|---|---|"]
    rows += (f"| `{entry.name}` | {entry.families} | {_code(_spelled(entry))} | {entry.parsers} |" for entry in FORMATS.values())
    return "\n".join(rows)


def _spelled(entry: Format) -> str:
    """One call with all that stands around it, with an argument named key."""
    notation = NOTATIONS[entry.style]
    pair = notation.pair.replace("$key", "key").replace("$kind", notation.kinds.get("string", ""))
    arguments = pair.replace("$value", "value") if notation.pair else "{...}"
    if (note := notation.literals) is not None:
        quote = note.quote or '"'
        arguments = f"key{note.assign}{quote}value{quote}"
    call = entry.calls[0].replace("$arguments", arguments).replace("$name", "NAME").replace("$index", "0")
    return f"{entry.open}{call}{entry.close}".replace("$gap", GAP).replace("$line", "\n").replace("$space", " ")


def _code(text: str) -> str:
    """A text as code inside a table."""
    return "`" + text.replace("```", "'''").replace("|", "\\|").replace("\n", NEWLINE) + "`"


if __name__ == "__main__":
    main()
