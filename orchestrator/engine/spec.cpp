#include "orchestrator/engine/spec.h"

#include "orchestrator/engine/context.h"
#include "orchestrator/policy/mpirun.h"

namespace mare::engine {

VmSpec make_spec(const Vm& vm, const Pool& pool, const ImageFacts& image,
                 const Settings& settings) {
  VmSpec spec;
  spec.id = vm.id;
  spec.uuid = vm.uuid;
  spec.mac = vm.mac;
  spec.ip = vm.ip;
  spec.memory = vm.memory;
  spec.vcpus = vm.vcpus;
  spec.kernel = image.kernel;
  spec.initrd = image.initrd;
  spec.kernel_args = image.kernel_args + " mare.ip=" + vm.ip.text() + "/" +
                     std::to_string(settings.vm_prefix_length) + " mare.host=" + vm.id.value +
                     " mare.nfs=" + settings.nfs_server + " mare.root=" + image.root +
                     " mare.jobs=" + settings.nfs_jobs + " mare.token=" + pool.token;
  return spec;
}

TemplateSpec make_template_spec(const Vm& vm, const ImageFacts& image) {
  // The guest waits at this word; its clones are told the rest.
  return {image.kernel, image.initrd, image.kernel_args + " mare.template", vm.memory, vm.vcpus};
}

Result<StartSpec> find_start_spec(const store::Store& store, ImageCatalog& images,
                                  const Settings& settings, const Vm& vm) {
  auto pool = query<Pool>(store, [&](const store::Reader& r) { return r.pool(vm.pool); });
  if (!pool) return pool.error();
  auto image = images.find(pool->image, pool->image_version);
  if (!image) return image.error();
  return StartSpec{make_spec(vm, *pool, *image, settings), make_template_spec(vm, *image)};
}

Result<VmSpec> find_spec(const store::Store& store, ImageCatalog& images, const Settings& settings,
                         const Vm& vm) {
  auto spec = find_start_spec(store, images, settings, vm);
  if (!spec) return spec.error();
  return spec->vm;
}

Result<GuestAddress> find_guest(const store::Store& store, const Vm& vm) {
  auto pool = query<Pool>(store, [&](const store::Reader& r) { return r.pool(vm.pool); });
  if (!pool) return pool.error();
  return GuestAddress{vm.id, vm.ip, pool->token};
}

GuestRun make_run(const Job& job, const std::vector<Vm>& vms, const Settings& settings) {
  std::vector<Ipv4Address> guests;
  guests.reserve(vms.size());
  for (const auto& vm : vms) guests.push_back(vm.ip);
  GuestRun run;
  run.id = job.id;
  run.directory = settings.nfs_jobs + "/" + job.id.value;
  run.arguments = policy::mpirun_command(guests, job.command, job.environment,
                                         job.checkpoints.safe_points ? job.id : JobId{});
  run.environment = job.environment;
  run.environment.push_back("MARE_JOB=" + job.id.value);
  return run;
}

MacAddress mac_for(Ipv4Address ip) {
  // 52:54:00 is the prefix that QEMU's users know; the rest is the address, unique within its /8.
  return MacAddress{{0x52, 0x54, 0x00, static_cast<std::uint8_t>(ip.value >> 16U),
                     static_cast<std::uint8_t>(ip.value >> 8U),
                     static_cast<std::uint8_t>(ip.value)}};
}

}  // namespace mare::engine
