#include "driver/operators_folder.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <system_error>
#include <vector>

namespace tsc::driver {
namespace {

using nlohmann::json;
using support::Diagnostic;

constexpr const char *kPage = "docs/custom-operators.md says what a row holds";

std::optional<std::string> contents(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// One file: a row, and what is wrong with it.
class RowReader {
public:
  RowReader(std::string folder, std::string path)
      : folder_(std::move(folder)), path_(std::move(path)) {}

  ops::CustomOperator read() {
    const std::optional<std::string> text = contents(path_);
    if (!text) {
      report("TSC-O200", "the file cannot be read", "", "give a folder of files that can be read");
      return {};
    }
    const json row = parse(*text);
    if (problems_.empty())
      read_row(row);
    if (problems_.empty())
      for (Diagnostic problem : ops::check_custom_operator(row_)) {
        problem.file = path_;
        problems_.push_back(std::move(problem));
      }
    return std::move(row_);
  }
  std::vector<Diagnostic> take_problems() { return std::move(problems_); }

private:
  const std::string folder_, path_;
  ops::CustomOperator row_;
  std::vector<Diagnostic> problems_;

  void report(const char *code, std::string message, std::string place,
              std::string next_step = kPage) {
    problems_.push_back(
        {code, std::move(message), path_, std::move(place), "", "", std::move(next_step)});
  }
  void wrong(const std::string &place, const std::string &message) {
    report("TSC-O201", "the row is not as rows are: " + message, place);
  }

  json parse(const std::string &text) {
    std::vector<std::set<std::string>> keys;
    const auto look = [&](int, json::parse_event_t event, json &parsed) {
      if (event == json::parse_event_t::object_start)
        keys.emplace_back();
      else if (event == json::parse_event_t::object_end)
        keys.pop_back();
      else if (event == json::parse_event_t::key &&
               !keys.back().insert(parsed.get<std::string>()).second)
        wrong("", "the key \"" + parsed.get<std::string>() + "\" is there twice");
      return true;
    };
    try {
      return json::parse(text, look);
    } catch (const json::parse_error &error) {
      wrong("byte " + std::to_string(error.byte), "this is no JSON");
      return {};
    }
  }

  /// False, and reported, unless `value` is an object of some of these keys.
  bool is_object(const json &value, const std::string &place,
                 const std::vector<std::string> &known) {
    if (!value.is_object()) {
      wrong(place, "an object is missing here");
      return false;
    }
    for (const auto &[key, unused] : value.items())
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        const std::string close = support::did_you_mean(key, known);
        report("TSC-O201", "there is no key \"" + key + "\"", place + "/" + key,
               close.empty() ? "known are " + support::join(known, ", ")
                             : "did you mean \"" + close + "\"?");
      }
    return true;
  }
  std::string text(const json &object, const char *key, const std::string &place) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_string())
      return found->get<std::string>();
    wrong(place + "/" + key, "a text \"" + std::string(key) + "\" is missing");
    return "";
  }
  /// A text, or an integer as one.
  std::string expression(const json &value, const std::string &place) {
    if (value.is_string())
      return value.get<std::string>();
    if (value.is_number_integer())
      return value.dump();
    wrong(place, "an expression is missing here: a text or an integer");
    return "0";
  }
  std::vector<std::string> expressions(const json &object, const char *key,
                                       const std::string &place) {
    std::vector<std::string> result;
    const std::string at = place + "/" + key;
    if (!object.at(key).is_array())
      wrong(at, "a list is missing here");
    else
      for (const json &item : object.at(key))
        result.push_back(expression(item, at + "/" + std::to_string(result.size())));
    return result;
  }

  void read_row(const json &row) {
    if (!is_object(row, "",
                   {"schema", "inputs", "require", "results", "workspace_bytes", "cuda", "host"}))
      return;
    row_.schema = text(row, "schema", "");
    if (row.contains("inputs"))
      read_inputs(row["inputs"]);
    if (row.contains("require"))
      row_.requirements = expressions(row, "require", "");
    read_results(row);
    if (row.contains("workspace_bytes"))
      row_.workspace_bytes = expression(row["workspace_bytes"], "/workspace_bytes");
    if (!row.contains("cuda"))
      wrong("/cuda", "the kernel is missing: \"cuda\"");
    else if (is_object(row["cuda"], "/cuda",
                       {"file", "function", "arguments", "grid", "block", "shared_bytes"}))
      read_cuda(row["cuda"]);
    if (row.contains("host") &&
        is_object(row["host"], "/host", {"file", "function", "arguments"})) {
      row_.host.emplace();
      read_function(row["host"], "/host", *row_.host);
      if (!row["host"].contains("arguments"))
        row_.host->parameters = row_.cuda.parameters;
    }
  }

  void add_dtype(ops::CustomInput &input, const std::string &word, const std::string &place) {
    const auto dtype = tensor::parse_dtype(word);
    if (!dtype)
      return wrong(place, "'" + word + "' is no element type");
    input.dtypes.push_back(*dtype);
  }
  void read_inputs(const json &inputs) {
    if (!inputs.is_object())
      return wrong("/inputs", "an object is missing here: tensors by name");
    for (const auto &[name, value] : inputs.items()) {
      const std::string place = "/inputs/" + name;
      if (!is_object(value, place, {"dtypes", "rank", "layout"}))
        continue;
      ops::CustomInput &input = row_.inputs[name];
      if (value.contains("dtypes"))
        for (const std::string &word : expressions(value, "dtypes", place))
          add_dtype(input, word, place + "/dtypes");
      if (value.contains("rank")) {
        if (!value["rank"].is_number_unsigned() || value["rank"] > 64)
          wrong(place + "/rank", "a rank is an integer from 0 to 64");
        else
          input.rank = value["rank"].get<size_t>();
      }
      const std::string layout = value.contains("layout") ? text(value, "layout", place) : "";
      if (layout != "" && layout != "contiguous" && layout != "strided")
        wrong(place + "/layout", "a layout is contiguous or strided");
      input.strided = layout == "strided";
    }
  }

