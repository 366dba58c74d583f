// Sections: what stands in their lists, and what is told of one row.
function link(section, i, text) { return make("button", { type: "button", class: "link", text, onclick: () => goTo(section, i) }); }
function facts(pairs) { return make("dl", {}, pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined)
  .flatMap(([name, value]) => [make("dt", { text: name }), make("dd", {}, value)])); }
function part(title, ...children) { return [make("h3", { text: title }), ...children]; }
function links(section, list, name, most = 200) {
  if (!list.length) return make("p", { class: "quiet", text: "none" });
  return make("ul", { class: "plain" }, list.slice(0, most).map((i) => make("li", {}, link(section, i, name(i)))),
    list.length > most ? make("li", { class: "quiet", text: (list.length - most) + " more" }) : null);
}
function meters(rows) {
  const most = Math.max(...rows.map((row) => row.value), 1e-12);
  return rows.map((row) => { const bar = make("i"); bar.style.backgroundSize = 100 * row.value / most + "% 100%";
    return make("div", { class: "meter" }, row.name instanceof Node ? row.name : make("span", { class: "name", text: row.name, title: row.name }), bar, make("b", { text: row.text })); });
}
/// Source lines of nodes as read, each once.
function sourceLines(report, nodes) {
  const lines = new Map();
  for (const node of nodes) {
    const frame = lineOf(report.text(report.raw.before[node][5]));
    if (frame) lines.set(frame.place, frame.code);
  }
  if (!lines.size) return make("p", { class: "quiet", text: "the file has none" });
  return make("pre", { class: "wrap", text: [...lines].slice(0, 60).map(([place, code]) => place + "\n    " + code).join("\n") });
}

function graphSection(report, id, title) {
  const rows = report.raw[id];
  const line = (i) => { const frame = lineOf(report.text(rows[i][5])); return frame ? frame.place.replace(/^File "(.*)", line (\d+).*$/, "$1:$2") : ""; };
  return { id, title, count: rows.length, wide: false,
    columns: [{ title: "node", width: 3, mono: true, value: (i) => rows[i][0] }, { title: "operator", width: 3, mono: true, value: (i) => report.text(rows[i][2]) },
      { title: "type", width: 2, mono: true, value: (i) => report.text(rows[i][3]) }, { title: "source line", width: 3, value: line }],
    filter: (i) => rows[i][1] === 2 ? report.text(rows[i][2]) : Kind[rows[i][1]],
    search: (i) => rows[i][0] + "\n" + report.text(rows[i][2]) + "\n" + report.text(rows[i][3]) + "\n" + report.text(rows[i][4]) + "\n" + report.text(rows[i][5]),
    detail(i) {
      const row = rows[i], after = id === "after" ? [i] : report.afterOfBefore[i], frames = framesOf(report.text(row[5]));
      const groups = [...new Set(after.flatMap((node) => report.groupsOfAfter[node]))];
      const module = report.text(row[4]).split(";").pop().split(",");
      return [make("h2", { class: "mono", text: row[0] }),
        facts([["operator", report.text(row[2])], ["type", report.text(row[3])], ["module", module[1] || ""], ["class", module[2] || ""]]),
        part("Arguments", links(id, [...new Set(row[6])], (n) => rows[n][0] + "  " + report.text(rows[n][3]))),
        part("Used by", links(id, report.users[id][i], (n) => rows[n][0])),
        id === "before" ? part("After the passes", links("after", after, (n) => report.raw.after[n][0] + "  " + report.text(report.raw.after[n][2])))
                        : part("As read", links("before", row[7], (n) => report.raw.before[n][0] + "  " + report.text(report.raw.before[n][2]))),
        part("Computed in", links("groups", groups, (g) => report.groupLabel(g))),
        part("Source", frames.length ? make("pre", { class: "wrap", text: frames.map((frame) => frame.place + "\n    " + frame.code).join("\n") }) : make("p", { class: "quiet", text: "the file has none" }))];
    } };
}

