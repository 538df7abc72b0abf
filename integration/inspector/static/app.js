// The page: state in one component, answers from one route. Text reaches the document as text only, never as HTML.

import { h, htm, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor.js";
import { createEditor } from "./editor.js";
import { EXAMPLES, KINDS } from "./examples.js";
import { Drawing } from "./drawing.js";

const html = htm.bind(h);
const ROUTE = new URL("v1/grammar/inspect", new URL(".", location.href));
const PAGE = 40; // rows of a page of tokens
const STRIP = 400; // tokens that are drawn at first
const LONG = 200_000; // characters of a specification from which on a request waits for a pause in typing
const TABS = [
  ["cursor", "At the cursor"], ["report", "Report"], ["rules", "Rules"], ["automaton", "Automaton"], ["sample", "Random"],
  ["difference", "Compare"], ["probabilities", "Model"], ["snippets", "Code"],
];

// Offsets: answers count code points, JavaScript UTF-16 units.
const hasPairs = (text) => /[\ud800-\udbff][\udc00-\udfff]/.test(text);
function toUnits(text) {
  if (!hasPairs(text)) return (offset) => offset;
  const units = [0];
  for (const character of text) units.push(units[units.length - 1] + character.length);
  return (offset) => units[Math.min(offset, units.length - 1)];
}
const toPoints = (text, unit) => (hasPairs(text) ? [...text.slice(0, unit)].length : unit);

// The text of bytes to units: offsets of tokens count bytes.
function byteUnits(text) {
  const units = [0];
  let unit = 0;
  for (const character of text) {
    const point = character.codePointAt(0);
    const size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (let i = 1; i < size; i++) units.push(unit);
    unit += character.length;
    units.push(unit);
  }
  return units;
}

const visible = (text) => text.replace(/ /g, "·").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "␍");
// Text with parts between backticks as code.
const ticked = (text) => text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const micros = (value) => (value === null || value === undefined ? "" : value < 10 ? `${value.toFixed(1)} µs` : value < 1000 ? `${Math.round(value)} µs` : `${(value / 1000).toFixed(1)} ms`);

function readLink() {
  try {
    const data = location.hash.startsWith("#s=") ? location.hash.slice(3) : "";
    if (!data) return null;
    const bytes = Uint8Array.from(atob(data.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
    const value = JSON.parse(new TextDecoder().decode(bytes));
    if (!KINDS.some(([kind]) => kind === value.kind) || typeof value.spec !== "string" || typeof value.text !== "string") return null;
    const options = value.options && typeof value.options === "object" ? value.options : {};
    return { kind: value.kind, spec: value.spec, text: value.text, options };
  } catch {
    return null;
  }
}

function writeLink({ kind, spec, text, options }) {
  const bytes = new TextEncoder().encode(JSON.stringify({ kind, spec, text, options }));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return `#s=${btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "")}`;
}

function specification({ kind, spec, options }) {
  const kept = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== "" && value !== false));
  return { kind, text: kind === "json" ? "" : spec, options: kept };
}

// The latest request wins: one is under way at most, and what was asked meanwhile is asked when it has ended.
function useAnswer(body, wait) {
  const [result, setResult] = useState({ answer: null, error: null, status: 0, ask: null });
  const state = useRef({ busy: false, next: null, timer: 0, alive: true, key: "" }).current;
  const [key, setKey] = useState("");
  const run = async () => {
    if (state.busy || !state.next) return;
    const asked = state.next;
    state.next = null;
    state.busy = true;
    try {
      const headers = { "Content-Type": "application/json", ...(state.key ? { Authorization: `Bearer ${state.key}` } : {}) };
      const response = await fetch(ROUTE, { method: "POST", headers, body: asked.json });
      const answer = await response.json();
      if (!state.alive) return;
      if (response.ok) setResult({ answer, error: null, status: 200, ask: asked.body });
      else setResult({ answer: null, error: answer.error?.message ?? `status ${response.status}`, status: response.status, ask: asked.body });
    } catch (error) {
      if (state.alive) setResult({ answer: null, error: `the server does not answer (${error.message})`, status: 0, ask: asked.body });
    } finally {
      state.busy = false;
      if (state.alive) run();
    }
  };
  const json = body === null ? null : JSON.stringify(body);
  useLayoutEffect(() => {
    if (json === null) return;
    state.key = key;
    state.next = { json, body };
    clearTimeout(state.timer);
    if (wait) state.timer = setTimeout(run, wait);
    else run();
  }, [json, key]);
  useEffect(() => () => { state.alive = false; }, []);
  return [result, setKey];
}

