// PyTorch's out-of-memory messages: as people quoted them (tests/reference/oom_messages), broken, and in
// logs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search/oom.h"
#include "planner/simulation/caching_allocator.h"
#include "tests/mutated.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

using ::testing::Optional;

/// "2.00 GiB" by other means than the reader's.
Bytes size_in_words(const std::string& text) {
  const double number = std::stod(text);
  const std::string unit = text.substr(text.find(' ') + 1);
  const double factor = unit == "GiB"   ? 1073741824.0
                        : unit == "MiB" ? 1048576.0
                        : unit == "KiB" ? 1024.0
                                        : 1.0;
  return Bytes(static_cast<std::int64_t>(number * factor + 0.5));
}

std::vector<Json> all_rows() {
  std::vector<Json> rows;
  for (const char* file : {"messages.json", "made.json"})
    for (const Json& row : test_json(std::string("reference/oom_messages/") + file)) rows.push_back(row);
  return rows;
}

OomMessage only_message(const std::string& text) {
  const std::vector<OomMessage> messages = read_oom_messages(text);
  EXPECT_EQ(messages.size(), 1U) << text;
  return messages.empty() ? OomMessage{} : messages.front();
}

void expect_size(const Json& figures, const char* key, const std::optional<Bytes>& size) {
  if (!figures.contains(key)) return;
  EXPECT_THAT(size, Optional(size_in_words(figures[key].get<std::string>()))) << key;
}

TEST(OomMessages, EveryQuotedMessageIsRead) {
  const std::vector<Json> rows = all_rows();
  ASSERT_GE(rows.size(), 20U);
  for (const Json& row : rows) {
    SCOPED_TRACE(row["source"].get<std::string>());
    const OomMessage m = only_message(row["text"].get<std::string>());
    const Json& figures = row["figures"];
    EXPECT_EQ(m.asked_text, figures["asked"].get<std::string>());
    EXPECT_EQ(m.asked, size_in_words(m.asked_text));
    EXPECT_EQ(m.device, figures.value("device", "CUDA"));
    EXPECT_EQ(m.gpu.has_value(), figures.contains("gpu"));
    if (m.gpu) {
      EXPECT_EQ(*m.gpu, figures["gpu"].get<int>());
    }
    EXPECT_EQ(m.rank.has_value(), figures.contains("rank"));
    expect_size(figures, "capacity", m.capacity);
    expect_size(figures, "free", m.free);
    expect_size(figures, "allocated", m.allocated);
    expect_size(figures, "unallocated", m.unallocated);
    expect_size(figures, "private_pools", m.private_pools);
    for (const char* key : {"process", "allowed"}) {
      const auto& size = key == std::string("process") ? m.process : m.allowed;
      EXPECT_EQ(size.has_value(), figures.contains(key)) << key;
      expect_size(figures, key, size);
    }
    const Json others = figures.value("others", Json::array());
    ASSERT_EQ(m.others.size(), others.size());
    for (std::size_t i = 0; i < others.size(); ++i)
      EXPECT_EQ(m.others[i].size, size_in_words(others[i].get<std::string>()));
  }
}

TEST(OomMessages, TheCauseFollowsFromTheFigures) {
  for (const Json& row : all_rows()) {
    const OomReading reading = read_oom(only_message(row["text"].get<std::string>()));
    EXPECT_EQ(to_name(reading.cause), row["cause"].get<std::string>()) << row["source"] << "\n"
                                                                       << row["text"];
    EXPECT_GE(reading.sentences.size(), 2U);
  }
}

TEST(OomMessages, BrokenOnesAreReadOrPassedOver) {
  const std::vector<std::string> words{"GiB",   "Tried to allocate ", "-1",  "1e300",
                                       "\033[", "Process ",           "nan", " is free"};
  std::mt19937 random(7);
  std::size_t read = 0;
  for (const Json& row : all_rows())
    for (int times = 0; times < 200; ++times) {
      const std::string text = mutated(row["text"].get<std::string>(), words, random);
      for (const OomMessage& message : read_oom_messages(text)) {
        ++read;
        EXPECT_GE(message.asked.value, 0);
        for (const auto& size : {message.capacity, message.free, message.allocated, message.process})
          if (size) {
            EXPECT_LT(*size, Bytes(std::int64_t{1} << 50)) << text;
          }
        EXPECT_FALSE(read_oom(message).sentences.empty());
      }
    }
  EXPECT_GT(read, 1000U);
}

TEST(OomMessages, ALogOfSeveralRanksGivesOneEach) {
  const std::string tail =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU {} has a total capacity "
      "of 31.36 GiB "
      "of which 471.69 MiB is free. Including non-PyTorch memory, this process has 30.63 GiB memory in use. "
      "Of the "
      "allocated memory 29.03 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but "
      "unallocated.\n";
  std::string log = "step 1 loss 2.5\n\033[31m";
  for (const char* rank : {"0", "1", "1", "3"}) {
    std::string line = tail;
    line.replace(line.find("{}"), 2, rank);
    log += std::string("2026-01-02T03:04:05 [rank") + rank + "]: " + line;
  }
  const std::vector<OomMessage> messages = read_oom_messages(log + "\033[0mexit code 1\n");
  ASSERT_EQ(messages.size(), 3U);  // rank 1's is there twice
  EXPECT_THAT(messages[0].rank, Optional(0));
  EXPECT_THAT(messages[1].gpu, Optional(1));
  EXPECT_THAT(messages[2].rank, Optional(3));
  EXPECT_EQ(messages[2].line, 5U);
  EXPECT_THAT(messages[2].unallocated, Optional(kGiB));
}

