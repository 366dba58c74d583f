// Elements, and lists of any length of which only the rows in sight are elements.
function make(tag, given, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given || {})) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) element.append(child);
  return element;
}

const kRow = 27;

class List {
  /// columns: {title, width, value(i), number, bar(i)}; choose(i) is called for the chosen row.
  constructor(section, choose) {
    this.section = section; this.choose = choose; this.order = []; this.at = -1; this.sorted = null;
    this.spacer = make("div");
    this.element = make("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": section.title,
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event) }, this.spacer);
    this.heads = make("div", { class: "heads" }, section.columns.map((column, c) =>
      make("button", { type: "button", class: "cell" + (column.number ? " number" : ""), style: "flex-grow:" + (column.width || 1),
        text: column.title, title: "Sort by " + column.title, onclick: () => this.sort(c) })));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }
  show(order) { this.order = order; if (this.sorted) this.applySort(); this.at = -1; this.element.scrollTop = 0; this.drawn = null; this.draw(); }
  sort(c) {
    const column = this.section.columns[c];
    this.sorted = this.sorted && this.sorted.c === c ? { c, sign: -this.sorted.sign } : { c, sign: column.number ? -1 : 1 };
    const chosen = this.order[this.at];
    this.applySort();
    this.at = this.order.indexOf(chosen);
    this.drawn = null; this.draw();
  }
  applySort() {
    const { c, sign } = this.sorted, column = this.section.columns[c], key = column.key || column.value;
    const keys = new Map(this.order.map((i) => [i, key(i)]));
    this.order = [...this.order].sort((a, b) => { const x = keys.get(a), y = keys.get(b); return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b; });
  }
  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / kRow) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey || !this.order.length) return;
    event.preventDefault();
    this.select(Math.max(0, Math.min(this.order.length - 1, this.at + moves[event.key])));
  }
  select(at) {
    this.at = at;
    const top = at * kRow, element = this.element;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + kRow > element.scrollTop + element.clientHeight) element.scrollTop = top + kRow - element.clientHeight;
    this.drawn = null; this.draw();
    this.choose(this.order[at]);
  }
  reveal(i) { const at = this.order.indexOf(i); if (at >= 0) this.select(at); return at >= 0; }
  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / kRow) - 4);
    const last = Math.min(this.order.length, Math.ceil((this.element.scrollTop + this.element.clientHeight) / kRow) + 4);
    if (this.drawn && this.drawn[0] === first && this.drawn[1] === last) return;
    this.drawn = [first, last];
    this.spacer.style.height = this.order.length * kRow + "px";
    const rows = [];
    for (let at = first; at < last; ++at) rows.push(this.row(at));
    this.spacer.replaceChildren(...rows);
    if (this.at >= first && this.at < last) this.element.setAttribute("aria-activedescendant", "row" + this.at);
    else this.element.removeAttribute("aria-activedescendant");
  }
  row(at) {
    const i = this.order[at];
    const row = make("div", { class: "row", role: "option", id: "row" + at, "aria-selected": String(at === this.at),
      "aria-setsize": this.order.length, "aria-posinset": at + 1, onclick: () => this.select(at) });
    row.style.top = at * kRow + "px";
    for (const column of this.section.columns) {
      const value = String(column.value(i));
      const cell = make("span", { class: "cell" + (column.number ? " number" : "") + (column.mono ? " mono" : "") + (column.bar ? " bar" : ""), text: value, title: value });
      cell.style.flexGrow = column.width || 1;
      if (column.tone) cell.classList.add(column.tone(i) || "cell");
      if (column.bar) cell.style.backgroundSize = Math.min(100, column.bar(i) * 100) + "% 17px";
      row.append(cell);
    }
    return row;
  }
}
