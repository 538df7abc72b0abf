r"""A table of the tool-call notations of model families.

A format is data: `templates.structural_tag` makes a constraint of it, and `parser.CallParser` reads the model's text by it.
In the templates of a call

    $name        the tool's name; where it occurs again, the same name
    $arguments   the arguments, in the format's notation, a row of `stackmask.schema.structural_tag.notations`
    $index       a number, which the model counts up
    $line        a newline; readers accept any blanks, or none
    $space       the same with a space
    $gap         optional blanks: a newline, and up to four spaces
    $string      the input of a custom tool as a JSON string
    $input       the input of a custom tool, unescaped

and everything else stands for itself. Blanks are as the chat templates of the models write them, since many parsers read no others.
Where a call has several spellings, the first is the one that models write most.

The spellings are those that the detectors of vLLM 0.33 and SGLang 0.5.23 read and that the chat templates of the models write;
`parsers` has the names of these engines for them.
`$name` is letters, digits, dots, dashes and underscores, so the text after it in a template begins with another character.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Layout = Literal["free", "before", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way to spell tool calls.

    `open` and `close` stand around all calls of an answer; `separator` stands between two.
    `triggers` are the texts that turn free text into a call; by default the common beginning of all calls. `style` names the notation.
    `layout`: calls stand in "free" text, or text in the frame `text` comes "before" them, or the answer is "either" text or calls.
    `preambles` are frames of text that may come first, `lead` is the text before a required call, `tail` the end of the answer.
    `reasoning` is the beginning and the end of the model's reasoning. `excludes` never occur in free text.
    `is_single`: the model makes one call and ends. `id` is the name of a call in the model's own prompts.
    `custom` spells calls of custom tools; without it, their input is an argument named input.
    `detect`: any group of texts all of which occur in a chat template or among the added tokens shows that this is the format.
    """

    name: str
    families: str
    parsers: str
    calls: tuple[str, ...]
    style: str = "json"
    custom: tuple[str, ...] = ()
    open: str = ""
    close: str = ""
    separator: str = ""
    triggers: tuple[str, ...] = ()
    layout: Layout = "free"
    text: tuple[str, str] = ("", "")
    preambles: tuple[tuple[str, str], ...] = ()
    lead: str = ""
    tail: str = ""
    reasoning: tuple[str, str] = ("<think>", "</think>")
    excludes: tuple[str, ...] = ()
    is_single: bool = False
    id: str = ""
    detect: tuple[tuple[str, ...], ...] = ()


_HERMES: Final = '<tool_call>$line{"name": "$name", "arguments": $arguments}$line</tool_call>'
_NAMED: Final = '{"name": "$name", "arguments": $arguments}'
_ATTRIBUTES: Final = ("</arg_key>", "<arg_key>", "</arg_value>", "<arg_value>")