function moduleSection(report) {
  const modules = report.modules;
  return { id: "modules", title: "Modules", count: modules.length,
    columns: [{ title: "module", width: 5, mono: true, value: (i) => "\u00a0\u00a0".repeat(Math.min(12, modules[i].path.split(".").length - 1)) + modules[i].path, key: (i) => modules[i].path },
      { title: "class", width: 4, value: (i) => modules[i].type.split(".").pop() }, { title: "nodes", number: true, value: (i) => modules[i].nodes.length }],
    filter: (i) => modules[i].type.split(".").pop(), search: (i) => modules[i].path + "\n" + modules[i].type,
    detail(i) {
      const after = [...new Set(modules[i].nodes.flatMap((node) => report.afterOfBefore[node]))];
      const groups = [...new Set(after.flatMap((node) => report.groupsOfAfter[node]))];
      return [make("h2", { class: "mono", text: modules[i].path }), facts([["class", modules[i].type], ["nodes", String(modules[i].nodes.length)]]),
        part("Computed in", links("groups", groups, (g) => report.groupLabel(g))),
        part("Source lines", sourceLines(report, modules[i].nodes)),
        part("Nodes", links("before", modules[i].nodes, (n) => report.raw.before[n][0] + "  " + report.text(report.raw.before[n][2])))];
    } };
}

function decisionText(report, d) {
  const [a, b, reason, , detail, turned, round] = report.raw.decisions[d];
  const names = report.raw.members[a][0] + " and " + report.raw.members[b][0];
  const what = reason ? (round ? "not fused in round " + round + ": " : "not in one launch: ") + report.text(reason) : round ? "fused in round " + round : "one launch";
  return { names, what, rest: [report.text(detail), report.text(turned)].filter(Boolean).join(" "), fused: !reason };
}
function decisionList(report, list) {
  if (!list.length) return make("p", { class: "quiet", text: "never a candidate: it shares no buffer, or other users of it are nearer" });
  return make("ul", { class: "plain" }, list.slice(0, 200).map((d) => { const told = decisionText(report, d);
    return make("li", {}, link("decisions", d, told.names), " ", make("span", { class: told.fused ? "yes" : "no", text: told.what }), told.rest ? make("div", { class: "quiet", text: told.rest }) : null); }),
    list.length > 200 ? make("li", { class: "quiet", text: (list.length - 200) + " more" }) : null);
}

function groupSection(report) {
  const groups = report.raw.groups, most = Math.max(...groups.map((group) => group[6]), 1);
  return { id: "groups", title: "Groups", count: groups.length,
    columns: [{ title: "group", width: 3, mono: true, value: (g) => report.groupName(g), key: (g) => groups[g][1] }, { title: "computes", width: 4, value: (g) => report.groupWork(g) },
      { title: "class", value: (g) => groups[g][0] }, { title: "bytes", number: true, value: (g) => bytesText(groups[g][4]), key: (g) => groups[g][4] },
      { title: "estimate", number: true, width: 1.3, value: (g) => timeText(groups[g][6]), key: (g) => groups[g][6], bar: (g) => groups[g][6] / most }],
    filter: (g) => groups[g][0], search: (g) => report.groupName(g) + "\n" + report.groupWork(g) + "\n" + groups[g][3].map((k) => report.raw.kernels[k].name).join("\n"),
    detail(g) {
      const [kind, first, count, kernels, bytes, operations, nanoseconds] = groups[g], after = report.afterOfGroup(g), members = report.raw.members.slice(first, first + count);
      return [make("h2", { class: "mono", text: report.groupName(g) }),
        facts([["class", kind], ["bytes", bytesText(bytes)], ["operations", countText(operations)], ["estimate", timeText(nanoseconds)]]),
        part("Members", make("ul", { class: "plain" }, members.slice(0, 200).map((member) => make("li", { class: "mono", text: member[0] + "  " + report.text(member[1]) })))),
        part("Why it is what it is", decisionList(report, report.decisionsOfGroup[g])),
        part("Kernels", links("kernels", [...new Set(kernels)], (k) => report.raw.kernels[k].name)),
        part("Steps", links("steps", report.stepsOfGroup[g], (s) => s + "  " + report.raw.steps[s][0])),
        part("Source lines", sourceLines(report, report.beforeOf(after))),
        part("Nodes after the passes", links("after", after, (n) => report.raw.after[n][0] + "  " + report.text(report.raw.after[n][2]))),
        part("Nodes as read", links("before", report.beforeOf(after), (n) => report.raw.before[n][0] + "  " + report.text(report.raw.before[n][2])))];
    } };
}