// The value before, where this one says the same.
function useSame(value) {
  const kept = useRef(value);
  if (JSON.stringify(kept.current) !== JSON.stringify(value)) kept.current = value;
  return kept.current;
}

function Editor({ text, kind, label, describedBy, hint, marks, ghost, serial, onChange, onCursor, isSpecification, handle }) {
  const parent = useRef(null);
  const editor = useRef(null);
  const calls = useRef({});
  calls.current = { onChange, onCursor };
  useEffect(() => {
    editor.current = createEditor({
      parent: parent.current, text, label, describedBy, hint, isSpecification,
      onChange: (value) => calls.current.onChange(value), onCursor: (offset) => calls.current.onCursor?.(offset),
    });
    if (handle) handle.current = editor.current;
    return () => editor.current.destroy();
  }, []);
  useEffect(() => editor.current.setLanguage(kind), [kind]);
  useEffect(() => editor.current.setText(text), [serial]); // not for every text: one that is typed is older than the editor's by then
  useEffect(() => { if (marks) editor.current.setMarks(marks); }, [marks]); // none yet: those that are there move with the text
  useEffect(() => { if (!isSpecification) editor.current.setGhost(ghost); }, [ghost]);
  return html`<div class="editor" ref=${parent}></div>`;
}

function Options({ kind, options, onChange }) {
  const set = (name, value) => onChange({ ...options, [name]: value });
  if (kind === "json_schema") {
    return html`<details class="options"><summary>Options</summary><div class="fields">
      <label>Order of keys<select value=${options.property_order ?? ""} onChange=${(e) => set("property_order", e.target.value)}>
        <option value="">as in the schema</option><option value="any">any</option></select></label>
      <label>Undeclared keys<select value=${options.extra_properties ?? ""} onChange=${(e) => set("extra_properties", e.target.value)}>
        <option value="">where the schema allows them</option><option value="closed">none</option></select></label>
      <label>Blanks<select value=${options.whitespace ?? ""} onChange=${(e) => set("whitespace", e.target.value)}>
        <option value="">as printers write</option><option value="compact">none</option>
        <option value="flexible">any</option></select></label>
      <label class="check"><input type="checkbox" checked=${!!options.lenient} onChange=${(e) => set("lenient", e.target.checked)} /> lenient</label>
    </div></details>`;
  }
  const root = { ebnf: "root", lark: "start" }[kind];
  if (!root) return null;
  return html`<details class="options"><summary>Options</summary><div class="fields">
    <label>First rule<input value=${options[root] ?? ""} placeholder=${root} onInput=${(e) => set(root, e.target.value)} /></label></div></details>`;
}

function SpecificationStatus({ answer, error, onPlace }) {
  if (error) return html`<p class="status bad" role="status">${error}</p>`;
  if (!answer) return html`<p class="status" role="status">…</p>`;
  const found = answer.specification;
  if (found.error) {
    return html`<div class="status bad" role="status"><strong>No grammar:</strong> ${found.error.message}
      ${found.error.problems.length > 1 || found.error.type === "unsupported" ? html`<ul>${found.error.problems.slice(0, 20).map((problem) => html`
        <li><button class="link" onClick=${() => onPlace(problem.range)}>${problem.pointer || "here"}</button> ${problem.message}</li>`)}</ul>` : null}</div>`;
  }
  return html`<p class="status" role="status"><b>${plural(found.rules, "rule")}</b>, ${plural(found.nodes, "node")},
    compiled in ${found.compile_milliseconds < 1 ? `${Math.round(found.compile_milliseconds * 1000)} µs` : `${found.compile_milliseconds.toFixed(1)} ms`}
    ${found.warnings.length ? html`<span class="warn"> · ${plural(found.warnings.length, "warning")}: ${found.warnings[0]}</span>` : null}</p>`;
}

