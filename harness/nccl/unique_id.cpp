#include "harness/nccl/unique_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <tuple>

#include "harness/error.h"

namespace zplan::bench {

namespace {

struct Member {
  int color{}, key{}, rank{};
};

Member member_in(const std::string& text, int rank) {
  Member member{.color = 0, .key = 0, .rank = rank};
  std::istringstream(text) >> member.color >> member.key;
  return member;
}

}  // namespace

std::string new_unique_id(const Nccl& nccl, const std::string& who) {
  ncclUniqueId id{};
  if (const ncclResult_t result = nccl.unique_id(&id); result != ncclSuccess)
    throw BenchError(fmt::format("{}: ncclGetUniqueId fails: {} ({}); NCCL_DEBUG=INFO says more", who,
                                 nccl.error_string(result), static_cast<int>(result)));
  std::string text;
  for (const char byte : id.internal) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

ncclUniqueId unique_id_in(const std::string& text) {
  ncclUniqueId id{};
  if (text.size() != 2 * sizeof id.internal) throw BenchError("rank 0 sent no id of NCCL");
  for (std::size_t byte = 0; byte < sizeof id.internal; ++byte) {
    unsigned char value = 0;
    const char* digits = text.data() + 2 * byte;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2)
      throw BenchError("rank 0 sent no id of NCCL");
    id.internal[byte] = static_cast<char>(value);
  }
  return id;
}

Part part_of(const std::vector<std::string>& all, int rank) {
  const int color = member_in(all.at(static_cast<std::size_t>(rank)), rank).color;
  std::vector<Member> members;
  for (std::size_t each = 0; each < all.size(); ++each)
    if (const Member member = member_in(all[each], static_cast<int>(each)); member.color == color)
      members.push_back(member);
  std::sort(members.begin(), members.end(), [](const Member& one, const Member& other) {
    return std::tie(one.key, one.rank) < std::tie(other.key, other.rank);
  });
  const auto me =
      std::find_if(members.begin(), members.end(), [&](const Member& each) { return each.rank == rank; });
  return {.rank = static_cast<int>(me - members.begin()),
          .size = static_cast<int>(members.size()),
          .first = members.front().rank};
}

}  // namespace zplan::bench