  void read_results(const json &row) {
    const auto results = row.find("results");
    if (results == row.end() || !results->is_array() || results->empty())
      return wrong("/results", "a list of results is missing");
    for (size_t i = 0; i < results->size(); ++i) {
      const std::string place = "/results/" + std::to_string(i);
      const json &value = (*results)[i];
      if (!is_object(value, place, {"name", "dtype", "sizes"}))
        continue;
      ops::CustomResult result;
      result.name = value.contains("name") ? text(value, "name", place)
                    : results->size() == 1 ? "out"
                                           : "out" + std::to_string(i);
      const std::string dtype = text(value, "dtype", place);
      if (const auto known = tensor::parse_dtype(dtype))
        result.dtype = *known;
      else
        result.dtype = dtype;
      if (!value.contains("sizes"))
        wrong(place + "/sizes", "\"sizes\" is missing: a list, or the name of a tensor");
      else if (value["sizes"].is_string())
        result.like = value["sizes"].get<std::string>();
      else
        result.sizes = expressions(value, "sizes", place);
      row_.results.push_back(std::move(result));
    }
  }

  ops::CustomParameter parameter(const std::string &given) const {
    const size_t space = given.find(' ');
    const std::string first = given.substr(0, space);
    for (const char *type : {"int", "int64", "float", "double", "bool"})
      if (space != std::string::npos && first == type)
        return {first, given.substr(given.find_first_not_of(' ', space))};
    return {"", given};
  }
  void read_function(const json &value, const std::string &place, ops::CustomFunction &function) {
    function.file = text(value, "file", place);
    function.function = text(value, "function", place);
    static const std::regex plain(
        R"([A-Za-z0-9_+-][A-Za-z0-9_.+-]*(/[A-Za-z0-9_+-][A-Za-z0-9_.+-]*)*)");
    if (!function.file.empty()) {
      const std::optional<std::string> found = std::regex_match(function.file, plain)
                                                   ? contents(folder_ + "/" + function.file)
                                                   : std::nullopt;
      if (!found)
        report("TSC-O208", "there is no file '" + function.file + "' in the folder",
               place + "/file", "put it beside the row, and name it by letters, digits and _.+-");
      else
        function.text = *found;
    }
    if (value.contains("arguments"))
      for (const std::string &given : expressions(value, "arguments", place))
        function.parameters.push_back(parameter(given));
  }
  void read_cuda(const json &value) {
    ops::CustomFunction &function = row_.cuda;
    read_function(value, "/cuda", function);
    if (!value.contains("arguments"))
      wrong("/cuda/arguments", "a list of arguments is missing");
    if (value.contains("grid")) {
      function.grid = expressions(value, "grid", "/cuda");
      if (function.grid.empty() || function.grid.size() > 3)
        wrong("/cuda/grid", "a grid has 1 to 3 sizes");
    }
    const json block = value.contains("block") ? value["block"] : json();
    if (!block.is_array() || block.empty() || block.size() > 3)
      return wrong("/cuda/block", "a block has 1 to 3 sizes");
    for (size_t axis = 0; axis < block.size(); ++axis)
      if (!block[axis].is_number_unsigned() || block[axis] > 1024)
        wrong("/cuda/block/" + std::to_string(axis), "a size of a block is a number up to 1024");
      else
        function.block[axis] = block[axis].get<int>();
    if (value.contains("shared_bytes"))
      function.shared_bytes = expression(value["shared_bytes"], "/cuda/shared_bytes");
  }
};

} // namespace

std::shared_ptr<const ops::CustomOperators> read_operators(const std::string &folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == ".json")
      paths.push_back(at->path().string());
  if (error || paths.empty())
    throw support::UserError(
        support::ExitCode::bad_input,
        Diagnostic{"TSC-O200",
                   error ? "the folder of operators cannot be read: " + error.message()
                         : "no operator is here: the folder has no .json file",
                   folder, "", "", "",
                   "give a folder with a row for each operator (docs/custom-operators.md)"});
  std::sort(paths.begin(), paths.end());
  std::vector<ops::CustomOperator> rows;
  std::vector<Diagnostic> problems;
  std::map<std::string, std::string> files; // by name of the operator
  for (const std::string &path : paths) {
    RowReader reader(folder, path);
    ops::CustomOperator row = reader.read();
    std::vector<Diagnostic> found = reader.take_problems();
    problems.insert(problems.end(), found.begin(), found.end());
    const std::string name = ops::custom_operator_name(row.schema);
    const auto [at, is_new] = files.emplace(name, path);
    if (!is_new && !row.schema.empty())
      problems.push_back({"TSC-O204", "the operator " + name + " has a row already", path,
                          "/schema", "", "", "keep one of the two: the other is " + at->second});
    rows.push_back(std::move(row));
  }
  if (!problems.empty())
    throw support::UserError(support::ExitCode::bad_input, std::move(problems));
  return std::make_shared<const ops::CustomOperators>(std::move(rows));
}

} // namespace tsc::driver
