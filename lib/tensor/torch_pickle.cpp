#include "tensor/torch_pickle.h"

#include "support/diagnostic.h"
#include "support/text.h"
#include "tensor/file_parts.h"

#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace tsc::tensor {

namespace {

// A state dict takes some 25 items a tensor.
constexpr size_t kMaxItems = size_t{1} << 21;
constexpr size_t kMaxDimensions = 64;  // torch's own limit
constexpr size_t kMaxStorageName = 64; // a number in decimal digits

using ItemId = uint32_t;

enum class Kind : uint8_t {
  none,
  boolean,
  integer,
  number,
  text,
  tuple,
  list,
  dictionary,
  function, // a name that the pickle calls; `text` is "module name"
  storage,
  tensor
};

/// What the pickle builds. Items never move into one another: containers hold ids, so that depth
/// costs no stack and sharing costs no copy.
struct Item {
  Kind kind = Kind::none;
  int64_t integer = 0;       // integer, boolean; storage: elements
  std::string_view text;     // text, function; storage: its key
  std::vector<ItemId> items; // tuple, list; dictionary: key, value, key, value
  DType dtype = DType::u8;   // storage
  bool typed = false;        // storage: elements of dtype, else bytes
  size_t tensor = 0;         // tensor: index among tensors_
};

/// The dtype of "torch FloatStorage"; nothing if it is no such name.
std::optional<DType> storage_dtype(std::string_view name) {
  struct Row {
    std::string_view name;
    DType dtype;
  };
  constexpr Row kRows[] = {
      {"torch BoolStorage", DType::boolean},     {"torch ByteStorage", DType::u8},
      {"torch CharStorage", DType::i8},          {"torch ShortStorage", DType::i16},
      {"torch IntStorage", DType::i32},          {"torch LongStorage", DType::i64},
      {"torch HalfStorage", DType::f16},         {"torch BFloat16Storage", DType::bf16},
      {"torch FloatStorage", DType::f32},        {"torch DoubleStorage", DType::f64},
      {"torch ComplexFloatStorage", DType::c64}, {"torch ComplexDoubleStorage", DType::c128},
  };
  for (const Row &row : kRows)
    if (row.name == name)
      return row.dtype;
  return std::nullopt;
}

constexpr std::string_view kUntypedStorage = "torch.storage UntypedStorage";
constexpr std::string_view kOrderedDict = "collections OrderedDict";
constexpr std::string_view kTensorV2 = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kTensorV3 = "torch._utils _rebuild_tensor_v3";
constexpr std::string_view kParameter = "torch._utils _rebuild_parameter";

std::optional<DType> function_dtype(std::string_view name) {
  constexpr std::string_view kTorch = "torch ";
  return support::starts_with(name, kTorch) ? parse_dtype(name.substr(kTorch.size()))
                                            : std::nullopt;
}

bool is_known_function(std::string_view name) {
  return name == kUntypedStorage || name == kOrderedDict || name == kTensorV2 ||
         name == kTensorV3 || name == kParameter || storage_dtype(name) || function_dtype(name);
}

class PickleReader {
public:
  PickleReader(std::string_view pickle, const std::string &label)
      : pickle_(pickle), label_(label) {}

  std::vector<PickledTensor> read() {
    while (!stopped_) {
      start_ = position_;
      step(static_cast<uint8_t>(take(1)[0]));
    }
    const Item &root = items_[pop()];
    if (root.kind != Kind::dictionary)
      refuse("it holds no dict of tensors");
    return named_tensors(root);
  }

private:
  [[noreturn]] void fail(const std::string &reason) const {
    fail_file("TSC-T040", "the pickle is damaged: " + reason, place(),
              "save the file again with torch.save");
  }
  [[noreturn]] void refuse(const std::string &what) const {
    fail_file("TSC-T041", "the pickle is no dict of plain tensors: " + what, place(),
              "nothing of it was run; save a dict of plain tensors, or write .safetensors",
              support::ExitCode::unsupported);
  }
  std::string place() const { return label_ + ": byte " + std::to_string(start_); }

