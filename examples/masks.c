/* Masks without Python: reads a vocabulary, a grammar, and commands; prints the mask after each.
 *
 *   masks VOCABULARY GRAMMAR      commands on stdin: t ID (token), b HEX (bytes), r N (roll back), f (go on with a fork)
 *
 * GRAMMAR holds the bytes of CompiledGrammar.to_bytes(). VOCABULARY holds, each as 4 bytes, little-endian: the number of tokens, that of stop
 * tokens, their ids; then for every token its length and its bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stackmask.h"

static void check(stackmask_status status) {
  if (status == STACKMASK_OK || status == STACKMASK_REFUSED) return;
  fprintf(stderr, "%s\n", stackmask_error());
  exit(2);
}

static char* read_file(const char* name, size_t* size) {
  FILE* file = fopen(name, "rb");
  char* data = NULL;
  *size = 0;
  if (!file) perror(name), exit(1);
  for (size_t got = 1; got; *size += got) {
    if (!(data = realloc(data, *size + 65536))) perror(name), exit(1);
    got = fread(data + *size, 1, 65536, file);
  }
  fclose(file);
  return data;
}

static uint32_t number(const char** at) { /* the files are this program's own, so their lengths are trusted */
  const unsigned char* b = (const unsigned char*)*at;
  *at += 4;
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

int main(int argc, char** argv) {
  if (argc != 3 || stackmask_version() / 1000 != STACKMASK_VERSION_MAJOR) return 1;
  size_t size, forced, vocabulary_size;
  char *file = read_file(argv[1], &vocabulary_size), *bytes = read_file(argv[2], &size), line[4096], text[256];
  const char* at = file;
  const uint32_t count = number(&at), stops = number(&at);
  uint32_t* stop = malloc((stops + 1) * sizeof *stop);
  stackmask_bytes* tokens = malloc((count + 1) * sizeof *tokens);
  for (uint32_t i = 0; i < stops; i++) stop[i] = number(&at);
  for (uint32_t i = 0; i < count; i++, at += tokens[i - 1].size) tokens[i].size = number(&at), tokens[i].data = at;

  stackmask_vocabulary* vocabulary = NULL;
  stackmask_grammar* grammar = NULL;
  stackmask_matcher *matcher = NULL, *copy = NULL;
  check(stackmask_vocabulary_new(tokens, count, count, stop, stops, NULL, 0, NULL, &vocabulary));
  check(stackmask_grammar_new(vocabulary, bytes, size, NULL, &grammar));
  check(stackmask_matcher_new(grammar, &matcher));
  const size_t words = stackmask_vocabulary_words(vocabulary);
  uint32_t* mask = malloc((words + 1) * sizeof *mask);
  stackmask_vocabulary_free(vocabulary); /* the grammar keeps it */
  stackmask_grammar_free(grammar);

  do { /* the mask, whether the text may end, how many bytes must follow, and these */
    int ends, over;
    check(stackmask_matcher_fill(matcher, mask, words));
    check(stackmask_matcher_is_completed(matcher, &ends));
    check(stackmask_matcher_is_terminated(matcher, &over));
    check(stackmask_matcher_forced_bytes(matcher, text, sizeof text, &forced));
    for (size_t w = 0; w < words; w++) printf("%08x", (unsigned)mask[w]);
    printf(" %d %d %zu ", ends, over, stackmask_matcher_steps(matcher));
    for (size_t i = 0; i < forced && i < sizeof text; i++) printf("%02x", (unsigned char)text[i]);
    putchar('\n');
    if (!fgets(line, sizeof line, stdin)) break;
    const char* rest = line[0] && line[1] ? line + 2 : line;
    if (line[0] == 't') check(stackmask_matcher_accept_token(matcher, (uint32_t)strtoul(rest, NULL, 10)));
    if (line[0] == 'r') check(stackmask_matcher_rollback(matcher, strtoul(rest, NULL, 10)));
    if (line[0] == 'f') check(stackmask_matcher_fork(matcher, &copy)), stackmask_matcher_free(matcher), matcher = copy;
    if (line[0] == 'b') {
      size_t length = 0;
      for (unsigned byte; sscanf(rest + 2 * length, "%2x", &byte) == 1;) line[length++] = (char)byte; /* written behind what is read */
      check(stackmask_matcher_accept_bytes(matcher, line, length));
    }
  } while (1);
  stackmask_matcher_free(matcher);
  free(mask), free(tokens), free(stop), free(file), free(bytes);
  return 0;
}
