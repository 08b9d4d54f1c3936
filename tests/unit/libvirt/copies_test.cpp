#include "hypervisor/libvirt/copies.h"

#include <gtest/gtest.h>
#include <libvirt/virterror.h>

#include "hypervisor/libvirt/handles.h"

namespace mare::libvirt {
namespace {

constexpr Busy kIdle{};
constexpr Busy kSending{true, false};
constexpr Busy kReceiving{false, true};

TEST(CopyOf, ARunningDomainRunsWhateverItsJob) {
  for (const Busy busy : {kIdle, kSending, kReceiving}) {
    EXPECT_EQ(copy_of(VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_MIGRATED, busy, true), Copy::Running);
  }
}

TEST(CopyOf, APausedOneIsIncomingOnlyBeforeItRan) {
  const int paused = VIR_DOMAIN_PAUSED;
  EXPECT_EQ(copy_of(paused, VIR_DOMAIN_PAUSED_MIGRATION, kReceiving, false), Copy::Incoming);
  EXPECT_EQ(copy_of(paused, VIR_DOMAIN_PAUSED_STARTING_UP, kReceiving, true), Copy::Incoming);
  // Received, and its job is over, but nobody resumed it.
  EXPECT_EQ(copy_of(paused, VIR_DOMAIN_PAUSED_MIGRATION, kIdle, true), Copy::Incoming);
  // The source in its last round, and after a switch that failed.
  EXPECT_EQ(copy_of(paused, VIR_DOMAIN_PAUSED_MIGRATION, kSending, false), Copy::Paused);
  EXPECT_EQ(copy_of(paused, VIR_DOMAIN_PAUSED_MIGRATION, kIdle, false), Copy::Paused);
  EXPECT_EQ(copy_of(paused, VIR_DOMAIN_PAUSED_USER, kIdle, false), Copy::Paused);
  // It came, ran, and somebody paused it.
  EXPECT_EQ(copy_of(paused, VIR_DOMAIN_PAUSED_USER, kIdle, true), Copy::Paused);
}

TEST(CopyOf, WhatWaitsForItsPagesDoesNotRun) {
  EXPECT_EQ(copy_of(VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_POSTCOPY, kReceiving, false),
            Copy::Running);
  EXPECT_EQ(copy_of(VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_POSTCOPY_FAILED, kReceiving, false),
            Copy::Paused);
  // Never Incoming, which a discard would end: it has run.
  for (const int reason : {VIR_DOMAIN_PAUSED_POSTCOPY, VIR_DOMAIN_PAUSED_POSTCOPY_FAILED}) {
    for (const Busy busy : {kIdle, kSending, kReceiving}) {
      EXPECT_EQ(copy_of(VIR_DOMAIN_PAUSED, reason, busy, true), Copy::Paused);
    }
  }
}

TEST(PostCopyOf, OnlyAPausedSourceIsInPostCopy) {
  const int paused = VIR_DOMAIN_PAUSED;
  EXPECT_EQ(post_copy_of(paused, VIR_DOMAIN_PAUSED_POSTCOPY, kSending), PostCopy::Going);
  EXPECT_EQ(post_copy_of(paused, VIR_DOMAIN_PAUSED_POSTCOPY_FAILED, kSending), PostCopy::Broken);
  EXPECT_EQ(post_copy_of(paused, VIR_DOMAIN_PAUSED_POSTCOPY_FAILED, kIdle), PostCopy::Broken)
      << "whether libvirt still has a job or not, its pages are needed";
  EXPECT_EQ(post_copy_of(paused, VIR_DOMAIN_PAUSED_POSTCOPY_FAILED, kReceiving), PostCopy::None);
  EXPECT_EQ(post_copy_of(paused, VIR_DOMAIN_PAUSED_MIGRATION, kSending), PostCopy::None);
  EXPECT_EQ(post_copy_of(VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_POSTCOPY, kIdle), PostCopy::None);
}

TEST(CopyOf, AGuestThatIsOverIsAbsent) {
  for (const int state : {VIR_DOMAIN_SHUTDOWN, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_CRASHED}) {
    EXPECT_EQ(copy_of(state, 0, kIdle, false), Copy::Absent);
  }
}

TEST(CodeOf, ABrokenConnectionIsUnknownOutcomeWhateverItsCode) {
  EXPECT_EQ(code_of(VIR_FROM_RPC, VIR_ERR_SYSTEM_ERROR, "Cannot write data: Broken pipe"),
            Code::OutcomeUnknown);
  EXPECT_EQ(code_of(VIR_FROM_RPC, VIR_ERR_INTERNAL_ERROR, "client socket is closed"),
            Code::OutcomeUnknown);
}

TEST(CodeOf, SystemErrorsDoNotSayThatNothingWasDone) {
  EXPECT_EQ(code_of(VIR_FROM_QEMU, VIR_ERR_SYSTEM_ERROR, "Unable to open file"), Code::Internal);
  EXPECT_EQ(code_of(VIR_FROM_QEMU, VIR_ERR_SYSTEM_ERROR, "write: No space left on device"),
            Code::ResourceExhausted);
  EXPECT_EQ(code_of(VIR_FROM_QEMU, VIR_ERR_INTERNAL_ERROR,
                    "cannot set up guest memory 'pc.ram': Cannot allocate memory"),
            Code::ResourceExhausted);
}

TEST(CodeOf, CodesThatCallersReactTo) {
  EXPECT_EQ(code_of(VIR_FROM_QEMU, VIR_ERR_NO_DOMAIN, ""), Code::NotFound);
  EXPECT_EQ(code_of(VIR_FROM_QEMU, VIR_ERR_OPERATION_ABORTED, ""), Code::Cancelled);
  EXPECT_EQ(code_of(VIR_FROM_QEMU, VIR_ERR_OPERATION_INVALID, ""), Code::FailedPrecondition);
  EXPECT_EQ(code_of(VIR_FROM_QEMU, VIR_ERR_OPERATION_TIMEOUT, ""), Code::Unavailable);
  EXPECT_EQ(code_of(VIR_FROM_QEMU, VIR_ERR_CONFIG_UNSUPPORTED, ""), Code::Unsupported);
  EXPECT_EQ(
      code_of(VIR_FROM_QEMU, VIR_ERR_OPERATION_FAILED, "domain 'x' already exists with uuid 1"),
      Code::AlreadyExists);
  EXPECT_EQ(code_of(VIR_FROM_QEMU, VIR_ERR_OPERATION_FAILED, "job failed"), Code::Internal);
}

}  // namespace
}  // namespace mare::libvirt
