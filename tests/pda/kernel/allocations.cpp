// Lets every allocation of the kernel fail in turn, and looks at what is left.
//
//   allocations VOCABULARY GRAMMAR [LEAST MOST [MEMORY]]     tokens on stdin, one a line; the files are those of examples/masks.c
//
// Before each of the tokens, each function of the C interface is called on a matcher there, in a grammar that was never used before, with
// the first allocation refused, then with the second, until it asks for no more. A call that says that there is no memory must leave the
// matcher as it was: its masks are those of a matcher whose calls never failed, there, behind all tokens to come, and behind those before,
// taken back and taken again. Prints for each function how many calls failed, and how many did without what was refused; what is wrong
// ends the program. The sanitizers see the rest, leaks too.
//
// Where tables are copied, for MEMORY or in the recovery, they may be lost: then every later call has to say so.
//
// LEAST to MOST, 0 by default, are ways to fail: 0 refuses one allocation, 1 all after it too, and N > 1 that one and the (N - 1)th after
// it. The later ones are those of the recovery from the first. MEMORY bounds the grammar's tables, so that they are dropped after a step.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "stackmask.h"

namespace {

// The allocations of one thread, counted while `armed`.
struct Allocations {
  bool armed = false;
  unsigned long seen = 0, first = 0, second = 0, refused = 0;
  bool all = false;  // those after the first too
};
thread_local Allocations allocations;

bool is_refused() {
  if (!allocations.armed) return false;
  const unsigned long now = ++allocations.seen;
  const bool refused = now == allocations.first || now == allocations.second || (allocations.all && now > allocations.first);
  allocations.refused += refused;
  return refused;
}

}  // namespace

// realloc and calloc of the kernel's own, by the linker's --wrap.
extern "C" {
void* __real_realloc(void*, std::size_t);
void* __wrap_realloc(void* data, std::size_t size) { return is_refused() ? nullptr : __real_realloc(data, size); }
void* __real_calloc(std::size_t, std::size_t);
void* __wrap_calloc(std::size_t count, std::size_t size) { return is_refused() ? nullptr : __real_calloc(count, size); }
}

