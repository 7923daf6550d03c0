// Made-up /sys and /proc.

#include <gtest/gtest.h>

#include <filesystem>

#include "harness/machine/system_files.h"
#include "tests/harness/machine/made_up_root.h"

namespace zplan::bench {
namespace {

namespace fs = std::filesystem;

class Interfaces : public Root {
 protected:
  void sends(const std::string& interface, const std::string& bytes) const {
    put("sys/class/net/" + interface + "/statistics/tx_bytes", bytes + "\n");
  }
};

TEST_F(Interfaces, EachHasWhatItSent) {
  sends("lo", "123"), sends("eth0", "9000000000000");
  EXPECT_EQ(sent_bytes(root), (SentBytes{{"eth0", 9'000'000'000'000}, {"lo", 123}}));
}

TEST_F(Interfaces, PortsOfInfiniBandCountWordsOfFourBytes) {
  sends("ib0", "7");
  put("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "1000\n");
  put("sys/class/infiniband/mlx5_1/ports/2/counters/port_xmit_data", "5\n");
  EXPECT_EQ(sent_bytes(root), (SentBytes{{"ib0", 7}, {"mlx5_0:1", 4000}, {"mlx5_1:2", 20}}));
}

TEST_F(Interfaces, ThatStandOnOthersWouldCountTwice) {
  for (const char* name : {"eth0", "bond0", "br0", "eth0.100"}) sends(name, "10");
  put("sys/class/net/bond0/bonding/mode", "802.3ad 4\n");
  put("sys/class/net/br0/bridge/bridge_id", "8000\n");
  put("sys/class/net/eth0.100/lower_eth0/mtu", "1500\n");
  EXPECT_EQ(sent_bytes(root), (SentBytes{{"eth0", 10}}));
}

TEST_F(Interfaces, WithoutACounterAreLeftOut) {
  EXPECT_EQ(sent_bytes(root), SentBytes{});
  put("sys/class/net/bonding_masters", "bond0\n");  // a file beside the interfaces
  sends("eth0", "many");
  sends("eth1", "");
  fs::create_directories(root / "sys/class/infiniband/mlx5_0/ports/1");
  EXPECT_EQ(sent_bytes(root), SentBytes{});
}

TEST_F(Interfaces, WithoutSysAreCountedByProc) {
  put("proc/net/dev",
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo "
      "colls "
      "carrier compressed\n"
      "    lo:    9       1    0    0    0     0          0         0      123       1    0    0    0     0  "
      "     "
      "0          0\n"
      "  eth0:8000000000000 1 2 3 4 5 6 7 9000000000000 1 0 0 0 0 0 0\n"
      " bond0: 1 1 1 1 1 1 1 1 10 1 0 0 0 0 0 0\n"
      "eth0.7: 1 1 1 1 1 1 1 1 10 1 0 0 0 0 0 0\n"
      "  cut0: 1 1 1\n");
  put("proc/net/bonding/bond0", "");
  put("proc/net/vlan/eth0.7", "");
  const SentBytes counted{{"eth0", 9'000'000'000'000}, {"lo", 123}};
  EXPECT_EQ(sent_bytes(root), counted);
  sends("eth1", "7");  // /sys knows more
  EXPECT_EQ(sent_bytes(root), (SentBytes{{"eth1", 7}}));
}

}  // namespace
}  // namespace zplan::bench
