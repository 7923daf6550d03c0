#pragma once
// Collective operations under the names of nccl-tests, NCCL's algorithms and protocols for them, and the
// types of their elements under the names of torch.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan {

/// Operations that training issues and profiles time.
enum class Operation { all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, send_recv };
template <>
struct EnumNames<Operation> {
  static constexpr std::array<std::pair<Operation, std::string_view>, 7> table{{
      {Operation::all_reduce, "all_reduce"},
      {Operation::all_gather, "all_gather"},
      {Operation::reduce_scatter, "reduce_scatter"},
      {Operation::broadcast, "broadcast"},
      {Operation::reduce, "reduce"},
      {Operation::all_to_all, "all_to_all"},
      {Operation::send_recv, "send_recv"},
  }};
};

/// Algorithms by which ranks pass data on. In `pairwise`, of all_to_all and send_recv, each sends to each.
enum class CollectiveAlgorithm { ring, tree, nvls, nvls_tree, pairwise };
template <>
struct EnumNames<CollectiveAlgorithm> {
  static constexpr std::array<std::pair<CollectiveAlgorithm, std::string_view>, 5> table{{
      {CollectiveAlgorithm::ring, "ring"},
      {CollectiveAlgorithm::tree, "tree"},
      {CollectiveAlgorithm::nvls, "NVLS"},
      {CollectiveAlgorithm::nvls_tree, "NVLSTree"},
      {CollectiveAlgorithm::pairwise, "pairwise"},
  }};
};

/// NCCL's protocols: a flag in every 8 bytes of a message, in every 128 bytes, or after each chunk.
enum class CollectiveProtocol { ll, ll128, simple };
template <>
struct EnumNames<CollectiveProtocol> {
  static constexpr std::array<std::pair<CollectiveProtocol, std::string_view>, 3> table{{
      {CollectiveProtocol::ll, "LL"},
      {CollectiveProtocol::ll128, "LL128"},
      {CollectiveProtocol::simple, "Simple"},
  }};
};

/// Types of elements.
enum class DataType { float32, float64, float16, bfloat16, int8, uint8, int32, int64 };

/// Returns the bytes of one element.
[[nodiscard]] constexpr std::int64_t size_of(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::int64: return 8;
    case DataType::float32:
    case DataType::int32: return 4;
    case DataType::float16:
    case DataType::bfloat16: return 2;
    case DataType::int8:
    case DataType::uint8: return 1;
  }
  return 0;
}

template <>
struct EnumNames<DataType> {
  static constexpr std::array<std::pair<DataType, std::string_view>, 8> table{
      {{DataType::float32, "float32"},
       {DataType::float64, "float64"},
       {DataType::float16, "float16"},
       {DataType::bfloat16, "bfloat16"},
       {DataType::int8, "int8"},
       {DataType::uint8, "uint8"},
       {DataType::int32, "int32"},
       {DataType::int64, "int64"}}};
};

}  // namespace zplan
