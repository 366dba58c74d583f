// Whether a subject, and what is said of it in other ways, comes out alike everywhere.
#pragma once

#include "program_batch.h"
#include "variants.h"
#include "verdict.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tsc::differential {

using NamedTensors = std::map<std::string, tensor::HostTensor>;

struct Finding {
  Status status = Status::differ;
  std::string way;    // "eager", "host", "program.json", a kind of variant, "compile"
  std::string detail; // which variant exactly; output
  std::string reason;
  std::optional<Subject> variant;

  /// What findings of one cause likely have in common: no names, no numbers.
  std::string signature() const;
};

/// What one subject, compiled, gives on the reference.
struct Evaluated {
  std::unique_ptr<driver::Compilation> compilation;
  NamedTensors outputs; // output_K by position among the user's, mutated_NAME
};
/// Errors: those of compiling and running.
Evaluated evaluate(const Subject &subject, const driver::CompileOptions &options);
NamedTensors named(const program::Program &program, const std::vector<tensor::HostTensor> &outputs);

/// Compares what another way gave with the reference; says why they differ. Where they do, the
/// subject is perturbed: what changes with the last bits of anything is not counted.
class Judge {
public:
  Judge(const Subject &subject, const Evaluated &base) : subject_(subject), base_(base) {}
  /// Output and reason.
  std::optional<std::pair<std::string, std::string>> compare(const NamedTensors &actual);
  bool saw_chaos = false; // something differed that does not count

private:
  const Subject &subject_;
  const Evaluated &base_;
  std::optional<NamedTensors> wide_;
  std::optional<std::vector<NamedTensors>> neighbours_;
  const std::vector<NamedTensors> &neighbours();
  bool is_chaos(const std::string &name, const tensor::HostTensor &actual);
};

/// The variant's outputs under the subject's names; those that the subject lacks are left out.
NamedTensors outputs_of_variant(const Variant &variant, NamedTensors outputs);

struct CheckOptions {
  std::vector<size_t> kinds; // of variants, each tried once
  bool eager = true;
};
struct Checked {
  std::vector<Finding> findings;
  std::string refused; // the code that the subject itself was refused with
  size_t variants = 0, chaos = 0;
  bool ran_eagerly = false;
};
/// On the reference. `random` decides what the variants are. `base` (may be null) gets what the
/// subject gave.
Checked check(const Subject &subject, const CheckOptions &options, RandomSource random,
              std::shared_ptr<Evaluated> *base = nullptr);

/// On `device`, many at once: subjects with what they gave on the reference.
struct Pending {
  std::shared_ptr<Subject> subject;
  std::shared_ptr<Evaluated> base;
  /// A program of the subject compiled in another way, with its variant; null: the base's own.
  std::shared_ptr<Variant> variant;
  std::shared_ptr<Evaluated> evaluated;
};
void check_on_device(const std::vector<Pending> &pending, const runtime::SessionOptions &options,
                     const std::string &device, const std::function<void(size_t)> &begin,
                     const std::function<void(size_t, const Finding &)> &found);

} // namespace tsc::differential
