#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>

#include "harness/net/controls.h"
#include "harness/timing.h"
#include "models/base/error.h"
#include "models/base/files.h"
#include "models/base/json_reader.h"

namespace zplan::bench {

namespace fs = std::filesystem;

namespace {

using namespace std::chrono_literals;

constexpr auto kBeat = 1s;          ///< between a rank's signs of life
constexpr int kMostUnchanged = 10;  ///< readings of a sign of life, one a beat, after which a rank is gone
constexpr auto kFarewell = 3s;      ///< rank 0 leaves the files so long for the others to read
constexpr std::string_view kOption = "--meet";

/// A process's introduction.
struct Hello {
  std::string number;  ///< at random, another for each process
  int rank{}, size{};
  long pid{};
  std::string host;
};

std::string to_text(const Hello& hello) {
  return fmt::format("{} {} {} {} {}\n", hello.number, hello.rank, hello.size, hello.pid, hello.host);
}

std::optional<Hello> hello_in(const std::string& text) {
  Hello hello;
  std::istringstream words(text);
  const bool read =
      static_cast<bool>(words >> hello.number >> hello.rank >> hello.size >> hello.pid >> hello.host);
  return read ? std::optional(hello) : std::nullopt;
}

std::string name_of(const Hello& hello) {
  return fmt::format("rank {} on host {} (pid {})", hello.rank, hello.host, hello.pid);
}

std::string random_number() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

/// Pauses between two looks at the folder, longer each time.
class Pause {
 public:
  void operator()() {
    std::this_thread::sleep_for(next_);
    next_ = std::min<std::chrono::microseconds>(next_ * 3 / 2, 50ms);
  }