_TABLE: Final = (
    Format(
        name="hermes",
        families="Hermes 2 Pro to 4, Qwen 2.5, Qwen 3, QwQ, Granite 4, Ernie 4.5, Trinity",
        parsers="vLLM hermes, qwen3_json, granite4, ernie45; SGLang hermes, qwen, qwen25, trinity",
        calls=(_HERMES,),
        separator="\n",
        excludes=("<think>", "</think>"),
        detect=(("<tool_call>",),),
    ),
    Format(
        name="hermes_compact",
        families="EXAONE 4, the demo model",
        parsers="vLLM hermes",
        calls=(_HERMES.replace("$line", "$gap"),),
        excludes=("<think>", "</think>"),
        detect=(('<tool_call>{"name"',),),
    ),
    Format(
        name="longcat",
        families="LongCat Flash",
        parsers="vLLM longcat",
        calls=(_HERMES.replace("tool_call>", "longcat_tool_call>"),),
        separator="\n",
        reasoning=("<longcat_think>", "</longcat_think>"),
        detect=(("<longcat_tool_call>",),),
    ),
    Format(
        name="qwen3_coder",
        families="Qwen 3 Coder, Qwen 3.5, Nemotron 3, Step 3.5, Step 5, Nanbeige",
        parsers="vLLM qwen3_coder, qwen3_xml, step3p5, step5; SGLang qwen3_coder, step3p5, nanbeige",
        calls=("<tool_call>\n<function=$name>\n$arguments\n</function>\n</tool_call>",),
        style="qwen_xml",
        separator="\n",
        excludes=("<think>", "</think>"),
        detect=(("<tool_call>", "<function=", "<parameter="),),
    ),
    Format(
        name="seed_oss",
        families="Seed OSS",
        parsers="vLLM seed_oss",
        calls=("<seed:tool_call>\n<function=$name>\n$arguments\n</function>\n</seed:tool_call>",),
        style="qwen_xml",
        separator="\n",
        reasoning=("<seed:think>", "</seed:think>"),
        excludes=("<seed:think>", "</seed:think>"),
        detect=(("<seed:tool_call>",),),
    ),
    Format(
        name="mimo",
        families="MiMo",
        parsers="vLLM mimo; SGLang mimo",
        calls=("<tool_call>$gap<function=$name>$gap$arguments$gap</function>$gap</tool_call>",),
        style="mimo_xml",
        separator="\n",
        excludes=("<think>", "</think>", "</tool_call>", "<function="),
    ),
    Format(
        name="llama3_json",
        families="Llama 3.1 to 3.3 and Llama 4, by JSON alone",
        parsers="vLLM llama3_json, llama4_json",
        calls=('{"name": "$name", "parameters": $arguments}',),
        separator="; ",
        detect=(('{"name": function name, "parameters"',), ("<|python_tag|>",)),
    ),
    Format(
        name="llama3_tag",
        families="Llama 3.1 to 3.3, after their token for tools",
        parsers="SGLang llama3",
        calls=('<|python_tag|>{"name": "$name", "parameters": $arguments}', '<|python_tag|>{"name": "$name", "arguments": $arguments}'),
        separator="; ",
    ),
    Format(
        name="mistral",
        families="Mistral 7B v0.3, Mixtral 8x22B, Mistral Nemo, Mistral Small 2409, Mistral Large 2407",
        parsers="vLLM mistral; SGLang mistral",
        calls=(_NAMED,),
        open="[TOOL_CALLS]$space[",
        close="]",
        separator=", ",
        reasoning=("[THINK]", "[/THINK]"),
        detect=(("[TOOL_CALLS]",),),
    ),
    Format(
        name="mistral_args",
        families="Mistral Small 3.2, Magistral, Devstral, Ministral 3, Mistral Large 3",
        parsers="vLLM mistral; SGLang mistral",
        calls=("[TOOL_CALLS]$name[ARGS]$arguments", "[TOOL_CALLS]$name$arguments"),
        reasoning=("[THINK]", "[/THINK]"),
        detect=(("[TOOL_CALLS]", "[ARGS]"),),
    ),
    Format(
        name="deepseek_v3",
        families="DeepSeek V3, V3-0324, R1",
        parsers="vLLM deepseek_v3; SGLang deepseekv3",
        calls=("<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$arguments\n```<｜tool▁call▁end｜>",),
        open="<｜tool▁calls▁begin｜>",
        close="<｜tool▁calls▁end｜>",
        separator="\n",
        excludes=("<think>", "</think>"),
        detect=(("<｜tool▁calls▁begin｜>", "```json"),),
    ),
    Format(
        name="deepseek_v31",
        families="DeepSeek V3.1",
        parsers="vLLM deepseek_v31; SGLang deepseekv31",
        calls=("<｜tool▁call▁begin｜>$name<｜tool▁sep｜>$arguments<｜tool▁call▁end｜>",),
        open="<｜tool▁calls▁begin｜>",
        close="<｜tool▁calls▁end｜>",
        excludes=("<think>", "</think>"),
        detect=(("<｜tool▁calls▁begin｜>",),),
    ),
    Format(
        name="deepseek_v32",
        families="DeepSeek V3.2",
        parsers="vLLM deepseek_v32; SGLang deepseekv32",
        calls=('<｜DSML｜invoke name="$name">\n$arguments</｜DSML｜invoke>\n',),
        style="deepseek_xml",
        open="<｜DSML｜function_calls>\n",
        close="</｜DSML｜function_calls>",
        lead="\n\n",
        triggers=("<｜DSML｜function_calls>",),
        excludes=("<think>", "</think>"),
        detect=(("｜DSML｜", "function_calls"),),
    ),
    Format(
        name="deepseek_v4",
        families="DeepSeek V4",
        parsers="vLLM deepseek_v4; SGLang deepseekv4",
        calls=('<｜DSML｜invoke name="$name">\n$arguments</｜DSML｜invoke>\n',),
        style="deepseek_xml",
        open="<｜DSML｜tool_calls>\n",
        close="</｜DSML｜tool_calls>",
        lead="\n\n",
        triggers=("<｜DSML｜tool_calls>",),
        excludes=("<think>", "</think>"),
        detect=(("｜DSML｜", "tool_calls"),),
    ),
    Format(
        name="deepseek_v41",
        families="DeepSeek V4.1",
        parsers="vLLM deepseek_v41; SGLang deepseekv41",
        calls=('<｜DSML｜ invoke name="$name">\n$arguments</｜DSML｜ invoke>\n',),
        style="deepseek_v4_1_xml",
        open="<｜DSML｜ calls>\n",
        close="</｜DSML｜ calls>",
        lead="\n\n",
        triggers=("<｜DSML｜ calls>",),
        excludes=("<think>", "</think>"),
        detect=(("｜DSML｜ calls",),),
    ),
    Format(
        name="glm45",
        families="GLM 4.5 and 4.6, Ling 3, Spark 2.5, Laguna XS",
        parsers="vLLM glm45, ling3, poolside_v1; SGLang glm, glm45, ling3, spark25, poolside_v1",
        calls=("<tool_call>$name\n$arguments</tool_call>",),
        style="glm_xml",
        separator="\n",
        excludes=("<think>", "</think>", "</tool_call>", *_ATTRIBUTES),
        detect=(("<tool_call>", "<arg_key>"),),
    ),
    Format(
        name="glm47",
        families="GLM 4.7, GLM 5",
        parsers="vLLM glm47; SGLang glm47",
        calls=("<tool_call>$name$arguments</tool_call>",),
        style="glm_xml",
        excludes=("<think>", "</think>", "</tool_call>", *_ATTRIBUTES),
        detect=(("<tool_call>{function-name}<arg_key>",), ("<tool_call>", "</arg_key><arg_value>")),
    ),
    Format(
        name="iquest",
        families="IQuest Q1",
        parsers="SGLang iquest_q1",
        calls=("<iquest_tool_call>$name\n$arguments</iquest_tool_call>",),
        style="glm_xml",
        separator="\n",
        detect=(("<iquest_tool_call>",),),
    ),
    Format(
        name="hunyuan_v3",
        families="Hunyuan 3",
        parsers="vLLM hy_v3; SGLang hunyuan",
        calls=("<tool_call>$name<tool_sep>\n$arguments</tool_call>",),
        style="glm_xml",
        open="<tool_calls>\n",
        close="\n</tool_calls>",
        separator="\n",
        triggers=("<tool_calls>",),
        detect=(("<tool_calls>", "<tool_sep>"),),
    ),
    Format(
        name="hunyuan_v4",
        families="Hunyuan 4",
        parsers="vLLM hy_v4; SGLang hunyuan",
        calls=("<tool_call>$name$arguments</tool_call>",),
        style="glm_xml",
        open="<tool_calls>",
        close="</tool_calls>",
        detect=(("<tool_calls>", "<arg_key>"),),
    ),
    Format(
        name="jamba",
        families="Jamba 1.5 to 1.7, Hunyuan A13B",
        parsers="vLLM jamba, hunyuan_a13b",
        calls=(_NAMED,),
        open="<tool_calls>$gap[$gap",
        close="$gap]$gap</tool_calls>",
        separator=", ",
        detect=(("<tool_calls>",),),
    ),
    Format(
        name="harmony",
        families="gpt-oss",
        parsers="vLLM openai; SGLang gpt-oss",
        calls=(
            "<|channel|>commentary to=functions.$name$gap<|constrain|>json<|message|>$arguments<|call|>",
            " to=functions.$name<|channel|>commentary <|constrain|>json<|message|>$arguments<|call|>",
            " to=functions.$name<|channel|>commentary json<|message|>$arguments<|call|>",
        ),
        custom=("<|channel|>commentary to=functions.$name<|message|>$input<|call|>",),
        layout="either",
        text=("<|channel|>final<|message|>", "<|return|>"),
        preambles=(("<|channel|>commentary<|message|>", "<|end|><|start|>assistant"),),
        reasoning=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
        is_single=True,
        detect=(("<|channel|>", "<|message|>", "<|call|>"),),
    ),
    Format(
        name="kimi_k2",
        families="Kimi K2, Kimi K2.5",
        parsers="vLLM kimi_k2; SGLang kimi_k2",
        calls=("<|tool_call_begin|>functions.$name:$index<|tool_call_argument_begin|>$arguments<|tool_call_end|>",),
        open="<|tool_calls_section_begin|>",
        close="<|tool_calls_section_end|>",
        excludes=("<think>", "</think>", "<|tool_call_begin|>"),
        id="functions.$name:$index",
        detect=(("<|tool_calls_section_begin|>",),),
    ),
    Format(
        name="kimi_k3",
        families="Kimi K3",
        parsers="vLLM kimi_k3; SGLang kimi_k3",
        calls=('<|open|>call tool="$name" index="$index"<|sep|>$arguments<|close|>call<|sep|>',),
        style="kimi_k3_xml",
        open="<|open|>tools<|sep|>",
        close="<|close|>tools<|sep|>",
        layout="before",
        text=("", "<|close|>response<|sep|>"),
        tail="<|close|>message<|sep|>",
        reasoning=("", "<|close|>think<|sep|><|open|>response<|sep|>"),
        excludes=("<|open|>", "<|close|>"),
        detect=(("<|open|>tools<|sep|>",), ("<|open|>", "<|close|>", "<|sep|>")),
    ),
    Format(
        name="minimax_m2",
        families="MiniMax M2",
        parsers="vLLM minimax_m2; SGLang minimax-m2",
        calls=('<invoke name="$name">\n$arguments</invoke>\n',),
        style="minimax_xml",
        open="<minimax:tool_call>\n",
        close="</minimax:tool_call>",
        lead="\n",
        triggers=("<minimax:tool_call>",),
        excludes=("<think>", "</think>"),
        detect=(("<minimax:tool_call>",),),
    ),
    Format(
        name="minimax_m3",
        families="MiniMax M3",
        parsers="vLLM minimax_m3; SGLang minimax-m3",
        calls=(']<]minimax[>[<invoke name="$name">$arguments]<]minimax[>[</invoke>\n',),
        style="minimax_m3_xml",
        open="]<]minimax[>[<tool_call>\n",
        close="]<]minimax[>[</tool_call>",
        triggers=("]<]minimax[>[<tool_call>",),
        reasoning=("<mm:think>", "</mm:think>"),
        excludes=("<mm:think>", "</mm:think>", "]<]minimax[>[</tool_call>", "]<]minimax[>[<invoke", "]<]minimax[>[</invoke>"),
        detect=(("]<]minimax[>[",),),
    ),
    Format(
        name="dots",
        families="dots.llm",
        parsers="vLLM dots; SGLang dots",
        calls=('<invoke name="$name">\n$arguments</invoke>\n',),
        style="minimax_xml",
        open="<dots_function_call>\n",
        close="</dots_function_call>",
        triggers=("<dots_function_call>",),
        detect=(("<dots_function_call>",),),
    ),
    Format(
        name="cohere_command",
        families="Command R7B, Command A",
        parsers="vLLM cohere_command3",
        calls=('{"tool_call_id": "$index", "tool_name": "$name", "parameters": $arguments}',),
        open="<|START_ACTION|>[$gap",
        close="$gap]<|END_ACTION|>",
        separator=",\n    ",
        layout="either",
        text=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
        reasoning=("<|START_THINKING|>", "<|END_THINKING|>"),
        detect=(("<|START_ACTION|>", "<|START_RESPONSE|>"),),
    ),
    Format(
        name="cohere_command4",
        families="Command A Plus",
        parsers="vLLM cohere_command4; SGLang cohere_command4",
        calls=('{"tool_call_id": "$index", "tool_name": "$name", "parameters": $arguments}',),
        open="<|START_ACTION|>[$gap",
        close="$gap]<|END_ACTION|>",
        separator=",\n    ",
        layout="either",
        text=("<|START_TEXT|>", "<|END_TEXT|>"),
        reasoning=("<|START_THINKING|>", "<|END_THINKING|>"),
        detect=(("<|START_ACTION|>", "<|START_TEXT|>"),),
    ),
    Format(
        name="cohere_xml",
        families="Command, models that write calls as XML",
        parsers="XGrammar cohere",
        calls=('<cofl:tool_call id="$index" name="$name">$arguments</cofl:tool_call>',),
        style="cohere_xml",
        open="<cofl:tool_calls>",
        close="</cofl:tool_calls>",
        reasoning=("<|START_THINKING|>", "<|END_THINKING|>"),
        excludes=("<|START_THINKING|>", "<|END_THINKING|>"),
        detect=(("<cofl:tool_calls>",),),
    ),
    Format(
        name="phi4_mini",
        families="Phi-4-mini",
        parsers="vLLM phi4_mini_json",
        calls=(_NAMED,),
        open="functools[",
        close="]",
        separator=", ",
        detect=(("functools[",),),
    ),
    Format(
        name="granite",
        families="Granite 3.0",
        parsers="vLLM granite",
        calls=(_NAMED,),
        open="<|tool_call|>$gap[",
        close="]",
        separator=", ",
        detect=(("<|tool_call|>",),),
    ),
    Format(
        name="granite31",
        families="Granite 3.1 to 3.3",
        parsers="vLLM granite",
        calls=(_NAMED,),
        open="<tool_call>$gap[",
        close="]",
        separator=", ",
    ),
    Format(
        name="granite_20b",
        families="Granite 20B functioncalling",
        parsers="vLLM granite-20b-fc",
        calls=('<function_call>$gap{"name": "$name", "arguments": $arguments}',),
        separator=" ",
        detect=(("<function_call>",),),
    ),
    Format(
        name="internlm",
        families="InternLM 2 and 2.5",
        parsers="vLLM internlm",
        calls=('<|action_start|><|plugin|>\n{"name": "$name", "parameters": $arguments}<|action_end|>',),
        is_single=True,
        detect=(("<|action_start|>", "<|plugin|>"),),
    ),
    Format(
        name="interns1",
        families="Intern-S1",
        parsers="SGLang interns1",
        calls=('<|action_start|>$space<|plugin|>\n{"name": "$name", "parameters": $arguments}<|action_end|>',),
        separator="\n",
        detect=(("<|action_start|> <|plugin|>",),),
    ),
    Format(
        name="apertus",
        families="Apertus",
        parsers="vLLM apertus; SGLang apertus2509",
        calls=('{"$name": $arguments}',),
        open="<|tools_prefix|>[",
        close="]<|tools_suffix|>",
        separator=", ",
        detect=(("<|tools_prefix|>",),),
    ),
    Format(
        name="gigachat3",
        families="GigaChat 3, GigaChat 3.1",
        parsers="vLLM gigachat3; SGLang gigachat3",
        calls=(
            '<|function_call|>{"name": "$name", "arguments": $arguments}',
            'function call<|role_sep|>\n{"name": "$name", "arguments": $arguments}',
        ),
        triggers=("<|function_call|>", "function call<|role_sep|>\n"),
        is_single=True,
        detect=(("<|function_call|>",), ("function call<|role_sep|>",)),
    ),
    Format(
        name="plamo3",
        families="PLaMo 3",
        parsers="vLLM plamo3",
        calls=(
            "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>$name<|plamo:end_tool_name:plamo|>"
            "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>$arguments"
            "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
        ),
        open="<|plamo:begin_tool_requests:plamo|>",
        close="<|plamo:end_tool_requests:plamo|>",
        detect=(("<|plamo:begin_tool_requests:plamo|>",),),
    ),
    Format(
        name="inkling",
        families="Inkling",
        parsers="vLLM inkling; SGLang inkling",
        calls=('<|message_model|>$name<|content_invoke_tool_json|>{"name":"$name","args":$arguments}<|end_message|>',),
        layout="either",
        text=("<|message_model|><|content_text|>", "<|end_message|>"),
        preambles=(("<|message_model|><|content_text|>", "<|end_message|>"),),
        reasoning=("<|message_model|><|content_thinking|>", "<|end_message|>"),
        detect=(("<|content_invoke_tool_json|>",),),
    ),
    Format(
        name="step3",
        families="Step 3",
        parsers="vLLM step3; SGLang step3",
        calls=(
            '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="$name">\n$arguments</steptml:invoke><｜tool_call_end｜>\n',
        ),
        style="step_xml",
        open="<｜tool_calls_begin｜>\n",
        close="<｜tool_calls_end｜>",
        triggers=("<｜tool_calls_begin｜>",),
        detect=(("<｜tool_calls_begin｜>",),),
    ),
    Format(
        name="k2_horizon",
        families="K2 Horizon",
        parsers="vLLM k2_horizon; SGLang k2_horizon",
        calls=("<ifm|tool_call>$name$gap$arguments</ifm|tool_call>",),
        style="ifm_xml",
        open="<ifm|tool_calls>$gap",
        close="$gap</ifm|tool_calls>",
        separator="\n",
        detect=(("<ifm|tool_calls>",),),
    ),
    Format(
        name="pythonic",
        families="Llama 3.2 and Llama 4 as Python, ToolACE",
        parsers="vLLM pythonic, llama4_pythonic; SGLang pythonic",
        calls=("$name($arguments)",),
        style="python",
        open="[",
        close="]",
        separator=", ",
        layout="either",
        excludes=("[$name(",),
        detect=(("[func_name1(params_name1=params_value1",),),
    ),
    Format(
        name="xlam",
        families="xLAM 2, Llama xLAM",
        parsers="vLLM xlam",
        calls=(_NAMED,),
        open="[",
        close="]",
        separator=", ",
        layout="either",
        excludes=('[{"name": "$name"',),
    ),
    Format(
        name="olmo3",
        families="Olmo 3",
        parsers="vLLM olmo3",
        calls=("$name($arguments)",),
        style="python_json",
        open="<function_calls>",
        close="</function_calls>",
        separator="\n",
        detect=(("<function_calls>",),),
    ),
    Format(
        name="lfm2",
        families="LFM 2, LFM 2.5",
        parsers="vLLM lfm2; SGLang lfm2",
        calls=("$name($arguments)",),
        style="python",
        open="<|tool_call_start|>[",
        close="]<|tool_call_end|>",
        separator=", ",
        detect=(("<|tool_call_start|>",),),
    ),
    Format(
        name="gemma4",
        families="Gemma 4",
        parsers="vLLM gemma4; SGLang gemma4",
        calls=("<|tool_call>call:$name{$arguments}<tool_call|>",),
        style="gemma",
        reasoning=("<|channel>thought\n", "<channel|>"),
        detect=(("<|tool_call>", "<tool_call|>"),),
    ),
    Format(
        name="function_gemma",
        families="FunctionGemma",
        parsers="vLLM functiongemma",
        calls=("<start_function_call>call:$name{$arguments}<end_function_call>",),
        style="function_gemma",
        detect=(("<start_function_call>",),),
    ),
    Format(
        name="minicpm5",
        families="MiniCPM 4 and 5",
        parsers="vLLM minicpm5; SGLang minicpm5",
        calls=('<function name="$name">$arguments</function>',),
        style="minicpm_xml",
        separator="\n",
        detect=(('<function name="', "<param name="),),
    ),
)

FORMATS: Final[Mapping[str, Format]] = MappingProxyType({entry.name: entry for entry in _TABLE})
DEFAULT: Final = "hermes_compact"


def detect_format(template: str, tokens: Iterable[str] = ()) -> Format | None:
    """The format that a chat template and the names of a tokenizer's added tokens use: the one with the longest group of texts there.

    >>> detect_format("... <tool_call> <function=name> <parameter=city>").name
    'qwen3_coder'
    """
    text = "\n".join([template, *tokens])
    found = [
        (sum(map(len, group)), -index, entry.name)
        for index, entry in enumerate(_TABLE)
        for group in entry.detect
        if all(part in text for part in group)
    ]
    return FORMATS[max(found)[2]] if found else None
