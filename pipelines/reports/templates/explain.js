// Shows where the mass of a word or sentence goes: marks, lines, a sentence about it. Also chooses
// the system and sorts tables. Without it the page shows the best system's texts and tables.
"use strict";

(function () {
  const MAX_DRAWN = 60; // lines of one unit
  const MAX_TOLD = 4; // partners in the sentence about it
  const THINNEST = 1.3;
  const WIDEST = 16; // between two sentences
  const WIDEST_AT_TEXT = 5;
  const WIDEST_OVER_TEXT = 3; // where the texts are not side by side
  const SHOWN_IF_NARROW = 6; // lines and labels, there
  const SVG = "http://www.w3.org/2000/svg";
  const host = document.getElementById("panel");
  const kept = new Map(); // the nodes of systems that were shown
  const plans = new WeakMap(); // by their element

  document.documentElement.classList.replace("no-js", "js");

  // One plan: what is where, which unit is looked at, what is held

  class Plan {
    constructor(element) {
      this.element = element;
      this.stage = element.querySelector(".stage");
      this.links = element.querySelector(".links");
      this.readout = element.querySelector(".readout");
      this.marked = [];
      this.held = null;
      const data = JSON.parse(element.querySelector(".plan-data").textContent);
      Object.assign(this, data);
      this.units = { c: new Map(), o: new Map() };
      this.flowsOf = { c: new Map(), o: new Map() };
      for (const side of "co") {
        const pane = this.pane(side);
        for (const unit of pane.querySelectorAll("[data-p]")) {
          push(this.units[side], Number(unit.dataset.p), unit);
        }
        const first = pane.querySelector(".u");
        if (first) first.tabIndex = 0;
        for (const bar of pane.querySelectorAll("button.u")) if (bar !== first) bar.tabIndex = -1;
        pane.querySelector(".text").addEventListener("scroll", () => this.redraw());
      }
      this.flows.forEach(([ours, theirs], k) => {
        push(this.flowsOf.c, ours, k);
        push(this.flowsOf.o, theirs, k);
      });
      new ResizeObserver(() => this.redraw()).observe(this.stage);
      this.rest();
    }

    pane(side) {
      return this.stage.querySelector(`.pane[data-side="${side}"]`);
    }

    isWide() {
      const [left, right] = ["c", "o"].map((side) => this.pane(side).getBoundingClientRect());
      return right.left >= left.right;
    }

    // What to show

    showUnit(unit) {
      const side = unit.closest(".pane").dataset.side;
      if (unit.dataset.why) {
        this.mark([[unit, "is-active"]]);
        this.draw([]);
        this.tell([["b", unit.textContent], ` does not count: ${unit.dataset.why}.`]);
        return;
      }
      this.showPoint(side, Number(unit.dataset.p), unit);
    }

    showPoint(side, point, unit) {
      const other = side === "c" ? "o" : "c";
      const own = this.units[side].get(point);
      const from = unit ? [unit] : own;
      const flows = (this.flowsOf[side].get(point) ?? []).slice();
      flows.sort((one, two) => this.flows[two][2] - this.flows[one][2]);
      const lines = [];
      const marks = from.map((each) => [each, "is-active"]);
      for (const k of flows) {
        const [ours, theirs, mass, cost, level] = this.flows[k];
        const partners = this.units[other].get(side === "c" ? theirs : ours);
        const share = mass / (own.length * partners.length);
        for (const partner of partners) {
          marks.push([partner, "is-partner"]);
          for (const each of from) {
            const ends = side === "c" ? [each, partner] : [partner, each];
            if (lines.length < MAX_DRAWN) lines.push({ ends, mass: share, cost, level });
          }
        }
      }
      this.mark(marks);
      this.draw(lines, true);
      this.tell(this.sentence(side, own, flows, from.length));
    }

    showFlow(k) {
      const [ours, theirs, mass, cost, level] = this.flows[k];
      const [from, to] = [this.units.c.get(ours), this.units.o.get(theirs)];
      const share = mass / (from.length * to.length);
      const lines = from.flatMap((one) =>
        to.map((two) => ({ ends: [one, two], mass: share, cost, level }))
      );
      this.mark([...from, ...to].map((each) => [each, "is-active"]));
      this.draw(lines.slice(0, MAX_DRAWN), true);
      this.tell([
        ["b", name(from[0])], " → ", ["b", name(to[0])],
        `: mass ${mass.toFixed(4)} at cost ${cost.toFixed(2)}, adds ${(mass * cost).toFixed(4)} ` +
          `to the distance of ${this.distance.toFixed(4)}.`,
      ]);
    }

    rest() {
      if (this.held) {
        this.held();
        return;
      }
      const choice = document.querySelector('[name="lines"]:checked').value;
      const order = this.flows.map((flow, k) => k);
      if (choice === "heaviest") order.sort((one, two) => this.flows[two][2] - this.flows[one][2]);
      const shown = this.isWide() ? this.shown : SHOWN_IF_NARROW;
      const lines = order.slice(0, choice === "none" ? 0 : shown).map((k) => {
        const [ours, theirs, mass, cost, level] = this.flows[k];
        const ends = [this.units.c.get(ours)[0], this.units.o.get(theirs)[0]];
        return { ends, mass, cost, level };
      });
      this.mark([]);
      this.draw(lines);
      const what = choice === "heaviest" ? "carry most mass" : "add most to the distance";
      this.tell([
        lines.length
          ? `Lines: the ${lines.length} of ${this.flows.length} moves that ${what}.`
          : "Point at a word or a number.",
      ]);
    }

    hold(action, unit) {
      const isSame = unit.classList.contains("is-held");
      this.letGo();
      if (isSame) {
        this.rest();
        return;
      }
      this.held = action;
      unit.classList.add("is-held");
      action();
      this.bringIntoView();
    }

    letGo() {
      this.held = null;
      this.element.querySelectorAll(".is-held").forEach((each) => each.classList.remove("is-held"));
    }

    // Each text scrolls by itself: show the end of the first line that is out of sight.
    bringIntoView() {
      for (const end of this.lines[0]?.ends ?? []) {
        const box = end.closest(".text");
        const [inner, outer] = [end.getBoundingClientRect(), box.getBoundingClientRect()];
        if (inner.top < outer.top || inner.bottom > outer.bottom) {
          box.scrollTop += inner.top - outer.top - outer.height / 3;
        }
      }
    }

    // Marks, words, lines

    mark(marks) {
      for (const unit of this.marked) unit.classList.remove("is-active", "is-partner");
      this.marked = marks.map(([unit, mark]) => {
        unit.classList.add(mark);
        return unit;
      });
    }

    sentence(side, own, flows, nShown) {
      const total = flows.reduce((sum, k) => sum + this.flows[k][2], 0);
      const added = flows.reduce((sum, k) => sum + this.flows[k][2] * this.flows[k][3], 0);
      const times = own.length > 1 ? ` (${own.length} times, mass ${total.toFixed(4)} in all)` : "";
      const parts = [
        ["b", name(own[0])], `${times}, mass ${((total * nShown) / own.length).toFixed(4)}, `,
        side === "c" ? "moves to " : "is reached from ",
      ];
      flows.slice(0, MAX_TOLD).forEach((k, place) => {
        const [ours, theirs, mass, cost] = this.flows[k];
        const partner = side === "c" ? this.units.o.get(theirs) : this.units.c.get(ours);
        if (place) parts.push(", ");
        parts.push(["b", name(partner[0])]);
        parts.push(` (${mass.toFixed(4)} at ${cost.toFixed(2)})`);
      });
      const more = flows.length - MAX_TOLD;
      if (more > 0) parts.push(` and ${more} more`);
      parts.push(`; adds ${added.toFixed(4)} to the distance of ${this.distance.toFixed(4)}.`);
      return parts;
    }

    tell(parts) {
      this.readout.replaceChildren(
        ...parts.map((part) => {
          if (typeof part === "string") return part;
          const element = document.createElement(part[0]);
          element.textContent = part[1];
          return element;
        })
      );
    }

    draw(lines, isActive = false) {
      this.lines = lines;
      this.isActive = isActive;
      this.redraw();
    }

    redraw() {
      if (this.waiting) return;
      this.waiting = requestAnimationFrame(() => {
        this.waiting = 0;
        const isWide = this.isWide();
        const routes = this.routes(isWide);
        const free = routes.some((route) => route.isFree);
        const atText = isWide ? WIDEST_AT_TEXT : WIDEST_OVER_TEXT;
        const widest = Math.max(...this.lines.map((line) => line.mass));
        const paths = this.lines.map((line, k) => {
          const { path, isBeyond, isFree } = routes[k];
          const width = (line.mass / widest) * (free ? WIDEST : atText);
          const limit = isFree ? WIDEST : atText;
          return make("path", {
            d: path,
            class: `c${line.level}${isBeyond ? " beyond" : ""}`,
            "stroke-width": Math.min(limit, Math.max(THINNEST, width)).toFixed(2),
          });
        });
        this.links.classList.toggle("is-active", this.isActive);
        this.links.replaceChildren(...paths, ...this.labels(routes, isWide));
      });
    }

    routes(isWide) {
      const frame = this.stage.getBoundingClientRect();
      const panes = { c: paneBox(this.pane("c"), frame), o: paneBox(this.pane("o"), frame) };
      return this.lines.map((line) => {
        const ends = line.ends.map((unit, k) => place(unit, panes["co"[k]], frame, k, isWide));
        return {
          ...(isWide ? across(ends, panes) : down(ends)),
          isFree: isWide && ends.every((end) => end.isBar),
          isBeyond: ends.some((end) => end.isBeyond),
        };
      });
    }

    // A line's cost is written on it, where no label is yet; one without room has none.
    labels(routes, isWide) {
      const taken = [];
      const labels = [];
      const last = isWide ? routes.length : SHOWN_IF_NARROW; // more would cover the texts
      routes.slice(0, last).forEach(({ spots }, k) => {
        const spot = spots.find((each) =>
          taken.every(([x, y]) => Math.abs(x - each[0]) > 36 || Math.abs(y - each[1]) > 14)
        );
        if (!spot) return;
        taken.push(spot);
        const [x, y] = [spot[0].toFixed(1), (spot[1] + 4).toFixed(1)];
        const label = make("text", { class: `c${this.lines[k].level}`, x, y });
        label.textContent = this.lines[k].cost.toFixed(2);
        labels.push(label);
      });
      return labels;
    }
  }

  // Geometry, in pixels of the stage

  function paneBox(pane, frame) {
    const box = pane.querySelector(".text").getBoundingClientRect();
    return {
      left: box.left - frame.left,
      right: box.right - frame.left,
      top: box.top - frame.top,
      bottom: box.bottom - frame.top,
    };
  }

  // Where a line touches a unit: beside a sentence's number, under a word.
  function place(unit, pane, frame, k, isWide) {
    const box = unit.getClientRects()[0] ?? unit.getBoundingClientRect();
    const isBar = unit.localName === "button";
    const isUpper = k === 0;
    let x, y;
    if (isWide) {
      x = (isBar === isUpper ? box.right : box.left) - frame.left;
      y = (isBar ? (box.top + box.bottom) / 2 : box.bottom + 2) - frame.top;
    } else if (isBar) {
      x = box.left - frame.left;
      y = (box.top + box.bottom) / 2 - frame.top;
    } else {
      x = (box.left + box.right) / 2 - frame.left;
      y = (isUpper ? box.bottom : box.top) - frame.top;
    }
    const within = Math.min(Math.max(y, pane.top), pane.bottom);
    return { x, y: within, isBar, isBeyond: within !== y };
  }

  const SPOTS = [0.5, 0.36, 0.64, 0.24, 0.76, 0.14, 0.86];

  // Under the word's line to the edge of the text, across, under the other word's line.
  function across([one, two], panes) {
    const [left, right] = [panes.c.right, panes.o.left];
    const middle = (left + right) / 2;
    const path =
      `M${f(one.x)} ${f(one.y)}H${f(left)}C${f(middle)} ${f(one.y)} ${f(middle)} ${f(two.y)} ` +
      `${f(right)} ${f(two.y)}H${f(two.x)}`;
    const spots = SPOTS.map((t) => [
      (1 - t) ** 3 * left + 3 * t * (1 - t) * middle + t ** 3 * right,
      one.y + (3 * t * t - 2 * t ** 3) * (two.y - one.y),
    ]);
    return { path, spots };
  }

  function down([one, two]) {
    const reach = one.isBar && two.isBar ? -18 : 0; // along the margin
    const middle = (one.y + two.y) / 2;
    const path = reach
      ? `M${f(one.x)} ${f(one.y)}C${f(one.x + reach)} ${f(one.y)} ${f(two.x + reach)} ${f(two.y)} ` +
        `${f(two.x)} ${f(two.y)}`
      : `M${f(one.x)} ${f(one.y)}C${f(one.x)} ${f(middle)} ${f(two.x)} ${f(middle)} ` +
        `${f(two.x)} ${f(two.y)}`;
    const spots = SPOTS.map((t) => {
      const bend = 3 * t * t - 2 * t ** 3;
      const x = reach ? one.x + reach / 2 : one.x + bend * (two.x - one.x);
      return [Math.max(x, 10), one.y + t * (two.y - one.y)];
    });
    return { path, spots };
  }

  function f(number) {
    return number.toFixed(1);
  }

  function make(element, attributes) {
    const node = document.createElementNS(SVG, element);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }

  function push(lists, key, value) {
    if (!lists.has(key)) lists.set(key, []);
    lists.get(key).push(value);
  }

  function name(unit) {
    if (unit.localName !== "button") return unit.textContent;
    return `sentence ${unit.textContent}`;
  }

  function letAllGo() {
    for (const element of host.querySelectorAll(".plan")) {
      plans.get(element)?.letGo();
      plans.get(element)?.rest();
    }
  }

  function planOf(node) {
    return plans.get(node.closest(".plan"));
  }

  // Looking: the pointer, the keyboard, the tables

  function look(target) {
    const plan = planOf(target);
    if (!plan) return null;
    const unit = target.closest(".u");
    if (unit) return { plan, unit, action: () => plan.showUnit(unit) };
    const listed = target.closest("[data-unit]");
    if (listed) {
      const [side, point] = [listed.dataset.unit[0], Number(listed.dataset.unit.slice(1))];
      return { plan, unit: listed, action: () => plan.showPoint(side, point) };
    }
    const flow = target.closest("[data-flow]");
    if (!flow) return null;
    return { plan, unit: flow, action: () => plan.showFlow(Number(flow.dataset.flow)) };
  }

  function onLook(event) {
    if (event.pointerType === "touch") return; // a tap arrives as a click
    const found = look(event.target);
    if (found) found.action();
  }

  function onLeave(event) {
    const found = look(event.target);
    if (found && !found.unit.contains(event.relatedTarget)) found.plan.rest();
  }

  function onKey(event) {
    const unit = event.target.closest(".u");
    if (event.key === "Escape") {
      letAllGo();
      return;
    }
    if (!unit) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      look(unit).plan.hold(look(unit).action, unit);
      return;
    }
    const next = neighbour(unit, event.key);
    if (!next) return;
    event.preventDefault();
    step(next);
  }

  // One unit of each text is a stop of the tab key: the one that was looked at last.
  function step(unit) {
    for (const each of unit.closest(".pane").querySelectorAll(".u[tabindex='0']")) {
      each.tabIndex = -1;
    }
    unit.tabIndex = 0;
    if (unit.localName !== "button") unit.setAttribute("role", "button");
    unit.focus();
  }

  function neighbour(unit, key) {
    const units = [...unit.closest(".pane").querySelectorAll(".u")];
    const at = units.indexOf(unit);
    const sentences = [...unit.closest(".pane").querySelectorAll(".sentence")];
    const sentence = sentences.indexOf(unit.closest(".sentence"));
    switch (key) {
      case "ArrowRight": return units[at + 1];
      case "ArrowLeft": return units[at - 1];
      case "ArrowDown": return sentences[sentence + 1]?.querySelector(".u");
      case "ArrowUp": return sentences[sentence - 1]?.querySelector(".u");
      case "Home": return units[0];
      case "End": return units.at(-1);
      default: return null;
    }
  }

  function onClick(event) {
    const heading = event.target.closest("th[aria-sort]");
    const chooser = event.target.closest(".choose");
    const effect = event.target.closest("[data-effect]");
    if (heading && event.target.closest("button")) sortBy(heading);
    else if (chooser) choose(chooser);
    else if (effect) showEffect(effect);
    else {
      const found = look(event.target);
      if (!found) return;
      if (found.unit.matches(".u")) step(found.unit);
      found.plan.hold(found.action, found.unit);
    }
  }

  // Sentences left out

  function showEffect(target) {
    const panel = target.closest(".plan");
    const number = target.dataset.effect;
    panel.querySelectorAll(".is-shown, tr.is-active").forEach((each) => {
      each.classList.remove("is-shown", "is-active");
    });
    const bar = panel.querySelector(`.bar[data-effect="${number}"]`);
    bar.closest(".sentence").classList.add("is-shown");
    panel.querySelector(`tr[data-effect="${number}"]`).classList.add("is-active");
  }

  // Systems: what was shown is put aside as it is

  function choose(button) {
    const now = document.querySelector('.choose[aria-pressed="true"]');
    if (now === button) return;
    now.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", "true");
    const aside = document.createDocumentFragment();
    aside.append(...host.childNodes);
    kept.set(now.dataset.panel, aside);
    const number = button.dataset.panel;
    const fresh = document.getElementById(`panel-${number}`);
    host.append(kept.get(number) ?? fresh.content.cloneNode(true));
    start();
  }

  function start() {
    for (const element of host.querySelectorAll(".plan")) {
      if (plans.has(element)) plans.get(element).rest(); // other lines may have been chosen since
      else if (element.querySelector(".plan-data")) plans.set(element, new Plan(element));
    }
  }

  // Sorting: by the number behind a cell, else by its text; undefined cells stay last.

  function sortKey(row, column) {
    const data = row.cells[column].querySelector("data");
    const text = row.cells[column].textContent.trim();
    if (data) return Number(data.value);
    return text === "–" ? null : text.toLowerCase();
  }

  function sortBy(heading) {
    const column = heading.cellIndex;
    const before = heading.getAttribute("aria-sort");
    const first = heading.classList.contains("numeric") ? "descending" : "ascending";
    const turned = before === "ascending" ? "descending" : "ascending";
    const direction = before === "none" ? first : turned;
    for (const each of heading.parentElement.querySelectorAll("[aria-sort]")) {
      each.setAttribute("aria-sort", each === heading ? direction : "none");
    }
    const sign = direction === "ascending" ? 1 : -1;
    const body = heading.closest("table").tBodies[0];
    const keyed = [...body.rows].map((row) => [sortKey(row, column), row]);
    keyed.sort(([one], [two]) => {
      if (one === null || two === null) return (one === null) - (two === null);
      return sign * (typeof one === "string" ? one.localeCompare(two) : one - two);
    });
    body.append(...keyed.map(([, row]) => row));
  }

  document.addEventListener("pointerover", onLook);
  document.addEventListener("pointerout", onLeave);
  document.addEventListener("focusin", onLook);
  document.addEventListener("focusout", onLeave);
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  document.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("change", (event) => {
    if (event.target.name === "lines") letAllGo();
  });
  start();
})();