function decisionSection(report) {
  const rows = report.raw.decisions;
  return { id: "decisions", title: "Fusion", count: rows.length,
    columns: [{ title: "operations", width: 2, mono: true, value: (d) => decisionText(report, d).names, key: (d) => d },
      { title: "decision", width: 3, value: (d) => decisionText(report, d).what, tone: (d) => rows[d][2] ? "no" : "yes" }, { title: "shared", number: true, value: (d) => bytesText(rows[d][3]), key: (d) => rows[d][3] }],
    filter: (d) => rows[d][2] ? report.text(rows[d][2]) : "fused", search: (d) => Object.values(decisionText(report, d)).join("\n"),
    detail(d) {
      const told = decisionText(report, d), [a, b] = rows[d], sides = [a, b].map((member) => report.raw.members[member][2]);
      return [make("h2", { class: "mono", text: told.names }), make("p", { class: told.fused ? "yes" : "no", text: told.what }), told.rest ? make("p", { text: told.rest }) : null,
        facts([["shared", bytesText(rows[d][3])]]),
        part("Groups now", links("groups", [...new Set(sides)], (g) => report.groupLabel(g))),
        part("Source lines", sourceLines(report, report.beforeOf([a, b].flatMap((member) => report.raw.members[member][3]))))];
    } };
}

function kernelFacts(report, k) {
  const kernel = report.raw.kernels[k], estimate = kernel.estimate, [time, measured] = report.kernelTime(k);
  const pairs = [["plan", kernel.plan], ["read", bytesText(kernel.read)], ["written", bytesText(kernel.written)], ["launches", String(report.stepsOfKernel[k].length)],
    ["estimate, all launches", timeText(time)], ["measured, all launches", measured === null ? "" : timeText(measured)]];
  if (estimate) pairs.push(["of the roof", percent(estimate.share) + ", held by " + report.boundBy(k)], ["roof", "memory " + timeText(estimate.memory) + ", arithmetic " + timeText(estimate.arithmetic)],
    ["the plan's own", "accesses " + timeText(estimate.accesses) + ", instructions " + timeText(estimate.instructions) + ", latency " + timeText(estimate.latency)],
    ["fills", estimate.blocks + " blocks of " + kernel.block.join(" x ") + " threads, " + digits(estimate.waves) + " waves, " + estimate.threads + " threads in flight"]);
  else pairs.push(["of the roof", "not known: sizes are symbols, or the kernel is no loop of ours"]);
  return facts(pairs);
}
function kernelSection(report) {
  const kernels = report.raw.kernels, times = kernels.map((_, k) => report.kernelTime(k)), most = Math.max(...times.map((time) => time[0]), 1);
  return { id: "kernels", title: "Kernels", count: kernels.length, wide: true,
    columns: [{ title: "kernel", width: 3, mono: true, value: (k) => kernels[k].name }, { title: "estimate", number: true, value: (k) => timeText(times[k][0]), key: (k) => times[k][0], bar: (k) => times[k][0] / most },
      { title: "of roof", number: true, width: 0.8, value: (k) => kernels[k].estimate ? percent(kernels[k].estimate.share) : "", key: (k) => kernels[k].estimate ? kernels[k].estimate.share : -1 },
      ...(report.ms ? [{ title: "measured", number: true, value: (k) => timeText(times[k][1]), key: (k) => times[k][1] }] : [])],
    filter: (k) => "held by: " + report.boundBy(k), search: (k) => kernels[k].name + "\n" + kernels[k].plan + "\n" + kernels[k].text + "\n" + (kernels[k].nodes || []).join("\n"),
    detail(k) {
      const groups = report.groupsOfKernel[k], after = [...new Set(groups.flatMap((g) => report.afterOfGroup(g)))], before = report.beforeOf(after);
      return [make("h2", { class: "mono", text: kernels[k].name }), kernelFacts(report, k),
        make("div", { class: "beside" },
          make("div", {}, part("Text", make("pre", { text: kernels[k].text, tabindex: "0", "aria-label": "kernel text" }))),
          make("div", {}, kernels[k].nodes ? part("Nodes of the graph", make("ul", { class: "plain" }, kernels[k].nodes.map((node) => make("li", { class: "mono", text: node })))) : null,
            part("Source lines", sourceLines(report, before)),
            part("Nodes as read", links("before", before, (n) => report.raw.before[n][0] + "  " + report.text(report.raw.before[n][2]))),
            part("Nodes after the passes", links("after", after, (n) => report.raw.after[n][0] + "  " + report.text(report.raw.after[n][2]))),
            part("Groups", links("groups", groups, (g) => report.groupLabel(g))),
            part("Steps", links("steps", report.stepsOfKernel[k], (s) => s + "  " + report.raw.steps[s][0]))))];
    } };
}

