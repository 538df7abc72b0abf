// The Python face of the kernel. It binds, checks arguments and lets go of the GIL; nothing else.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <mutex>

#ifndef _WIN32
#include <pthread.h>
#endif

#include "background_filler.h"
#include "batch.h"
#include "grammar/packed.h"
#include "logits.h"
#include "low_priority.h"

namespace nb = nanobind;
using namespace stackmask;

namespace {

PyObject* exception(const char* name) {
  static nb::object* module = new nb::object(nb::module_::import_("stackmask.pda.exceptions"));
  return nb::object(module->attr(name)).release().ptr();
}

// ---- the kernel's host

unsigned long main_thread;  // the one that handles signals

#if PY_VERSION_HEX < 0x030C0000
bool holds_gil() { return Py_IsInitialized() && PyGILState_Check(); }
#else  // by what the stable interface has; before 3.12 this is the dictionary of whichever thread holds the GIL
bool holds_gil() { return Py_IsInitialized() && PyThreadState_GetDict() != nullptr; }
#endif

// Nobody waits for a grammar with the GIL, so that who has the grammar may wait for the GIL.
void lock_without_gil(Mutex& mutex) {
  if (!holds_gil()) return mutex.lock();
  const nb::gil_scoped_release release;
  mutex.lock();
}

void check_signals() {
  if (PyThread_get_thread_ident() != main_thread || !Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool interrupted = PyErr_CheckSignals() != 0;  // the error stays with the thread
  PyGILState_Release(state);
  if (interrupted) throw Interrupted();
}

void* give_up_gil() { return holds_gil() ? PyEval_SaveThread() : nullptr; }
void take_gil(void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }

// Exceptions of the kernel become those of pda/exceptions.py.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const LimitExceeded& error) {
    const nb::object type = nb::steal(exception("LimitError"));
    const nb::object value = type(error.what(), nb::arg("limit") = error.limit, nb::arg("value") = error.value);
    PyErr_SetObject(type.ptr(), value.ptr());
  } catch (const Unsatisfiable& error) {
    PyErr_SetString(exception("UnsatisfiableError"), error.what());
  } catch (const BadGrammar& error) {
    PyErr_SetString(exception("GrammarError"), error.what());
  } catch (const BadRollback& error) {
    PyErr_SetString(exception("RollbackError"), error.what());
  } catch (const Interrupted&) {  // Python has set the error
  }
}

u32 checked_token(const TokenTrie& trie, i64 token) {
  if (token < 0 || token >= static_cast<i64>(trie.size()))
    throw nb::value_error(("token id " + std::to_string(token) + " is out of range 0.." + std::to_string(trie.size() - 1)).c_str());
  return static_cast<u32>(token);
}

std::vector<u32> checked_tokens(const TokenTrie& trie, nb::handle ids) {
  std::vector<u32> result;
  for (nb::handle id : nb::iter(ids)) {
    const nb::object index = nb::steal(PyNumber_Index(id.ptr()));
    if (!index.is_valid()) throw nb::python_error();
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    result.push_back(checked_token(trie, overflow ? -1 : value));
  }
  return result;
}

// ---- bitmasks

// A writable C-contiguous int32 buffer of one or two dimensions, held while it is written.
class Rows {
 public:
  Rows(nb::handle bitmask, const TokenTrie& trie) {
    nb::object array;
    if (!PyObject_CheckBuffer(bitmask.ptr())) {
      const nb::object device = nb::getattr(nb::getattr(bitmask, "device", nb::none()), "type", nb::str("cpu"));
      if (!nb::hasattr(bitmask, "numpy"))
        throw nb::type_error(("the bitmask is " + type_name(bitmask) + ", not a numpy array or a CPU torch tensor").c_str());
      if (std::string text = nb::cast<std::string>(nb::str(device)); text != "cpu")
        throw nb::value_error(("the bitmask is on device " + text + "; it must be on the CPU").c_str());
      array = bitmask.attr("numpy")();
      bitmask = array;
    }
    if (PyObject_GetBuffer(bitmask.ptr(), &view_, PyBUF_FORMAT | PyBUF_STRIDES) != 0) throw nb::python_error();
    try {
      check(trie);
    } catch (...) {
      PyBuffer_Release(&view_);
      throw;
    }
  }
  Rows(const Rows&) = delete;
  ~Rows() { PyBuffer_Release(&view_); }

  u32* row(i64 index) const {
    if (index < 0 || index >= rows_)
      throw nb::value_error(
          ("row " + std::to_string(index) + " is out of range: the bitmask has " + std::to_string(rows_) + " rows").c_str());
    return static_cast<u32*>(view_.buf) + index * width_;
  }

 private:
  Py_buffer view_{};
  i64 rows_ = 1, width_ = 0;

  static std::string type_name(nb::handle object) { return nb::cast<std::string>(nb::object(object.type().attr("__name__"))); }

