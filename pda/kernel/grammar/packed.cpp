#include "grammar/packed.h"

namespace stackmask {

namespace {

[[noreturn]] void malformed(const std::string& what) { throw BadGrammar("malformed grammar: " + what); }

class Packer {
 public:
  std::string data;
  template <class T>
  void put(const std::vector<T>& values) {
    const u64 count = values.size();
    data.append(reinterpret_cast<const char*>(&count), sizeof count);
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void put(const Texts& texts) {
    std::vector<u64> lengths;
    lengths.reserve(texts.size());
    for (std::size_t i = 0; i < texts.size(); i++) lengths.push_back(texts[i].size());
    put(lengths);
    for (std::size_t i = 0; i < texts.size(); i++) data.append(texts[i]);
  }
};

class Unpacker {
 public:
  Unpacker(const char* data, std::size_t size) : data_(data), end_(data + size) {}
  template <class T>
  void get(std::vector<T>& values) {
    u64 count = 0;
    std::memcpy(&count, take(sizeof count), sizeof count);
    if (count > static_cast<std::size_t>(end_ - data_) / sizeof(T)) cut_off();
    values.resize(static_cast<std::size_t>(count));
    if (count) std::memcpy(values.data(), take(count * sizeof(T)), values.size() * sizeof(T));
  }
  void get(Texts& texts) {
    std::vector<u64> lengths;
    get(lengths);
    for (const u64 length : lengths) texts.push_back({take(length), static_cast<std::size_t>(length)});
  }
  bool at_end() const { return data_ == end_; }

 private:
  const char *data_, *end_;
  [[noreturn]] static void cut_off() { malformed("there are fewer bytes than were packed"); }
  const char* take(u64 size) {
    if (size > static_cast<std::size_t>(end_ - data_)) cut_off();
    return std::exchange(data_, data_ + size);
  }
};

u64 checksum(const char* data, std::size_t size) {  // FNV-1a
  u64 sum = 0xCBF29CE484222325u;
  for (std::size_t i = 0; i < size; i++) sum = (sum ^ static_cast<u8>(data[i])) * 0x100000001B3u;
  return sum;
}

}  // namespace

std::string pack(const Expressions& ex) {
  Packer packer;
  packer.put(ex.nodes), packer.put(ex.ints), packer.put(ex.literals), packer.put(ex.numbers), packer.put(ex.rules), packer.put(ex.names);
  packer.put(std::vector<i32>{ex.root});
  const u64 sum = checksum(packer.data.data(), packer.data.size());
  return std::string(reinterpret_cast<const char*>(&sum), sizeof sum) + packer.data;
}

std::shared_ptr<Expressions> unpack(const char* data, std::size_t size) {
  u64 sum = 0;
  if (size >= sizeof sum) std::memcpy(&sum, data, sizeof sum);
  if (size < sizeof sum || sum != checksum(data + sizeof sum, size - sizeof sum)) malformed("not a packed grammar, or damaged");
  const auto made = std::make_shared<Expressions>();
  Expressions& ex = *made;
  std::vector<i32> root;
  Unpacker unpacker(data + sizeof sum, size - sizeof sum);
  unpacker.get(ex.nodes), unpacker.get(ex.ints), unpacker.get(ex.literals), unpacker.get(ex.numbers), unpacker.get(ex.rules),
      unpacker.get(ex.names);
  unpacker.get(root);
  if (root.size() != 1 || !unpacker.at_end()) malformed("there are more bytes than were packed");
  ex.root = root[0];
  check_indices(ex);
  return made;
}

void check_indices(const Expressions& ex) {
  const auto below = [](i32 index, std::size_t count) { return index >= 0 && static_cast<std::size_t>(index) < count; };
  for (u32 node = 0; node < ex.nodes.size(); node++) {
    const Expressions::Node& at = ex.nodes[node];
    bool fits = at.begin <= at.end && at.end <= ex.ints.size();
    const std::size_t count = fits ? ex.count(node) : 0;
    if (fits && at.op == OP_LITERAL) fits = count == 1 && below(ex.arg(node, 0), ex.literals.size());
    if (fits && at.op == OP_EXCEPT)
      for (std::size_t i = 1; i < count; i++) fits = fits && below(ex.arg(node, i), ex.literals.size());
    if (fits && at.op == OP_TEMPERATURE) fits = count == 2 && below(ex.arg(node, 1), ex.numbers.size());
    if (!fits) malformed("node " + std::to_string(node) + " has wrong arguments");
  }
  for (const double value : ex.numbers)
    if (!(value >= 0 && value < 1e300)) malformed("a temperature is not a number from 0");
}

}  // namespace stackmask