  std::string_view take(uint64_t count) {
    if (count > pickle_.size() - position_)
      fail("it breaks off");
    std::string_view bytes = pickle_.substr(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return bytes;
  }
  uint64_t take_unsigned(size_t width) {
    uint64_t value = 0;
    std::string_view bytes = take(width);
    for (size_t i = 0; i < width; ++i)
      value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return value;
  }
  std::string_view take_line() {
    size_t end = pickle_.find('\n', position_);
    if (end == std::string_view::npos)
      fail("it breaks off");
    std::string_view line = take(end - position_);
    take(1);
    return line;
  }

  void push(Item item) {
    if (items_.size() >= kMaxItems)
      refuse("it has more than " + std::to_string(kMaxItems) + " items");
    items_.push_back(std::move(item));
    push(static_cast<ItemId>(items_.size() - 1));
  }
  void push(ItemId id) {
    if (stack_.size() >= kMaxItems)
      refuse("it has more than " + std::to_string(kMaxItems) + " items");
    stack_.push_back(id);
  }
  ItemId pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
      fail("its stack runs empty");
    ItemId id = stack_.back();
    stack_.pop_back();
    return id;
  }
  ItemId top() {
    ItemId id = pop();
    stack_.push_back(id);
    return id;
  }
  /// The items above the last mark, which goes.
  std::vector<ItemId> pop_marked() {
    if (marks_.empty())
      fail("it has no mark");
    auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<ItemId> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_integer(Kind kind, int64_t value) {
    Item item;
    item.kind = kind;
    item.integer = value;
    push(std::move(item));
  }
  void push_text(Kind kind, std::string_view text) {
    Item item;
    item.kind = kind;
    item.text = text;
    push(std::move(item));
  }
  void push_items(Kind kind, std::vector<ItemId> items) {
    Item item;
    item.kind = kind;
    item.items = std::move(items);
    push(std::move(item));
  }
  void push_tuple(size_t count) {
    std::vector<ItemId> items(count);
    for (size_t i = count; i-- > 0;)
      items[i] = pop();
    push_items(Kind::tuple, std::move(items));
  }

  void step(uint8_t opcode) {
    if (!step_value(opcode) && !step_container(opcode) && !step_machine(opcode)) {
      constexpr char kDigits[] = "0123456789abcdef";
      refuse(std::string("opcode 0x") + kDigits[opcode >> 4] + kDigits[opcode & 15]);
    }
  }

  /// None, booleans, numbers and texts.
  bool step_value(uint8_t opcode) {
    switch (opcode) {
    case 'N':
      push(Item{});
      return true;
    case 0x88: // NEWTRUE
    case 0x89: // NEWFALSE
      push_integer(Kind::boolean, opcode == 0x88);
      return true;
    case 'J': // BININT
      push_integer(Kind::integer, static_cast<int32_t>(take_unsigned(4)));
      return true;
    case 'K': // BININT1
      push_integer(Kind::integer, static_cast<int64_t>(take_unsigned(1)));
      return true;
    case 'M': // BININT2
      push_integer(Kind::integer, static_cast<int64_t>(take_unsigned(2)));
      return true;
    case 0x8a: // LONG1
      push_integer(Kind::integer, take_long());
      return true;
    case 'G': // BINFLOAT: nothing here needs its value
      take(8);
      push_integer(Kind::number, 0);
      return true;
    case 'X': // BINUNICODE
      push_text(Kind::text, take(take_unsigned(4)));
      return true;
    case 0x8c: // SHORT_BINUNICODE
      push_text(Kind::text, take(take_unsigned(1)));
      return true;
    default:
      return false;
    }
  }

  int64_t take_long() {
    size_t width = static_cast<size_t>(take_unsigned(1));
    if (width > 8)
      refuse("an integer of more than 64 bits");
    uint64_t value = take_unsigned(width);
    if (width != 0 && width != 8 && (value >> (8 * width - 1) & 1) != 0)
      value |= ~uint64_t{0} << (8 * width); // two's complement
    return static_cast<int64_t>(value);
  }

  bool step_container(uint8_t opcode) {
    switch (opcode) {
    case ')':
      push_items(Kind::tuple, {});
      return true;
    case 0x85: // TUPLE1 to TUPLE3
    case 0x86:
    case 0x87:
      push_tuple(size_t{opcode} - 0x84);
      return true;
    case 't':
      push_items(Kind::tuple, pop_marked());
      return true;
    case ']':
      push_items(Kind::list, {});
      return true;
    case 'l':
      push_items(Kind::list, pop_marked());
      return true;
    case '}':
      push_items(Kind::dictionary, {});
      return true;
    case 'a': // APPEND
      add_items(Kind::list, {pop()});
      return true;
    case 'e': // APPENDS
      add_items(Kind::list, pop_marked());
      return true;
    case 's': { // SETITEM
      ItemId value = pop(), key = pop();
      add_items(Kind::dictionary, {key, value});
      return true;
    }
    case 'u': // SETITEMS
      add_items(Kind::dictionary, pop_marked());
      return true;
    default:
      return false;
    }
  }

  void add_items(Kind kind, const std::vector<ItemId> &added) {
    Item &container = items_[top()];
    if (container.kind != kind || (kind == Kind::dictionary && added.size() % 2 != 0))
      fail("it adds items to something else than a list or a dict");
    container.items.insert(container.items.end(), added.begin(), added.end());
  }

  /// The memo, names and calls.
  bool step_machine(uint8_t opcode) {
    switch (opcode) {
    case 0x80: { // PROTO
      uint64_t version = take_unsigned(1);
      if (version < 2 || version > 5)
        refuse("pickle protocol " + std::to_string(version));
      return true;
    }
    case 0x95: // FRAME: only says how much follows
      take(8);
      return true;
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case 'q': // BINPUT
      memo_[static_cast<uint32_t>(take_unsigned(1))] = top();
      return true;
    case 'r': // LONG_BINPUT
      memo_[static_cast<uint32_t>(take_unsigned(4))] = top();
      return true;
    case 0x94: // MEMOIZE
      memo_[static_cast<uint32_t>(memo_.size())] = top();
      return true;
    case 'h': // BINGET
      get(static_cast<uint32_t>(take_unsigned(1)));
      return true;
    case 'j': // LONG_BINGET
      get(static_cast<uint32_t>(take_unsigned(4)));
      return true;
    case 'c': { // GLOBAL
      std::string_view module = take_line();
      push_function(module, take_line());
      return true;
    }
    case 0x93: { // STACK_GLOBAL
      ItemId name = pop(), module = pop();
      push_function(text_of(module), text_of(name));
      return true;
    }
    case 'Q': // BINPERSID
      push_storage();
      return true;
    case 'R': // REDUCE
      call();
      return true;
    case 'b': // BUILD: the attributes of an OrderedDict (a state dict's versions) say nothing here
      pop();
      if (items_[top()].kind != Kind::dictionary)
        refuse("it sets the state of an object");
      return true;
    case '.':
      stopped_ = true;
      return true;
    default:
      return false;
    }
  }

  void get(uint32_t index) {
    auto found = memo_.find(index);
    if (found == memo_.end())
      fail("it uses what it has not stored");
    push(found->second);
  }

  std::string_view text_of(ItemId id) const {
    if (items_[id].kind != Kind::text)
      fail("a text is expected");
    return items_[id].text;
  }
  int64_t integer_of(ItemId id) const {
    if (items_[id].kind != Kind::integer)
      fail("an integer is expected");
    return items_[id].integer;
  }
  /// Few items: a long tuple that is used again and again would cost time without end.
  const std::vector<ItemId> &tuple_of(ItemId id) const {
    if (items_[id].kind != Kind::tuple || items_[id].items.size() > kMaxDimensions)
      fail("a tuple of at most " + std::to_string(kMaxDimensions) + " items is expected");
    return items_[id].items;
  }

  void push_function(std::string_view module, std::string_view name) {
    names_.push_back(std::string(module) + " " + std::string(name));
    if (!is_known_function(names_.back()))
      refuse("it names '" + std::string(module.substr(0, 200)) + "." +
             std::string(name.substr(0, 200)) + "'");
    push_text(Kind::function, names_.back());
  }

  /// ("storage", its type, its key, its device, its elements)
  void push_storage() {
    const std::vector<ItemId> parts = tuple_of(pop());
    if (parts.size() != 5 || text_of(parts[0]) != "storage" ||
        items_[parts[1]].kind != Kind::function)
      refuse("a persistent id that is no storage");
    std::string_view type = items_[parts[1]].text;
    std::optional<DType> dtype = storage_dtype(type);
    if (!dtype && type != kUntypedStorage)
      refuse("a storage of the type '" + std::string(type) + "'");
    Item storage;
    storage.kind = Kind::storage;
    storage.typed = dtype.has_value();
    storage.dtype = dtype.value_or(DType::u8);
    storage.text = text_of(parts[2]);
    if (storage.text.size() > kMaxStorageName)
      refuse("a storage's name of " + std::to_string(storage.text.size()) + " bytes");
    storage.integer = integer_of(parts[4]);
    push(std::move(storage));
  }

  void call() {
    const std::vector<ItemId> arguments = tuple_of(pop());
    const Item &function = items_[pop()];
    if (function.kind != Kind::function)
      refuse("it calls what is no function");
    std::string_view name = function.text;
    if (name == kOrderedDict && arguments.empty())
      push_items(Kind::dictionary, {});
    else if (name == kTensorV2 && (arguments.size() == 6 || arguments.size() == 7))
      push_tensor(arguments, std::nullopt);
    else if (name == kTensorV3 && (arguments.size() == 7 || arguments.size() == 8))
      push_tensor(arguments, argument_dtype(arguments[6]));
    else if (name == kParameter && arguments.size() == 3 &&
             items_[arguments[0]].kind == Kind::tensor)
      push(arguments[0]);
    else
      refuse("it calls '" + std::string(name) + "' with " + std::to_string(arguments.size()) +
             " arguments");
  }

  DType argument_dtype(ItemId id) const {
    std::optional<DType> dtype =
        items_[id].kind == Kind::function ? function_dtype(items_[id].text) : std::nullopt;
    if (!dtype)
      fail("a dtype is expected");
    return *dtype;
  }

  /// (storage, offset, sizes, strides, requires_grad, hooks[, dtype][, metadata])
  void push_tensor(const std::vector<ItemId> &arguments, std::optional<DType> dtype) {
    const Item &storage = items_[arguments[0]];
    if (storage.kind != Kind::storage || (!dtype && !storage.typed))
      fail("a tensor has no storage");
    PickledTensor tensor;
    tensor.storage = storage.text;
    tensor.view.dtype = dtype.value_or(storage.dtype);
    tensor.view.offset = integer_of(arguments[1]);
    for (ItemId id : tuple_of(arguments[2]))
      tensor.view.sizes.push_back(integer_of(id));
    for (ItemId id : tuple_of(arguments[3]))
      tensor.view.strides.push_back(integer_of(id));
    if (tensor.view.sizes.size() != tensor.view.strides.size())
      fail("a tensor of " + std::to_string(tensor.view.sizes.size()) + " sizes has " +
           std::to_string(tensor.view.strides.size()) + " strides");
    Item item;
    item.kind = Kind::tensor;
    item.tensor = tensors_.size();
    tensors_.push_back(std::move(tensor));
    push(std::move(item));
  }

  std::vector<PickledTensor> named_tensors(const Item &root) const {
    std::vector<PickledTensor> result;
    std::unordered_set<std::string_view> seen;
    for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
      std::string_view name = text_of(root.items[i]);
      const Item &value = items_[root.items[i + 1]];
      if (value.kind != Kind::tensor)
        refuse("'" + std::string(name.substr(0, 200)) + "' is no tensor");
      if (!seen.insert(name).second)
        fail("'" + std::string(name.substr(0, 200)) + "' stands in the dict twice");
      result.push_back(tensors_[value.tensor]);
      result.back().name = name;
    }
    return result;
  }

  std::string_view pickle_;
  const std::string &label_;
  size_t position_ = 0, start_ = 0; // start_: of the opcode at work
  bool stopped_ = false;
  std::vector<Item> items_;
  std::vector<ItemId> stack_;
  std::vector<size_t> marks_; // heights of the stack
  std::unordered_map<uint32_t, ItemId> memo_;
  std::deque<std::string> names_; // what texts of functions view
  std::vector<PickledTensor> tensors_;
};

} // namespace

std::vector<PickledTensor> read_pickled_tensors(std::string_view pickle, const std::string &label) {
  return PickleReader(pickle, label).read();
}

} // namespace tsc::tensor
