// What examples/masks.c does, in Node: reads a vocabulary, a grammar, and commands; prints the mask after each.
//
//   python scripts/cross_compile.py wasm32-wasi --output stackmask.wasm
//   node examples/wasm/masks.mjs stackmask.wasm VOCABULARY GRAMMAR       commands on stdin: t ID, b HEX, r N, f

import fs from "node:fs";
import { createInterface } from "node:readline";
import { WASI } from "node:wasi";
import { load } from "./stackmask.mjs";

const [library, vocabularyFile, grammarFile] = process.argv.slice(2);
const data = fs.readFileSync(vocabularyFile), numbers = new DataView(data.buffer, data.byteOffset, data.length);
let at = 0;
const number = () => (at += 4, numbers.getUint32(at - 4, true));
const count = number(), stops = number();
const stopIds = Array.from({ length: stops }, number);
const tokens = Array.from({ length: count }, () => {
  const size = number();
  at += size;
  return data.subarray(at - size, at);
});

const hex = (bytes) => Buffer.from(bytes).toString("hex");
function show(matcher) {
  const mask = Array.from(matcher.fill(), (word) => word.toString(16).padStart(8, "0")).join("");
  console.log(`${mask} ${+matcher.isCompleted} ${+matcher.isTerminated} ${matcher.steps} ${hex(matcher.forcedBytes())}`);
}

try {
  const stackmask = await load(fs.readFileSync(library), new WASI({ version: "preview1" }));
  const vocabulary = stackmask.vocabulary(tokens, stopIds), grammar = stackmask.grammar(vocabulary, fs.readFileSync(grammarFile));
  let matcher = grammar.matcher();
  vocabulary.free(); // the grammar keeps it
  grammar.free();
  show(matcher);
  for await (const line of createInterface({ input: process.stdin })) {
    const rest = line.slice(2);
    if (line[0] === "t") matcher.acceptToken(Number(rest));
    if (line[0] === "b") matcher.acceptBytes(Buffer.from(rest, "hex"));
    if (line[0] === "r") matcher.rollback(Number(rest));
    if (line[0] === "f") {
      const copy = matcher.fork();
      matcher.free();
      matcher = copy;
    }
    show(matcher);
  }
  matcher.free();
} catch (error) {
  console.error(error.message);
  process.exit(2);
}
