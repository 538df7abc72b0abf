// A bitmask of Python that the kernel writes to.
#pragma once

#include "bindings/python.h"

namespace stackmask {

// A writable C-contiguous int32 buffer of one or two dimensions, held while it is written.
class BitmaskRows {
 public:
  BitmaskRows(nb::handle bitmask, const TokenTrie& trie) {
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
  BitmaskRows(const BitmaskRows&) = delete;
  ~BitmaskRows() { PyBuffer_Release(&view_); }

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
    const char* type = format[0] == '<' && format[1] == 'i' ? format + 1 : format;
    if (view_.itemsize != 4 || (type[0] != 'i' && type[0] != 'l') || type[1] != 0)
      throw nb::type_error((std::string("the bitmask has format '") + format + "', not int32").c_str());
    if (view_.ndim != 1 && view_.ndim != 2)
      throw nb::value_error(("the bitmask has " + std::to_string(view_.ndim) + " dimensions, not 1 or 2").c_str());
    width_ = view_.shape[view_.ndim - 1];
    rows_ = view_.ndim == 2 ? view_.shape[0] : 1;
    if (width_ != trie.words())
      throw nb::value_error(("a row of the bitmask has " + std::to_string(width_) + " words; " + std::to_string(trie.size()) +
                             " tokens take " + std::to_string(trie.words()))
                                .c_str());
    const Py_ssize_t* const strides = view_.strides;  // none for an array of ctypes
    const bool packed = strides && strides[view_.ndim - 1] == 4 && (view_.ndim == 1 || strides[0] == 4 * width_);
    if (!packed && !PyBuffer_IsContiguous(&view_, 'C')) throw nb::value_error("the bitmask is not C-contiguous");
    if (view_.readonly) throw nb::value_error("the bitmask is read-only");
  }
};

}  // namespace stackmask
