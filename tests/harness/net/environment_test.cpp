// Places as launchers give them, and the messages about those that make no sense.

#include "harness/net/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "models/base/error.h"

namespace zplan::bench {
namespace {

using Set = std::map<std::string, std::string, std::less<>>;

Place place_of(const Set& set) {
  return read_place([&set](std::string_view name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string complaint(const Set& set) {
  try {
    (void)place_of(set);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

Set with(Set set, const std::string& name, const std::string& value) {
  set[name] = value;
  return set;
}
Set without(Set set, const std::string& name) {
  set.erase(name);
  return set;
}

const Set kTorchrun{{"RANK", "5"},
                    {"WORLD_SIZE", "8"},
                    {"MASTER_ADDR", "gpu01"},
                    {"MASTER_PORT", "29400"},
                    {"TORCHELASTIC_RUN_ID", "none"}};
const Set kOpenMpi{
    {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Set kHydra{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}};
const Set kSlurm{{"SLURM_JOB_ID", "123456"},
                 {"SLURM_PROCID", "2"},
                 {"SLURM_NTASKS", "4"},
                 {"SLURM_STEP_ID", "0"},
                 {"SLURM_STEP_NODELIST", "gpu[01-02]"}};

TEST(Place, OfNoLauncherIsOneProcess) { EXPECT_EQ(place_of({}), Place{}); }

TEST(Place, OfTorchrun) {
  EXPECT_EQ(place_of(kTorchrun), (Place{.rank = 5,
                                        .size = 8,
                                        .launcher = Launcher::torchrun,
                                        .master_address = "gpu01",
                                        .master_port = 29400}));
}

TEST(Place, OfTorchrunWhoseAgentHasThePortMeetsBesideIt) {
  const auto port_at = [](const std::string& master_port) {
    return place_of(with(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"), "MASTER_PORT", master_port))
        .master_port;
  };
  EXPECT_EQ(port_at("29500"), 19500);
  EXPECT_EQ(port_at("33497"), 13497);
  for (int port = 1; port <= 65535; port += 7) {
    EXPECT_NE(port_at(std::to_string(port)), port);
    EXPECT_GE(port_at(std::to_string(port)), 10000);
    EXPECT_LT(port_at(std::to_string(port)), 30000);
  }
  EXPECT_EQ(place_of(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "False")).master_port, 29400);
}

TEST(Place, OfRanksThatAnOperatorSetsPerContainer) {
  const Place place =
      place_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job-0"}, {"MASTER_PORT", "23456"}});
  EXPECT_EQ(place.launcher, Launcher::torchrun);
  EXPECT_EQ(place.master_address, "job-0");
}

TEST(Place, OfTheLocalLauncherHasTheSocketForRank0) {
  Set set = with(with(kTorchrun, "ZPLAN_LAUNCHED", "local"), "RANK", "0");
  set["ZPLAN_LISTEN_FD"] = "7";
  EXPECT_EQ(place_of(set).launcher, Launcher::local);
  EXPECT_EQ(place_of(set).listen_fd, 7);
  EXPECT_EQ(place_of(with(set, "RANK", "1")).listen_fd, -1);
}

TEST(Place, OfOpenMpi) {
  const Place place = place_of(kOpenMpi);
  EXPECT_EQ(place, (Place{.rank = 3, .size = 4, .launcher = Launcher::mpirun}));
  EXPECT_EQ(place_of(with(kOpenMpi, "MASTER_ADDR", "gpu01")).master_address, "gpu01");
}

TEST(Place, OfHydraOnOneHostMeetsOnLoopback) {
  EXPECT_EQ(place_of(kHydra).launcher, Launcher::mpirun);
  EXPECT_EQ(place_of(kHydra).master_address, "");
  EXPECT_EQ(place_of(with(kHydra, "MPI_LOCALNRANKS", "4")).master_address, "127.0.0.1");
}

TEST(Place, OfSlurm) {
  EXPECT_EQ(place_of(kSlurm), (Place{.rank = 2,
                                     .size = 4,
                                     .launcher = Launcher::slurm,
                                     .master_address = "gpu01",
                                     .master_port = 10000 + 123456 % 20000}));
  EXPECT_EQ(place_of(with(kSlurm, "MASTER_PORT", "4000")).master_port, 4000);
  EXPECT_EQ(
      place_of(with(without(kSlurm, "SLURM_STEP_NODELIST"), "SLURM_JOB_NODELIST", "x9,y1")).master_address,
      "x9");
}

TEST(Place, InABatchScriptIsOneProcess) {
  EXPECT_EQ(place_of({{"SLURM_PROCID", "0"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_JOB_ID", "5"},
                      {"SLURM_TASKS_PER_NODE", "8"}}),
            Place{});
}

TEST(Place, TheInnermostLauncherWins) {
  Set all = kSlurm;
  all.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(place_of(all).launcher, Launcher::mpirun);
  all.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(place_of(all).launcher, Launcher::torchrun);
}

TEST(Place, SlurmThatServesPmiKnowsTheAddress) {
  Set both = kSlurm;
  both.insert(kHydra.begin(), kHydra.end());
  EXPECT_EQ(place_of(both).launcher, Launcher::slurm);
  EXPECT_EQ(place_of(with(both, "PMI_RANK", "1")).launcher, Launcher::mpirun)
      << "Slurm started Hydra's proxies alone";
}

TEST(Place, HalfASetIsNoLauncher) {
  EXPECT_EQ(place_of({{"RANK", "3"}}), Place{});
  EXPECT_EQ(place_of({{"WORLD_SIZE", "3"}}), Place{});
  EXPECT_EQ(place_of({{"PMI_RANK", "3"}}), Place{});
  EXPECT_EQ(place_of({{"MASTER_ADDR", "gpu01"}, {"MASTER_PORT", "1"}}), Place{});
}

TEST(Place, WhatIsMissingIsNamed) {
  EXPECT_EQ(complaint(without(kTorchrun, "RANK")),
            "RANK: not set, but TORCHELASTIC_RUN_ID is; accepted: a whole number from 0 to 1048576");
  EXPECT_THAT(complaint(without(kTorchrun, "MASTER_ADDR")),
              testing::HasSubstr("MASTER_ADDR: not set, but WORLD_SIZE=8 is"));
  EXPECT_THAT(complaint(without(kTorchrun, "MASTER_PORT")), testing::HasSubstr("MASTER_PORT: not set"));
  EXPECT_THAT(complaint(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")),
              testing::HasSubstr("OMPI_COMM_WORLD_SIZE: not set, but OMPI_COMM_WORLD_RANK is"));
  EXPECT_THAT(complaint(without(kSlurm, "SLURM_NTASKS")), testing::HasSubstr("SLURM_NTASKS: not set"));
  EXPECT_THAT(complaint(without(kSlurm, "SLURM_STEP_NODELIST")),
              testing::HasSubstr("SLURM_STEP_NODELIST: not set"));
}

TEST(Place, WhatContradictsIsNamedWithItsValue) {
  EXPECT_EQ(complaint(with(kTorchrun, "WORLD_SIZE", "5")), "RANK: 5 with WORLD_SIZE=5; accepted: 0 to 4");
  EXPECT_EQ(complaint(with(kSlurm, "SLURM_PROCID", "4")),
            "SLURM_PROCID: 4 with SLURM_NTASKS=4; accepted: 0 to 3");
}

TEST(Place, BrokenValuesAreNamed) {
  for (const char* value : {"x", "3.5", "-1", " 1", "1 ", "99999999999999999999", "0x1"})
    EXPECT_THAT(complaint(with(kTorchrun, "RANK", value)),
                testing::StartsWith("RANK: \"" + std::string(value) + "\"; accepted: a whole number"));
  for (const char* value : {"0", "65536", "http"})
    EXPECT_THAT(complaint(with(kTorchrun, "MASTER_PORT", value)),
                testing::HasSubstr("MASTER_PORT: \"" + std::string(value) +
                                   "\"; accepted: a whole number from 1 to 65535"));
  EXPECT_THAT(complaint(with(kSlurm, "SLURM_NTASKS", "0")), testing::HasSubstr("SLURM_NTASKS: \"0\""));
  EXPECT_EQ(complaint(with(kTorchrun, "RANK", "1\n")),
            "RANK: \"1\\x0a\"; accepted: a whole number from 0 to 1048576");
}

TEST(NodeList, FirstHost) {
  EXPECT_EQ(first_host("gpu01"), "gpu01");
  EXPECT_EQ(first_host("gpu01,gpu02"), "gpu01");
  EXPECT_EQ(first_host("gpu[01-04,07],login1"), "gpu01");
  EXPECT_EQ(first_host("gpu[3,5]"), "gpu3");
  EXPECT_EQ(first_host("rack[0-1]node[08-9].cluster"), "rack0node08.cluster");
  EXPECT_EQ(first_host("gpu[01"), "gpu01");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace zplan::bench