function stepSection(report) {
  const steps = report.raw.steps, most = Math.max(...steps.map((step) => step[12]), 1), measured = (i) => report.ms && !steps[i][6] ? (report.ms[i] || 0) * 1e6 : null;
  return { id: "steps", title: "Launches", count: steps.length,
    columns: [{ title: "step", number: true, width: 0.6, value: (i) => i }, { title: "name", width: 4, mono: true, value: (i) => steps[i][0] }, { title: "kind", width: 1.4, value: (i) => steps[i][1] + (steps[i][6] ? ", once" : "") },
      { title: "stream", number: true, width: 0.7, value: (i) => steps[i][4] }, { title: "bytes", number: true, value: (i) => bytesText(steps[i][10]), key: (i) => steps[i][10] },
      { title: "estimate", number: true, width: 1.3, value: (i) => timeText(steps[i][12]), key: (i) => steps[i][12], bar: (i) => steps[i][12] / most },
      { title: "of roof", number: true, width: 0.8, value: (i) => steps[i][12] ? percent(report.share(i)) : "", key: (i) => report.share(i) },
      ...(report.ms ? [{ title: "measured", number: true, value: (i) => timeText(measured(i)), key: measured }] : []), ...(report.ms && !report.raw.target.host ? [{ title: "to estimate", number: true, value: (i) => steps[i][12] && measured(i) ? digits(measured(i) / steps[i][12]) + " x" : "", key: (i) => steps[i][12] ? measured(i) / steps[i][12] : 0 }] : [])],
    filter: (i) => "stream " + steps[i][4] + (steps[i][5] ? ", device " + steps[i][5] : "") + ", " + steps[i][1], search: (i) => steps[i][0] + "\n" + steps[i][1] + "\n" + [...steps[i][8], ...steps[i][9]].map((b) => report.raw.buffers[b][0]).join("\n"),
    detail(i) {
      const [name, kind, kernel, groups, stream, device, once, waits, reads, writes, bytes, operations, nanoseconds] = steps[i];
      const buffer = (b) => make("li", { class: "mono", text: report.raw.buffers[b][0] + "  " + report.text(report.raw.buffers[b][1]) + "  " + bytesText(report.raw.buffers[b][2]) + "  " + report.raw.buffers[b][3] });
      return [make("h2", { class: "mono", text: name }),
        facts([["kind", kind + (once ? ", once, when weights are loaded" : "")], ["stream", String(stream)], ["device", String(device)], ["bytes", bytesText(bytes)], ["operations", countText(operations)], ["roof", timeText(report.roof(i))],
          ["estimate", timeText(nanoseconds)], ["of the roof", nanoseconds ? percent(report.share(i)) : ""], ["measured", report.ms ? timeText(measured(i)) : ""], ["alive", report.peak ? bytesText(report.peak.live[i]) + " of workspace" : ""]]),
        kernel >= 0 ? part("Kernel", links("kernels", [kernel], (k) => report.raw.kernels[k].name)) : null,
        part("Groups", links("groups", groups, (g) => report.groupLabel(g))), part("Waits for", links("steps", waits, (s) => s + "  " + steps[s][0])),
        part("Reads", make("ul", { class: "plain" }, reads.map(buffer))), part("Writes", make("ul", { class: "plain" }, writes.map(buffer))),
        part("Source lines", sourceLines(report, report.beforeOf(groups.flatMap((g) => report.afterOfGroup(g)))))].flat();
    } };
}

