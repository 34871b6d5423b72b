"use strict";
// A review page: rubric items to click, points, comments; kept in this browser while working, saved as one JSON file.
(() => {
  const page = JSON.parse(document.getElementById("page").textContent);
  const cards = [...document.querySelectorAll(".answer")];
  const byAnswer = new Map(cards.map((card) => [card.dataset.answer, card]));
  const grader = document.getElementById("grader");
  const status = document.getElementById("status");
  const open = document.getElementById("open");
  const kept = `cst-review-${page.id}`;
  let current = 0;

  const items = (card) => [...card.querySelectorAll(".item")];
  const pressed = (card) => items(card).filter((item) => item.getAttribute("aria-pressed") === "true");
  const points = (card) => card.querySelector(".points");
  const comment = (card) => card.querySelector("textarea");
  const say = (text) => { status.textContent = text; };

  // Empty: not marked. NaN: something that is no number of points.
  function given(card) {
    const field = points(card);
    if (field.value.trim() === "" && !field.validity.badInput) return null;
    const value = Number(field.value);
    return field.validity.badInput || !Number.isFinite(value) || value < 0 || value > page.most ? NaN : value;
  }

  function refresh() {
    let done = 0;
    for (const card of cards) {
      const value = given(card);
      const good = value !== null && !Number.isNaN(value);
      done += good;
      card.classList.toggle("done", good);
      card.classList.toggle("invalid", Number.isNaN(value));
      card.querySelector(".status").textContent =
        value === null ? "not marked" : good ? `✓ ${value} of ${page.most}` : `expected 0 to ${page.most}`;
      card.hidden = open.checked && good && card !== cards[current];
    }
    document.getElementById("progress").textContent = `${done} of ${cards.length} marked`;
    document.getElementById("fill").style.width = `${cards.length ? (100 * done) / cards.length : 100}%`;
  }

  function marks() {
    const found = [];
    for (const card of cards) {
      const value = given(card);
      if (value === null || Number.isNaN(value)) continue;
      found.push({
        answer: card.dataset.answer,
        points: value,
        items: pressed(card).map((item) => item.dataset.item),
        comment: comment(card).value,
      });
    }
    return found;
  }

  function everything() {
    return {
      format: page.format, exercise: page.exercise, page: page.id, settles: page.settles,
      grader: grader.value.trim(), saved: new Date().toISOString(), marks: marks(),
    };
  }

  function keep() {
    try { localStorage.setItem(kept, JSON.stringify(everything())); } catch { /* a private window keeps nothing */ }
    refresh();
  }

  function take(saved) {
    let taken = 0;
    for (const mark of Array.isArray(saved.marks) ? saved.marks : []) {
      const card = byAnswer.get(mark.answer);
      if (!card) continue;
      points(card).value = mark.points;
      comment(card).value = mark.comment || "";
      for (const item of items(card)) item.setAttribute("aria-pressed", (mark.items || []).includes(item.dataset.item));
      taken += 1;
    }
    if (!grader.value && typeof saved.grader === "string") grader.value = saved.grader;
    refresh();
    return taken;
  }

  function toggle(card, item) {
    item.setAttribute("aria-pressed", item.getAttribute("aria-pressed") !== "true");
    const sum = pressed(card).reduce((total, one) => total + Number(one.dataset.points), 0);
    points(card).value = Math.min(sum, page.most);
    keep();
  }

  function go(to) {
    if (!cards.length) return;
    current = Math.max(0, Math.min(cards.length - 1, to));
    refresh();
    cards[current].scrollIntoView({ block: "center" });
    cards[current].focus({ preventScroll: true });
  }

  function save() {
    if (!grader.value.trim()) {
      grader.focus();
      say("Write your name first: it tells whose marks these are.");
      return;
    }
    const invalid = cards.find((card) => Number.isNaN(given(card)));
    if (invalid) {
      go(cards.indexOf(invalid));
      say(`One answer has points outside 0 to ${page.most}: correct it, then save.`);
      return;
    }
    const data = everything();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(data, null, 1)], { type: "application/json" }));
    link.download = `${page.exercise}_${data.grader.replace(/[^\p{L}\p{N}]+/gu, "-")}_${page.id.slice(0, 6)}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    const left = cards.length - data.marks.length;
    say(`Saved ${link.download}${left ? `; ${left} not marked yet` : "; all marked"}.`);
  }

  async function load(event) {
    const [file] = event.target.files;
    try {
      const saved = JSON.parse(await file.text());
      if (saved.format !== page.format || saved.exercise !== page.exercise) throw new Error("another page");
      say(`Loaded ${take(saved)} marks from ${file.name}.`);
      keep();
    } catch {
      say("This is no file saved by a page of this question.");
    }
    event.target.value = "";
  }

  cards.forEach((card, place) => {
    card.addEventListener("focusin", () => { current = place; });
    items(card).forEach((item) => item.addEventListener("click", () => toggle(card, item)));
    card.querySelector(".zero").addEventListener("click", () => {
      items(card).forEach((item) => item.setAttribute("aria-pressed", "false"));
      points(card).value = 0;
      keep();
    });
    points(card).addEventListener("input", keep);
    comment(card).addEventListener("input", keep);
  });
  grader.addEventListener("input", keep);
  open.addEventListener("change", refresh);
  document.getElementById("save").addEventListener("click", save);
  document.getElementById("load").addEventListener("change", load);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
    const item = /^[1-9]$/.test(event.key) && cards.length ? items(cards[current])[Number(event.key) - 1] : null;
    if (event.key === "j") go(current + 1);
    else if (event.key === "k") go(current - 1);
    else if (item) toggle(cards[current], item);
    else return;
    event.preventDefault();
  });

  try { take(JSON.parse(localStorage.getItem(kept) || "{}")); } catch { refresh(); }
  refresh();
})();
