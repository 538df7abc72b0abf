// Specifications and texts to begin with; each text shows something of its specification.

const json = (value) => JSON.stringify(value, null, 2);

export const EXAMPLES = [
  {
    name: "An order (JSON Schema)", kind: "json_schema",
    spec: json({
      type: "object",
      properties: {
        id: { type: "string", pattern: "^ORD-[0-9]{4}$" },
        customer: { type: "string", minLength: 2, maxLength: 40 },
        status: { enum: ["new", "paid", "shipped"] },
        items: {
          type: "array", minItems: 1, maxItems: 5,
          items: {
            type: "object",
            properties: { name: { type: "string", maxLength: 30 }, price: { type: "number", minimum: 0 } },
            required: ["name", "price"], additionalProperties: false,
          },
        },
      },
      required: ["id", "customer", "status", "items"], additionalProperties: false,
    }),
    text: '{"id": "ORD-2041", "customer": "Ada Lovelace", "status": "paid", "items": [{"name": "lantern", "price": -3}]}',
  },
  {
    name: "A person with an address (references)", kind: "json_schema",
    spec: json({
      $defs: { address: { type: "object", properties: { street: { type: "string" }, city: { type: "string", minLength: 1 } }, required: ["city"] } },
      type: "object",
      properties: { name: { type: "string" }, age: { type: "integer", minimum: 0, maximum: 120 }, home: { $ref: "#/$defs/address" } },
      required: ["name", "age"],
    }),
    text: '{"name": "Ada", "age": 36, "home": {"city": ""}}',
  },
  {
    name: "A tool call of a coding agent", kind: "json_schema",
    spec: json({
      type: "object",
      properties: {
        file_path: { type: "string", pattern: "^/", description: "An absolute path." },
        old_string: { type: "string" },
        new_string: { type: "string" },
        replace_all: { type: "boolean", default: false },
      },
      required: ["file_path", "old_string", "new_string"], additionalProperties: false,
    }),
    text: '{"file_path": "src/main.py", "old_string": "a"',
  },
  {
    name: "An e-mail address (a pattern with lookahead)", kind: "json_schema",
    spec: json({
      type: "string",
      pattern: "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
    }),
    text: '"ada..lovelace@example.org"',
  },
  {
    name: "Unique tags, one of three shapes (oneOf)", kind: "json_schema",
    spec: json({
      oneOf: [
        { type: "object", properties: { kind: { const: "circle" }, radius: { type: "number", exclusiveMinimum: 0 } }, required: ["kind", "radius"] },
        { type: "object", properties: { kind: { const: "square" }, side: { type: "number", exclusiveMinimum: 0 } }, required: ["kind", "side"] },
        { type: "array", items: { enum: ["red", "green", "blue"] }, uniqueItems: true },
      ],
    }),
    text: '["red", "blue", "red"]',
  },
  { name: "Any JSON", kind: "json", spec: "", text: '{"a": [1, 2, 03]}' },
  { name: "A date (regex)", kind: "regex", spec: "\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])", text: "1815-12-41" },
  { name: "A semantic version (regex)", kind: "regex", spec: "(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(-[0-9A-Za-z.-]+)?", text: "1.04.2" },
  {
    name: "Arithmetic (EBNF)", kind: "ebnf",
    spec: 'root   ::= expr\nexpr   ::= term (("+" | "-") term)*\nterm   ::= factor (("*" | "/") factor)*\nfactor ::= number | "(" expr ")"\nnumber ::= [0-9]+ ("." [0-9]+)?\n',
    text: "(1+2)*(3.-4)",
  },
  {
    name: "Moves of chess (EBNF)", kind: "ebnf",
    spec: 'root   ::= game\ngame   ::= turn (" " turn){0,40}\nturn   ::= [1-9] [0-9]? ". " move " " move\nmove   ::= (pawn | piece | castle) "+"?\npawn   ::= [a-h] [1-8] | [a-h] "x" [a-h] [1-8]\npiece  ::= [NBRQK] "x"? [a-h] [1-8]\ncastle ::= "O-O" ("-O")?\n',
    text: "1. e4 e5 2. Nf3 Nc9",
  },
  {
    name: "A query (Lark)", kind: "lark",
    spec: 'start: "SELECT"i columns "FROM"i NAME where?\ncolumns: "*" | NAME ("," NAME)*\nwhere: "WHERE"i condition (("AND"i | "OR"i) condition)*\ncondition: NAME OPERATOR value\nvalue: NUMBER | STRING\nOPERATOR: "=" | "<" | ">" | "<>"\nNAME: /[a-z_][a-z_0-9]*/\nNUMBER: /[0-9]+/\nSTRING: /\'[^\']*\'/\n%ignore / +/\n',
    text: "SELECT name, age FROM people WHERE age > 'x' AND",
  },
  { name: "One of some answers (choice)", kind: "choice", spec: json(["yes", "no", "not sure"]), text: "not yet" },
  {
    name: "Free text with a tool call (structural tag)", kind: "structural_tag",
    spec: json({
      type: "structural_tag",
      format: {
        type: "triggered_tags", triggers: ["<tool>"],
        tags: [{
          begin: "<tool>", end: "</tool>",
          content: { type: "json_schema", json_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false } },
        }],
      },
    }),
    text: 'Let me look. <tool>{"town": "Rome"}</tool>',
  },
];

export const KINDS = [
  ["json_schema", "JSON Schema"], ["regex", "Regex"], ["ebnf", "EBNF"], ["lark", "Lark"],
  ["structural_tag", "Structural tag"], ["choice", "Choice"], ["json", "Any JSON"],
];
