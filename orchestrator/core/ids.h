// Strong ids: a VmId can't be passed where a HostId is meant.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <utility>

namespace mare {

template <typename Tag>
struct Id {
  std::string value;

  Id() = default;
  explicit Id(std::string text) : value(std::move(text)) {}
  bool empty() const { return value.empty(); }
  auto operator<=>(const Id&) const = default;
};

using HostId = Id<struct HostTag>;              // chosen by the user: "h1"
using PoolId = Id<struct PoolTag>;              // chosen by the user: "demo"
using ProjectId = Id<struct ProjectTag>;        // chosen by the user: "physics"
using VmId = Id<struct VmTag>;                  // pool and index: "demo-0"
using JobId = Id<struct JobTag>;                // "job-1"
using OperationId = Id<struct OperationTag>;    // "op-1"; a migration has its operation's id
using CheckpointId = Id<struct CheckpointTag>;  // "ck-1"

}  // namespace mare

template <typename Tag>
struct std::hash<mare::Id<Tag>> {
  std::size_t operator()(const mare::Id<Tag>& id) const noexcept {
    return std::hash<std::string>{}(id.value);
  }
};
