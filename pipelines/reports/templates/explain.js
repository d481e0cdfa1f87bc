// Shows in the picture where the mass of the word, sentence or row that is pointed at goes.
"use strict";

(function () {
  const MARKS = "is-active is-partner is-shown is-looking".split(" ");

  function clear() {
    for (const name of MARKS) {
      document.querySelectorAll(`.${name}`).forEach((each) => each.classList.remove(name));
    }
  }

  function show(mark) {
    const plan = mark.closest(".plan");
    const picture = plan.querySelector(".picture svg");
    const { p, ends } = mark.dataset;
    const flows = picture.querySelectorAll(p ? `[data-ends~="${p}"]` : `[data-ends="${ends}"]`);
    const points = p ? [p] : (ends ?? "").split(" ");
    const partners = [...flows].flatMap((flow) => flow.dataset.ends.split(" "));
    const pick = (point) => picture.querySelectorAll(`[data-p="${point}"]`);
    flows.forEach((flow) => flow.classList.add("is-shown"));
    partners.forEach((point) => pick(point).forEach((each) => each.classList.add("is-partner")));
    points.forEach((point) => pick(point).forEach((each) => each.classList.add("is-active")));
    if (flows.length) picture.classList.add("is-looking");
    const said = mark.querySelector("title") ?? (p ? pick(p)[0] : flows[0])?.querySelector("title");
    plan.querySelector(".readout").textContent = said?.textContent ?? "";
  }

  function look({ target, type }) {
    const mark = target.closest("[data-p], [data-ends], [data-why]");
    if (mark || type === "pointerover") clear();
    if (mark) show(mark);
  }

  document.addEventListener("pointerover", look);
  document.addEventListener("focusin", look);
})();
