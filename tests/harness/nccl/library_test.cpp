// Messages for a missing driver, device, library or function.

#include "harness/nccl/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fake_ranks.h"
#include "models/base/error.h"

namespace zplan::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A folder with links to some of the stand-ins.
class Folder {
 public:
  explicit Folder(const std::vector<std::string>& files) {
    fs::remove_all(path_);
    fs::create_directories(path_);
    for (const std::string& file : files)
      fs::create_symlink(fs::path(ZPLAN_FAKE_LIBRARIES) / file, path_ / fs::path(file).filename());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  [[nodiscard]] const fs::path& path() const { return path_; }
  [[nodiscard]] LibraryPlaces places() const {
    return {.first = {path_.string()}, .system = false, .then = {}};
  }

 private:
  fs::path path_{fs::path(testing::TempDir()) /
                 ("zplan_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))};
};

template <class Load>
std::string refusal(const Load& load) try {
  static_cast<void>(load());
  return "it was found";
} catch (const InputError& error) {
  EXPECT_EQ(error.place(), "--backend nccl");
  return error.what();
}

TEST(Libraries, WithoutADriver) {
  const Folder empty({});
  EXPECT_EQ(refusal([&] { return load_cuda(empty.places()); }),
            "--backend nccl: no NVIDIA driver: libcuda.so.1 was not found; use --backend mpi");
}

TEST(Libraries, WithADriverThatDoesNotLoad) {
  const Folder folder({});
  std::ofstream(folder.path() / "libcuda.so.1") << "this is no library";
  EXPECT_THAT(refusal([&] { return load_cuda(folder.places()); }),
              AllOf(StartsWith("--backend nccl: no NVIDIA driver: libcuda.so.1 does not load: "),
                    EndsWith("; use --backend mpi")));
}

TEST(Libraries, WithoutARuntime) {
  const Folder folder({"cuda/libcuda.so.1"});
  EXPECT_EQ(refusal([&] { return load_cuda(folder.places()); }),
            "--backend nccl: libcudart.so.13 was not found in " + folder.path().string() +
                "; set ZPLAN_CUDA_PATH to its folder, or use --backend mpi");
}

TEST(Libraries, WithoutADevice) {
  const Environment none("FAKE_CUDA_DEVICES", "0");
  EXPECT_EQ(refusal([] { return load_cuda(fake_places()); }),
            "--backend nccl: no NVIDIA GPU: cudaGetDeviceCount says 0; use --backend mpi");
}

TEST(Libraries, WithADeviceThatFails) {
  const Environment none("FAKE_CUDA_DEVICES", "-1");
  EXPECT_EQ(refusal([] { return load_cuda(fake_places()); }),
            "--backend nccl: no NVIDIA GPU: cudaGetDeviceCount fails: system not yet initialized (802); use "
            "--backend mpi");
}

TEST(Libraries, WithADriverOlderThanTheRuntime) {
  const Environment old("FAKE_CUDA_DRIVER", "12020");
  EXPECT_EQ(refusal([] { return load_cuda(fake_places()); }),
            "--backend nccl: the NVIDIA driver serves CUDA 12.2, " ZPLAN_FAKE_LIBRARIES
            "/cuda/libcudart.so.13 is of CUDA 13.0; install a newer driver, or set ZPLAN_CUDA_PATH to a "
            "folder with "
            "CUDA 12's libraries");
}

TEST(Libraries, WithoutNccl) {
  const Folder folder({"cuda/libcuda.so.1", "cuda/libcudart.so.13"});
  LibraryPlaces places = folder.places();
  places.then = {"/nowhere"};
  EXPECT_EQ(load_cuda(places).devices, 8);
  EXPECT_EQ(refusal([&] { return load_nccl(places); }),
            "--backend nccl: libnccl.so.2 was not found in " + folder.path().string() +
                ", /nowhere; set ZPLAN_CUDA_PATH to its folder, or use --backend mpi");
}

TEST(Libraries, WithoutCublas) {
  const Folder folder({"cuda/libcuda.so.1", "cuda/libcudart.so.13"});
  EXPECT_THAT(refusal([&] { return load_cublas(folder.places()); }),
              StartsWith("--backend nccl: libcublas.so.13 was not found in "));
}

TEST(Libraries, WithAFunctionMissing) {
  EXPECT_EQ(refusal([] { return load_nccl(fake_places("nccl_without_split")); }),
            "--backend nccl: " ZPLAN_FAKE_LIBRARIES
            "/nccl_without_split/libnccl.so.2 has no ncclCommSplit; NCCL 2.18 or newer");
}

// Wheels install libraries below the site-packages of a virtual environment.
TEST(Libraries, AreFoundInWheels) {
  const Folder folder({});
  const fs::path nvidia = folder.path() / "lib" / "python3.11" / "site-packages" / "nvidia";
  for (const auto& [wheel, file] :
       {std::pair{"cu13", "cuda/libcudart.so.13"}, std::pair{"nccl", "nccl/libnccl.so.2"}}) {
    fs::create_directories(nvidia / wheel / "lib");
    const fs::path source = fs::path(ZPLAN_FAKE_LIBRARIES) / file;
    fs::create_symlink(source, nvidia / wheel / "lib" / source.filename());
  }
  fs::create_symlink(fs::path(ZPLAN_FAKE_LIBRARIES) / "cuda" / "libcuda.so.1",
                     folder.path() / "libcuda.so.1");
  for (const fs::path& root : {folder.path(), nvidia.parent_path()}) {
    const LibraryPlaces places{.first = {folder.path().string()}, .system = false, .then = {root.string()}};
    EXPECT_THAT(load_cuda(places).path, HasSubstr("libcudart.so.13"));
    EXPECT_THAT(load_nccl(places).path, HasSubstr("libnccl.so.2"));
  }
}

TEST(LibraryPlaces, ComeFromTheEnvironment) {
  const Environment hint("ZPLAN_CUDA_PATH", "/one::/two"), virtual_environment("VIRTUAL_ENV", "/venv"),
      home("CUDA_HOME", "/cuda"), conda("CONDA_PREFIX", "");
  const LibraryPlaces places = library_places();
  EXPECT_EQ(places.first, (std::vector<std::string>{"/one", "/two"}));
  EXPECT_TRUE(places.system);
  EXPECT_EQ(places.then, (std::vector<std::string>{"/cuda", "/venv"}));
  EXPECT_EQ(to_text(places), "/one, /two, the system's library path, /cuda, /venv");
}

TEST(Versions, AreWrittenAsTheirMakersDo) {
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12080), "12.8");
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(21805), "2.18.5");
}

TEST(DriverVersion, IsReadFromBothFormsOfTheKernelModule) {
  EXPECT_EQ(driver_version_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 2023\n"
                              "GCC version:  gcc version 12.2.0 (Debian)\n"),
            "535.104.05");
  EXPECT_EQ(driver_version_in(
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"),
            "580.65.06");
  EXPECT_EQ(driver_version_in(""), "");
  EXPECT_EQ(driver_version(fake_places()), "999.01.02");
}

}  // namespace
}  // namespace zplan::bench
