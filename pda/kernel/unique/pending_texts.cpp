#include "unique/pending_texts.h"

#include <algorithm>

namespace stackmask {

u32 PendingTexts::extend(u32 text, u8 byte) {
  const u8 mode = modes_[text];
  if (mode == OUTSIDE) {
    const char last = static_cast<char>(parents_[text].second);
    if (is_blank(byte)) {
      if (text == EMPTY || std::strchr("{[:, ", last)) return text;
      byte = ' ';
    } else if (last == ' ' && std::strchr(",:]}", static_cast<char>(byte))) {
      text = parents_[text].first;
    }
  }
  const u64 key = static_cast<u64>(text) << 8 | byte;
  if (const u32* found = children_.find(key)) return *found;
  parents_.push_back({text, byte});
  if (mode == OUTSIDE) modes_.push_back(byte == '"' ? INSIDE : OUTSIDE);
  else if (mode == BEHIND_BACKSLASH) modes_.push_back(INSIDE);
  else modes_.push_back(byte == '"' ? OUTSIDE : byte == '\\' ? BEHIND_BACKSLASH : INSIDE);
  const u32 id = static_cast<u32>(parents_.size() - 1);
  children_.insert(key, id);
  return id;
}

std::string PendingTexts::text(u32 text) const {
  std::string result;
  for (; text != EMPTY; text = parents_[text].first) result.push_back(static_cast<char>(parents_[text].second));
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace stackmask