TEST(OomMessages, LinesThatWereWrappedAndColouredReadAlike) {
  for (const Json& row : all_rows()) {
    const std::string text = row["text"].get<std::string>();
    std::string wrapped;
    for (std::size_t i = 0, column = 0; i < text.size(); ++i, ++column) {
      const bool breaks = text[i] == ' ' && column > 40;
      wrapped += breaks ? std::string("\n  \033[1m") : std::string(1, text[i]);
      if (breaks) column = 0;
    }
    OomMessage plain = only_message(text), other = only_message(wrapped);
    other.line = plain.line;
    EXPECT_EQ(other, plain) << wrapped;
  }
}

TEST(OomMessages, WhatIsNoMessageGivesNone) {
  for (const char* text : {"", "CUDA out of memory", "Tried to allocate 2.00 GiB",
                           "CUDA out of memory. Tried to allocate more than 1EB memory.",
                           "CUDA out of memory. Tried to allocate 99999999999999.00 GiB. GPU 0",
                           "CUDA out of memory. Tried to allocate "})
    EXPECT_TRUE(read_oom_messages(text).empty()) << text;
}

// Source: torch 2.11 format_size: up to 1024 of a unit it is still that unit.
TEST(OomMessages, SizesPrintAsTorchPrintsThem) {
  EXPECT_EQ(torch_size(Bytes(0)), "0 bytes");
  EXPECT_EQ(torch_size(Bytes(1024)), "1024 bytes");
  EXPECT_EQ(torch_size(Bytes(1025)), "1.00 KiB");
  EXPECT_EQ(torch_size(kMiB * 20), "20.00 MiB");
  EXPECT_EQ(torch_size(kGiB), "1024.00 MiB");
  EXPECT_EQ(torch_size(kGiB * 2), "2.00 GiB");
}

// Source: torch 2.11 get_allocation_size.
TEST(OomMessages, TheDeviceIsAskedForSegments) {
  EXPECT_EQ(asked_of_device(Bytes(1)), kMiB * 2);
  EXPECT_EQ(asked_of_device(kMiB), kMiB * 2);
  EXPECT_EQ(asked_of_device(kMiB + Bytes(1)), kMiB * 20);
  EXPECT_EQ(asked_of_device(kMiB * 10), kMiB * 10);
  EXPECT_EQ(asked_of_device(kMiB * 11), kMiB * 12);
}

TEST(OomMessages, OthersThanPyTorchsAreKnownByTheirWords) {
  const std::vector<std::pair<const char*, OomSource>> lines{
      {"node1:812:901 [0] include/alloc.h:114 NCCL WARN Cuda failure 2 'out of memory'", OomSource::nccl},
      {"torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, Cuda failure 'out of memory'",
       OomSource::nccl},
      {"CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62", OomSource::sleep},
      {"ValueError: Free memory on device (10.2/23.6 GiB) on startup is less than desired GPU memory "
       "utilization "
       "(0.9, 21.3 GiB). Decrease GPU memory utilization",
       OomSource::engine},
      {"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
       OomSource::cache},
      {"To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, "
       "which "
       "is larger than the available KV cache memory (2.11 GiB)",
       OomSource::cache},
      {"[2026-11-02 10:00:00] failed (exitcode: -9) local_rank: 3 (pid: 4242) of binary: /usr/bin/python",
       OomSource::host},
      {"  exitcode  : -9 (pid: 4242)", OomSource::host},
      {"traceback : Signal 9 (SIGKILL) received by PID 4242", OomSource::host},
      {"subprocess.CalledProcessError: returned non-zero exit status 137.", OomSource::host},
      {"Killed", OomSource::host},
      {"run.sh: line 12: 31337 Killed                  python train.py", OomSource::host},
      {"slurmstepd: error: Detected 1 oom_kill event in StepId=77.0", OomSource::host},
      {"Memory cgroup out of memory: Killed process 31337 (python)", OomSource::host},
      {"RuntimeError: [enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you "
       "tried to "
       "allocate 4294967296 bytes",
       OomSource::host},
      {"RuntimeError: CUDA error: out of memory", OomSource::cuda}};
  for (const auto& [line, source] : lines) {
    const OomMessage message = only_message(std::string("epoch 1\n") + line + "\n");
    EXPECT_EQ(message.source, source) << line;
    EXPECT_EQ(message.line, 2U) << line;
    EXPECT_FALSE(read_oom(message).sentences.back().empty());
  }
  EXPECT_EQ(only_message("[rank3]: RuntimeError: CUDA error: out of memory").rank, 3);
}

TEST(OomMessages, WordsAloneAreNone) {
  for (const char* text : {"", "Killed by the reviewer", "exit code 0", "SIGTERM", "NCCL version 2.29",
                           "Skilled", "loss 2.137", "out of memory"})
    EXPECT_TRUE(read_oom_messages(text).empty()) << text;
}

/// Without a capacity nothing is said of the GPU's size: what was asked for is not it.
TEST(OomMessages, WithoutACapacityTheGpuIsNotKnown) {
  const OomReading reading = read_oom(only_message("CUDA out of memory. Tried to allocate 14.9 GiB."));
  EXPECT_EQ(reading.cause, OomCause::unsaid);
  for (const std::string& each : reading.sentences)
    EXPECT_THAT(each, ::testing::Not(::testing::HasSubstr("that there are")));
}

}  // namespace
}  // namespace zplan::testing
