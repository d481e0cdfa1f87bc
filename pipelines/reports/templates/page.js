// Sorts tables and copies commands. A page says all it has to say without it.
"use strict";

(function () {
  // By the number behind a cell, else by its text; what is undefined stays last.
  function keyOf(row, column) {
    let end = 0;
    const cell = [...row.cells].find((each) => (end += each.colSpan) > column);
    const data = cell.querySelector("data");
    const text = cell.textContent.trim();
    if (data) return Number(data.value);
    if (text === "\u2013" || cell.classList.contains("undefined")) return null;
    const number = Number(text.replace("\u2212", "-").replace(/[,<\s]/g, ""));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  }

  function sortBy(heading) {
    const body = heading.closest("table").tBodies[0];
    const keyed = [...body.rows].map((row) => [keyOf(row, heading.cellIndex), row]);
    const isText = keyed.some(([key]) => typeof key === "string");
    const before = heading.getAttribute("aria-sort");
    const isRising = before === "none" ? isText : before === "descending";
    for (const each of heading.parentElement.querySelectorAll("[aria-sort]")) {
      each.setAttribute("aria-sort", "none");
    }
    heading.setAttribute("aria-sort", isRising ? "ascending" : "descending");
    keyed.sort(([one], [two]) => {
      if (one === null || two === null) return (one === null) - (two === null);
      return (isRising ? 1 : -1) * (isText ? one.localeCompare(two) : one - two);
    });
    body.append(...keyed.map(([, row]) => row));
  }

  document.documentElement.classList.replace("no-js", "js");
  document.addEventListener("click", ({ target }) => {
    const heading = target.closest("th[aria-sort]");
    if (heading && target.closest("button")) sortBy(heading);
    const command = target.closest("[data-copy]");
    if (command) {
      navigator.clipboard.writeText(command.dataset.copy).then(() => (command.textContent = "Copied"));
    }
  });
})();
