// Tabs, search, filters, keys, the theme, and other reports' files.
const report = new Report(JSON.parse(document.getElementById("data").textContent));
const sections = [{ id: "overview", title: "Overview" }, moduleSection(report), graphSection(report, "before", "Graph as read"), graphSection(report, "after", "After the passes"),
  groupSection(report), decisionSection(report), kernelSection(report), stepSection(report), memorySection(report), passSection(report), compareSection(report, null)];
const states = new Map(); // by section: {query, filter, list, chosen}
let current = null, timer = 0;
const byId = (id) => document.getElementById(id);

function tabs() {
  byId("tabs").replaceChildren(...sections.map((section) => make("button", { type: "button", role: "tab", id: "tab-" + section.id, "aria-controls": "main", "aria-selected": String(section === current), tabindex: section === current ? "0" : "-1",
    onclick: () => open(section.id) }, section.title, section.count ? make("span", { class: "count", text: section.count.toLocaleString("en") }) : null)));
}
function open(id) {
  current = sections.find((section) => section.id === id);
  tabs();
  byId("main").setAttribute("aria-labelledby", "tab-" + id);
  const state = states.get(id) || { query: "", filter: "", chosen: -1 };
  states.set(id, state);
  byId("search").value = state.query;
  byId("search").disabled = byId("filter").hidden = id === "overview";
  if (id === "overview") { byId("filter").replaceChildren(); byId("main").replaceChildren(overview(report)); status(""); return; }
  filters(state);
  state.detail = make("div", { class: "detail", role: "region", "aria-label": "Details", "aria-live": "off" }, make("p", { class: "hint", text: current.empty || "Choose a row." }));
  state.list = new List(current, (i) => choose(state, i));
  const side = make("div", { class: "side" });
  if (current.picker) side.append(make("div", { class: "chart" }, make("label", {}, "Compare with ", make("input", { type: "file", id: "other", accept: ".html,.json", onchange: (event) => load(event.target.files[0]) }))));
  if (current.chart) side.append(make("div", { class: "chart" }, current.chart(report, (told) => state.detail.replaceChildren(...told.flat(3).filter(Boolean)))));
  side.append(state.list.heads, state.list.element);
  byId("main").replaceChildren(make("div", { class: "split" + (current.wide ? " wide" : "") }, side, state.detail));
  apply(state);
}
function choose(state, i) {
  state.chosen = i;
  state.detail.replaceChildren(...current.detail(i).flat(3).filter(Boolean));
  state.detail.scrollTop = 0;
}
function filters(state) {
  const counts = new Map();
  for (let i = 0; i < current.count; ++i) { const value = current.filter(i); counts.set(value, (counts.get(value) || 0) + 1); }
  const values = [...counts].filter(([value]) => value).sort((a, b) => b[1] - a[1]).slice(0, 500);
  byId("filter").replaceChildren(make("option", { value: "", text: "all" }), ...values.map(([value, count]) => make("option", { value, text: value + " (" + count + ")" })));
  byId("filter").value = state.filter;
}
function apply(state) {
  const query = state.query.toLowerCase().split(/\s+/).filter(Boolean), order = [];
  for (let i = 0; i < current.count; ++i) {
    if (state.filter && current.filter(i) !== state.filter) continue;
    if (query.length) { const text = current.search(i).toLowerCase(); if (!query.every((word) => text.includes(word))) continue; }
    order.push(i);
  }
  state.list.show(order);
  status(order.length.toLocaleString("en") + " of " + current.count.toLocaleString("en") + " rows");
  if (state.chosen >= 0) state.list.reveal(state.chosen);
}
function status(text) { byId("status").textContent = text; }
/// Opens a section at a row, whatever was searched for there.
function goTo(id, i) {
  const state = states.get(id) || { query: "", filter: "", chosen: -1 };
  state.query = state.filter = ""; state.chosen = i;
  states.set(id, state);
  open(id);
  state.list.element.focus();
}
async function load(file) {
  try {
    const text = await file.text(), opening = '<script type="application/json" id="data">', at = text.indexOf(opening);
    const other = new Report(JSON.parse(at < 0 ? text : text.slice(at + opening.length, text.indexOf("<" + "/script>", at))));
    sections[sections.length - 1] = compareSection(report, other);
    open("compare");
    status("here: " + report.raw.graph + "; there: " + other.raw.graph + " (" + file.name + ")");
  } catch (error) { status(file.name + " is no report: " + error.message); }
}
function theme(value) {
  document.documentElement.dataset.theme = value;
  const canvas = document.querySelector("canvas");
  if (canvas) canvas.redraw();
}
function turnTheme() { theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); }

byId("search").addEventListener("input", () => { const state = states.get(current.id); state.query = byId("search").value; clearTimeout(timer); timer = setTimeout(() => apply(state), current.count > 5000 ? 120 : 0); });
byId("filter").addEventListener("change", () => { const state = states.get(current.id); state.filter = byId("filter").value; apply(state); });
byId("theme").addEventListener("click", turnTheme);
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName), state = states.get(current.id);
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const turn = (by) => { open(sections[(sections.indexOf(current) + by + sections.length) % sections.length].id); if (event.target.getAttribute && event.target.getAttribute("role") === "tab") byId("tab-" + current.id).focus(); else if (states.get(current.id).list) states.get(current.id).list.element.focus(); };
  if (event.key === "Escape" && state) {
    byId("search").value = state.query = ""; byId("filter").value = state.filter = "";
    if (state.list) { apply(state); state.list.element.focus(); }
  } else if (event.key === "ArrowDown" && event.target.id === "search" && state.list) { event.preventDefault(); state.list.element.focus(); state.list.select(Math.max(0, state.list.at)); }
  else if (typing) return;
  else if (event.key === "/") { event.preventDefault(); byId("search").focus(); byId("search").select(); }
  else if (event.key === "t") turnTheme();
  else if (event.key === "]") turn(1);
  else if (event.key === "[") turn(-1);
  else if (event.target.getAttribute("role") === "tab" && event.key === "ArrowRight") turn(1);
  else if (event.target.getAttribute("role") === "tab" && event.key === "ArrowLeft") turn(-1);
});
const darkness = window.matchMedia("(prefers-color-scheme: dark)");
theme(darkness.matches ? "dark" : "light");
darkness.addEventListener("change", (event) => theme(event.matches ? "dark" : "light"));
document.title = report.raw.graph + " - tsc report";
byId("subject").textContent = report.raw.graph + ", planned for " + report.raw.target.name + (report.raw.measured ? ", measured on " + report.raw.measured.device : "");
open("overview");