function memorySection(report) {
  const pieces = report.raw.memory.pieces || [], buffers = report.raw.buffers, most = Math.max(...pieces.map((piece) => piece[1]), 1);
  return { id: "memory", title: "Memory", count: pieces.length, chart: report.peak ? memoryChart : null, empty: report.raw.memory.unknown,
    columns: [{ title: "buffer", width: 3, mono: true, value: (i) => buffers[pieces[i][0]][0] }, { title: "type", width: 2, mono: true, value: (i) => report.text(buffers[pieces[i][0]][1]) },
      { title: "bytes", number: true, width: 1.3, value: (i) => bytesText(pieces[i][1]), key: (i) => pieces[i][1], bar: (i) => pieces[i][1] / most },
      { title: "from step", number: true, value: (i) => pieces[i][2] }, { title: "to step", number: true, value: (i) => pieces[i][3] }, { title: "steps", number: true, value: (i) => pieces[i][3] - pieces[i][2] + 1 }],
    filter: (i) => report.peak && pieces[i][2] <= report.peak.at && report.peak.at <= pieces[i][3] ? "alive at the peak" : "not alive at the peak", search: (i) => buffers[pieces[i][0]][0] + "\n" + report.text(buffers[pieces[i][0]][1]),
    detail(i) {
      const [b, bytes, first, last] = pieces[i];
      return [make("h2", { class: "mono", text: buffers[b][0] }), facts([["type", report.text(buffers[b][1])], ["bytes", bytesText(bytes)], ["alive", "steps " + first + " to " + last]]),
        part("Written first by", links("steps", [first], (s) => s + "  " + report.raw.steps[s][0])), part("Used last by", links("steps", [last], (s) => s + "  " + report.raw.steps[s][0])), aliveAt(report, first)].flat();
    } };
}
function aliveAt(report, step) {
  const pieces = report.raw.memory.pieces, alive = [];
  pieces.forEach((piece, i) => { if (piece[2] <= step && step <= piece[3]) alive.push(i); });
  alive.sort((a, b) => pieces[b][1] - pieces[a][1]);
  return part("Alive at step " + step + ": " + bytesText(report.peak.live[step]), links("memory", alive, (i) => report.raw.buffers[pieces[i][0]][0] + "  " + bytesText(pieces[i][1])));
}
/// Bytes alive over steps; a slider, so that arrow keys go from step to step.
function memoryChart(report, tell) {
  const live = report.peak.live, canvas = make("canvas", { role: "slider", tabindex: "0", "aria-label": "Workspace alive over steps", "aria-valuemin": "0", "aria-valuemax": String(Math.max(0, live.length - 1)) });
  let at = report.peak.at;
  const draw = () => {
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, style = getComputedStyle(document.documentElement);
    if (!width) return;
    canvas.width = width * scale; canvas.height = height * scale;
    const c = canvas.getContext("2d"), top = report.peak.bytes || 1, left = 64, y = (bytes) => height - 18 - bytes / top * (height - 32), x = (step) => left + step / live.length * (width - left);
    c.scale(scale, scale); c.font = "11px system-ui, sans-serif";
    c.strokeStyle = style.getPropertyValue("--line"); c.fillStyle = style.getPropertyValue("--quiet"); c.textAlign = "right";
    for (const part of [0, .5, 1]) { c.beginPath(); c.moveTo(left, y(top * part)); c.lineTo(width, y(top * part)); c.stroke(); c.fillText(bytesText(top * part), left - 6, y(top * part) + 4); }
    c.fillStyle = style.getPropertyValue("--bar");
    const pixels = Math.max(1, Math.floor(width - left));
    for (let p = 0; p < Math.min(pixels, live.length); ++p) { // the most of each column's steps
      const columns = Math.min(pixels, live.length), first = Math.floor(p * live.length / columns), last = Math.max(first + 1, Math.floor((p + 1) * live.length / columns));
      let high = 0;
      for (let i = first; i < last; ++i) high = Math.max(high, live[i]);
      c.fillRect(x(first), y(high), Math.max(1, x(last) - x(first) - (live.length < pixels / 6 ? 1 : 0)), y(0) - y(high));
    }
    c.fillStyle = style.getPropertyValue("--accent"); c.fillRect(x(at), y(top), Math.max(2, x(at + 1) - x(at)), y(0) - y(top));
    c.fillStyle = style.getPropertyValue("--ink"); c.textAlign = x(at) > width / 2 ? "right" : "left";
    c.fillText("step " + at + ": " + bytesText(live[at] || 0) + (at === report.peak.at ? ", the peak" : ""), x(at), height - 4);
  };
  const go = (step) => { at = Math.max(0, Math.min(live.length - 1, step)); canvas.setAttribute("aria-valuenow", String(at)); canvas.setAttribute("aria-valuetext", "step " + at + ", " + bytesText(live[at] || 0)); draw();
    tell([make("h2", {}, "Step " + at + " ", link("steps", at, report.raw.steps[at][0])), aliveAt(report, at)].flat()); };
  canvas.addEventListener("click", (event) => go(Math.floor((event.offsetX - 64) / (canvas.clientWidth - 64) * live.length)));
  canvas.addEventListener("keydown", (event) => { const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: live.length - 1 }; if (event.key in moves) { event.preventDefault(); go(moves[event.key]); } });
  new ResizeObserver(draw).observe(canvas); canvas.redraw = draw;
  return canvas;
}