  void check(const TokenTrie& trie) {
    const char* format = view_.format ? view_.format : "B";
    if (view_.itemsize != 4 || !(std::strcmp(format, "i") == 0 || std::strcmp(format, "l") == 0 || std::strcmp(format, "<i") == 0))
      throw nb::type_error((std::string("the bitmask has format '") + format + "', not int32").c_str());
    if (view_.ndim != 1 && view_.ndim != 2)
      throw nb::value_error(("the bitmask has " + std::to_string(view_.ndim) + " dimensions, not 1 or 2").c_str());
    width_ = view_.shape[view_.ndim - 1];
    rows_ = view_.ndim == 2 ? view_.shape[0] : 1;
    if (width_ != trie.words())
      throw nb::value_error(("a row of the bitmask has " + std::to_string(width_) + " words; " + std::to_string(trie.size()) +
                             " tokens take " + std::to_string(trie.words()))
                                .c_str());
    if (!PyBuffer_IsContiguous(&view_, 'C')) throw nb::value_error("the bitmask is not C-contiguous");
    if (view_.readonly) throw nb::value_error("the bitmask is read-only");
  }
};

// ---- logits

using Logits = nb::ndarray<nb::ndim<2>, nb::device::cpu>;
using Bitmask = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::device::cpu>;

template <class T>
void mask_rows(const Logits& logits, const Bitmask& bitmask, u64 forbidden, const std::vector<std::size_t>& rows) {
  const nb::gil_scoped_release release;
  for (const std::size_t row : rows)
    mask_row(static_cast<T*>(logits.data()) + static_cast<i64>(row) * logits.stride(0), logits.shape(1),
             reinterpret_cast<const u32*>(bitmask.data() + static_cast<i64>(row) * bitmask.stride(0)), bitmask.shape(1),
             static_cast<T>(forbidden));
}

// The rows that are asked for, or all; their columns must lie side by side.
void check_rows(const Logits& logits, const Bitmask* bitmask, std::optional<std::vector<std::size_t>>& rows) {
  const std::size_t count = bitmask ? std::min(logits.shape(0), bitmask->shape(0)) : logits.shape(0);
  if (!rows) {
    if (bitmask && logits.shape(0) != bitmask->shape(0)) throw nb::value_error("the logits and the bitmask have different numbers of rows");
    rows.emplace(count);
    for (std::size_t i = 0; i < count; ++i) (*rows)[i] = i;
  }
  for (const std::size_t row : *rows)
    if (row >= count) throw nb::index_error("a row is outside the logits or the bitmask");
  if ((logits.shape(1) > 1 && logits.stride(1) != 1) || (bitmask && bitmask->shape(1) > 1 && bitmask->stride(1) != 1))
    throw nb::value_error("the columns of logits and bitmask must be contiguous");
}

std::vector<i64> best_tokens(const Logits& logits, const std::optional<Bitmask>& bitmask, std::optional<std::vector<std::size_t>> rows) {
  if (logits.dtype() != nb::dtype<float>()) throw nb::type_error("the logits are not float32");
  check_rows(logits, bitmask ? &*bitmask : nullptr, rows);
  std::vector<i64> best;
  best.reserve(rows->size());
  const nb::gil_scoped_release release;
  for (const std::size_t row : *rows) {
    const u32* mask = bitmask ? reinterpret_cast<const u32*>(bitmask->data() + static_cast<i64>(row) * bitmask->stride(0)) : nullptr;
    best.push_back(best_of_row(static_cast<const float*>(logits.data()) + static_cast<i64>(row) * logits.stride(0), logits.shape(1), mask,
                               mask ? bitmask->shape(1) : 0));
  }
  return best;
}

void mask_logits(const Logits& logits, const Bitmask& bitmask, u64 forbidden, std::optional<std::vector<std::size_t>> rows) {
  check_rows(logits, &bitmask, rows);
  switch (logits.dtype().bits) {
    case 16: return mask_rows<u16>(logits, bitmask, forbidden, *rows);
    case 32: return mask_rows<u32>(logits, bitmask, forbidden, *rows);
    case 64: return mask_rows<u64>(logits, bitmask, forbidden, *rows);
    default: throw nb::type_error("a logit has 16, 32 or 64 bits");
  }
}

// ---- grammars

[[noreturn]] void malformed(const char* what) { throw BadGrammar(std::string("malformed grammar: ") + what); }

i32 small_int(PyObject* value) {
  if (!PyLong_CheckExact(value) && !PyBool_Check(value)) malformed("a node has an argument that is not an integer");
  int overflow = 0;
  const long result = PyLong_AsLongAndOverflow(value, &overflow);
  if (overflow || result < INT32_MIN || result > INT32_MAX) malformed("a number of a node does not fit 32 bits");
  return static_cast<i32>(result);
}

PyObject* checked_tuple(PyObject* value) {
  if (!PyTuple_Check(value)) malformed("a tuple was expected");
  return value;
}

std::string_view utf8(PyObject* text, const char* wrong) {
  Py_ssize_t length = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == nullptr) {
    PyErr_Clear();
    malformed(wrong);
  }
  return {bytes, static_cast<std::size_t>(length)};
}

