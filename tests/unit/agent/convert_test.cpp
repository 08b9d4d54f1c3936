// Every field of every value crosses the wire.
#include "hypervisor/agent/convert.h"

#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/agent/samples.h"

namespace mare::agent::test {
namespace {

/// A field that to_wire() forgot is not set, for the samples have no default values.
void expect_all_set(const google::protobuf::Message& message) {
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    if (field->is_repeated()) {
      ASSERT_GT(reflection->FieldSize(message, field), 0) << field->full_name();
      if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
      for (int j = 0; j < reflection->FieldSize(message, field); ++j) {
        expect_all_set(reflection->GetRepeatedMessage(message, field, j));
      }
      continue;
    }
    EXPECT_TRUE(reflection->HasField(message, field)) << field->full_name();
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      expect_all_set(reflection->GetMessage(message, field));
    }
  }
}

/// Through bytes, since a field that can't be read back is found only there.
template <typename Message>
Message through_bytes(const Message& message) {
  Message read;
  EXPECT_TRUE(read.ParseFromString(message.SerializeAsString()));
  return read;
}

template <typename T>
const T& plain(const T& value) {
  return value;
}
template <typename T>
const T& plain(const Result<T>& value) {
  return value.value();
}

template <typename T>
void expect_round_trip(const T& full) {
  const auto wire = to_wire(full);
  expect_all_set(wire);
  const auto read = from_wire(through_bytes(wire));
  EXPECT_TRUE(same(full, plain(read)));
}

TEST(Convert, EveryField) {
  expect_round_trip(full_key());
  expect_round_trip(full_spec());
  expect_round_trip(full_facts());
  expect_round_trip(full_observation());
  expect_round_trip(full_statistics());
  expect_round_trip(full_sending());
  expect_round_trip(full_ticket());
  expect_round_trip(full_outgoing());
  expect_round_trip(full_arrival());
  expect_round_trip(full_profile());
  expect_round_trip(full_link());
  expect_round_trip(full_capture_ticket());
  expect_round_trip(full_lease_ticket());
  expect_round_trip(full_lease_answer());
  expect_round_trip(full_capture());
  expect_round_trip(full_part());
  expect_round_trip(full_load());
  expect_round_trip(full_standby());
}

TEST(Convert, AbsentIsNotZero) {
  auto ticket = full_ticket();
  ticket.bandwidth_limit.reset();
  ticket.downtime_limit = Milliseconds{0};
  EXPECT_TRUE(same(ticket, *from_wire(through_bytes(to_wire(ticket)))));
  auto report = full_arrival();
  report.downtime = Microseconds{0};
  report.total_time.reset();
  EXPECT_TRUE(same(report, from_wire(through_bytes(to_wire(report)))));
}

TEST(Convert, EveryWord) {
  for (const auto copy :
       {Copy::Absent, Copy::Incoming, Copy::Running, Copy::Paused, Copy::Unknown}) {
    auto seen = full_observation();
    seen.copy = copy;
    EXPECT_EQ(from_wire(to_wire(seen)).copy, copy);
  }
  for (const auto phase : {OutgoingPhase::None, OutgoingPhase::PreCopying, OutgoingPhase::Switching,
                           OutgoingPhase::PostCopying, OutgoingPhase::Completed,
                           OutgoingPhase::Failed, OutgoingPhase::Cancelled}) {
    auto status = full_outgoing();
    status.phase = phase;
    EXPECT_EQ(from_wire(to_wire(status))->phase, phase);
  }
}

TEST(Convert, EveryPhaseOfACapture) {
  for (const auto phase : {CapturePhase::None, CapturePhase::Ready, CapturePhase::Holding,
                           CapturePhase::Taken, CapturePhase::Durable, CapturePhase::Failed}) {
    auto status = full_capture();
    status.phase = phase;
    EXPECT_EQ(from_wire(to_wire(status))->phase, phase);
  }
  auto status = to_wire(full_capture());
  status.set_phase("evaporating");
  EXPECT_FALSE(from_wire(status).ok());
}

TEST(Convert, WordsOfAnotherVersion) {
  auto seen = to_wire(full_observation());
  seen.set_copy("hibernating");
  EXPECT_EQ(from_wire(seen).copy, Copy::Unknown) << "never Absent: that would start a second copy";
  auto status = to_wire(full_outgoing());
  status.set_phase("teleporting");
  EXPECT_FALSE(from_wire(status).ok());
  auto ticket = to_wire(full_ticket());
  ticket.mutable_sending()->set_strategy("teleport");
  ASSERT_FALSE(from_wire(ticket).ok());
  EXPECT_EQ(from_wire(ticket).error().code, Code::Unsupported);
  auto facts = to_wire(full_facts());
  facts.add_strategies("teleport");
  EXPECT_TRUE(same(from_wire(facts), full_facts())) << "what can't be asked for is not shown";
  auto spec = to_wire(full_spec());
  spec.set_mac("nonsense");
  ASSERT_FALSE(from_wire(spec).ok());
  EXPECT_EQ(from_wire(spec).error().code, Code::InvalidArgument);
}

TEST(Convert, EveryStrategy) {
  for (int i = 0; i < kStrategies; ++i) {
    Sending sending;
    sending.strategy = static_cast<Strategy>(i);
    EXPECT_EQ(from_wire(to_wire(sending))->strategy, sending.strategy);
  }
}

TEST(Convert, EveryErrorCode) {
  for (int i = 0; i <= static_cast<int>(Code::Internal); ++i) {
    const Error error{static_cast<Code>(i), "what \xff", "field", "do this"};
    EXPECT_FALSE(to_status(error).ok());
    const auto read = error_from_detail(error_detail(error));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->code, error.code);
    EXPECT_EQ(read->message, error.message);
    EXPECT_EQ(read->field, error.field);
    EXPECT_EQ(read->remedy, error.remedy);
  }
  EXPECT_FALSE(error_from_detail("\xff\xff").has_value());
  EXPECT_FALSE(error_from_detail("").has_value());
}

TEST(Convert, LongErrorsAreCutBetweenCharacters) {
  std::string text;
  while (text.size() < 10'000) text += "\xc3\xa9";  // é
  const auto read = error_from_detail(error_detail({Code::Internal, text, text, text}));
  ASSERT_TRUE(read.has_value());
  for (const auto& part : {read->message, read->field, read->remedy}) {
    EXPECT_FALSE(part.empty());
    EXPECT_EQ(part.size() % 2, 0U);
    EXPECT_TRUE(text.starts_with(part));
  }
  EXPECT_LT(error_detail({Code::Internal, text, text, text}).size(), 3'000U);
}

}  // namespace
}  // namespace mare::agent::test
