// From rows to what a hypervisor, a guest and mpirun need. Pure but for the catalogue's look-up.
#pragma once

#include "hypervisor/driver.h"
#include "hypervisor/guest_port.h"
#include "orchestrator/engine/engine.h"

namespace mare::engine {

VmSpec make_spec(const Vm& vm, const Pool& pool, const ImageFacts& image, const Settings& settings);
/// What all VMs of this image, memory and size can be clones of.
TemplateSpec make_template_spec(const Vm& vm, const ImageFacts& image);
struct StartSpec {
  VmSpec vm;
  TemplateSpec from;
};
Result<StartSpec> find_start_spec(const store::Store& store, ImageCatalog& images,
                                  const Settings& settings, const Vm& vm);
/// Reads pool and image; NotFound names what is missing.
Result<VmSpec> find_spec(const store::Store& store, ImageCatalog& images, const Settings& settings,
                         const Vm& vm);
Result<GuestAddress> find_guest(const store::Store& store, const Vm& vm);
GuestRun make_run(const Job& job, const std::vector<Vm>& vms, const Settings& settings);
/// A locally administered MAC that is unique where the address is.
MacAddress mac_for(Ipv4Address ip);

}  // namespace mare::engine