// PERF: tuples are read by the C API; their items live as long as the tuple, which its caller holds.
void read_node(Expressions& ex, PyObject* node) {
  const std::size_t n = static_cast<std::size_t>(NB_TUPLE_GET_SIZE(checked_tuple(node)));
  auto item = [&](std::size_t i) { return NB_TUPLE_GET_ITEM(node, static_cast<Py_ssize_t>(i)); };
  if (n == 0) malformed("a node is empty");
  const i32 op = small_int(item(0));
  const u32 begin = static_cast<u32>(ex.ints.size());
  auto add = [&](i32 value) { ex.ints.push_back(value); };
  auto spread = [&](PyObject* values) {
    const Py_ssize_t count = NB_TUPLE_GET_SIZE(checked_tuple(values));
    for (Py_ssize_t i = 0; i < count; i++) add(small_int(NB_TUPLE_GET_ITEM(values, i)));
  };
  auto need = [&](std::size_t count) {
    if (n != count) malformed("a node has the wrong number of arguments");
  };
  switch (op) {
    case OP_LITERAL: {
      need(2);
      if (!PyBytes_Check(item(1))) malformed("a literal is not bytes");
      add(static_cast<i32>(ex.literals.size()));
      ex.literals.push_back({PyBytes_AsString(item(1)), static_cast<std::size_t>(PyBytes_Size(item(1)))});
      break;
    }
    case OP_BYTES: need(2), spread(item(1)); break;
    case OP_CHARS: need(3), add(small_int(item(2))), spread(item(1)); break;
    case OP_GRAPH: need(3), add(small_int(item(1))), spread(item(2)); break;
    case OP_TOKENS: need(3), add(small_int(item(2))), spread(item(1)); break;
    case OP_PERMUTE:
      need(5);
      for (std::size_t i : {2, 3, 4}) add(small_int(item(i)));
      spread(item(1));
      break;
    case OP_AUTOMATON: {
      if (n != 6) need(4);
      PyObject *transitions = checked_tuple(item(1)), *accepting = checked_tuple(item(2));
      const Py_ssize_t states = NB_TUPLE_GET_SIZE(transitions);
      if (states != NB_TUPLE_GET_SIZE(accepting)) malformed("an automaton's transitions and accepting states differ in number");
      add(small_int(item(3)));
      add(static_cast<i32>(states));
      add(n == 6 ? small_int(item(4)) : 0);
      add(n == 6 ? small_int(item(5)) : -1);
      for (Py_ssize_t s = 0; s < states; s++) {
        PyObject* list = checked_tuple(NB_TUPLE_GET_ITEM(transitions, s));
        const Py_ssize_t count = NB_TUPLE_GET_SIZE(list);
        const int accepts = PyObject_IsTrue(NB_TUPLE_GET_ITEM(accepting, s));
        if (accepts < 0) throw nb::python_error();
        add(accepts);
        add(static_cast<i32>(count));
        for (Py_ssize_t t = 0; t < count; t++) {
          PyObject* transition = NB_TUPLE_GET_ITEM(list, t);
          if (NB_TUPLE_GET_SIZE(checked_tuple(transition)) != 3) malformed("a transition is not (lo, hi, target)");
          spread(transition);
        }
      }
      break;
    }
    case OP_EXCEPT: {
      need(3);
      add(small_int(item(2)));
      PyObject* words = checked_tuple(item(1));
      for (Py_ssize_t i = 0; i < NB_TUPLE_GET_SIZE(words); i++) {
        PyObject* word = NB_TUPLE_GET_ITEM(words, i);
        if (!PyUnicode_Check(word)) malformed("a word is not a string");
        add(static_cast<i32>(ex.literals.size()));
        ex.literals.push_back(utf8(word, "a word has a lone surrogate"));
      }
      break;
    }
    case OP_CAPTURE: need(3), add(small_int(item(1))); break;
    case OP_TEMPERATURE: {
      need(3);
      const double value = PyFloat_AsDouble(item(2));
      if (PyErr_Occurred()) throw nb::python_error();
      if (!(value >= 0 && value < 1e300)) malformed("a temperature is not a number from 0");
      add(small_int(item(1)));
      add(static_cast<i32>(ex.numbers.size()));
      ex.numbers.push_back(value);
      break;
    }
    default:
      for (std::size_t i = 1; i < n; i++) add(small_int(item(i)));
  }
  ex.nodes.push_back({op, begin, static_cast<u32>(ex.ints.size())});
}

nb::tuple tuple_of(nb::handle value) { return nb::borrow<nb::tuple>(checked_tuple(value.ptr())); }

// The large grammar that was read before. One that begins with the same nodes, as the grammars of one builder do, is read from where they
// differ. INVARIANT: equal nodes are recognised by their identity, which holds as long as their tuple is held here.
struct PreviousGrammar {
  nb::object nodes, names;
  std::shared_ptr<const Expressions> expressions;
  std::weak_ptr<const TokenTrie> trie;
};
constexpr std::size_t FEWEST_NODES = 500, MOST_NODES = 100'000;  // of a grammar that is kept

std::mutex& previous_mutex() {
  static std::mutex mutex;
  return mutex;
}
PreviousGrammar& previous_grammar() {
  static PreviousGrammar* const found = new PreviousGrammar;  // which outlives the interpreter
  return *found;
}

// How many items two tuples share from the first on.
std::size_t shared(const nb::tuple& tuple, nb::handle before) {
  const std::size_t count = std::min(tuple.size(), static_cast<std::size_t>(NB_TUPLE_GET_SIZE(before.ptr())));
  std::size_t i = 0;
  while (i < count &&
         NB_TUPLE_GET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i)) == NB_TUPLE_GET_ITEM(before.ptr(), static_cast<Py_ssize_t>(i)))
    i++;
  return i;
}

