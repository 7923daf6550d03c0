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
const Set kSlurm{
    {"SLURM_JOB_ID", "123456"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}};

TEST(Place, OfNoLauncherIsOneProcess) { EXPECT_EQ(place_of({}), Place{}); }

TEST(Place, OfTorchrun) {
  EXPECT_EQ(place_of(kTorchrun),
            (Place{.rank = 5, .size = 8, .launcher = Launcher::torchrun, .run = "none.gpu01.29400"}));
  EXPECT_TRUE(place_of(with(kTorchrun, "LOCAL_WORLD_SIZE", "8")).one_host);
  EXPECT_FALSE(place_of(with(kTorchrun, "LOCAL_WORLD_SIZE", "4")).one_host);
}

TEST(Place, OfRanksThatAnOperatorSetsPerContainer) {
  const Place place = place_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job/0:a"}});
  EXPECT_EQ(place.launcher, Launcher::torchrun);
  EXPECT_EQ(place.run, "job_0_a");
  EXPECT_EQ(place_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).run, "none");
}

TEST(Place, OfTheLocalLauncherHasItsMemory) {
  const Place place = place_of(with(with(kTorchrun, "ZPLAN_SHARED_MEMORY", "7"), "LOCAL_WORLD_SIZE", "8"));
  EXPECT_EQ(place.launcher, Launcher::local);
  EXPECT_EQ(place.memory, 7);
  EXPECT_TRUE(place.one_host);
  EXPECT_EQ(place_of(kTorchrun).memory, -1);
}

TEST(Place, OfOpenMpi) {
  EXPECT_EQ(place_of(kOpenMpi), (Place{.rank = 3, .size = 4, .launcher = Launcher::mpirun, .run = "none"}));
  EXPECT_EQ(place_of(with(kOpenMpi, "PMIX_NAMESPACE", "1234@1")).run, "1234_1");
}

TEST(Place, OfHydraKnowsWhetherThereIsOneHost) {
  EXPECT_EQ(place_of(kHydra).launcher, Launcher::mpirun);
  EXPECT_FALSE(place_of(kHydra).one_host);
  EXPECT_TRUE(place_of(with(kHydra, "MPI_LOCALNRANKS", "4")).one_host);
}

TEST(Place, OfSlurm) {
  EXPECT_EQ(place_of(kSlurm), (Place{.rank = 2, .size = 4, .launcher = Launcher::slurm, .run = "123456.0"}));
  EXPECT_TRUE(place_of(with(kSlurm, "SLURM_STEP_NUM_NODES", "1")).one_host);
  EXPECT_FALSE(place_of(with(kSlurm, "SLURM_STEP_NUM_NODES", "2")).one_host);
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

TEST(Place, SlurmThatServesPmiNamesTheRun) {
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
  EXPECT_THAT(complaint(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")),
              testing::HasSubstr("OMPI_COMM_WORLD_SIZE: not set, but OMPI_COMM_WORLD_RANK is"));
  EXPECT_THAT(complaint(without(kSlurm, "SLURM_NTASKS")), testing::HasSubstr("SLURM_NTASKS: not set"));
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
  EXPECT_THAT(complaint(with(kSlurm, "SLURM_NTASKS", "0")), testing::HasSubstr("SLURM_NTASKS: \"0\""));
  EXPECT_EQ(complaint(with(kTorchrun, "RANK", "1\n")),
            "RANK: \"1\\x0a\"; accepted: a whole number from 0 to 1048576");
}

}  // namespace
}  // namespace zplan::bench
