#include "ranks.h"

#include <fmt/format.h>

#include <thread>

#include "models/base/error.h"

namespace zplan::bench {

std::string outcome_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const ToldByAnother& error) {
    return std::string("ToldByAnother: ") + error.what();
  } catch (const BenchError& error) {
    return std::string("BenchError: ") + error.what();
  } catch (const InputError& error) {
    return std::string("InputError: ") + error.what();
  }
  return "";
}

TestPort::TestPort() : listener(std::move(listen_at({.address = "127.0.0.1", .port = 0}).front())) {
  port = listening_port(listener.fd());
}

TcpOptions options_at(TestPort& port, int rank, int size) {
  TcpOptions options{.rank = rank, .size = size, .meeting = {.address = "127.0.0.1", .port = port.port}};
  if (rank == 0) options.listen_fd = port.listener.release();
  options.host = fmt::format("h{}", rank);
  return options;
}

std::vector<std::string> outcomes_of(const std::vector<std::function<void()>>& ranks) {
  std::vector<std::string> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&ranks, &outcomes, i] { outcomes[i] = outcome_of(ranks[i]); });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::vector<std::string> outcomes_of(int size, const std::function<void(TcpControl&)>& what,
                                     const std::function<void(TcpOptions&)>& adjust) {
  TestPort port;
  std::vector<std::function<void()>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    TcpOptions options = options_at(port, rank, size);
    adjust(options);
    ranks.emplace_back([options, &what] {
      TcpControl control(options);
      what(control);
    });
  }
  return outcomes_of(ranks);
}

}  // namespace zplan::bench