std::shared_ptr<Expressions> read_expressions(nb::handle grammar, const std::shared_ptr<const TokenTrie>& trie) {
  const auto made = std::make_shared<Expressions>();
  Expressions& ex = *made;
  const nb::tuple nodes = tuple_of(grammar.attr("nodes")), names = tuple_of(grammar.attr("names"));
  for (nb::handle rule : tuple_of(grammar.attr("rules"))) ex.rules.push_back(small_int(rule.ptr()));
  ex.root = small_int(nb::object(grammar.attr("root")).ptr());
  std::size_t named = 0;
  if (nodes.size() >= FEWEST_NODES) {
    PreviousGrammar before;
    {
      const std::lock_guard lock(previous_mutex());
      before = previous_grammar();
    }
    const std::size_t count = before.expressions ? shared(nodes, before.nodes) : 0;
    if (count >= FEWEST_NODES) {
      const Expressions& other = *before.expressions;
      ex.begin_as(other, count);
      named = shared(names, before.names);
      ex.names.assign(other.names, named);
      const bool same_rules = ex.rules.size() >= other.rules.size() && std::equal(other.rules.begin(), other.rules.end(), ex.rules.begin());
      if (same_rules && before.trie.lock() == trie) {
        ex.checked = static_cast<u32>(count);
        if (count == other.nodes.size()) ex.generates = other.generates;
      }
    }
  }
  const std::size_t known = ex.nodes.size();
  ex.nodes.reserve(nodes.size());
  ex.ints.reserve(ex.ints.size() + (nodes.size() - known) * 4);
  for (std::size_t i = known; i < nodes.size(); i++) read_node(ex, NB_TUPLE_GET_ITEM(nodes.ptr(), static_cast<Py_ssize_t>(i)));
  for (std::size_t i = named; i < names.size(); i++) {
    PyObject* name = NB_TUPLE_GET_ITEM(names.ptr(), static_cast<Py_ssize_t>(i));
    if (!PyUnicode_Check(name)) malformed("a name is not a string");
    ex.names.push_back(utf8(name, "a name has a lone surrogate"));
  }
  return made;
}

void remember(nb::handle grammar, std::shared_ptr<const Expressions> expressions, const std::shared_ptr<const TokenTrie>& trie) {
  if (expressions->nodes.size() < FEWEST_NODES || expressions->nodes.size() > MOST_NODES) return;
  PreviousGrammar now{grammar.attr("nodes"), grammar.attr("names"), std::move(expressions), trie};
  const std::lock_guard lock(previous_mutex());
  std::swap(previous_grammar(), now);
}

// ---- matchers and their rows

struct KernelGrammar {
  std::shared_ptr<Automaton> automaton;
};

// Freeing an automaton can take milliseconds, so it releases the GIL.
void delete_without_gil(Automaton* automaton) {
  if (holds_gil()) {
    const nb::gil_scoped_release release;
    delete automaton;
  } else {
    delete automaton;
  }
}

Thresholds thresholds_of(nb::handle given) {
  Thresholds thresholds;
  if (given.is_none()) return thresholds;
  for (const auto& [name, value] : nb::cast<nb::dict>(given)) {
    const std::string wanted = nb::cast<std::string>(name);
    const auto found = std::find_if(std::begin(THRESHOLDS), std::end(THRESHOLDS), [&](const auto& each) { return wanted == each.name; });
    if (found == std::end(THRESHOLDS)) throw nb::value_error(("there is no threshold " + wanted).c_str());
    thresholds.*found->value = nb::cast<u32>(value);
  }
  return thresholds;
}

std::shared_ptr<TokenTrie> make_trie(nb::object tokens, i64 size, i64 set_bytes, i64 class_bytes, nb::handle thresholds) {
  std::vector<std::pair<const char*, std::size_t>> texts;
  const nb::object fast = nb::steal(PySequence_Fast(tokens.ptr(), "tokens is not a sequence"));
  if (!fast.is_valid()) throw nb::python_error();
  const nb::object tuple = PyTuple_Check(fast.ptr()) ? fast : nb::steal(PyList_AsTuple(fast.ptr()));
  if (!tuple.is_valid()) throw nb::python_error();
  const Py_ssize_t count = NB_TUPLE_GET_SIZE(tuple.ptr());
  if (size < count)
    throw nb::value_error(("the vocabulary has " + std::to_string(count) + " tokens, more than its size " + std::to_string(size)).c_str());
  if (size > (1 << 24)) throw nb::value_error("a vocabulary has at most 16,777,216 tokens");
  texts.reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; i++) {
    if ((i & 0xFFFF) == 0xFFFF) check_signals();
    PyObject* token = NB_TUPLE_GET_ITEM(tuple.ptr(), i);
    if (token == Py_None) texts.push_back({nullptr, 0});
    else if (PyBytes_Check(token)) texts.push_back({PyBytes_AsString(token), static_cast<std::size_t>(PyBytes_Size(token))});
    else
      throw nb::type_error(
          ("token " + std::to_string(i) + " is " + nb::type_name(nb::handle(token).type()).c_str() + ", not bytes or None").c_str());
  }
  const auto bytes = [](i64 given) { return static_cast<std::size_t>(std::max<i64>(given, 0)); };
  return std::make_shared<TokenTrie>(texts, static_cast<u32>(size), bytes(set_bytes), bytes(class_bytes), thresholds_of(thresholds));
}