function passSection(report) {
  const passes = report.raw.passes, most = Math.max(...passes.map((pass) => pass[1]), 1e-9), all = passes.reduce((sum, pass) => sum + pass[1], 0);
  return { id: "passes", title: "Compile time", count: passes.length,
    columns: [{ title: "order", number: true, width: 0.5, value: (i) => i }, { title: "pass", width: 3, value: (i) => passes[i][0] }, { title: "time", number: true, width: 3, value: (i) => timeText(passes[i][1] * 1e6), key: (i) => passes[i][1], bar: (i) => passes[i][1] / most },
      { title: "share", number: true, value: (i) => all ? percent(passes[i][1] / all) : "", key: (i) => passes[i][1] }],
    filter: () => "", search: (i) => passes[i][0], detail: (i) => [make("h2", { text: passes[i][0] }), facts([["time", timeText(passes[i][1] * 1e6)], ["of all", percent(passes[i][1] / (all || 1))], ["all", timeText(all * 1e6)]])] };
}

function overview(report) {
  const raw = report.raw, measured = report.measuredTotal(), estimate = report.total(12);
  const card = (value, name) => make("div", { class: "card" }, make("b", { text: value }), make("span", { text: name }));
  const slow = raw.steps.map((_, i) => i).sort((a, b) => (report.ms ? report.ms[b] - report.ms[a] : 0) || raw.steps[b][12] - raw.steps[a][12]).slice(0, 12);
  const passes = [...raw.passes].sort((a, b) => b[1] - a[1]).slice(0, 12), compile = raw.passes.reduce((sum, pass) => sum + pass[1], 0);
  const refused = new Map();
  let fused = 0;
  for (const decision of raw.decisions) if (decision[2]) refused.set(report.text(decision[2]), (refused.get(report.text(decision[2])) || 0) + 1); else ++fused;
  const roof = raw.steps.reduce((sum, step, i) => sum + (step[6] ? 0 : report.roof(i)), 0);
  return make("div", { class: "page" },
    make("div", { class: "cards" }, card(raw.before.length.toLocaleString("en"), "nodes as read"), card(raw.after.length.toLocaleString("en"), "nodes after the passes"), card(String(raw.kernels.length), "kernels"), card(String(raw.steps.length), "launches and calls"),
      card(bytesText(report.total(10)), "moved in a run"), card(countText(report.total(11)), "operations in a run"), card(timeText(estimate), "estimated, " + raw.target.name), measured === null ? null : card(timeText(measured), "measured, " + raw.measured.device),
      card(timeText(roof), "roof"), report.peak ? card(bytesText(report.peak.bytes), "workspace at the peak") : null, card(timeText(compile * 1e6), "to compile")),
    make("div", { class: "boxes" },
      make("div", { class: "box" }, part(report.ms ? "Longest steps, measured" : "Longest steps, estimated", meters(slow.map((i) => ({ name: link("steps", i, raw.steps[i][0]), value: report.ms ? report.ms[i] * 1e6 : raw.steps[i][12], text: timeText(report.ms ? report.ms[i] * 1e6 : raw.steps[i][12]) }))))),
      make("div", { class: "box" }, part("Longest passes", meters(passes.map((pass) => ({ name: pass[0], value: pass[1], text: timeText(pass[1] * 1e6) }))))),
      make("div", { class: "box" }, part("Fused, and why not", meters([{ name: "fused", value: fused, text: String(fused) }, ...[...refused].sort((a, b) => b[1] - a[1]).map(([name, count]) => ({ name, value: count, text: String(count) }))]))),
      raw.before.length ? null : make("div", { class: "box" }, part("Compiled before", make("p", { text: "This is of a compiled folder or package, which keeps neither its graph nor its schedule: kernels, launches and memory are what is known. A report of the graph has the rest." }))),
      raw.target.host ? make("div", { class: "box" }, part("Planned for the host", make("p", { text: "Estimates and the roof are those of a GPU that the program can also run on; times measured on the host are not to be held against them." }))) : null,
      raw.choices.length ? make("div", { class: "box" }, part("Chosen for the graph as a whole", make("ul", {}, raw.choices.map((choice) => make("li", { text: choice }))))) : null));
}

