// stackmask in WebAssembly: a thin cover of the C interface (pda/kernel/c/stackmask.h) for Node, and for browsers with a WASI shim.
//
//   const stackmask = await load(fs.readFileSync("stackmask.wasm"), new WASI({ version: "preview1" }));
//   const vocabulary = stackmask.vocabulary(tokens, stopIds);       // tokens: Uint8Array each, empty for a token without text
//   const matcher = stackmask.grammar(vocabulary, bytes).matcher(); // bytes: of CompiledGrammar.to_bytes() in Python
//   matcher.fill();                                                 // Uint32Array: bit i of word w is token 32 w + i
//   matcher.acceptToken(token);                                     // false where the grammar does not allow it
//
// Memory of WebAssembly is not collected: call free() of what is no longer needed.

const OK = 0, REFUSED = 1;

export async function load(bytes, wasi) {
  const { instance } = await WebAssembly.instantiate(bytes, wasi.getImportObject());
  wasi.initialize(instance);
  return new Stackmask(instance.exports);
}

class Stackmask {
  constructor(exports) {
    this.c = exports;
  }

  // The memory may have grown, and then an older view is empty: views are made anew for each use.
  get bytes() { return new Uint8Array(this.c.memory.buffer); }
  get words() { return new Uint32Array(this.c.memory.buffer); }

  get error() {
    const start = this.c.stackmask_error();
    return new TextDecoder().decode(this.bytes.subarray(start, this.bytes.indexOf(0, start)));
  }

  check(status) {
    if (status !== OK && status !== REFUSED) throw new Error(this.error);
    return status === OK;
  }

  // Calls `use` with the address of that many bytes, which are freed behind it.
  with(size, use) {
    const at = this.c.malloc(Math.max(size, 8));
    if (at === 0) throw new Error("out of memory");
    try {
      return use(at);
    } finally {
      this.c.free(at);
    }
  }

  // What a function that makes something makes: it writes the address to its last argument.
  made(make) {
    return this.with(4, (at) => (this.check(make(at)), this.words[at / 4]));
  }

  vocabulary(tokens, stopIds, size = tokens.length) {
    const total = tokens.reduce((sum, token) => sum + token.length, 0);
    return this.with(tokens.length * 8 + stopIds.length * 4 + total, (table) => {
      const stop = table + tokens.length * 8;
      let text = stop + stopIds.length * 4;
      const { bytes, words } = this;
      words.set(stopIds, stop / 4);
      tokens.forEach((token, i) => {
        words.set([text, token.length], table / 4 + 2 * i); // a stackmask_bytes
        bytes.set(token, text);
        text += token.length;
      });
      const pointer = this.made((at) => this.c.stackmask_vocabulary_new(table, tokens.length, size, stop, stopIds.length, 0, 0, 0, at));
      return { pointer, words: this.c.stackmask_vocabulary_words(pointer), free: () => this.c.stackmask_vocabulary_free(pointer) };
    });
  }

  grammar(vocabulary, data) {
    return this.with(data.length, (from) => {
      this.bytes.set(data, from);
      const pointer = this.made((at) => this.c.stackmask_grammar_new(vocabulary.pointer, from, data.length, 0, at));
      const matcher = () => new Matcher(this, this.made((at) => this.c.stackmask_matcher_new(pointer, at)), vocabulary.words);
      return { pointer, matcher, free: () => this.c.stackmask_grammar_free(pointer) };
    });
  }
}

class Matcher {
  constructor(stackmask, pointer, words) {
    Object.assign(this, { stackmask, pointer, words, c: stackmask.c });
  }

  fill() {
    return this.stackmask.with(this.words * 4, (at) => {
      this.stackmask.check(this.c.stackmask_matcher_fill(this.pointer, at, this.words));
      return this.stackmask.words.slice(at / 4, at / 4 + this.words);
    });
  }

  acceptToken(token) { return this.stackmask.check(this.c.stackmask_matcher_accept_token(this.pointer, token)); }

  acceptBytes(data) {
    return this.stackmask.with(data.length, (at) => {
      this.stackmask.bytes.set(data, at);
      return this.stackmask.check(this.c.stackmask_matcher_accept_bytes(this.pointer, at, data.length));
    });
  }

  rollback(steps) { this.stackmask.check(this.c.stackmask_matcher_rollback(this.pointer, steps)); }
  fork() { return new Matcher(this.stackmask, this.stackmask.made((at) => this.c.stackmask_matcher_fork(this.pointer, at)), this.words); }
  free() { this.c.stackmask_matcher_free(this.pointer); }

  get steps() { return this.c.stackmask_matcher_steps(this.pointer); }
  get isCompleted() { return this.stackmask.made((at) => this.c.stackmask_matcher_is_completed(this.pointer, at)) === 1; }
  get isTerminated() { return this.stackmask.made((at) => this.c.stackmask_matcher_is_terminated(this.pointer, at)) === 1; }

  // The bytes that must follow: at most `most` of them.
  forcedBytes(most = 256) {
    return this.stackmask.with(most, (at) => {
      const size = this.stackmask.made((to) => this.c.stackmask_matcher_forced_bytes(this.pointer, at, most, to));
      return this.stackmask.bytes.slice(at, at + Math.min(size, most));
    });
  }
}