nb::bytes to_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// The matchers of a batch, which stay alive while the GIL is let go.
struct Batch {
  std::vector<Matcher*> matchers;
  std::vector<nb::object> alive;
  explicit Batch(nb::handle given) {
    for (nb::handle matcher : nb::iter(given)) {
      if (!nb::isinstance<Matcher>(matcher)) throw nb::type_error("a matcher was expected");
      matchers.push_back(nb::cast<Matcher*>(matcher));
      alive.push_back(nb::borrow(matcher));
    }
  }
};

// Ids of the batch's rows: given, or 0, 1, 2 ...
std::vector<i64> rows_of(nb::handle rows, std::size_t count) {
  std::vector<i64> result;
  if (rows.is_none()) {
    for (std::size_t i = 0; i < count; i++) result.push_back(static_cast<i64>(i));
    return result;
  }
  for (nb::handle row : nb::iter(rows)) result.push_back(nb::cast<i64>(row));
  if (result.size() != count)
    throw nb::value_error((std::to_string(count) + " matchers, but " + std::to_string(result.size()) + " rows").c_str());
  std::vector<i64> sorted = result;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) throw nb::value_error("two matchers have the same row");
  return result;
}

// What a call to fill bitmasks is about, checked.
struct Fill {
  Batch batch;
  std::optional<Rows> target;
  std::vector<u32*> rows;
  Fill(nb::handle matchers, nb::handle bitmask, nb::handle places) : batch(matchers) {
    const std::vector<Matcher*>& list = batch.matchers;
    const std::vector<i64> wanted = rows_of(places, list.size());
    for (const Matcher* matcher : list)
      if (matcher->trie().size() != list[0]->trie().size()) throw nb::value_error("the matchers have vocabularies of different sizes");
    if (list.empty()) return;
    target.emplace(bitmask, list[0]->trie());
    for (const i64 place : wanted) rows.push_back(target->row(place));
  }
};

struct BitmaskFiller {
  nb::object rows;
  BackgroundFiller filler;  // ends before the rows that it fills are freed
};

}  // namespace

NB_MODULE(_kernel, m) {
  m.doc() = "The compiled engine: grammars run as pushdown automata over a trie of tokens.";
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);
  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  host.lock = lock_without_gil, host.check = check_signals, host.pause = give_up_gil, host.resume = take_gil;
#ifndef _WIN32
  pthread_atfork(nullptr, nullptr, [] { host.forks++, main_thread = PyThread_get_thread_ident(); });
