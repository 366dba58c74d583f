// Rows of docs/report.md to what sections ask for.
const Kind = ["placeholder", "get_attr", "call_function", "output"];

class Report {
  constructor(raw) {
    if (!raw || raw.version !== 1) throw new Error("this is no report that this page reads (version 1)");
    this.raw = raw;
    this.stepsOfKernel = raw.kernels.map(() => []);
    this.stepsOfGroup = raw.groups.map(() => []);
    raw.steps.forEach((step, i) => {
      if (step[2] >= 0) this.stepsOfKernel[step[2]].push(i);
      for (const group of step[3]) this.stepsOfGroup[group].push(i);
    });
    const groupsOfKernel = raw.kernels.map(() => new Set());
    raw.groups.forEach((group, i) => { for (const kernel of group[3]) groupsOfKernel[kernel].add(i); });
    // A kernel that copies between branches is none of a group's own: its step knows whom it serves.
    for (const step of raw.steps) if (step[2] >= 0 && !groupsOfKernel[step[2]].size) for (const group of step[3]) groupsOfKernel[step[2]].add(group);
    this.groupsOfKernel = groupsOfKernel.map((groups) => [...groups]);
    this.decisionsOfGroup = raw.groups.map(() => []);
    raw.decisions.forEach((decision, i) => {
      const a = raw.members[decision[0]][2], b = raw.members[decision[1]][2];
      this.decisionsOfGroup[a].push(i);
      if (b !== a) this.decisionsOfGroup[b].push(i);
    });
    this.groupsOfAfter = raw.after.map(() => []);
    raw.members.forEach((member) => { for (const node of member[3]) {
      const list = this.groupsOfAfter[node];
      if (list && list[list.length - 1] !== member[2]) list.push(member[2]);
    } });
    this.afterOfBefore = raw.before.map(() => []);
    raw.after.forEach((node, i) => { for (const origin of node[7]) this.afterOfBefore[origin].push(i); });
    this.users = { before: usersOf(raw.before), after: usersOf(raw.after) };
    this.ms = raw.measured ? raw.measured.ms : null;
    this.modules = this.findModules();
    this.peak = this.findPeak();
  }
  text(number) { return this.raw.texts[number]; }
  groupName(g) {
    const [, first, count] = this.raw.groups[g];
    const names = this.raw.members.slice(first, first + Math.min(count, 6)).map((member) => member[0]);
    return names.join(" + ") + (count > 6 ? " + " + (count - 6) + " more" : "");
  }
  afterOfGroup(g) {
    const [, first, count] = this.raw.groups[g];
    return [...new Set(this.raw.members.slice(first, first + count).flatMap((member) => member[3]))];
  }
  beforeOf(after) { return [...new Set(after.flatMap((node) => this.raw.after[node] ? this.raw.after[node][7] : []))]; }
  groupLabel(g) { const work = this.groupWork(g); return this.groupName(g) + (work ? "  (" + work + ")" : ""); }
  /// What a group writes for the user: names of nodes, the shorter form of its operations.
  groupWork(g) { return this.beforeOf(this.afterOfGroup(g)).slice(0, 8).map((node) => this.raw.before[node][0]).join(", "); }
  /// Nanoseconds that the target needs at least; 0: not known.
  roof(i) {
    const step = this.raw.steps[i], estimate = step[2] >= 0 ? this.raw.kernels[step[2]].estimate : null;
    if (estimate) return Math.max(estimate.memory, estimate.arithmetic);
    const target = this.raw.target, half = step[9].some((b) => /^b?f16/.test(this.text(this.raw.buffers[b][1])));
    const peak = half ? target.flops_16bit : target.flops_f32;
    return Math.max(target.bandwidth ? step[10] / target.bandwidth : 0, peak ? step[11] / peak : 0) * 1e9;
  }
  share(i) {
    const step = this.raw.steps[i], estimate = step[2] >= 0 ? this.raw.kernels[step[2]].estimate : null;
    if (estimate) return estimate.share;
    return step[12] > 0 ? Math.min(1, this.roof(i) / step[12]) : 0;
  }
  boundBy(k) {
    const estimate = this.raw.kernels[k].estimate;
    if (!estimate) return "not known";
    return ["memory", "arithmetic", "accesses", "instructions", "latency"].reduce((a, b) => estimate[b] > estimate[a] ? b : a);
  }
  total(column) { return this.raw.steps.reduce((sum, step) => sum + (step[6] ? 0 : step[column]), 0); }
  measuredTotal() { return this.ms ? this.raw.steps.reduce((sum, step, i) => sum + (step[6] ? 0 : this.ms[i] || 0), 0) * 1e6 : null; }
  /// Nanoseconds of all launches of a kernel in a run: [estimated, measured or null].
  kernelTime(k) {
    return [this.stepsOfKernel[k].reduce((sum, i) => sum + this.raw.steps[i][12], 0),
            this.ms ? this.stepsOfKernel[k].reduce((sum, i) => sum + (this.ms[i] || 0) * 1e6, 0) : null];
  }
  findModules() {
    const found = new Map();
    this.raw.before.forEach((node, i) => {
      const frames = this.text(node[4]) ? this.text(node[4]).split(";").map((frame) => frame.split(",")) : [];
      for (const frame of frames) {
        const path = frame.length > 1 ? frame[1] || "(model)" : frame[0];
        if (!found.has(path)) found.set(path, { path, type: frame.length > 2 ? frame[2] : "", nodes: [] });
        found.get(path).nodes.push(i);
      }
    });
    return [...found.values()];
  }
  findPeak() {
    const pieces = this.raw.memory.pieces, count = this.raw.steps.length;
    if (!pieces) return null;
    const change = new Float64Array(count + 1), live = new Float64Array(count);
    for (const [, bytes, first, last] of pieces) { change[first] += bytes; if (last + 1 <= count) change[last + 1] -= bytes; }
    let sum = 0, at = 0;
    for (let i = 0; i < count; ++i) { sum += change[i]; live[i] = sum; if (sum > live[at]) at = i; }
    return { live, at, bytes: count ? live[at] : 0 };
  }
}

function usersOf(rows) {
  const users = rows.map(() => []);
  rows.forEach((row, i) => { for (const argument of new Set(row[6])) users[argument].push(i); });
  return users;
}
/// Frames of a stack trace, innermost first: {place, code}.
function framesOf(trace) {
  const frames = [];
  for (const line of trace.split("\n")) {
    if (/^\s*File "/.test(line)) frames.unshift({ place: line.trim(), code: "" });
    else if (frames.length && line.trim()) frames[0].code += (frames[0].code ? " " : "") + line.trim();
  }
  return frames;
}
function lineOf(trace) {
  const frames = framesOf(trace);
  return frames.find((frame) => !/[/"]torch\//.test(frame.place)) || frames[0];
}
function bytesText(n) { return scaled(n, ["B", "kB", "MB", "GB", "TB"]); }
function countText(n) { return scaled(n, ["", "k", "M", "G", "T", "P"]); }
function timeText(ns) { return ns === null || ns === undefined ? "" : ns >= 1e9 ? digits(ns / 1e9) + " s" : ns >= 1e6 ? digits(ns / 1e6) + " ms" : digits(ns / 1e3) + " \u00b5s"; }
function scaled(n, units) {
  let at = 0;
  while (n >= 1000 && at + 1 < units.length) { n /= 1000; ++at; }
  return (digits(n) + " " + units[at]).trim();
}
function digits(n) { return Number.isInteger(n) && n < 1000 ? String(n) : n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2); }
function percent(share) { return Math.round(share * 100) + "%"; }