function Verdict({ trace, onPlace, onApply }) {
  if (!trace) return html`<p class="verdict" id="verdict" role="status"></p>`;
  if (trace.refusal) {
    const { refusal } = trace;
    const place = refusal.place;
    const names = place ? [...(place.pointer !== undefined ? [place.pointer || "the whole"] : []), ...(place.rule ? [`rule ${place.rule}`] : [])] : [];
  const name = names.join(", ") || "the pattern";
    const expected = [refusal.expected_bytes && `${refusal.expected.length > 1 ? "one of " : ""}${refusal.expected_bytes}`, refusal.may_end && "the end of the text"].filter(Boolean).join(" or ");
    return html`<div class="verdict bad" id="verdict" role="status">
      <p title=${refusal.sentence}><span class="badge bad">refused</span> line ${refusal.line}, column ${refusal.column}: <code class="char">${visible(refusal.character)}</code> cannot stand here${
        expected ? html`; expected is <code>${expected}</code>` : ""}.</p>
      ${refusal.reasons.map((reason) => html`<p class="reason">${ticked(reason)}</p>`)}
      ${place ? html`<p class="because">${place.reason ? html`Because ${ticked(place.reason)}: ` : "In "}
        <button class="link" onClick=${() => onPlace(place.range)}>${name}${place.line ? `, line ${place.line}` : ""}</button></p>` : null}
      ${refusal.nearest?.completion !== null && refusal.nearest ? html`<p class="because">Nearest text that is accepted: <code class="wrap"><span class="dim">${
        refusal.nearest.kept.slice(-24)}</span><b>${refusal.nearest.completion.slice(0, 80)}</b></code>
        <button class="small" onClick=${() => onApply(refusal.nearest.kept + refusal.nearest.completion)}>Use it</button></p>` : null}
    </div>`;
  }
  return trace.complete
    ? html`<div class="verdict good" id="verdict" role="status"><p><span class="badge good">complete</span> The text is accepted as a whole.</p></div>`
    : html`<div class="verdict" id="verdict" role="status"><p><span class="badge">fits so far</span> More has to follow. Tab takes the shortest end.</p></div>`;
}

function Strip({ strip, text, cursor, texts, onPick }) {
  const [shown, setShown] = useState(STRIP);
  const units = useMemo(() => byteUnits(text), [text]);
  const list = useRef(null);
  const drawn = useRef([]).current; // buttons that stay as they are, which Preact then leaves alone
  const calls = useRef({}).current;
  if (!strip) return null;
  const rows = strip.tokens.slice(0, shown);
  const at = rows.findIndex(([, start, end]) => units[start] < cursor && cursor <= units[end]);
  const current = Math.max(0, at);
  const counts = {};
  let time = 0;
  for (const row of strip.tokens) {
    counts[row[3]] = (counts[row[3]] ?? 0) + 1;
    if (row[5] !== null) time += row[5] + row[6];
  }
  const move = (event, index) => {
    const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || to < 0 || to >= rows.length) return;
    event.preventDefault();
    onPick(units[rows[to][2]]);
    list.current.children[to]?.focus();
  };
  Object.assign(calls, { move, onPick, units });
  const button = (row, index) => {
    const [id, start, end, status, allowed, mask, step] = row;
    const piece = text.slice(units[start], units[end]) || "�";
    const key = `${row} ${index === at} ${index === current} ${piece}`;
    if (drawn[index]?.key !== key) {
      const title = `token ${id}${allowed !== null ? `: ${plural(allowed, "token")} allowed here, mask ${micros(mask)}, step ${micros(step)}` : ""}`;
      const label = `${piece}, ${status}${allowed !== null ? `, ${allowed} allowed` : ""}`;
      drawn[index] = { key, node: html`<button key=${index} class=${`token ${status}${index === at ? " here" : ""}`} tabindex=${index === current ? 0 : -1} title=${title}
        aria-label=${label} aria-current=${index === at ? "true" : undefined} onClick=${() => calls.onPick(calls.units[end])} onKeyDown=${(event) => calls.move(event, index)}>
        <span class="piece">${visible(piece)}</span><span class="count">${allowed === null ? "–" : allowed === 1 ? "1" : short(allowed)}</span></button>` };
    }
    return drawn[index].node;
  };
  return html`<section class="strip" aria-labelledby="strip-title">
    <h2 id="strip-title">Tokens <span class="dim">${plural(strip.tokens.length, "token")}${
      ["forced", "chosen", "refused"].filter((name) => counts[name]).map((name) => ` · ${counts[name]} ${name}`).join("")} · masks and steps ${micros(time)}${
      strip.exact ? "" : " · longest match"}</span></h2>
    <div class="tokens" role="group" aria-label="Tokens of the text; arrow keys move" ref=${list}>
      ${rows.map(button)}
      ${strip.tokens.length > shown ? html`<button class="small" onClick=${() => setShown(shown + 2000)}>Show ${plural(strip.tokens.length - shown, "more token")}</button>` : null}
    </div>
    <p class="legend"><span class="key forced">forced</span><span class="key chosen">chosen</span><span class="key refused">refused</span><span class="key after">not reached</span>
      <span class="dim">the number under a token: how many tokens were allowed in its place</span></p>
  </section>`;
}

