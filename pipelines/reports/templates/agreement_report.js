// What the reader chooses, sorting, and the charts. Without it the page shows every table.
"use strict";

(function () {
  const CHOICES = ["level", "aspect", "coefficient", "metric", "test"];
  const LABEL = "_label";
  const root = document.documentElement;
  const charts = []; // functions that show a choice

  root.classList.replace("no-js", "js");

  // Choices: the controls hold them, the address after "#" carries them.

  function control(name) {
    return document.querySelectorAll(`[name="${name}"]`);
  }

  function choice(name) {
    const found = [...control(name)];
    const radio = found.find((each) => each.type !== "radio" || each.checked);
    return radio ? radio.value : "";
  }

  // What there is not, as an old address may say, leaves the choice as it is.
  function choose(name, value) {
    for (const each of control(name)) {
      if (each.type === "radio") each.checked ||= each.value === value; // unchecks the others
      else if ([...each.options].some((option) => option.value === value)) each.value = value;
    }
  }

  function chosen() {
    return Object.fromEntries(CHOICES.map((name) => [name, choice(name)]));
  }

  function restore() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    for (const name of CHOICES) if (wanted.has(name)) choose(name, wanted.get(name));
  }

  function show() {
    const now = chosen();
    for (const panel of document.querySelectorAll(".panel")) {
      const matches = Object.entries(panel.dataset).every(([name, value]) => now[name] === value);
      panel.classList.toggle("is-chosen", matches);
    }
    for (const note of document.querySelectorAll(".nothing-chosen")) {
      note.hidden = note.parentElement.querySelector(".panel.is-chosen") !== null;
    }
    for (const row of document.querySelectorAll("tr[data-metric]")) {
      row.classList.toggle("is-chosen", row.dataset.metric === now.metric);
    }
    charts.forEach((update) => update(now));
  }

  function changed() {
    const now = Object.entries(chosen()).filter(([, value]) => value);
    history.replaceState(null, "", `#${new URLSearchParams(now)}`);
    show();
  }

  // Sorting: by the number behind a cell, else by its text; undefined cells stay last.

  function sortKey(row, column) {
    const spans = [...row.cells];
    let position = 0;
    const cell = spans.find((each) => (position += each.colSpan) > column);
    const data = cell.querySelector("data");
    if (cell.classList.contains("undefined")) return null;
    if (data) return Number(data.value);
    const text = cell.textContent.trim();
    if (column === 0) return text.toLowerCase();
    const number = Number(text.replace("\u2212", "-").replace(/[,<\s]/g, ""));
    return Number.isNaN(number) ? null : number;
  }

  function compare(one, other) {
    return typeof one === "string" ? one.localeCompare(other) : one - other;
  }

  function sortBy(heading) {
    const column = heading.cellIndex;
    const body = heading.closest("table").tBodies[0];
    const before = heading.getAttribute("aria-sort");
    const first = column === 0 ? "ascending" : "descending";
    const direction = before === "none" ? first : before === "ascending" ? "descending" : "ascending";
    const sign = direction === "ascending" ? 1 : -1;
    for (const each of heading.parentElement.querySelectorAll("[aria-sort]")) {
      each.setAttribute("aria-sort", each === heading ? direction : "none");
    }
    const keyed = [...body.rows].map((row) => [sortKey(row, column), row]);
    keyed.sort(([one], [other]) => {
      if (one === null || other === null) return (one === null) - (other === null);
      return sign * compare(one, other);
    });
    body.append(...keyed.map(([, row]) => row));
  }

  // Charts: rows are kept as lists with each distinct text once.

  function unpack({ columns, rows, texts }) {
    return rows.map((row) =>
      Object.fromEntries(
        columns.map((name, index) => [name, name in texts ? texts[name][row[index]] : row[index]])
      )
    );
  }

  function stored(name) {
    const element = document.getElementById(`data-${name}`);
    return element ? JSON.parse(element.textContent) : null;
  }

  // What a Vega parameter shall be: the choice, or the words for it that the menu shows.
  function parameter(name, now) {
    if (!name.endsWith(LABEL)) return now[name];
    const menu = control(name.slice(0, -LABEL.length))[0];
    return menu.selectedOptions[0].textContent;
  }

  // A chart takes the width it finds, so one in a folded part is drawn when that is opened.
  function drawWhenSeen(holder) {
    const folded = holder.closest("details:not([open])");
    if (!folded) return draw(holder);
    folded.addEventListener("toggle", () => draw(holder).then(show), { once: true });
    return null;
  }

  async function draw(holder) {
    const { spec, data, matching } = stored(holder.dataset.chart);
    const rows = unpack(data);
    const parameters = spec.params.map((each) => each.name);
    const note = holder.closest("figure").querySelector(".chart-note");
    spec.datasets = { rows };
    const { view } = await vegaEmbed(holder, spec, {
      ast: true, // no `eval`, which the page's policy forbids
      actions: false,
      renderer: "svg",
    });
    charts.push(function update(now) {
      const shown = rows.filter((row) => matching.every((name) => row[name] === now[name]));
      const choice = matching.map((name) => now[name]).join(", ");
      const isUntested =
        parameters.includes("test") && shown.every((row) => row[`p_${now.test}`] === null);
      holder.hidden = shown.length === 0;
      note.hidden = shown.length > 0 && !isUntested;
      note.textContent =
        shown.length === 0
          ? `Not computed for ${choice}.`
          : `This test was not made for ${choice}, so faint numbers mean nothing here.`;
      parameters.forEach((name) => view.signal(name, parameter(name, now)));
      return view.runAsync();
    });
  }

  // Paper gets what is chosen, then an appendix.
  function openAppendix() {
    document.querySelectorAll(".appendix").forEach((each) => (each.open = true));
  }

  document.addEventListener("change", (event) => {
    if (CHOICES.includes(event.target.name)) changed();
  });
  document.addEventListener("click", (event) => {
    const heading = event.target.closest("th[aria-sort]");
    if (heading && event.target.closest("button")) sortBy(heading);
  });
  document.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("beforeprint", openAppendix);
  window.addEventListener("hashchange", () => {
    restore();
    show();
  });

  restore();
  show();
  Promise.all([...document.querySelectorAll("[data-chart]")].map(drawWhenSeen)).then(() => {
    show();
    root.dataset.charts = "drawn";
  });
})();