 private:
  std::chrono::microseconds next_{500};
};

/// Calls `done` until it returns true. Returns false after `limit`.
template <class Done>
bool poll_until(Clock::duration limit, const Done& done) {
  const Clock::time_point deadline = Clock::now() + limit;
  for (Pause pause; !done(); pause())
    if (Clock::now() > deadline) return false;
  return true;
}

/// Joins texts: their sizes, a newline, then each.
std::string joined(const std::vector<std::string>& texts) {
  std::string head, body;
  for (const std::string& each : texts) head += fmt::format("{} ", each.size()), body += each;
  return head + "\n" + body;
}

/// Throws BenchError where the text is not that of `count` ranks.
std::vector<std::string> parted(const std::string& text, std::size_t count) {
  std::size_t at = text.find('\n') + 1;
  std::istringstream sizes(text.substr(0, at));
  std::vector<std::string> texts;
  for (std::size_t size = 0; sizes >> size && size <= text.size() - at; at += size)
    texts.push_back(text.substr(at, size));
  if (texts.size() != count || at != text.size())
    throw BenchError(fmt::format("a file of {} ranks' texts was changed by another program", count));
  return texts;
}

[[noreturn]] void refuse(const std::string& folder, const std::string& reason) {
  throw InputError(std::string(kOption), fmt::format("{} {}", in_quotes(folder), reason),
                   "accepted: a folder that can be written, on a disk that all hosts share");
}

/// Makes the folder for this user alone. Throws InputError for one that others made or may write to: their
/// texts would belong to the run, and rank 0 removes what is in it. Root's files may belong to another user
/// on a shared disk, so the folder's owner is compared with a new file's.
void make_private(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    refuse(folder, fmt::format("cannot be created: {}", std::strerror(errno)));
  struct stat there {
  }, probe{};
  if (::lstat(folder.c_str(), &there) != 0 || !S_ISDIR(there.st_mode))
    refuse(folder, "is there and is no folder");
  if ((there.st_mode & 0022U) != 0) refuse(folder, "can be written by other users");
  std::string name = folder / "probe.XXXXXX.tmp";
  const int file = ::mkstemps(name.data(), 4);
  if (file < 0) refuse(folder, fmt::format("cannot be written: {}", std::strerror(errno)));
  const bool known = ::fstat(file, &probe) == 0;
  ::close(file);
  ::unlink(name.c_str());
  if (!known || probe.st_uid != there.st_uid) refuse(folder, "belongs to another user");
}

}  // namespace

std::string meeting_folder(const Place& place, const std::string& folder) {
  fs::path base = folder;
  if (folder.empty()) base = place.one_host ? fs::temp_directory_path() : fs::current_path();
  return (base / fmt::format("zplan-bench-{}-{}", geteuid(), place.run)).string();
}

FileControl::FileControl(const Place& place, std::string folder, Seconds timeout)
    : place_(place),
      folder_(std::move(folder)),
      timeout_(timeout),
      mine_(random_number()),
      peers_(static_cast<std::size_t>(place.size)) {
  if (size() == 1) return;
  make_private(folder_);
  rank() == 0 ? invite() : join();
}

/// Announces the end. Rank 0 then removes the folder, when all others have left it or after kFarewell.
FileControl::~FileControl() {
  if (size() == 1) return;
  try {
    put(of_run("ended", std::to_string(rank())), "");
  } catch (const InputError&) {  // the disk fails: the others notice that the heart stops
  }
  if (rank() != 0) return;
  const auto all_left = [this] {
    const Names there = names();
    for (int other = 1; other < size(); ++other)
      if (!there.contains(of_run("ended", std::to_string(other)))) return false;
    return true;
  };
  (void)poll_until(kFarewell, all_left);
  heart_.stop();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

/// Enters the run with this number and starts the signs of life.
void FileControl::enter(const std::string& run) {
  run_ = run;
  const std::string name = of_run("alive", std::to_string(rank()));
  heart_.start([this, name](std::int64_t beats) {
    try {
      put(name, std::to_string(beats));
    } catch (const InputError&) {  // tried again at the next beat: the disk may have failed for a moment
    }
  });
}

/// Rank 0: names the run by its number, invites every rank that says hello, and waits until each has answered
/// under that number.
void FileControl::invite() {
  for (const std::string& each : names())
    if (!each.starts_with("hello.")) erase(each);  // of an earlier run
  enter(mine_);
  std::vector<int> missing;
  const auto all_here = [&] {
    const Names there = names();
    update_welcome(there);
    check_refusals(there);
    missing.clear();
    for (int other = 1; other < size(); ++other)
      if (!there.contains(of_call(std::to_string(other)))) missing.push_back(other);
    return missing.empty();
  };
  if (!poll_until(to_duration(timeout_), all_here)) fail_to_meet(of_call("RANK"), missing);
  introduce(gather(own_hello()));
}

/// Writes the invitations: rank 0's hello, then that of each process. A rank's hello replaces the one that it
/// left in an earlier run.
void FileControl::update_welcome(const Names& names) {
  std::string welcome = own_hello();
  for (const std::string& each : names)
    if (each.starts_with("hello.")) welcome += get(each).value_or("");
  if (!welcome_.empty() && get("welcome") != welcome_)
    throw BenchError(
        fmt::format("two runs meet in {}; name another folder for one of them (--meet)", folder_));
  if (welcome != welcome_) put("welcome", welcome);
  welcome_ = welcome;
}

/// Ends the run if a rank found that it does not belong to it.
void FileControl::check_refusals(const Names& names) {
  for (const std::string& each : names)
    if (each.starts_with(of_run("refused", ""))) fail(get(each).value_or("a rank was refused"));
}

/// The other ranks, which may start before rank 0: say hello and wait for the invitation.
void FileControl::join() {
  const std::string hello = "hello." + std::to_string(rank());
  put(hello, own_hello());
  const auto is_invited = [&] {
    const std::optional<Hello> seen = hello_in(get(hello).value_or(""));
    if (seen && seen->number != mine_)
      throw BenchError(
          fmt::format("two processes have one rank: {} and {}; give each process a rank of its own",
                      name_of(*hello_in(own_hello())), name_of(*seen)));
    return read_welcome();
  };
  if (!poll_until(to_duration(timeout_), is_invited)) fail_to_meet("welcome", {0});
  introduce(gather(own_hello()));
  erase(hello);
}

/// Returns true if rank 0 has invited this process. Throws if rank 0 is of a run of another size.
bool FileControl::read_welcome() {
  (void)names();  // makes a network file system look at the folder anew
  std::istringstream lines(get("welcome").value_or(""));
  std::string line;
  std::getline(lines, line);
  const std::optional<Hello> rank_0 = hello_in(line);
  bool is_invited = false;
  while (std::getline(lines, line)) is_invited = is_invited || line + "\n" == own_hello();
  if (!rank_0 || !is_invited) return false;
  peers_[0].name = name_of(*rank_0);
  enter(rank_0->number);
  if (rank_0->size == size()) return true;
  const std::string reason = fmt::format(
      "{} was started as one of {} ranks, rank 0 on host {} as one of {}: start all with one number "
      "of ranks",
      name_of(*hello_in(own_hello())), size(), rank_0->host, rank_0->size);
  put(of_run("refused", std::to_string(rank())), reason);
  throw ReportedByAnother(reason);
}

std::string FileControl::own_hello() const {
  return to_text({.number = mine_, .rank = rank(), .size = size(), .pid = getpid(), .host = host_name()});
}

void FileControl::introduce(const std::vector<std::string>& hellos) {
  for (std::size_t each = 0; each < hellos.size(); ++each)
    if (const std::optional<Hello> hello = hello_in(hellos[each])) peers_[each].name = name_of(*hello);
}

std::vector<std::string> FileControl::all_gather(const std::string& mine) {
  return size() == 1 ? std::vector{mine} : gather(mine);
}

/// Each rank writes its text to a file. Rank 0 joins them to one file, which the others read. A rank removes
/// its file when it has read the joined one; rank 0 removes that when all have written the next call's.
std::vector<std::string> FileControl::gather(const std::string& mine) {
  const std::string own = of_call(std::to_string(rank())), all = of_call("all");
  std::vector<std::string> texts;
  if (rank() == 0) {
    texts = receive(mine);
    put(all, joined(texts));
    erase(previous_);
    previous_ = all;
  } else {
    put(own, mine);
    texts = parted(await(all), peers_.size());
    erase(own);
  }
  ++call_;
  return texts;
}

/// Rank 0: returns the texts of all ranks.
std::vector<std::string> FileControl::receive(const std::string& mine) {
  std::vector<std::string> texts(peers_.size());
  texts[0] = mine;
  std::set<int> missing;
  for (int other = 1; other < size(); ++other) missing.insert(other);
  const auto all_arrived = [&] {
    const Names there = names();
    std::erase_if(missing, [&](int other) {
      const std::string name = of_call(std::to_string(other));
      std::optional<std::string> text = there.contains(name) ? get(name) : std::nullopt;
      if (text) texts[static_cast<std::size_t>(other)] = std::move(*text);
      return text.has_value();
    });
    const bool looks = is_time_to_look();
    for (const int other : missing) check_peer(other, there, looks);
    return missing.empty();
  };
  if (poll_until(to_duration(timeout_), all_arrived)) return texts;
  std::vector<std::string> late;
  for (const int other : missing) late.push_back(peers_[static_cast<std::size_t>(other)].name);
  fail(fmt::format("{} did not answer for {:g} s", list_of(late), timeout_.value));
}

/// The other ranks: returns the text of a file that rank 0 writes. Waits twice as long as rank 0, which may
/// come as late as the time-out allows and then wait as long for another rank: it names the one that is late.
std::string FileControl::await(const std::string& name) {
  const Seconds limit = timeout_ * 2.0 + Seconds(5);
  std::optional<std::string> text;
  const auto has_arrived = [&] {
    const Names there = names();
    if (there.contains(name)) text = get(name);
    if (text) return true;
    if (const std::string failed = of_run("failed", "0"); there.contains(failed))
      throw ReportedByAnother(get(failed).value_or("rank 0 reported why"));
    check_peer(0, there, is_time_to_look());
    return false;
  };
  if (!poll_until(to_duration(limit), has_arrived))
    fail(fmt::format("{} did not answer for {:g} s", peers_[0].name, limit.value));
  return std::move(*text);
}

/// Throws if the rank has ended or shows no sign of life. `there`: the names of all files.
void FileControl::check_peer(int other, const Names& there, bool look_at_pulse) {
  Peer& peer = peers_[static_cast<std::size_t>(other)];
  const std::string awaited = of_call(other == 0 ? "all" : std::to_string(other));
  const auto has_come = [&] { return names().contains(awaited); };  // since `there` was read
  if (there.contains(of_run("ended", std::to_string(other))) && !has_come()) fail(peer.name + " ended");
  if (!look_at_pulse) return;
  const std::string pulse = get(of_run("alive", std::to_string(other))).value_or("");
  peer.unchanged = pulse == peer.pulse ? peer.unchanged + 1 : 0;
  peer.pulse = pulse;
  if (peer.unchanged > kMostUnchanged && !has_come())
    fail(fmt::format("{} is gone: nothing was written to {} for {} s", peer.name,
                     path(of_run("alive", std::to_string(other))), kMostUnchanged));
}

/// Returns true once per beat.
bool FileControl::is_time_to_look() {
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return false;
  next_look_ = now + kBeat;
  return true;
}

void FileControl::fail(const std::string& reason) {
  if (rank() == 0) put(of_run("failed", "0"), reason);
  throw BenchError(reason);
}

/// Throws BenchError, which names the file and the missing ranks.
void FileControl::fail_to_meet(const std::string& file, const std::vector<int>& missing) {
  const std::string reason = fmt::format(
      "rank {} on host {}: no file {} of rank{} {} of {} within {:g} s: start every rank, and name a folder "
      "on a disk "
      "that all hosts share (--meet)",
      rank(), host_name(), path(file), missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), size(),
      timeout_.value);
  fail(reason);
}

void FileControl::Heart::start(std::function<void(std::int64_t)> beat) {
  thread_ = std::thread([this, beat = std::move(beat)] {
    std::unique_lock lock(mutex_);
    for (std::int64_t count = 0; !stops_; ++count) {
      beat(count);
      stopped_.wait_for(lock, kBeat, [this] { return stops_; });
    }
  });
}

void FileControl::Heart::stop() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stops_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

FileControl::Names FileControl::names() const {
  Names names;
  std::error_code error;
  for (fs::directory_iterator each(folder_, error), end; !error && each != end; each.increment(error))
    if (each->path().extension() != ".tmp")
      names.insert(each->path().filename().string());  // else in writing
  return names;
}

std::string FileControl::path(const std::string& name) const { return (fs::path(folder_) / name).string(); }

std::string FileControl::of_run(const std::string& what, const std::string& whose) const {
  return fmt::format("{}.{}.{}", run_, what, whose);
}

std::string FileControl::of_call(const std::string& whose) const {
  return of_run(fmt::format("call{}", call_), whose);
}

void FileControl::put(const std::string& name, const std::string& text) const {
  write_file(path(name), text, kOption);
}

/// Returns the text of a file, nothing if it is not there or was replaced while it was read.
std::optional<std::string> FileControl::get(const std::string& name) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // results of thousands of ranks
  try {
    return read_file(path(name), kMost);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void FileControl::erase(const std::string& name) const {
  std::error_code ignored;
  if (!name.empty()) fs::remove(path(name), ignored);
}

}  // namespace zplan::bench