#endif

  nb::class_<TokenTrie>(
      m, "TokenTrie",
      "The bytes of every token, as a trie; an id without bytes, or with none, is a token without text.\n\n"
      "What grammars remember of it together, so that each need not find it anew, takes no more than set_bytes (sets of nodes, kept for good)\n"
      "and class_bytes (what loops over classes of characters take; forgotten if it is not used).\n"
      "Masks do not depend on thresholds, which say from which sizes on which way to them is taken; tests change them.")
      .def(nb::new_([](nb::object tokens, i64 size, i64 set_bytes, i64 class_bytes, nb::object thresholds) {
             return make_trie(tokens, size, set_bytes, class_bytes, thresholds);
           }),
           nb::arg("tokens"), nb::arg("size"), nb::kw_only(), nb::arg("set_bytes") = 64 << 20, nb::arg("class_bytes") = 64 << 20,
           nb::arg("thresholds") = nb::none())
      .def_prop_ro(
          "thresholds",
          [](const TokenTrie& self) {
            nb::typed<nb::dict, nb::str, nb::int_> d;
            for (const auto& [name, value] : THRESHOLDS) d[name] = self.thresholds().*value;
            return d;
          },
          "The sizes from which on which way to a mask is taken.")
      .def_prop_ro("size", &TokenTrie::size, "The number of tokens, padding included.")
      .def_prop_ro("nodes", &TokenTrie::node_count, "The number of trie nodes.")
      .def_prop_ro("memory", &TokenTrie::bytes, "The bytes that the trie takes.");

  nb::class_<KernelGrammar>(
      m, "KernelGrammar", "A grammar, or one that was packed, made ready for one vocabulary. Shared by any number of matchers and threads.")
      .def(
          "__init__",
          [](KernelGrammar* self, std::shared_ptr<TokenTrie> trie, nb::object grammar, i64 states, i64 stack_depth, i64 memory,
             double seconds, i64 step_work) {
            const bool is_packed = PyBytes_Check(grammar.ptr());
            std::shared_ptr<Expressions> expressions = is_packed ? nullptr : read_expressions(grammar, trie);
            Limits limits;
            limits.states = static_cast<u64>(std::max<i64>(states, 0));
            limits.stack_depth = static_cast<u64>(std::max<i64>(stack_depth, 0));
            limits.memory = static_cast<u64>(std::max<i64>(memory, 0));
            limits.seconds = seconds;
            limits.step_work = static_cast<u64>(std::max<i64>(step_work, 0));
            {
              const nb::gil_scoped_release release;
              if (is_packed) expressions = unpack(PyBytes_AsString(grammar.ptr()), static_cast<std::size_t>(PyBytes_Size(grammar.ptr())));
              new (self) KernelGrammar{std::shared_ptr<Automaton>(new Automaton(trie, expressions, limits), delete_without_gil)};
            }
            if (!is_packed) remember(grammar, expressions, trie);
          },
          nb::arg("trie"), nb::arg("grammar"), nb::kw_only(), nb::arg("states"), nb::arg("stack_depth"), nb::arg("memory"),
          nb::arg("seconds"), nb::arg("step_work") = static_cast<i64>(Limits().step_work))
      .def(
          "warm_up",
          [](const KernelGrammar& self) {
            const nb::gil_scoped_release release;
            run_low_priority([&automaton = *self.automaton] {
              try {
                std::vector<u32> row(automaton.trie().words());
                automaton.run(1, 0, [&] { automaton.fill(automaton.initial(), row.data()); });
                automaton.run(Matcher::COMPLETION_STEPS, 0, [&] { automaton.shortest_length(automaton.initial()); });
              } catch (const std::exception&) {  // the first request meets it, too
              }
            });
          },
          "Make what the first request would wait for: its first mask, and the length of a completion.\n\n"
          "After a while this takes turns from nobody else, where threads have priorities of their own.")
      .def_prop_ro(
          "memory",
          [](const KernelGrammar& self) {
            const auto locked = self.automaton->lock();
            return self.automaton->bytes();
          },
          "The bytes that the lazily built tables take.")
      .def_prop_ro(
          "has_temperature", [](const KernelGrammar& self) { return self.automaton->has_temperature(); },
          "Whether some part of the text asks for a temperature.")
      .def_prop_ro(
          "statistics",
          [](const KernelGrammar& self) {
            const auto locked = self.automaton->lock();
            const Statistics& s = self.automaton->statistics();
            nb::typed<nb::dict, nb::str, nb::int_> d;
            d["rules"] = self.automaton->rule_count();
            d["nfa_states"] = self.automaton->nfa_state_count();
            d["dfa_states"] = self.automaton->state_count();
            d["configurations"] = self.automaton->node_count();
            d["rewritten_rules"] = self.automaton->rewritten_rules();
            for (const auto& [name, value] : STATISTICS) d[name] = s.*value;
            d["work"] = std::as_const(*self.automaton).work().total();
            d["largest_work"] = std::as_const(*self.automaton).work().largest();
            d["tables"] = self.automaton->table_count();
            d["delta_states"] = self.automaton->delta_count();
            return d;
          },
          "Counts of what was built, for tests and benchmarks.");

  nb::class_<Matcher>(m, "Matcher", "The text of one request so far, and what may follow it. Not for use by two threads at once.")
      .def(
          "__init__",
          [](Matcher* self, const KernelGrammar& grammar, nb::object stop_token_ids) {
            std::vector<u32> stops = checked_tokens(grammar.automaton->trie(), stop_token_ids);
            new (self) Matcher(grammar.automaton, std::move(stops));
          },
          nb::arg("grammar"), nb::arg("stop_token_ids"))
      .def("__repr__",
           [](const Matcher& self) {
             return "<Matcher after " + std::to_string(self.num_accepted()) + " tokens" + (self.is_terminated() ? ", terminated" : "") +
                    ">";
           })
      .def_prop_ro("num_accepted", &Matcher::num_accepted, "How many steps rollback can undo.")
      .def_prop_ro(
          "temperature",
          [](const Matcher& self) -> std::optional<double> {
            const double value = self.temperature();
            return value < 0 ? std::nullopt : std::optional<double>(value);
          },
          "The temperature that the next token is to be sampled at, None where the grammar does not say; the highest of several.")
      .def_prop_ro(
          "taken",
          [](const Matcher& self) {
            nb::list steps;
            for (const auto& [token, text] : self.taken()) {
              if (token >= 0) steps.append(nb::int_(token));
              else steps.append(to_bytes(text));
            }
            return steps;
          },
          nb::for_getter(nb::sig("def taken(self) -> list[int | bytes]")),
          "What was accepted, tokens by their ids and texts, without stop tokens nobody asked for; nothing where there is no CAPTURE.")
      .def("is_terminated", &Matcher::is_terminated, "Whether a stop token was accepted.")
      .def("is_completed", &Matcher::is_completed, "Whether the text may end here: then every stop token is allowed.")
      .def(
          "accept_token", [](Matcher& self, i64 token_id) { return self.accept_token(checked_token(self.trie(), token_id)); },
          nb::arg("token_id"), "Go on by a token; False, and nothing changes, where it is not allowed.")
      .def(
          "accept_bytes", [](Matcher& self, nb::bytes data) { return self.accept_bytes(data.c_str(), data.size()); }, nb::arg("data"),
          "Go on by a text, as one step; False, and nothing changes, where it is not allowed.")
      .def(
          "validate_tokens",
          [](const Matcher& self, nb::object token_ids) { return self.validate_tokens(checked_tokens(self.trie(), token_ids)); },
          nb::arg("token_ids"), "How many of these tokens could be accepted one after the other.")
      .def(
          "rollback",
          [](Matcher& self, i64 n) {
            if (n < 0) throw nb::value_error(("cannot roll back " + std::to_string(n) + " tokens").c_str());
            self.rollback(n);
          },
          nb::arg("n"), "Undo the last n steps.")
      .def(
          "fork",
          [](nb::handle self) {
            nb::cast<const Matcher&>(self);  // a TypeError for what was never made
            nb::object copy = nb::inst_alloc(self.type());
            new (nb::inst_ptr<Matcher>(copy)) Matcher(*nb::inst_ptr<Matcher>(self));
            nb::inst_mark_ready(copy);
            return copy;
          },
          nb::sig("def fork(self) -> typing.Self"), "An independent matcher in the same state, with the same history.")
      .def("reset", &Matcher::reset, "Back to the beginning, with no history.")
      .def(
          "fill_next_token_bitmask",
          [](const Matcher& self, nb::handle bitmask, i64 index) {
            const Rows rows(bitmask, self.trie());
            u32* row = rows.row(index);
            const nb::gil_scoped_release release;
            return self.fill(row);
          },
          nb::arg("bitmask"), nb::arg("index") = 0,
          "Write the row of a bitmask: bit i of word w is 1 if token 32 w + i is allowed. False if all of them are.")
      .def(
          "fill_by_trial",
          [](const Matcher& self, nb::handle bitmask, i64 index) {
            const Rows rows(bitmask, self.trie());
            u32* row = rows.row(index);
            const nb::gil_scoped_release release;
            self.fill_by_trial(row);
          },
          nb::arg("bitmask"), nb::arg("index") = 0,
          "The row that fill_next_token_bitmask is to write, by trying to accept every token: slow, for tests.")
      .def(
          "allowed_tokens",
          [](const Matcher& self) {
            std::vector<u32> row(self.trie().words());
            {
              const nb::gil_scoped_release release;
              self.fill(row.data());
            }
            std::vector<u32> tokens;
            for (u32 id = 0; id < self.trie().size(); id++)
              if (row[id >> 5] >> (id & 31) & 1) tokens.push_back(id);
            return tokens;
          },
          "The tokens that are allowed now.")
      .def(
          "find_jump_forward_bytes", [](const Matcher& self) { return to_bytes(self.jump_forward()); },
          "The bytes that must follow, up to where there is a choice or the text is complete; no more than 65,536 at once.")
      .def(
          "find_jump_forward_string",
          [](const Matcher& self) {
            // The forced bytes are UTF-8 up to where they are cut or the grammar has raw bytes.
            const std::string bytes = self.jump_forward();
            const nb::object text = nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "strict"));
            if (text.is_valid()) return nb::str(text);
            nb::python_error error;
            const Py_ssize_t start = nb::cast<Py_ssize_t>(nb::object(error.value().attr("start")));
            return nb::str(bytes.data(), static_cast<std::size_t>(start));
          },
          "The longest start of the bytes that must follow that is text.")
      .def(
          "shortest_completion",
          [](const Matcher& self) {
            std::string text;
            {
              const nb::gil_scoped_release release;
              text = self.shortest_completion();
            }
            return to_bytes(text);
          },
          "A shortest text that completes the text so far, read byte by byte.\n\n"
          "A token that the grammar asks for by its id is no text: a completion passes through none. GrammarError where none completes without\n"
          "one, LimitError where the text is too long to be written, or values that must differ leave too many ways to look at.")
      .def(
          "matching_prefix", [](const Matcher& self, nb::bytes data) { return self.matching_prefix(data.c_str(), data.size()); },
          nb::arg("data"), "How many of these bytes can be accepted from here.")
      .def(
          "next_bytes", [](const Matcher& self, nb::bytes data) { return to_bytes(self.next_bytes(data.c_str(), data.size())); },
          nb::arg("data") = nb::bytes("", 0), "Which bytes may follow after `data`, sorted; none where `data` is not allowed.")
      .def(
          "rule_names", [](const Matcher& self, nb::bytes data) { return self.rule_names(data.c_str(), data.size()); },
          nb::arg("data") = nb::bytes("", 0),
          "The rules begun and not ended after `data`, innermost first; none where `data` is not allowed.");

  m.def(
      "pack_grammar", [](nb::handle grammar) { return to_bytes(pack(*read_expressions(grammar, nullptr))); }, nb::arg("grammar"),
      "A grammar as bytes that a KernelGrammar takes in its place, in a process of the same version on the same machine.");

  m.def(
      "fill_bitmasks",
      [](nb::handle matchers, nb::handle bitmask, nb::handle rows) {
        const Fill fill(matchers, bitmask, rows);
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < fill.rows.size(); i++) fill.batch.matchers[i]->fill(fill.rows[i]);
      },
      nb::arg("matchers"), nb::arg("bitmask"), nb::arg("rows") = nb::none(), "Fill the row of every matcher: `rows[i]`, or i.");

  nb::class_<Fill>(m, "MatcherRows",
                   "The matchers of a batch and their rows of a bitmask, `rows[i]` or i, checked once for any number of steps.")
      .def(nb::init<nb::handle, nb::handle, nb::handle>(), nb::arg("matchers"), nb::arg("bitmask"), nb::arg("rows") = nb::none())
      .def(
          "take",
          [](const Fill& self, nb::handle token_ids) {
            const std::vector<Matcher*>& list = self.batch.matchers;
            std::vector<u32> tokens;
            tokens.reserve(list.size());
            for (nb::handle id : nb::iter(token_ids)) {
              if (tokens.size() < list.size()) tokens.push_back(checked_token(list[tokens.size()]->trie(), nb::cast<i64>(id)));
              else throw nb::value_error("there are more tokens than matchers");
            }
            if (tokens.size() < list.size()) throw nb::value_error("there are fewer tokens than matchers");
            const nb::gil_scoped_release release;
            return accept_all(list, tokens);
          },
          nb::arg("token_ids"), nb::sig("def take(self, token_ids: object) -> list[int] | None"),
          "Every matcher goes on by its token; the lengths in bytes of their shortest completions then, -1 where there is none.\n\n"
          "None where a matcher refuses its token or runs into a limit: then none has gone on.");

  nb::class_<BitmaskFiller>(m, "BitmaskFiller", "Fills bitmasks in a thread of its own while its caller does something else.")
      .def(nb::init<>())
      .def(
          "begin",
          [](BitmaskFiller& self, nb::object rows) {
            if (self.rows.is_valid()) throw nb::value_error("it has begun already; call end first");
            const Fill& fill = nb::cast<const Fill&>(rows);
            self.filler.begin(fill.batch.matchers, fill.rows);
            self.rows = std::move(rows);
          },
          nb::arg("rows"), nb::sig("def begin(self, rows: MatcherRows) -> None"),
          "Begin to fill these rows. Until `end`, leave the matchers as they are and the rows unread.")
      .def(
          "end",
          [](BitmaskFiller& self) {
            if (!self.rows.is_valid()) throw nb::value_error("nothing has begun");
            std::exception_ptr error;
            {
              const nb::gil_scoped_release release;
              error = self.filler.end();
            }
            self.rows.reset();
            if (error) std::rethrow_exception(error);
          },
          "Wait until the rows are filled; what went wrong is raised here.");

  m.def(
      "completion_lengths",
      [](nb::handle matchers) {
        const Batch batch(matchers);
        std::vector<i64> lengths;
        const nb::gil_scoped_release release;
        for (const Matcher* matcher : batch.matchers) lengths.push_back(completion_length(*matcher));
        return lengths;
      },
      nb::arg("matchers"), nb::sig("def completion_lengths(matchers: object) -> list[int]"),
      "The length in bytes of what `shortest_completion` gives for every matcher, -1 where it raises an error.");

  m.def("mask_logits", &mask_logits, nb::arg("logits"), nb::arg("bitmask"), nb::arg("forbidden"), nb::arg("rows") = nb::none(),
        nb::sig(
            "def mask_logits(logits: object, bitmask: object, forbidden: int, rows: collections.abc.Sequence[int] | None = None) -> None"),
        "Replace the logits that a bitmask forbids by `forbidden`, given as the bits of a logit; rows of both by the same index.");

  m.def(
      "best_tokens", &best_tokens, nb::arg("logits"), nb::arg("bitmask").none(), nb::arg("rows") = nb::none(),
      nb::sig("def best_tokens(logits: object, bitmask: object | None, rows: collections.abc.Sequence[int] | None = None) -> list[int]"),
      "The token with the largest logit in each row, float32, of those that the bitmask allows if there is one; -1 where it allows none.");

  m.def(
      "fill_draft_bitmasks",
      [](const Matcher& matcher, nb::object draft_token_ids, nb::handle bitmask, i64 row, nb::object parents) {
        const std::vector<u32> tokens = checked_tokens(matcher.trie(), draft_token_ids);
        std::vector<i32> before;
        if (parents.is_none()) {
          for (std::size_t i = 0; i < tokens.size(); i++) before.push_back(static_cast<i32>(i) - 1);
        } else {
          for (nb::handle parent : nb::iter(parents)) before.push_back(nb::cast<i32>(parent));
          if (before.size() != tokens.size())
            throw nb::value_error(
                (std::to_string(tokens.size()) + " draft tokens, but " + std::to_string(before.size()) + " parents").c_str());
          for (std::size_t i = 0; i < before.size(); i++)
            if (before[i] < -1 || before[i] >= static_cast<i32>(i))
              throw nb::value_error(("the parent of draft token " + std::to_string(i) + " is " + std::to_string(before[i]) +
                                     ", not -1 or a draft token before it")
                                        .c_str());
        }
        const Rows rows(bitmask, matcher.trie());
        u32* first = rows.row(row);
        rows.row(row + static_cast<i64>(tokens.size()));
        const nb::gil_scoped_release release;
        matcher.fill_drafts(tokens, before, first);
      },
      nb::arg("matcher"), nb::arg("draft_token_ids"), nb::arg("bitmask"), nb::arg("row"), nb::arg("parents") = nb::none(),
      "Fill `row` with the mask now, and row + i + 1 with the mask after draft token i and those before it.\n\n"
      "`parents[i]` is the draft token before token i, -1 for none; by default the drafts are a chain.\n"
      "Rows at and below a refused draft token are all zeros. The matcher stays where it is.");
}