const short = (count) => (count < 1000 ? `${count}` : count < 100_000 ? `${(count / 1000).toFixed(1)}k` : `${Math.round(count / 1000)}k`);

function Crumbs({ cursor }) {
  const path = cursor.path;
  return html`<div class="crumbs">
    ${path ? html`<nav aria-label="JSON path"><ol class="path"><li>root</li>${path.map((part) => html`<li>${typeof part === "number" ? `[${part}]` : part}</li>`)}
      <li class="reading">${cursor.reading}</li></ol></nav>` : null}
    <nav aria-label="Rules that have begun"><ol class="path rules">${cursor.rules.map((rule) => html`<li>${rule}</li>`)}</ol></nav>
  </div>`;
}

function Bound({ bound }) {
  const { used, minimum, maximum, unit, pointer } = bound;
  const most = maximum ?? Math.max(minimum ?? 1, used);
  const left = maximum !== null ? `${plural(maximum - used, unit.replace(/s$/, ""))} left` : minimum !== null && used < minimum ? `${minimum - used} more needed` : "enough";
  return html`<div class="bound"><div><b>${used}</b> ${unit} <span class="dim">${minimum !== null ? `at least ${minimum}` : ""}${
    minimum !== null && maximum !== null ? ", " : ""}${maximum !== null ? `at most ${maximum}` : ""} · ${pointer || "/"}</span><span class="right">${left}</span></div>
    <meter min="0" max=${Math.max(1, most)} value=${Math.min(used, most)} aria-label=${`${used} of ${most} ${unit}`}></meter></div>`;
}

function AtCursor({ cursor, query, setQuery, offset, setOffset, tried, setTried, onInsert }) {
  if (!cursor) return html`<p class="dim">Nothing to show: the specification has no grammar.</p>`;
  const { allowed } = cursor;
  return html`<div class="grid">
    <div class="card"><h3>Where the text stands</h3>
      ${cursor.beyond ? html`<p class="note">The cursor is behind the refused character; this is the place before it.</p>` : null}
      <${Crumbs} cursor=${cursor} />
      <dl>
        <dt>Must follow</dt><dd>${cursor.forced ? html`<code class="wrap forced-text">${visible(cursor.forced.slice(0, 300))}</code>` : html`<span class="dim">nothing: there is a choice${cursor.complete ? ", or the end" : ""}</span>`}</dd>
        <dt>Shortest end</dt><dd>${cursor.completion === null ? html`<span class="dim">${cursor.error}</span>` : cursor.completion === "" ? html`<span class="dim">the text is complete</span>` : html`<code class="wrap">${visible(cursor.completion.slice(0, 300))}</code> <span class="dim">${plural(cursor.bytes, "byte")}</span>`}</dd>
      </dl>
      ${cursor.bounds?.length ? html`<h4>What is left of bounds</h4>${cursor.bounds.map((bound) => html`<${Bound} bound=${bound} />`)}` : null}
      <h4>Try what comes next</h4>
      <form class="try" onSubmit=${(event) => event.preventDefault()}>
        <label for="try" class="hidden">A text to try at the cursor</label>
        <input id="try" value=${tried} placeholder="type a text to try here" autocomplete="off" maxlength="400" onInput=${(event) => setTried(event.target.value)} />
      </form>
      ${cursor.try ? html`<div class=${`tried ${cursor.try.accepted ? "good" : "bad"}`} role="status"><p>${cursor.try.sentence}</p>
        ${cursor.try.nearest && cursor.try.nearest.completion !== null ? html`<p>Nearest: <code class="wrap"><span class="dim">${visible(cursor.try.nearest.kept)}</span><b>${visible(cursor.try.nearest.completion.slice(0, 120))}</b></code></p>` : null}</div>` : null}
    </div>
    <div class="card"><h3>Allowed tokens <span class="dim">${allowed.total.toLocaleString("en")} of ${allowed.size.toLocaleString("en")}</span></h3>
      <div class="groups" aria-label="First bytes of the allowed tokens">${allowed.groups.map(([byte, count]) => html`<button class="group" title=${`${plural(count, "token")} begin with ${byte}`}
        onClick=${() => { setQuery(byte.length === 1 ? byte : ""); setOffset(0); }}><b>${visible(byte)}</b> ${short(count)}</button>`)}</div>
      <label for="query" class="hidden">Search the allowed tokens</label>
      <input id="query" type="search" value=${query} placeholder="search the allowed tokens" maxlength="200" onInput=${(event) => { setQuery(event.target.value); setOffset(0); }} />
      <ul class="allowed" aria-label="Allowed tokens">${allowed.rows.map(([id, text, kind]) => html`<li><button title="Put it into the text" onClick=${() => onInsert(text)}>
        <code>${visible(text) || "∅"}</code><span class="id">${id}</span><span class=${`kind ${kind}`}>${kind === "dependent" ? "ends the rule" : "in the rule"}</span></button></li>`)}</ul>
      <p class="pager"><button class="small" disabled=${offset === 0} onClick=${() => setOffset(Math.max(0, offset - PAGE))}>Back</button>
        <span>${allowed.matching === 0 ? "none" : `${offset + 1}–${Math.min(offset + PAGE, allowed.matching)} of ${allowed.matching.toLocaleString("en")}`}</span>
        <button class="small" disabled=${offset + PAGE >= allowed.matching} onClick=${() => setOffset(offset + PAGE)}>Next</button></p>
      <p class="dim fine">“In the rule”: the rule that the text stands in decides alone (context-independent). “Ends the rule”: reading the token ends it, so the rules around it decide too (context-dependent).</p>
    </div></div>`;
}

