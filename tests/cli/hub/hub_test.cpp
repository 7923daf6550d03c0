// Models from a hub on this machine: what it answers, what is kept, what is said.
#include "cli/hub/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/hub/hub_cache.h"
#include "models/base/error.h"
#include "models/catalogue/lookup.h"
#include "tests/cli/hub/loopback_server.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kTiny =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 160})";
const std::string kRevision = "0123456789abcdef0123456789abcdef01234567";
const std::string kTag = "89abcdef0123456789abcdef0123456789abcdef";

Served found(const std::string& body) {
  return {.headers = {"X-Repo-Commit: " + kRevision, "ETag: \"" + kTag + "\""}, .body = body};
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A home of its own for each test, and a hub that answers every path alike unless the test says otherwise.
class Hub : public ::testing::Test {
 protected:
  Hub() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    home_ = fs::path(::testing::TempDir()) / (std::string("zplan_hub_") + test->name());
    fs::remove_all(home_);
    fs::create_directories(home_);
  }
  ~Hub() override { fs::remove_all(home_); }

  [[nodiscard]] HubSettings settings(const LoopbackServer& server,
                                     HubSite site = HubSite::huggingface) const {
    return {.site = site,
            .endpoint = server.url(),
            .cache = cache().string(),
            .connect_seconds = 1,
            .seconds = 1};
  }
  [[nodiscard]] fs::path cache() const { return home_ / "hub"; }
  [[nodiscard]] fs::path home() const { return home_; }

  [[nodiscard]] ModelSearch search(const HubSettings& settings) const {
    return {.hub_cache = cache().string(),
            .hub = [settings](std::string_view id) { return ask_hub(id, settings); }};
  }

  /// The sentence with which a hub that answers so is met; nothing may be kept of it.
  [[nodiscard]] std::string refusal(const Served& served) const {
    const LoopbackServer server([&](const std::string&) { return served; });
    HubSettings asked = settings(server);
    const std::string said = ask_hub("someone/Tiny-90K", asked).why_none;
    EXPECT_FALSE(fs::exists(cache())) << said;
    try {
      static_cast<void>(resolve_model("someone/Tiny-90K", search(asked)));
      ADD_FAILURE() << "taken";
    } catch (const InputError& error) {
      EXPECT_THAT(error.found(), HasSubstr(said));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
    return said;
  }

 private:
  fs::path home_;
};

TEST_F(Hub, AModelIsPlannedAsItsConfigFile) {
  const LoopbackServer server([](const std::string& path) {
    return path == "/someone/Tiny-90K/resolve/main/config.json" ? found(kTiny)
                                                                : Served{.status = "404 Not Found"};
  });
  const Model model = resolve_model("someone/Tiny-90K", search(settings(server)));
  EXPECT_EQ(model.source, ModelSource::hub);
  EXPECT_EQ(model.name, "someone/Tiny-90K");
  EXPECT_THAT(model.origin, AllOf(HasSubstr(kRevision), HasSubstr("127.0.0.1")));
  std::ofstream(home() / "config.json") << kTiny;
  const Model by_path = resolve_model((home() / "config.json").string(), {});
  EXPECT_EQ(model.shape, by_path.shape);
  EXPECT_EQ(model.inventory, by_path.inventory);
}

TEST_F(Hub, TheConfigIsKeptAsTheHubsLibraryKeepsIt) {
  std::string at;
  {
    const LoopbackServer server([](const std::string&) { return found(kTiny); });
    ASSERT_FALSE(ask_hub("someone/Tiny-90K", settings(server)).config.empty());
  }
  const fs::path folder = cache() / "models--someone--Tiny-90K";
  EXPECT_EQ(text_of(folder / "refs/main"), kRevision);
  const fs::path config = folder / "snapshots" / kRevision / "config.json";
  ASSERT_TRUE(fs::is_symlink(config));
  EXPECT_EQ(fs::read_symlink(config), fs::path("../../blobs") / kTag);
  EXPECT_EQ(text_of(config), kTiny);
  for (const auto& each : fs::recursive_directory_iterator(cache()))
    EXPECT_THAT(each.path().string(), Not(HasSubstr("incomplete")));
  // Without any network it is there.
  const Model model = resolve_model("someone/Tiny-90K", {.hub_cache = cache().string()});
  EXPECT_EQ(model.source, ModelSource::cache);
  EXPECT_THAT(model.origin, HasSubstr(kRevision));
}

TEST_F(Hub, ACacheOfLinksIsReadAndLeftAlone) {
  const fs::path folder = cache() / "models--someone--Tiny-90K";
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "refs");
  fs::create_directories(folder / "snapshots/abc");
  std::ofstream(folder / "blobs/123") << kTiny;
  std::ofstream(folder / "refs/main") << "abc";
  fs::create_symlink("../../blobs/123", folder / "snapshots/abc/config.json");
  const LoopbackServer server(
      [](const std::string&) { return Served{.status = "500 Internal Server Error"}; });
  const Model model = resolve_model("someone/Tiny-90K", search(settings(server)));
  EXPECT_EQ(model.source, ModelSource::cache);
  EXPECT_EQ(model.inventory, config_model((folder / "blobs/123").string(), "x").inventory);
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST_F(Hub, ACacheWithoutTheConfigIsFilled) {
  fs::create_directories(cache() / "models--someone--Tiny-90K/refs");
  std::ofstream(cache() / "models--someone--Tiny-90K/refs/main") << kRevision;
  const LoopbackServer server([](const std::string&) { return found(kTiny); });
  EXPECT_EQ(resolve_model("someone/Tiny-90K", search(settings(server))).source, ModelSource::hub);
  EXPECT_EQ(resolve_model("someone/Tiny-90K", {.hub_cache = cache().string()}).source, ModelSource::cache);
}

TEST_F(Hub, AdaptersNameTheirBase) {
  const LoopbackServer server([](const std::string& path) {
    return path.ends_with("adapter_config.json")
               ? Served{.body = R"({"base_model_name_or_path": "Qwen/Qwen3-8B", "peft_type": "LORA"})"}
               : Served{.status = "404 Not Found", .headers = {"X-Error-Code: EntryNotFound"}};
  });
  const Model model = resolve_model("someone/qwen3-lora", search(settings(server)));
  EXPECT_EQ(model.name, "Qwen/Qwen3-8B");
  EXPECT_THAT(model.read_as, HasSubstr("someone/qwen3-lora holds adapters of Qwen/Qwen3-8B"));
}

TEST_F(Hub, AdaptersOfThemselvesEnd) {
  const LoopbackServer server([](const std::string& path) {
    return path.ends_with("adapter_config.json")
               ? Served{.body = R"({"base_model_name_or_path": "someone/loop"})"}
               : Served{.status = "404 Not Found"};
  });
  EXPECT_THROW(static_cast<void>(resolve_model("someone/loop", search(settings(server)))), InputError);
  EXPECT_LE(server.requests().size(), 10U);
}

TEST_F(Hub, EachRefusalIsASentence) {
  EXPECT_THAT(refusal({.status = "404 Not Found"}), HasSubstr("has no such model"));
  EXPECT_THAT(refusal({.status = "401 Unauthorized", .headers = {"X-Error-Code: RepoNotFound"}}),
              HasSubstr("has no such model"));
  EXPECT_THAT(refusal({.status = "401 Unauthorized", .headers = {"X-Error-Code: GatedRepo"}}),
              AllOf(HasSubstr("(401)"), HasSubstr("HF_TOKEN")));
  EXPECT_THAT(refusal({.status = "429 Too Many Requests", .headers = {"Retry-After: 30"}}),
              AllOf(HasSubstr("429"), HasSubstr("try again in 30 s")));
  EXPECT_THAT(refusal({.status = "503 Service Unavailable"}), HasSubstr("status 503"));
  EXPECT_THAT(refusal({.body = "{\"model_type\": "}), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal({.body = "[1]"}), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal({.body = ""}), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal({.body = kTiny.substr(0, 40), .promised = kTiny.size()}), HasSubstr("cannot be asked"));
}

TEST_F(Hub, ASlowOrEndlessAnswerEnds) {
  EXPECT_THAT(refusal({.body = kTiny, .wait_seconds = 3}), HasSubstr("no whole answer within 1 s"));
  EXPECT_THAT(refusal({.body = "{", .filler_bytes = std::size_t{50} << 20}),
              HasSubstr("longer than 4194304 bytes"));
}

TEST_F(Hub, NobodyThereIsSaidAtOnce) {
  HubSettings nobody{
      .endpoint = "http://127.0.0.1:9", .cache = cache().string(), .connect_seconds = 1, .seconds = 1};
  EXPECT_THAT(ask_hub("someone/Tiny-90K", nobody).why_none, HasSubstr("127.0.0.1:9 cannot be asked"));
}

TEST_F(Hub, RedirectsAreFollowedAndTheTokenStaysWithItsHost) {
  const LoopbackServer other([](const std::string&) { return Served{.body = kTiny}; });
  const LoopbackServer server([&](const std::string& path) {
    Served moved{.status = "307 Temporary Redirect",
                 .headers = {"X-Repo-Commit: " + kRevision, "X-Linked-Etag: \"" + kTag + "\""}};
    moved.headers.push_back(path.starts_with("/api") ? "Location: " + other.url() + "/file"
                                                     : "Location: /api/file");
    return moved;
  });
  HubSettings asked = settings(server);
  asked.token = "hf_secret";
  EXPECT_EQ(ask_hub("someone/Tiny-90K", asked).config, kTiny);
  ASSERT_EQ(server.requests().size(), 2U);
  for (const std::string& each : server.requests())
    EXPECT_THAT(each, HasSubstr("Authorization: Bearer hf_secret"));
  ASSERT_EQ(other.requests().size(), 1U);
  EXPECT_THAT(other.requests().front(), Not(HasSubstr("hf_secret")));
  EXPECT_TRUE(fs::exists(cache() / "models--someone--Tiny-90K/snapshots" / kRevision / "config.json"));
}

TEST_F(Hub, RedirectsNeitherLeaveHttpsNorGoOnWithoutEnd) {
  // A host ends at ? and at #, whatever follows.
  for (const char* to : {"http://example.com/config.json", "http://example.com?@127.0.0.1/config.json",
                         "http://example.com#@localhost"})
    EXPECT_THAT(refusal({.status = "302 Found", .headers = {std::string("Location: ") + to}}),
                HasSubstr("which is not https"));
  EXPECT_THAT(refusal({.status = "302 Found", .headers = {"Location: file:///etc/hostname"}}),
              HasSubstr("which is not https"));
  EXPECT_THAT(refusal({.status = "302 Found", .headers = {"Location: /again"}}), HasSubstr("without end"));
}

TEST_F(Hub, OnlyHttpsLeavesThisMachine) {
  for (const char* endpoint :
       {"http://huggingface.co", "ftp://127.0.0.1", "huggingface.co", "", "http://127.0.0.1.evil.com",
        "http://localhost@evil.com", "http://evil.com?@127.0.0.1"})
    EXPECT_THROW(static_cast<void>(ask_hub("someone/Tiny", {.endpoint = endpoint})), InputError) << endpoint;
}

TEST_F(Hub, WhatIsNotPlainIsNotKept) {
  const LoopbackServer server([](const std::string&) {
    return Served{.headers = {"X-Repo-Commit: ../../../evil", "ETag: \"../x\""}, .body = kTiny};
  });
  EXPECT_FALSE(ask_hub("someone/Tiny-90K", settings(server)).config.empty());
  EXPECT_FALSE(fs::exists(cache()));
}

TEST_F(Hub, ModelScopeHasItsOwnPathsAndCache) {
  const LoopbackServer server([](const std::string& path) {
    return path == "/api/v1/models/LLM-Research/Tiny-1.5B/repo?Revision=master&FilePath=config.json"
               ? Served{.body = kTiny}
               : Served{.status = "404 Not Found"};
  });
  const HubAnswer answer = ask_hub("LLM-Research/Tiny-1.5B", settings(server, HubSite::modelscope));
  EXPECT_EQ(answer.config, kTiny);
  EXPECT_THAT(answer.origin, HasSubstr("revision master"));
  EXPECT_EQ(text_of(cache() / "models/LLM-Research/Tiny-1___5B/config.json"), kTiny);
  EXPECT_EQ(resolve_model("LLM-Research/Tiny-1.5B", {.modelscope_cache = cache().string()}).source,
            ModelSource::cache);
}

TEST_F(Hub, IsAskedForNothingThatIsKnown) {
  const LoopbackServer server([](const std::string&) { return found(kTiny); });
  for (const char* name : {"Qwen/Qwen3-8B", "unsloth/Qwen3-8B-bnb-4bit", "8B", "no-slash-at-all"}) {
    try {
      static_cast<void>(resolve_model(name, search(settings(server))));
    } catch (const InputError&) {
    }
  }
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST_F(Hub, TheCommandLineSaysWhereTheConfigIsFrom) {
  const LoopbackServer server([](const std::string& path) {
    return path.starts_with("/someone/Tiny-90K/") ? found(kTiny) : Served{.status = "404 Not Found"};
  });
  Environment environment;
  environment.home = home().string();
  environment.network = true;
  environment.hub_endpoint = server.url();
  const std::string plan = "--gpus 1 --mem 24 --seq 64 --model ";
  EXPECT_THAT(in_detail(split(plan + "someone/Tiny-90K"), environment).out,
              AllOf(HasSubstr("someone/Tiny-90K at revision " + kRevision), HasSubstr("127.0.0.1")));
  const std::size_t asked = server.requests().size();
  EXPECT_THAT(in_detail(split(plan + "someone/Other-1B"), environment).err,
              AllOf(HasSubstr("no model is known as \"someone/Other-1B\""), HasSubstr("has no such model")));
  EXPECT_GT(server.requests().size(), asked);
  const std::size_t before = server.requests().size();
  EXPECT_THAT(in_detail(split(plan + "someone/Third-1B --offline"), environment).err,
              HasSubstr("no hub was asked: --offline"));
  environment.hub_offline = true;
  EXPECT_THAT(in_detail(split(plan + "someone/Third-1B"), environment).err, HasSubstr("HF_HUB_OFFLINE"));
  environment.network = false;
  EXPECT_EQ(server.requests().size(), before);
}

TEST_F(Hub, TheTokenIsTheVariablesOrTheFiles) {
  Environment environment;
  environment.home = home().string();
  EXPECT_EQ(hub_token(environment), "");
  fs::create_directories(home() / ".cache/huggingface");
  std::ofstream(home() / ".cache/huggingface/token") << "hf_of_file\n";
  EXPECT_EQ(hub_token(environment), "hf_of_file");
  environment.hub_token = "hf_of_variable";
  EXPECT_EQ(hub_token(environment), "hf_of_variable");
  environment.hub_token.clear();
  environment.no_hub_token = true;
  EXPECT_EQ(hub_token(environment), "");
}

/// An unreadable token is an error when a hub is asked. Without a hub it is not read.
TEST_F(Hub, ATokenThatIsNoFileIsRefusedWhereItIsNeeded) {
  Environment environment;
  environment.network = true;
  environment.hub_endpoint = "http://127.0.0.1:9";
  environment.hub_token_path = "/dev/zero";
  const ModelSearch search = model_search(environment, HubSite::huggingface, false);
  EXPECT_NO_THROW(static_cast<void>(resolve_model("Qwen/Qwen3-8B", search)));
  EXPECT_THAT([&] { static_cast<void>(search.hub("someone/unknown")); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("/dev/zero: is a device")));
}

/// Whoever may write in the cache may guess names, and lead a write elsewhere.
TEST_F(Hub, TheCacheIsNotWrittenThroughLinks) {
  std::ofstream(home() / "victim") << "MINE";
  const fs::path folder = home() / "hub" / cache_folder("someone/Model");
  fs::create_directories(folder / "refs");
  fs::create_symlink(home() / "victim", folder / "refs" / "main");
  fs::create_symlink(home() / "victim",
                     folder / "refs" / ("main." + std::to_string(getpid()) + ".incomplete"));
  keep_config((home() / "hub").string(), "someone/Model", "abc", "tag", "{}");
  std::string text;
  std::ifstream(home() / "victim") >> text;
  EXPECT_EQ(text, "MINE");
  EXPECT_TRUE(fs::exists(folder / "snapshots" / "abc" / "config.json"));
}

}  // namespace
}  // namespace zplan::test
