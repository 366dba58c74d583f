#include "report/page_files.h"
#include "report/report.h"

#include "support/text.h"

namespace tsc::report {
namespace {

/// Inside a script element the text up to "</script" counts, and "<!--" changes how it is read. In
/// JSON `<` stands in strings alone, where it may be written by its number.
std::string in_script(std::string_view json) {
  std::string text;
  text.reserve(json.size() + json.size() / 16);
  for (const char c : json)
    c == '<' ? text.append("\\u003c") : text.append(1, c);
  return text;
}

} // namespace

std::string to_html(std::string_view json) {
  const auto &files = page_files();
  std::string page = files.at("page.html");
  support::replace_all(page, "/*page.css*/", files.at("page.css"));
  for (const char *name : {"page_data.js", "page_list.js", "page_views.js", "page.js"})
    support::replace_all(page, std::string("/*") + name + "*/", files.at(name));
  // The data last, and once: nothing in it is taken for a place.
  const std::string place = "/*data*/";
  const size_t at = page.find(place);
  return page.substr(0, at) + in_script(json) + page.substr(at + place.size());
}

} // namespace tsc::report
