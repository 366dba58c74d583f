// The state of one run: bound sizes, storages, and what executes operations on them.
#pragma once

#include "interpret/interpret.h"
#include "interpret/storage.h"
#include "interpret/tape.h"
#include "ir/ir.h"

#include <deque>
#include <memory>

namespace tsc::interpret {

/// Sizes bound from the inputs' shapes. Errors: TSC-R101 (a shape that contradicts the graph),
/// TSC-R102 (a size outside the range that the graph allows).
/// Errors: TSC-R127 for what the graph asserts of sizes and does not hold; what mentions sizes that
/// the data decides is left for define_size.
symbolic::Bindings bind_sizes(const ir::Module &module,
                              const std::vector<tensor::HostTensor> &inputs);

/// Binds `symbol`, which the data decides. Errors: TSC-R127 for a value outside its range or beyond
/// `bound`, and for an assertion of sizes that this symbol completes and that does not hold.
void bind_data_size(const ir::Module &module, Expr symbol, std::optional<Expr> bound, int64_t value,
                    symbolic::Bindings &bindings);

class Machine {
public:
  /// `failure`: where what a check refuses is noted, of a subgraph its caller's.
  Machine(const ir::Module &module, symbolic::Bindings bindings, bool round,
          std::shared_ptr<std::string> failure = std::make_shared<std::string>());
  const std::string &failure() const { return *failure_; }
  /// What runs kernels of users; outlives the machine.
  void set_user_kernels(const UserKernelRunner *runner) { user_kernels_ = runner; }
  void set_input(ir::BufferId buffer, const tensor::HostTensor &data);
  void execute(const ir::Operation &operation);
  /// Contiguous copy of what `view` sees; float64 for floats if buffers are not rounded.
  tensor::HostTensor read(const ir::BufferView &view) const;
  int64_t value_of(Expr e) const { return symbolic::evaluate(e, bindings_); }

  // For `communicate`, which works on several machines.
  /// The storage of `buffer`, which must have one.
  Storage &memory(ir::BufferId buffer);
  /// Gives `buffer` a storage of its layout's size if it has none.
  void allocate(ir::BufferId buffer);
  /// Stores element `position`, rounded to the buffer's dtype if buffers are.
  void put(ir::BufferId buffer, int64_t position, double value);

private:
  void pointwise(const ir::Operation &operation, const ir::Pointwise &pointwise);
  void scatter(const ir::Operation &operation, const ir::Scatter &scatter);
  void reduction(const ir::Operation &operation, const ir::Reduction &reduction);
  void scan(const ir::Operation &operation, const ir::Scan &scan);
  void combine(const ir::Operation &operation, const ir::Scan &scan); // of tuples
  void sort(const ir::Operation &operation, const ir::Sort &sort);
  void sort_rows(const ir::Operation &operation, const ir::Extern &call);
  void matmul(const ir::Operation &operation, const ir::Extern &call);
  void sectioned_matmul(const ir::Operation &operation, const ir::Extern &call);
  void attention(const ir::Operation &operation, const ir::Extern &call);
  void conditional(const ir::Operation &operation, const ir::Extern &call);
  void while_loop(const ir::Operation &operation, const ir::Extern &call);
  void user_kernel(const ir::Operation &operation, const ir::Extern &call);
  void define_size(const ir::Operation &operation, const ir::Extern &call);
  void solver(const ir::Operation &operation, const ir::Extern &call);
  std::vector<tensor::HostTensor> run_subgraph(uint32_t number,
                                               const std::vector<tensor::HostTensor> &inputs) const;
  /// Stores `values` into the items of the tuple that `operation` yields.
  void store_items(const ir::Operation &operation, const std::vector<tensor::HostTensor> &values);

  std::vector<int64_t> values_of(std::span<const Expr> sizes) const;
  /// The output's storage, allocated if it is new.
  Storage &output_of(const ir::Operation &operation, size_t output = 0);
  int64_t element_count(const tensor::Layout &layout) const;
  /// Storage positions of the output's elements, row-major.
  std::vector<int64_t> positions_of(const tensor::Layout &layout) const;
  /// Positions in `from`, its missing and size-1 dimensions repeated, of every element of `to`.
  std::vector<int64_t> broadcast_positions(tensor::Layout from, const tensor::Layout &to) const;
  Tape finish(TapeBuilder &builder, std::vector<ValueId> kept,
              const ir::Operation &operation) const;
  void store(Storage &storage, int64_t position, double value) const;
  void store(Storage &storage, int64_t position, int64_t value) const;
  const Storage &readable(const ir::BufferView &view) const;

  const ir::Module &module_;
  symbolic::Bindings bindings_;
  bool round_;
  std::deque<Storage> storages_;     // addresses stay valid
  std::vector<Storage *> by_buffer_; // null until given or computed
  std::shared_ptr<std::string> failure_;
  const UserKernelRunner *user_kernels_ = nullptr;
};

} // namespace tsc::interpret
