// What a libvirt domain's state says of a copy of a VM.
#pragma once

#include <libvirt/libvirt.h>

#include "hypervisor/driver.h"

namespace mare::libvirt {

/// What job a domain is busy with, seen from here.
struct Busy {
  bool sending = false;
  bool receiving = false;
};

/// Pure. `expected`: this host prepared to receive it, and it has not run here yet.
Copy copy_of(int state, int reason, Busy busy, bool expected);

enum class PostCopy { None, Going, Broken };
/// Is this the source of a post-copy? Its copy is paused for good then. Pure.
PostCopy post_copy_of(int state, int reason, Busy busy);
PostCopy in_post_copy(virDomainPtr domain);

struct CopySeen {
  Copy copy = Copy::Absent;
  bool sending = false;
  bool starved = false;  // at a destination whose post-copy broke: it waits for its pages
  PostCopy post_copy = PostCopy::None;
  Bytes memory;
};

/// Reads state and job together: both change in one moment at the end of a migration, so the state
/// is read again until it is the same before and after. Absent when the domain ended meanwhile.
Result<CopySeen> look_at(virDomainPtr domain, bool expected);

/// Ours carry a mark in their metadata; everything else on the host is foreign.
bool is_ours(virDomainPtr domain);
/// The guest of a template, which is no VM.
bool is_template(virDomainPtr domain);

/// A migration out of this host that libvirt carries on with and this process did not begin; phase
/// None if there is none.
OutgoingStatus found_job(virDomainPtr domain);

VmKey key_of(virDomainPtr domain);

}  // namespace mare::libvirt