function Report({ report, onPlace }) {
  if (!report) return html`<p class="dim">Only JSON Schemas have a report: every keyword, and what became of it.</p>`;
  return html`<div class="scroll"><table><caption class="hidden">Keywords of the schema</caption><thead><tr><th scope="col">Status</th><th scope="col">Place</th><th scope="col">Note</th></tr></thead>
    <tbody>${report.entries.map((entry) => html`<tr><td><span class=${`badge ${entry.status === "enforced" ? "good" : entry.status === "annotation" ? "" : "warn"}`}>${entry.status}</span></td>
      <td><button class="link" onClick=${() => onPlace(entry.range)}>${entry.pointer || "/"}</button></td><td>${entry.note}</td></tr>`)}</tbody></table></div>`;
}

function Compare({ other, setOther, difference, onApply }) {
  const row = (name, title) => {
    const found = difference?.[name];
    if (!found) return null;
    return html`<div class="card"><h3>${title}</h3>${found.text === null ? html`<p>${found.exact ? "None" : "Not found"}: <span class="dim">${found.note}</span></p>`
      : html`<p><code class="wrap">${found.text.slice(0, 600)}</code></p><p class="dim">${found.note} <button class="small" onClick=${() => onApply(found.text)}>Use it as text</button></p>`}</div>`;
  };
  return html`<div><p>A second specification: what does one take and the other refuse?</p>
    <p class="fields"><label>Kind<select value=${other.kind} onChange=${(e) => setOther({ ...other, kind: e.target.value })}>${KINDS.map(([kind, name]) => html`<option value=${kind}>${name}</option>`)}</select></label></p>
    <label for="other" class="hidden">The second specification</label>
    <textarea id="other" rows="8" spellcheck="false" value=${other.text} onInput=${(e) => setOther({ ...other, text: e.target.value })} placeholder="paste it here"></textarea>
    ${difference?.specification?.error ? html`<p class="status bad" role="status">${difference.specification.error.message}</p>` : null}
    <div class="grid">${row("only_first", "Only the first takes")}${row("only_second", "Only the second takes")}</div></div>`;
}

function Model({ probabilities, text }) {
  if (!probabilities) return html`<p class="dim">Only a server with a model (<code>stackmask serve</code>) has probabilities.</p>`;
  if (probabilities.error) return html`<p class="status bad">${probabilities.error}</p>`;
  const units = byteUnits(text);
  const rows = probabilities.tokens;
  const points = rows.map(([, , , , , mass], index) => `${((index + 0.5) / rows.length) * 600},${64 - 60 * mass}`).join(" ");
  return html`<div><h3>Feasible mass <span class="dim">what the model gave to the allowed tokens, along the text</span></h3>
    <svg class="spark" viewBox="0 0 600 68" preserveAspectRatio="none" role="img" aria-label="Feasible mass along the text"><polyline points=${points} /></svg>
    <div class="scroll"><table><caption class="hidden">Probabilities</caption><thead><tr><th scope="col">Token</th><th scope="col">Model</th><th scope="col">After the mask</th><th scope="col">Feasible mass</th></tr></thead><tbody>
    ${rows.map(([id, start, end, p, q, mass]) => html`<tr><td><code>${visible(text.slice(units[start], units[end]))}</code> <span class="dim">${id}</span></td>
      <td><${Bar} value=${p} /></td><td><${Bar} value=${q} kind="q" /></td><td>${percent(mass)}</td></tr>`)}</tbody></table></div></div>`;
}