void* operator new(std::size_t size) {
  void* made = is_refused() ? nullptr : std::malloc(size ? size : 1);
  if (!made) throw std::bad_alloc();
  return made;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const std::size_t step = static_cast<std::size_t>(alignment);
  void* made = is_refused() ? nullptr : std::aligned_alloc(step, (size + step - 1) / step * step);
  if (!made) throw std::bad_alloc();
  return made;
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return is_refused() ? nullptr : std::malloc(size ? size : 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return is_refused() ? nullptr : std::malloc(size ? size : 1); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t) noexcept { std::free(data); }
void operator delete[](void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }

namespace {

using Mask = std::vector<std::uint32_t>;

std::string where;  // for messages

[[noreturn]] void wrong(const std::string& what) {
  std::cerr << where << ": " << what << " (" << stackmask_error() << ")\n";
  std::exit(3);
}
void require(bool holds, const char* otherwise) {
  if (!holds) wrong(otherwise);
}
void require_ok(stackmask_status status, const char* what) {
  if (status != STACKMASK_OK) wrong(std::string(what) + " fails with status " + std::to_string(status));
}

struct Input {
  std::string vocabulary, grammar;
  std::vector<stackmask_bytes> tokens;
  std::vector<std::uint32_t> stops, text;
  stackmask_limits limits;
};

// A vocabulary, a grammar that was never used, and a matcher before token `place` of the text.
struct World {
  stackmask_vocabulary* vocabulary = nullptr;
  stackmask_grammar* grammar = nullptr;
  stackmask_matcher* matcher = nullptr;

  World(const Input& input, std::size_t place) {
    require_ok(stackmask_vocabulary_new(input.tokens.data(), input.tokens.size(), input.tokens.size(), input.stops.data(),
                                        input.stops.size(), nullptr, 0, nullptr, &vocabulary),
               "vocabulary_new");
    require_ok(stackmask_grammar_new(vocabulary, input.grammar.data(), input.grammar.size(), &input.limits, &grammar), "grammar_new");
    require_ok(stackmask_matcher_new(grammar, &matcher), "matcher_new");
    for (std::size_t i = 0; i < place; i++) require_ok(stackmask_matcher_accept_token(matcher, input.text[i]), "accept_token");
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    stackmask_matcher_free(matcher);
    stackmask_grammar_free(grammar);
    stackmask_vocabulary_free(vocabulary);
  }
};

Mask mask_of(const stackmask_matcher* matcher, std::size_t words) {
  Mask mask(words, 0);
  require_ok(stackmask_matcher_fill(matcher, mask.data(), words), "fill");
  return mask;
}

// The masks before each token and after the last, of a matcher at `place`: forwards, and again after all is taken back.
void compare(stackmask_matcher* matcher, const Input& input, std::size_t place, const std::vector<Mask>& masks) {
  const std::size_t words = masks[0].size();
  require(stackmask_matcher_steps(matcher) == place, "the matcher has other steps");
  for (const std::size_t start : {place, std::size_t{0}}) {
    if (start == 0) require_ok(stackmask_matcher_rollback(matcher, stackmask_matcher_steps(matcher)), "rollback");
    for (std::size_t i = start; i <= input.text.size(); i++) {
      require(mask_of(matcher, words) == masks[i], "a mask is another");
      if (i < input.text.size()) require_ok(stackmask_matcher_accept_token(matcher, input.text[i]), "accept_token");
    }
  }
}

// Whether the tables of a grammar are lost, as every call that needs them then says.
bool are_lost(stackmask_matcher* matcher, std::size_t words) {
  Mask mask(words, 0);
  if (stackmask_matcher_fill(matcher, mask.data(), words) != STACKMASK_INTERNAL) return false;
  require(std::string(stackmask_error()).find("compile it again") != std::string::npos, "an internal error");
  int is;
  char text[64];
  std::size_t size;
  require(stackmask_matcher_is_completed(matcher, &is) == STACKMASK_INTERNAL, "is_completed reads lost tables");
  require(stackmask_matcher_forced_bytes(matcher, text, sizeof text, &size) == STACKMASK_INTERNAL, "forced_bytes reads lost tables");
  require(stackmask_matcher_accept_bytes(matcher, "a", 1) == STACKMASK_INTERNAL, "accept_bytes reads lost tables");
  stackmask_matcher* fork = nullptr;
  require_ok(stackmask_matcher_fork(matcher, &fork), "fork");
  require(stackmask_matcher_accept_token(fork, 0) == STACKMASK_INTERNAL, "accept_token reads lost tables");
  stackmask_matcher_free(fork);
  return true;
}

using Call = std::function<stackmask_status(World&)>;

struct Function {
  const char* name;
  std::size_t back, on;  // where it leaves the matcher: steps taken back, and then taken
  Call call;
};

std::uint32_t number(const char*& at) {
  const unsigned char* b = reinterpret_cast<const unsigned char*>(at);
  at += 4;
  return b[0] | static_cast<std::uint32_t>(b[1]) << 8 | static_cast<std::uint32_t>(b[2]) << 16 | static_cast<std::uint32_t>(b[3]) << 24;
}

std::string read_file(const char* name) {
  std::ifstream file(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 1;
  Input input{read_file(argv[1]), read_file(argv[2]), {}, {}, {}, {}};
  const unsigned long least = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 0,
                      most = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : least;
  if (argc > 5) input.limits.memory = std::strtoul(argv[5], nullptr, 10);
  const char* at = input.vocabulary.data();
  const std::uint32_t count = number(at), stops = number(at);
  for (std::uint32_t i = 0; i < stops; i++) input.stops.push_back(number(at));
  for (std::uint32_t i = 0; i < count; i++) {
    const std::size_t size = number(at);
    input.tokens.push_back({at, size}), at += size;
  }
  for (std::uint32_t token = 0; std::cin >> token;) input.text.push_back(token);

  std::vector<Mask> masks;
  {
    World world(input, 0);
    const std::size_t words = stackmask_vocabulary_words(world.vocabulary);
    for (std::size_t i = 0;; i++) {
      masks.push_back(mask_of(world.matcher, words));
      if (i == input.text.size()) break;
      require_ok(stackmask_matcher_accept_token(world.matcher, input.text[i]), "accept_token");
    }
  }

  unsigned long lost = 0;  // tables
  std::map<std::string, std::pair<unsigned long, unsigned long>> done;  // calls that ended for want of memory, and others with a refusal
  for (std::size_t place = 0; place <= input.text.size(); place++) {
    const std::size_t words = masks[0].size();
    Mask room(words);
    const bool is_last = place == input.text.size();
    std::vector<Function> functions{
        {"fill", 0, 0, [&](World& w) { return stackmask_matcher_fill(w.matcher, room.data(), words); }},
        {"forced_bytes", 0, 0,
         [&](World& w) {
           char text[64];
           std::size_t size;
           return stackmask_matcher_forced_bytes(w.matcher, text, sizeof text, &size);
         }},
        {"is_completed", 0, 0,
         [&](World& w) {
           int is;
           return stackmask_matcher_is_completed(w.matcher, &is);
         }},
        {"matcher_fork", 0, 0,
         [&](World& w) {
           stackmask_matcher* fork = nullptr;
           const stackmask_status status = stackmask_matcher_fork(w.matcher, &fork);
           allocations.armed = false;
           if (status == STACKMASK_OK) compare(fork, input, place, masks);
           stackmask_matcher_free(fork);
           return status;
         }},
        {"rollback", place < 2 ? place : 2, 0, [&](World& w) { return stackmask_matcher_rollback(w.matcher, place < 2 ? place : 2); }},
        {"reset", place, 0, [&](World& w) { return stackmask_matcher_reset(w.matcher); }},
    };
    if (!is_last) {
      functions.push_back({"accept_token", 0, 1, [&](World& w) { return stackmask_matcher_accept_token(w.matcher, input.text[place]); }});
      const stackmask_bytes& bytes = input.tokens[input.text[place]];
      if (bytes.size)
        functions.push_back(
            {"accept_bytes", 0, 1, [&](World& w) { return stackmask_matcher_accept_bytes(w.matcher, bytes.data, bytes.size); }});
    }
    if (place == 0) {
      functions.push_back({"vocabulary_new", 0, 0, [&](World&) {
                             stackmask_vocabulary* made = nullptr;
                             const stackmask_status status =
                                 stackmask_vocabulary_new(input.tokens.data(), input.tokens.size(), input.tokens.size(), input.stops.data(),
                                                          input.stops.size(), nullptr, 0, "fingerprint", &made);
                             allocations.armed = false;
                             stackmask_vocabulary_free(made);
                             return status;
                           }});
      functions.push_back({"grammar_new", 0, 0, [&](World& w) {
                             stackmask_grammar* made = nullptr;
                             const stackmask_status status =
                                 stackmask_grammar_new(w.vocabulary, input.grammar.data(), input.grammar.size(), &input.limits, &made);
                             allocations.armed = false;
                             stackmask_grammar_free(made);
                             return status;
                           }});
      functions.push_back({"matcher_new", 0, 0, [&](World& w) {
                             stackmask_matcher* made = nullptr;
                             const stackmask_status status = stackmask_matcher_new(w.grammar, &made);
                             allocations.armed = false;
                             stackmask_matcher_free(made);
                             return status;
                           }});
    }
    for (const Function& function : functions) {
      for (unsigned long mode = least; mode <= most; mode++) {
        bool is_refused_yet = true;
        for (unsigned long first = 1; is_refused_yet; first++) {
          where = std::string(function.name) + " before token " + std::to_string(place) + ", allocation " + std::to_string(first) +
                  ", mode " + std::to_string(mode);
          World world(input, place);
          stackmask_status status = STACKMASK_OK;
          unsigned long refused = 0;
          // In a thread of its own, which keeps no memory of earlier calls.
          std::thread([&] {
            allocations = {true, 0, first, mode >= 2 ? first + mode - 1 : 0, 0, mode == 1};
            status = function.call(world);
            allocations.armed = false;
            refused = allocations.refused;
          }).join();
          is_refused_yet = refused > 0;
          auto& [failed, managed] = done[function.name];
          if ((mode >= 2 || input.limits.memory) && are_lost(world.matcher, words)) {
            lost++;
          } else if (status == STACKMASK_OK) {
            managed += is_refused_yet;
            const std::size_t next = place - function.back + function.on;
            compare(world.matcher, input, next, masks);
          } else {
            require(status == STACKMASK_NO_MEMORY && refused > 0, "another error than that there is no memory");
            failed++;
            compare(world.matcher, input, place, masks);
          }
          require_ok(stackmask_matcher_reset(world.matcher), "reset");
        }
      }
    }
  }
  std::printf("lost %lu 0\n", lost);
  for (const auto& [name, counts] : done) std::printf("%s %lu %lu\n", name.c_str(), counts.first, counts.second);
  return 0;
}
