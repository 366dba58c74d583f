#include "scheduler/storages.h"

#include "scheduler/dependency.h"

#include <algorithm>

namespace tsc::scheduler {

void add_storages(const ir::Module &module, ir::BufferId buffer,
                  std::vector<ir::BufferId> &storages) {
  std::vector<ir::BufferId> open = {buffer};
  for (size_t i = 0; i < open.size(); ++i) {
    storages.push_back(module.storage_of(open[i]));
    for (const ir::BufferId alias : module.buffer(open[i]).aliases)
      if (std::find(open.begin(), open.end(), alias) == open.end())
        open.push_back(alias);
  }
}

int64_t storage_bytes(const ir::Module &module, ir::BufferId storage) {
  const ir::Buffer &buffer = module.buffer(storage);
  return size_hint(module, buffer.layout.storage_size()) *
         static_cast<int64_t>(tensor::size_in_bytes(buffer.dtype));
}

std::vector<bool> find_aliased(const ir::Module &module) {
  std::vector<bool> is_aliased(module.buffers.size(), false);
  for (ir::BufferId buffer = 0; buffer < module.buffers.size(); ++buffer)
    for (const ir::BufferId alias : module.buffer(buffer).aliases)
      is_aliased[buffer] = is_aliased[alias] = true;
  return is_aliased;
}

} // namespace tsc::scheduler