const percent = (value) => (value >= 0.1 ? `${(100 * value).toFixed(0)} %` : value >= 0.001 ? `${(100 * value).toFixed(2)} %` : value.toExponential(1));

function Bar({ value, kind }) {
  return html`<span class=${`bar ${kind ?? "p"}`}><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${100 * value} height="8" /></svg>${percent(value)}</span>`;
}

function Code({ snippets }) {
  const [copied, setCopied] = useState("");
  const names = { python: "Python", curl: "curl", vllm: "vLLM", sglang: "SGLang" };
  if (!snippets) return html`<p class="dim">Nothing to copy: the specification has no grammar, or is too long.</p>`;
  const copy = async (name) => { await navigator.clipboard?.writeText(snippets[name]); setCopied(name); setTimeout(() => setCopied(""), 1500); };
  return html`<div class="grid wide">${Object.keys(snippets).map((name) => html`<div class="card"><h3>${names[name]} <button class="small right" onClick=${() => copy(name)}>${copied === name ? "Copied" : "Copy"}</button></h3>
    <pre tabindex="0" aria-label=${`${names[name]} code`}>${snippets[name]}</pre></div>`)}</div>`;
}

function Tabs({ tab, setTab, hidden }) {
  const tabs = TABS.filter(([name]) => !hidden.includes(name));
  const move = (event) => {
    const index = tabs.findIndex(([name]) => name === tab);
    const to = { ArrowRight: (index + 1) % tabs.length, ArrowLeft: (index + tabs.length - 1) % tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    setTab(tabs[to][0]);
    document.getElementById(`tab-${tabs[to][0]}`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label="Views" onKeyDown=${move}>${tabs.map(([name, title]) => html`<button role="tab" id=${`tab-${name}`}
    aria-selected=${tab === name} aria-controls="panel" tabindex=${tab === name ? 0 : -1} onClick=${() => setTab(name)}>${title}</button>`)}</div>`;
}

function App() {
  const linked = useMemo(readLink, []);
  const [state, setState] = useState(() => ({ serial: 0, options: {}, ...(linked ?? { kind: EXAMPLES[0].kind, spec: EXAMPLES[0].spec, text: EXAMPLES[0].text }) }));
  const [example, setExample] = useState(linked ? "" : "0");
  const [cursor, setCursor] = useState(state.text.length);
  const [info, setInfo] = useState({ tokenizers: [], model: null });
  const [tokenizer, setTokenizer] = useState("");
  const [tab, setTab] = useState("cursor");
  const [query, setQuery] = useState("");
  const [offset, setOffset] = useState(0);
  const [tried, setTried] = useState("");
  const [seed, setSeed] = useState(0);
  const [other, setOther] = useState({ kind: state.kind, text: "" });
  const [theme, setTheme] = useState(() => localStorage.getItem("stackmask-theme") ?? "");
  const [copied, setCopied] = useState(false);
  const specEditor = useRef(null);
  const textEditor = useRef(null);

  useEffect(() => { fetch(ROUTE).then((response) => response.json()).then((found) => { if (found.tokenizers) setInfo(found); }).catch(() => {}); }, []);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("stackmask-theme", theme);
  }, [theme]);
  useEffect(() => {
    const timer = setTimeout(() => { if (state.spec.length + state.text.length < 100_000) history.replaceState(null, "", writeLink(state)); }, 400);
    return () => clearTimeout(timer);
  }, [state]);
  useEffect(() => {
    const follow = () => { const found = readLink(); if (found) { replace(found); setCursor(found.text.length); setExample(""); } };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);

  const wait = state.spec.length > LONG ? 400 : 0;
  const common = { specification: specification(state), text: state.text, ...(tokenizer ? { tokenizer } : {}), cursor: toPoints(state.text, Math.min(cursor, state.text.length)) };
  const body = { ...common, views: ["trace", "tokens", "cursor"], limit: PAGE, offset, ...(query ? { query } : {}), ...(tried ? { try_text: tried } : {}) };
  const [main, setKey] = useAnswer(body, wait);
  const extraBody = tab === "cursor" || (tab === "difference" && !other.text) ? null : {
    ...common, views: [tab], ...(tab === "sample" ? { seed } : {}), ...(tab === "difference" ? { other: { kind: other.kind, text: other.text } } : {}),
  };
  const [extra, setExtraKey] = useAnswer(extraBody, wait + 60);
  const view = extra.ask?.views[0] === tab ? extra.answer : null;

  const { answer, ask } = main;
  const fresh = answer && ask.text === state.text && ask.specification.text === common.specification.text && ask.specification.kind === state.kind;
  const trace = answer?.trace ?? null;

  const textMarks = useMemo(() => {
    if (answer && !trace) return [];
    if (!fresh) return null;
    const units = toUnits(ask.text);
    return trace.spans.filter(([, , flag]) => flag !== "unknown").map(([start, end, flag]) => ({ from: units(start), to: units(end), name: `mark-${flag}` }));
  }, [answer, fresh]);
  const specMarks = useSame(useMemo(() => {
    if (!answer || ask.specification.text !== common.specification.text) return null;
    const units = toUnits(ask.specification.text);
    const mark = (range, name) => (range ? [{ from: units(range[0]), to: units(range[1]), name }] : []);
    const place = trace?.refusal?.place;
    const live = answer.cursor?.places ?? [];
    return [
      ...(answer.specification.error?.problems ?? []).flatMap((problem) => mark(problem.range, "mark-error")),
      ...(place ? (place.parts ?? [place.range]).flatMap((range) => mark(range, "mark-responsible")) : live.slice(-2).flatMap((each) => (each.parts ?? [each.range]).flatMap((range) => mark(range, "mark-live")))),
    ];
  }, [answer, state.spec, state.kind]));
  const ghost = fresh && trace?.accepted && answer.cursor?.completion && toPoints(state.text, cursor) === ask.cursor && cursor === state.text.length ? answer.cursor.completion : null;

  const change = (part) => setState((old) => ({ ...old, ...part }));
  const replace = (part) => setState((old) => ({ ...old, ...part, serial: old.serial + 1 })); // what comes from elsewhere than the editors
  const pickExample = (index) => {
    const found = EXAMPLES[Number(index)];
    if (!found) return;
    setExample(index);
    replace({ kind: found.kind, spec: found.spec, text: found.text, options: {} });
    setCursor(found.text.length);
    setOffset(0); setQuery(""); setTried("");
  };
  const pickKind = (kind) => {
    const index = EXAMPLES.findIndex((each) => each.kind === kind);
    pickExample(String(index));
  };
  const moveCursor = (unit) => { setCursor(unit); setOffset(0); textEditor.current?.setCursor(unit); };
  const applyText = (text) => { replace({ text }); setCursor(text.length); };
  const placed = trace?.refusal?.place?.range?.join("-") ?? "";
  useEffect(() => { if (placed && fresh && !document.activeElement?.closest(".spec-pane")) showPlace(trace.refusal.place.range); }, [placed]);
  const showPlace = (range) => { if (range) specEditor.current?.reveal(toUnits(state.spec)(range[0])); };
  const insert = (text) => { textEditor.current?.setCursor(cursor); textEditor.current?.insert(text); };
  const share = async () => { await navigator.clipboard?.writeText(new URL(writeLink(state), location.href).href); setCopied(true); setTimeout(() => setCopied(false), 1500); };
  const dark = theme === "dark" || (!theme && matchMedia("(prefers-color-scheme: dark)").matches);

  const panel = {
    cursor: () => html`<${AtCursor} cursor=${answer?.cursor} ...${{ query, setQuery, offset, setOffset, tried, setTried }} onInsert=${insert} />`,
    report: () => html`<${Report} report=${view?.report} onPlace=${showPlace} />`,
    rules: () => html`<${Drawing} drawing=${view?.rules} empty="The graph of the rules comes here." />`,
    automaton: () => html`<${Drawing} drawing=${view?.automaton} empty="The automaton of the rule at the cursor comes here, with its live state." />`,
    sample: () => html`<div><p><button class="main" onClick=${() => setSeed(seed + 1)}>Another one</button></p>
      ${view?.sample ? html`<pre tabindex="0" class="sample" aria-label="A random text">${view.sample}</pre><p><button class="small" onClick=${() => applyText(view.sample)}>Use it as text</button></p>` : html`<p class="dim">…</p>`}</div>`,
    difference: () => html`<${Compare} other=${other} setOther=${setOther} difference=${view?.difference} onApply=${applyText} />`,
    probabilities: () => html`<${Model} probabilities=${view?.probabilities} text=${extra.ask?.text ?? ""} />`,
    snippets: () => html`<${Code} snippets=${view?.snippets} />`,
  }[tab];

  const strip = useMemo(
    () => html`<${Strip} strip=${answer?.tokens} text=${ask?.text ?? ""} cursor=${ask ? toUnits(ask.text)(ask.cursor) : 0} onPick=${moveCursor} />`, [answer]);

  return html`
    <header class="top">
      <h1><span class="logo" aria-hidden="true"></span>stackmask <span class="dim">inspector</span></h1>
      <div class="controls">
        <label>Example<select value=${example} onChange=${(e) => pickExample(e.target.value)}><option value="" disabled>your own</option>${EXAMPLES.map((each, index) => html`<option value=${String(index)}>${each.name}</option>`)}</select></label>
        <label>Tokenizer<select value=${tokenizer} onChange=${(e) => setTokenizer(e.target.value)}>${info.tokenizers.map((each, index) => html`<option value=${index ? each.name : ""}>${each.name} (${each.size.toLocaleString("en")})</option>`)}</select></label>
        <button class="icon" onClick=${share}>${copied ? "Link copied" : "Copy link"}</button>
        <button class="icon" aria-pressed=${dark} onClick=${() => setTheme(dark ? "light" : "dark")}>${dark ? "Light" : "Dark"}</button>
      </div>
    </header>
    <main data-shown=${fresh ? state.text.length : -1}>
      ${main.status === 401 ? html`<form class="key" onSubmit=${(e) => { e.preventDefault(); const value = new FormData(e.target).get("key"); setKey(value); setExtraKey(value); }}>
        <label>This server asks for a key<input name="key" type="password" autocomplete="off" /></label><button class="main">Use it</button></form>` : null}
      <div class="panes">
        <section class="pane spec-pane" aria-labelledby="spec-title">
          <div class="head"><h2 id="spec-title">Specification</h2>
            <div class="kinds" role="group" aria-label="Kind of specification">${KINDS.map(([kind, name]) => html`<button aria-pressed=${state.kind === kind} onClick=${() => { if (kind !== state.kind) pickKind(kind); }}>${name}</button>`)}</div></div>
          <${Editor} isSpecification=${true} handle=${specEditor} serial=${state.serial} kind=${state.kind} text=${state.spec} label="Specification" hint=${state.kind === "json" ? "Any JSON needs no specification." : "Write or paste a specification."}
            marks=${specMarks} onChange=${(spec) => { change({ spec }); setExample(""); setOffset(0); }} />
          <${Options} kind=${state.kind} options=${state.options} onChange=${(options) => change({ options })} />
          <${SpecificationStatus} answer=${answer} error=${main.error} onPlace=${showPlace} />
        </section>
        <section class="pane" aria-labelledby="text-title">
          <div class="head"><h2 id="text-title">Text</h2><p class="keys"><kbd>Tab</kbd> takes the grey end, <kbd>Esc</kbd> hides it</p></div>
          <${Editor} handle=${textEditor} serial=${state.serial} kind="" text=${state.text} label="Text" describedBy="verdict" hint="Write a text, and see how far it fits."
            marks=${textMarks} ghost=${ghost} onChange=${(text) => { change({ text }); setOffset(0); }} onCursor=${setCursor} />
          <${Verdict} trace=${trace} onPlace=${showPlace} onApply=${applyText} />
        </section>
      </div>
      ${strip}
      <${Tabs} tab=${tab} setTab=${setTab} hidden=${info.model ? [] : ["probabilities"]} />
      <section class="panel" id="panel" role="tabpanel" aria-labelledby=${`tab-${tab}`} tabindex="0">${extra.error && tab !== "cursor" ? html`<p class="status bad" role="status">${extra.error}</p>` : null}${panel()}</section>
    </main>
    <footer><p>${answer ? `answered in ${answer.milliseconds.toFixed(1)} ms` : ""}${answer?.late?.length ? ` · no time for: ${answer.late.join(", ")}` : ""}${answer?.error ? ` · ${answer.error}` : ""}</p>
      <p>Everything stays between this page and the server it came from.</p></footer>`;
}

const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
