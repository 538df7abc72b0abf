#include "bindings/python.h"

#include <nanobind/stl/string.h>

#include <chrono>
#include <thread>

#ifndef _WIN32
#include <pthread.h>
#endif

#include "host.h"

namespace stackmask {

namespace {

PyObject* exception(const char* name) {
  static nb::object* module = new nb::object(nb::module_::import_("stackmask.pda.exceptions"));
  return nb::object(module->attr(name)).release().ptr();
}

unsigned long main_thread;  // the thread that handles signals

// Python lets no thread but the main one have the GIL once the process ends: before 3.14 it unwinds the thread's stack, in which destructors
// may not throw. The thread gives up the mutex that it holds, if any, and sleeps instead, as Python itself does from 3.14 on.
void take_gil_or_sleep(void* state, Mutex* held) {
  try {
    PyEval_RestoreThread(static_cast<PyThreadState*>(state));
  } catch (...) {
    if (held) held->unlock();
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// No thread waits for a grammar while it holds the GIL, so the thread that holds the grammar may wait for the GIL.
void lock_without_gil(Mutex& mutex) {
  void* const state = give_up_gil();
  mutex.lock();
  if (state) take_gil_or_sleep(state, &mutex);
}

// Turns exceptions of the kernel into those of pda/exceptions.py.
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

}  // namespace

#if PY_VERSION_HEX < 0x030C0000
bool holds_gil() { return Py_IsInitialized() && PyGILState_Check(); }
#else  // by the stable interface; before 3.12 this is the dictionary of the thread that holds the GIL
bool holds_gil() { return Py_IsInitialized() && PyThreadState_GetDict() != nullptr; }
#endif

void* give_up_gil() { return holds_gil() ? PyEval_SaveThread() : nullptr; }
void take_gil(void* state) { take_gil_or_sleep(state, nullptr); }

void check_signals() {
  if (PyThread_get_thread_ident() != main_thread || !Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool interrupted = PyErr_CheckSignals() != 0;  // the error stays with the thread
  PyGILState_Release(state);
  if (interrupted) throw Interrupted();
}

void begin_host() {
  nb::register_exception_translator(translate);
  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  host.lock = lock_without_gil, host.check = check_signals, host.pause = give_up_gil, host.resume = take_gil;
#ifndef _WIN32
  pthread_atfork(nullptr, nullptr, [] { host.forks++, main_thread = PyThread_get_thread_ident(); });
#endif
}

TokenId checked_token(const TokenTrie& trie, i64 token) {
  if (token < 0 || token >= static_cast<i64>(trie.size()))
    throw nb::value_error(("token id " + std::to_string(token) + " is out of range 0.." + std::to_string(trie.size() - 1)).c_str());
  return TokenId(static_cast<u32>(token));
}

std::vector<TokenId> checked_tokens(const TokenTrie& trie, nb::handle ids) {
  std::vector<TokenId> result;
  for (nb::handle id : nb::iter(ids)) {
    const nb::object index = nb::steal(PyNumber_Index(id.ptr()));
    if (!index.is_valid()) throw nb::python_error();
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    result.push_back(checked_token(trie, overflow ? -1 : value));
  }
  return result;
}

}  // namespace stackmask
