// Editors: CodeMirror with marks that come from an answer, and a text that is offered behind the cursor.

import {
  Decoration, EditorState, EditorView, HighlightStyle, Prec, StateEffect, StateField, StreamLanguage, WidgetType, bracketMatching,
  Compartment, defaultKeymap, drawSelection, history, historyKeymap, json, keymap, lineNumbers, placeholder, syntaxHighlighting, tags,
} from "./vendor.js";

const setMarks = StateEffect.define();
const setGhost = StateEffect.define();

const marks = StateField.define({
  create: () => Decoration.none,
  update(value, transaction) {
    value = value.map(transaction.changes);
    for (const effect of transaction.effects) if (effect.is(setMarks)) value = build(effect.value, transaction.state.doc.length);
    return value;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function build(ranges, length) {
  const found = [];
  for (const { from, to, name } of ranges) {
    const start = Math.min(from, length), end = Math.min(to, length);
    if (end > start) found.push(Decoration.mark({ class: name }).range(start, end));
    else if (name === "mark-refused") found.push(Decoration.widget({ widget: new Caret(), side: 1 }).range(start));
  }
  return Decoration.set(found, true);
}

class Caret extends WidgetType {
  toDOM() {
    const element = document.createElement("span");
    element.className = "mark-end";
    element.setAttribute("aria-hidden", "true");
    return element;
  }
}

class Ghost extends WidgetType {
  constructor(text) { super(); this.text = text; }
  eq(other) { return other.text === this.text; }
  toDOM() {
    const element = document.createElement("span");
    element.className = "ghost";
    element.textContent = this.text;
    element.setAttribute("aria-hidden", "true");
    return element;
  }
  ignoreEvent() { return false; }
}

const ghost = StateField.define({
  create: () => null,
  update(value, transaction) {
    if (transaction.docChanged) value = null;
    for (const effect of transaction.effects) if (effect.is(setGhost)) value = effect.value;
    return value;
  },
  provide: (field) => EditorView.decorations.from(field, (text) => (view) => {
    const end = view.state.doc.length;
    const { head, empty } = view.state.selection.main;
    if (!text || !empty || head !== end) return Decoration.none;
    return Decoration.set([Decoration.widget({ widget: new Ghost(text), side: 2 }).range(end)]);
  }),
});

function shownGhost(state) {
  const text = state.field(ghost);
  const { head, empty } = state.selection.main;
  return text && empty && head === state.doc.length ? text : null;
}

const ghostKeys = Prec.highest(keymap.of([
  {
    key: "Tab",
    run(view) {
      const text = shownGhost(view.state);
      if (!text) return false;
      const end = view.state.doc.length;
      view.dispatch({ changes: { from: end, insert: text }, selection: { anchor: end + text.length }, userEvent: "input.complete", scrollIntoView: true });
      return true;
    },
  },
  { key: "Escape", run(view) { if (!shownGhost(view.state)) return false; view.dispatch({ effects: setGhost.of(null) }); return true; } },
]));

const colours = HighlightStyle.define([
  { tag: tags.propertyName, class: "tok-name" }, { tag: tags.string, class: "tok-string" }, { tag: tags.number, class: "tok-number" },
  { tag: [tags.bool, tags.null, tags.keyword], class: "tok-keyword" }, { tag: tags.comment, class: "tok-comment" },
  { tag: [tags.operator, tags.punctuation], class: "tok-operator" }, { tag: tags.regexp, class: "tok-number" },
]);

const grammarLanguage = StreamLanguage.define({
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^(#|\/\/).*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"i?/) || stream.match(/^'(?:[^'\\]|\\.)*'/)) return "string";
    if (stream.match(/^\/(?:[^/\\\n]|\\.)+\/[a-z]*/)) return "regexp";
    if (stream.match(/^\[(?:[^\]\\\n]|\\.)*\]/)) return "number";
    if (stream.match(/^%[a-z]+/)) return "keyword";
    if (stream.match(/^[?!]?[A-Za-z_][\w-]*(?=\s*(::=|:))/)) return "propertyName";
    if (stream.match(/^[A-Za-z_][\w-]*/)) return "variableName";
    stream.next();
    return "operator";
  },
});

export function languageOf(kind) {
  if (["json_schema", "structural_tag", "choice"].includes(kind)) return json();
  if (kind === "ebnf" || kind === "lark") return grammarLanguage;
  return [];
}

const nonce = document.querySelector('meta[name="csp-nonce"]')?.content ?? "";

// An editor in `parent`; `onChange(text)` and `onCursor(offset)` are called for what the person does, not for `setText`.
export function createEditor({ parent, text, label, describedBy, hint, onChange, onCursor, isSpecification }) {
  const language = new Compartment();
  let quiet = false;
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        nonce ? EditorView.cspNonce.of(nonce) : [],
        isSpecification ? lineNumbers() : [ghost, ghostKeys],
        history(), drawSelection(), isSpecification ? bracketMatching() : [], EditorView.lineWrapping, placeholder(hint),
        syntaxHighlighting(colours), language.of([]), marks,
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label, ...(describedBy ? { "aria-describedby": describedBy } : {}), spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (quiet) return;
          if (update.docChanged) onChange(update.state.doc.toString());
          if (update.selectionSet || update.docChanged) onCursor?.(update.state.selection.main.head);
        }),
      ],
    }),
  });
  return {
    view,
    setLanguage: (kind) => view.dispatch({ effects: language.reconfigure(isSpecification ? languageOf(kind) : []) }),
    setText(value, anchor) {
      if (value === view.state.doc.toString()) return;
      quiet = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value }, selection: { anchor: anchor ?? value.length } });
      quiet = false;
    },
    setCursor(offset) {
      const anchor = Math.min(offset, view.state.doc.length);
      if (anchor !== view.state.selection.main.head) view.dispatch({ selection: { anchor }, scrollIntoView: true });
    },
    insert(value) {
      const { from, to } = view.state.selection.main;
      view.dispatch({ changes: { from, to, insert: value }, selection: { anchor: from + value.length }, userEvent: "input" });
    },
    setMarks: (ranges) => view.dispatch({ effects: setMarks.of(ranges) }),
    setGhost: (value) => view.dispatch({ effects: setGhost.of(value) }),
    reveal(offset) {
      view.dispatch({ effects: EditorView.scrollIntoView(Math.min(offset, view.state.doc.length), { y: "center" }) });
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