/// Kernels of both reports by name, and passes.
function compareSection(report, other) {
  const rows = [], add = (kind, name, a, b) => rows.push({ kind, name, a, b });
  if (other) {
    for (const [name, value] of [["estimated time of a run", (r) => r.total(12)], ["measured time of a run", (r) => r.measuredTotal()], ["bytes moved", (r) => r.total(10)], ["operations", (r) => r.total(11)], ["workspace at the peak", (r) => r.peak ? r.peak.bytes : null],
      ["kernels", (r) => r.raw.kernels.length], ["launches and calls", (r) => r.raw.steps.length], ["nodes as read", (r) => r.raw.before.length], ["nodes after the passes", (r) => r.raw.after.length]]) add("total", name, value(report), value(other));
    const byName = (r) => { const found = new Map(); r.raw.steps.forEach((step, i) => { if (step[6]) return; const time = r.ms && report.ms && other.ms ? (r.ms[i] || 0) * 1e6 : step[12]; found.set(step[0], (found.get(step[0]) || 0) + time); }); return found; };
    const mine = byName(report), theirs = byName(other);
    for (const [name, time] of mine) add(theirs.has(name) ? "step in both" : "step here only", name, time, theirs.has(name) ? theirs.get(name) : null);
    for (const [name, time] of theirs) if (!mine.has(name)) add("step there only", name, null, time);
    const sums = (r) => { const found = new Map(); for (const [name, ms] of r.raw.passes) found.set(name, (found.get(name) || 0) + ms * 1e6); return found; };
    const here = sums(report), there = sums(other);
    for (const name of new Set([...here.keys(), ...there.keys()])) add("pass", name, here.has(name) ? here.get(name) : null, there.has(name) ? there.get(name) : null);
  }
  const shown = (row, value) => value === null ? "" : row.kind !== "total" || /time/.test(row.name) ? timeText(value) : /bytes|workspace/.test(row.name) ? bytesText(value) : countText(value);
  const change = (row) => row.a && row.b !== null ? row.b / row.a - 1 : null;
  return { id: "compare", title: "Compare", count: rows.length, picker: true, rows,
    columns: [{ title: "what", width: 1.4, value: (i) => rows[i].kind }, { title: "name", width: 4, mono: true, value: (i) => rows[i].name }, { title: "here", number: true, value: (i) => shown(rows[i], rows[i].a), key: (i) => rows[i].a || 0 }, { title: "there", number: true, value: (i) => shown(rows[i], rows[i].b), key: (i) => rows[i].b || 0 },
      { title: "change", number: true, value: (i) => change(rows[i]) === null ? "" : (change(rows[i]) > 0 ? "+" : "") + (change(rows[i]) * 100).toFixed(1) + "%", key: (i) => change(rows[i]) || 0, tone: (i) => change(rows[i]) > 0.005 ? "no" : change(rows[i]) < -0.005 ? "yes" : "quiet" }],
    filter: (i) => rows[i].kind, search: (i) => rows[i].name, empty: other ? null : "Choose another report (.html, or its data as .json): totals, steps and passes of both are set side by side.",
    detail: (i) => [make("h2", { class: "mono", text: rows[i].name }), facts([["here", shown(rows[i], rows[i].a)], ["there", shown(rows[i], rows[i].b)]]),
      part("Steps here", links("steps", report.raw.steps.map((_, s) => s).filter((s) => report.raw.steps[s][0] === rows[i].name), (s) => s + "  " + report.raw.steps[s][0]))] };
}
