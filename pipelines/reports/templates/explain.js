// Shows in the picture where the mass of a word or sentence goes, and says it in words. Also chooses
// the system and sorts tables. Without it the page shows the best system's picture and tables.
"use strict";

(function () {
  const MAX_TOLD = 4; // partners in the sentence about it
  const host = document.getElementById("panel");
  const kept = new Map(); // the nodes of systems that were shown
  const plans = new WeakMap(); // by their element

  document.documentElement.classList.replace("no-js", "js");

  // One plan: the picture, its moves, what is held. A point is "c5" or "o5", by its side.

  class Plan {
    constructor(element) {
      this.element = element;
      this.picture = element.querySelector(".picture svg");
      this.readout = element.querySelector(".readout");
      Object.assign(this, JSON.parse(element.querySelector(".plan-data").textContent));
      this.held = null;
      this.rest();
    }

    nameOf(point) {
      return this.names[point[0]][Number(point.slice(1))];
    }

    showWhy(word) {
      this.mark([], [], []);
      this.tell([["b", word.textContent], ` does not count: ${word.dataset.why}.`]);
    }

    showPoint(point) {
      const own = point[0] === "c" ? 0 : 1; // the place of its side in a move
      const other = "oc"[own];
      const moves = [...this.flows.keys()].filter(
        (k) => this.flows[k][own] === Number(point.slice(1))
      );
      moves.sort((one, two) => this.flows[two][2] - this.flows[one][2]);
      const partners = moves.map((k) => `${other}${this.flows[k][1 - own]}`);
      this.mark([point], partners, moves);
      const total = moves.reduce((sum, k) => sum + this.flows[k][2], 0);
      const added = moves.reduce((sum, k) => sum + this.flows[k][2] * this.flows[k][3], 0);
      const parts = [
        ["b", this.nameOf(point)],
        `, mass ${total.toFixed(4)}, ${own ? "is reached from " : "moves to "}`,
      ];
      moves.slice(0, MAX_TOLD).forEach((k, place) => {
        const [, , mass, cost] = this.flows[k];
        parts.push(place ? ", " : "", ["b", this.nameOf(partners[place])]);
        parts.push(` (${mass.toFixed(4)} at ${cost.toFixed(2)})`);
      });
      if (moves.length > MAX_TOLD) parts.push(` and ${moves.length - MAX_TOLD} more`);
      this.tell([...parts, `; adds ${added.toFixed(4)} ${this.toDistance()}`]);
    }

    showFlow(k) {
      const [ours, theirs, mass, cost] = this.flows[k];
      const ends = [`c${ours}`, `o${theirs}`];
      this.mark(ends, [], [k]);
      this.tell([
        ["b", this.nameOf(ends[0])], " → ", ["b", this.nameOf(ends[1])],
        `: mass ${mass.toFixed(4)} at cost ${cost.toFixed(2)}, adds ${(mass * cost).toFixed(4)} ` +
          this.toDistance(),
      ]);
    }

    toDistance() {
      return `to the distance of ${this.distance.toFixed(4)}.`;
    }

    rest() {
      if (this.held) {
        this.held();
        return;
      }
      this.mark([], [], []);
      this.tell(["Point at a word, a bar or a row of a table."]);
    }

    hold(found) {
      const isSame = found.node.classList.contains("is-held");
      this.letGo();
      if (isSame) {
        this.rest();
        return;
      }
      this.held = found.action;
      found.node.classList.add("is-held");
      found.action();
    }

    letGo() {
      this.held = null;
      this.element.querySelectorAll(".is-held").forEach((each) => each.classList.remove("is-held"));
    }

    mark(points, partners, moves) {
      const classes = [
        ["is-active", points.map((point) => `[data-p="${point}"]`)],
        ["is-partner", partners.map((point) => `[data-p="${point}"]`)],
        ["is-shown", moves.map((k) => `[data-flow="${k}"]`)],
      ];
      for (const [name, selectors] of classes) {
        this.picture.querySelectorAll(`.${name}`).forEach((each) => each.classList.remove(name));
        if (!selectors.length) continue;
        const found = this.picture.querySelectorAll(selectors.join());
        found.forEach((each) => each.classList.add(name));
      }
      this.picture.classList.toggle("is-looking", points.length > 0);
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
  }

  // Looking: the pointer, the keyboard, the tables

  function look(target) {
    const plan = plans.get(target.closest(".plan"));
    const node = target.closest("[data-p], [data-why], [data-flow]");
    if (!plan || !node) return null;
    const { p, why, flow } = node.dataset;
    let action = () => plan.showFlow(Number(flow));
    if (p) action = () => plan.showPoint(p);
    if (why) action = () => plan.showWhy(node);
    return { plan, node, action };
  }

  function onLook(event) {
    if (event.pointerType === "touch") return; // a tap arrives as a click
    look(event.target)?.action();
  }

  function onLeave(event) {
    const found = look(event.target);
    if (found && !found.node.contains(event.relatedTarget)) found.plan.rest();
  }

  function onKey(event) {
    if (event.key !== "Escape") return;
    for (const element of host.querySelectorAll(".plan")) {
      plans.get(element)?.letGo();
      plans.get(element)?.rest();
    }
  }

  function onClick(event) {
    const heading = event.target.closest("th[aria-sort]");
    const chooser = event.target.closest(".choose");
    const found = look(event.target);
    if (heading && event.target.closest("button")) sortBy(heading);
    else if (chooser) choose(chooser);
    else if (found) found.plan.hold(found);
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
    for (const element of host.querySelectorAll(".plan:has(.plan-data)")) {
      if (!plans.has(element)) plans.set(element, new Plan(element));
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
  start();
})();
