/* stackmask without Python: a vocabulary, a grammar and a matcher behind a C interface (C99).
 *
 * It is for programs in C, Rust, Go and others that generate tokens themselves. Grammars are compiled in Python (JSON Schema,
 * regexes, EBNF, Lark) and transferred as the bytes of CompiledGrammar.to_bytes(); everything at run time is here.
 *
 *   stackmask_vocabulary_new(...)  ->  stackmask_grammar_new(vocabulary, bytes, ...)  ->  stackmask_matcher_new(grammar, ...)
 *   then for each token:  stackmask_matcher_fill(matcher, mask, words)  ->  sample  ->  stackmask_matcher_accept_token(matcher, token)
 *
 * Errors. A function that may fail returns a stackmask_status; every value but STACKMASK_OK and STACKMASK_REFUSED is an error, and
 * stackmask_error() then returns a message. After an error all objects are as they were before; only a grammar whose tables could not be copied
 * for want of memory is lost, and says so. No exception leaves the library.
 *
 * Threads. A vocabulary and a grammar may be used by any number of threads at once. A matcher is used by one thread at a time; two matchers
 * of one grammar are independent. Each thread has its own stackmask_error().
 *
 * Lifetimes. Free each object once, with the function named after it, in any order: a grammar keeps its vocabulary, and a matcher
 * keeps its grammar. All data that is passed in is copied. Freeing NULL does nothing.
 */
#ifndef STACKMASK_H
#define STACKMASK_H

#include <stddef.h>
#include <stdint.h>

#define STACKMASK_VERSION_MAJOR 1 /* changes when programs that use this header must change */
#define STACKMASK_VERSION_MINOR 0 /* changes when something is added */
#define STACKMASK_VERSION (STACKMASK_VERSION_MAJOR * 1000 + STACKMASK_VERSION_MINOR)

#if defined(_WIN32)
#define STACKMASK_API
#else
#define STACKMASK_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stackmask_vocabulary stackmask_vocabulary;
typedef struct stackmask_grammar stackmask_grammar;
typedef struct stackmask_matcher stackmask_matcher;

typedef enum stackmask_status {
  STACKMASK_OK = 0,
  STACKMASK_REFUSED = 1,       /* the grammar does not allow this token or text here; nothing has changed */
  STACKMASK_BAD_ARGUMENT = 2,  /* a null pointer, a token outside the vocabulary, a row of the wrong size, too long a rollback */
  STACKMASK_BAD_GRAMMAR = 3,   /* the bytes are not a grammar of this version, or it is for another vocabulary */
  STACKMASK_UNSATISFIABLE = 4, /* the grammar generates nothing */
  STACKMASK_LIMIT = 5,         /* a limit was exceeded */
  STACKMASK_NO_MEMORY = 6,
  STACKMASK_INTERNAL = 7       /* a defect of the library */
} stackmask_status;

typedef struct stackmask_bytes {
  const char* data; /* may be NULL if size is 0 */
  size_t size;
} stackmask_bytes;

/* The limits of a grammar. Zero means the default. */
typedef struct stackmask_limits {
  uint64_t states;      /* NFA states of a grammar, which are made when texts need them */
  uint64_t stack_depth; /* entries of the stack */
  uint64_t memory;      /* bytes of the lazily built tables; beyond it they are dropped and built again */
  double seconds;       /* for preparing a grammar */
} stackmask_limits;

STACKMASK_API uint32_t stackmask_version(void); /* STACKMASK_VERSION of the library */
STACKMASK_API const char* stackmask_error(void); /* the last error of this thread, valid until its next one; "" if there was none */

/* A vocabulary whose token i has the text tokens[i]. Ids from `count` to below `size` have no text, nor have stop and special tokens,
 * which a grammar asks for by id. `fingerprint`: Vocabulary.fingerprint of the same vocabulary in Python; grammars that were compiled for
 * another one are refused. NULL: fingerprints are not compared, and the caller must make sure that the ids are the same. */
STACKMASK_API stackmask_status stackmask_vocabulary_new(const stackmask_bytes* tokens, size_t count, size_t size, const uint32_t* stop_ids,
                                                        size_t stop_count, const uint32_t* special_ids, size_t special_count,
                                                        const char* fingerprint, stackmask_vocabulary** made);
STACKMASK_API void stackmask_vocabulary_free(stackmask_vocabulary* vocabulary);
STACKMASK_API size_t stackmask_vocabulary_words(const stackmask_vocabulary* vocabulary); /* the words of a mask, 32 tokens each */

/* A grammar from the bytes of CompiledGrammar.to_bytes(). `limits` may be NULL. */
STACKMASK_API stackmask_status stackmask_grammar_new(const stackmask_vocabulary* vocabulary, const void* bytes, size_t size,
                                                     const stackmask_limits* limits, stackmask_grammar** made);
STACKMASK_API void stackmask_grammar_free(stackmask_grammar* grammar);

/* A matcher at the beginning of a text; and a fork, in the same state as another and with the same history. */
STACKMASK_API stackmask_status stackmask_matcher_new(const stackmask_grammar* grammar, stackmask_matcher** made);
STACKMASK_API stackmask_status stackmask_matcher_fork(const stackmask_matcher* matcher, stackmask_matcher** made);
STACKMASK_API void stackmask_matcher_free(stackmask_matcher* matcher);

/* Writes the mask: bit i of word w says whether token 32 w + i may come next. `words` is stackmask_vocabulary_words(). */
STACKMASK_API stackmask_status stackmask_matcher_fill(const stackmask_matcher* matcher, uint32_t* mask, size_t words);
/* Accept one step of the text: a token, or bytes. STACKMASK_REFUSED if the grammar does not allow it. */
STACKMASK_API stackmask_status stackmask_matcher_accept_token(stackmask_matcher* matcher, uint32_t token);
STACKMASK_API stackmask_status stackmask_matcher_accept_bytes(stackmask_matcher* matcher, const void* bytes, size_t size);
/* Take back the last `steps` steps, or all of them. */
STACKMASK_API stackmask_status stackmask_matcher_rollback(stackmask_matcher* matcher, size_t steps);
STACKMASK_API stackmask_status stackmask_matcher_reset(stackmask_matcher* matcher);

STACKMASK_API size_t stackmask_matcher_steps(const stackmask_matcher* matcher); /* accepted and not taken back; 0 for NULL */
/* Whether the text may end here: *is_completed is 1 or 0. Then every stop token is allowed. */
STACKMASK_API stackmask_status stackmask_matcher_is_completed(const stackmask_matcher* matcher, int* is_completed);
/* Whether a stop token was accepted. */
STACKMASK_API stackmask_status stackmask_matcher_is_terminated(const stackmask_matcher* matcher, int* is_terminated);
/* The bytes that must come next, at most 65,536: *size is set to their number, and as many as fit are written to `buffer`. */
STACKMASK_API stackmask_status stackmask_matcher_forced_bytes(const stackmask_matcher* matcher, char* buffer, size_t capacity,
                                                              size_t* size);

#ifdef __cplusplus
}
#endif

#endif
