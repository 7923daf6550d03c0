#pragma once

#include <mpi.h>

#include <memory>

#include "harness/control.h"

namespace zplan::bench {

/// Throws BenchError with MPI's own words where a call of it failed.
void check_mpi(int status, const char* call);

/// MPI from its start to its end.
class MpiProcess {
 public:
  MpiProcess();
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;
};

/// On a communicator of its own, so that what ranks tell each other never meets what is measured.
class MpiControl : public Control {
 public:
  explicit MpiControl(std::shared_ptr<MpiProcess> process);
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine) override;
  [[nodiscard]] std::string broadcast(const std::string& of_rank_0) override;
  void barrier() override;

 private:
  std::shared_ptr<MpiProcess> process_;
  MPI_Comm everyone_{};
  int rank_{}, size_{1};
};

}  // namespace zplan::bench
