// The planner: controls in, three questions to the server, charts and tables out. State lives in the address.

import { draw, methodName, methodsIn } from "./charts.js";

const $ = (id) => document.getElementById(id);
const SLIDERS = [
  { name: "epsilon", label: "Epsilon", unit: "ε", low: 0.01, high: 20, start: 1, log: true, digits: 3, least: 0.001, most: 100 },
  { name: "rows", label: "Rows", low: 100, high: 1e8, start: 32561, log: true, whole: true, digits: 3, least: 2, most: 1e12 },
  { name: "features", label: "Features", low: 1, high: 1000, start: 14, log: true, whole: true, digits: 3, least: 1, most: 1e5 },
  { name: "trees", label: "Trees", low: 1, high: 500, start: null, log: true, whole: true, digits: 3, least: 1, most: 2000 },
  { name: "depth", label: "Depth", low: 1, high: 8, start: null, whole: true, least: 1, most: 8 },
  { name: "share", label: "Budget for splits", low: 0.05, high: 0.95, start: null, digits: 3, least: 0.01, most: 0.99 },
];
const STEPS = 400;
const MORE = [ // about the table: small numbers without a slider
  { name: "categories", label: "Categories among the features", start: 0, least: 0, most: 1e5 },
  { name: "learned", label: "Columns without public bounds", start: 0, least: 0, most: 100001 },
  { name: "unit_rows", label: "Rows of one person, at most", start: 1, least: 1, most: 10000 },
];
const NOTHING = { recipe: "auto", classes: 2, neighbours: "add_remove", delta: null, ...Object.fromEntries(MORE.map((m) => [m.name, m.start])), ...Object.fromEntries(SLIDERS.map((s) => [s.name, s.start])) };
const LEAF = { leaf_rows: 50, leaf_error: 1 }; // how wrong a leaf with this many rows may be
let recipes = [];
let leaf = { ...LEAF };
let facts = { ...NOTHING };
let shown = null; // the last answer drawn
let kept = null; // plan A: { facts, answer }

// ---- numbers

const tidy = (value, slider) => (slider.whole ? Math.round(value) : Number(value));
const toPlace = (value, s) => {
  const part = s.log ? Math.log(value / s.low) / Math.log(s.high / s.low) : (value - s.low) / (s.high - s.low);
  return Math.round(STEPS * Math.min(1, Math.max(0, part)));
};
const fromPlace = (place, s) => {
  const part = place / STEPS;
  const value = s.log ? s.low * (s.high / s.low) ** part : s.low + part * (s.high - s.low);
  return tidy(s.digits ? Number(value.toPrecision(s.digits)) : value, s);
};
const short = (x, digits = 4) => {
  if (x === null || x === undefined) return "";
  if (typeof x !== "number") return String(x);
  if (Number.isInteger(x) && Math.abs(x) < 1e9) return x.toLocaleString("en");
  const size = Math.abs(x);
  return size && (size < 1e-3 || size >= 1e7) ? String(Number(x.toPrecision(3)).toExponential()) : Number(x.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
};
const classesText = (n) => (n === 0 ? "a number" : n === 2 ? "one of two classes" : `one of ${n} classes`);
const percent = (x) => `${(100 * x).toFixed(1)} %`;

// ---- controls

function buildSliders() {
  for (const s of SLIDERS) {
    const field = document.createElement("div");
    field.className = "field pair";
    const label = Object.assign(document.createElement("label"), { htmlFor: s.name, textContent: `${s.label} ` });
    if (s.unit) label.append(Object.assign(document.createElement("span"), { className: "unit", textContent: s.unit }));
    const number = Object.assign(document.createElement("input"), { type: "number", id: s.name, name: s.name, min: s.least, max: s.most, step: s.whole ? 1 : "any", required: true });
    const range = Object.assign(document.createElement("input"), { type: "range", id: `${s.name}-slider`, min: 0, max: s.log || !s.whole ? STEPS : s.high - s.low, step: 1 });
    range.setAttribute("aria-label", `${s.label}, slider`);
    const steps = s.log || !s.whole;
    range.addEventListener("input", () => {
      const place = Number(range.value);
      let value = steps ? fromPlace(place, s) : s.low + place;
      // A key moves one place; where whole numbers lie further apart than places, it moves to the next number.
      if (s.whole && value === facts[s.name]) value += Math.sign(place - (steps ? toPlace(value, s) : value - s.low));
      change({ [s.name]: Math.min(s.high, Math.max(s.low, value)) });
    });
    number.addEventListener("input", () => {
      const value = Number(number.value);
      const good = number.value !== "" && number.checkValidity() && Number.isFinite(value);
      number.setAttribute("aria-invalid", String(!good));
      if (good) change({ [s.name]: value }, number);
      else complain(`${s.label} must be ${s.whole ? "a whole number" : "a number"} between ${s.least} and ${s.most}.`);
    });
    field.append(label, number, range);
    $("sliders").append(field);
  }
}

function buildMore() {
  for (const m of MORE) {
    const field = document.createElement("div");
    field.className = "field pair";
    const number = Object.assign(document.createElement("input"), { type: "number", id: m.name, name: m.name, min: m.least, max: m.most, step: 1, required: true });
    number.addEventListener("input", () => {
      const good = number.value !== "" && number.checkValidity();
      number.setAttribute("aria-invalid", String(!good));
      if (good) change({ [m.name]: Number(number.value) }, number);
      else complain(`${m.label}: a whole number between ${m.least} and ${m.most}, please.`);
    });
    field.append(Object.assign(document.createElement("label"), { htmlFor: m.name, textContent: m.label }), number);
    $("more").append(field);
  }
}

function showFacts(except) {
  const recipe = recipes.find((r) => r.name === facts.recipe);
  const own = shown?.answer.facts.recipe === facts.recipe ? shown.answer.facts : {}; // what a rule has chosen
  for (const s of SLIDERS) {
    const number = $(s.name), range = $(`${s.name}-slider`);
    const value = facts[s.name] ?? (s.name === "share" ? Number((recipe?.share ?? 0.5).toPrecision(3)) : own[s.name] ?? recipe?.[s.name]);
    if (number !== except) { number.value = value ?? ""; number.setAttribute("aria-invalid", "false"); }
    range.value = value === undefined || value === null ? 0 : s.log || !s.whole ? toPlace(value, s) : value - s.low;
    range.setAttribute("aria-valuetext", value === undefined || value === null ? "none" : short(value));
  }
  const without = { share: recipe?.divided === false, trees: facts.recipe === "linear", depth: facts.recipe === "linear" };
  for (const [id, off] of Object.entries(without)) {
    $(id).disabled = $(`${id}-slider`).disabled = off;
    $(id).parentElement.hidden = off; // what a recipe does not have is not asked
  }
  for (const m of MORE) if ($(m.name) !== except) { $(m.name).value = facts[m.name]; $(m.name).setAttribute("aria-invalid", "false"); }
  if (![...$("classes").options].some((o) => o.value === String(facts.classes))) $("classes").append(new Option(classesText(facts.classes), facts.classes));
  $("classes").value = facts.classes;
  $("choose").hidden = facts.recipe !== "auto" || (facts.trees === null && facts.depth === null);
  $("recipe").value = facts.recipe;
  $("neighbours").value = facts.neighbours;
  if ($("delta") !== except) { $("delta").value = facts.delta ?? ""; $("delta").setAttribute("aria-invalid", "false"); }
  $("recipe-note").textContent = recipe ? `${recipe.summary} (${recipe.paper})` : "";
  $("unpin").hidden = kept === null;
  $("pin").textContent = kept === null ? "Keep as plan A" : "Replace plan A";
}

function readDelta(text) {
  const match = text.trim().match(/^([\d.eE+-]+)(?:\s*\/\s*([\d.eE+-]+))?$/);
  const value = match ? Number(match[1]) / Number(match[2] ?? 1) : NaN;
  return value > 0 && value <= 0.5 ? value : NaN;
}

// ---- the address

function fromAddress() {
  const given = new URLSearchParams(location.search);
  const read = (prefix) => {
    const found = { ...NOTHING };
    for (const name of Object.keys(NOTHING)) {
      const text = given.get(prefix + name);
      if (text === null) continue;
      found[name] = name === "recipe" || name === "neighbours" ? text : Number(text);
    }
    return found;
  };
  facts = read("");
  for (const name of Object.keys(LEAF)) leaf[name] = given.has(name) ? Number(given.get(name)) : LEAF[name];
  return [...given.keys()].some((name) => name.startsWith("a_")) ? read("a_") : null;
}

function toAddress() {
  const query = new URLSearchParams();
  const write = (prefix, from) => {
    for (const [name, value] of Object.entries(from)) if (value !== null && (prefix || value !== NOTHING[name])) query.set(prefix + name, value);
  };
  write("", facts);
  for (const [name, value] of Object.entries(leaf)) if (value !== LEAF[name]) query.set(name, value);
  if (kept) write("a_", kept.facts);
  const text = query.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
}

// ---- asking

async function ask(question, about, signal) {
  const reply = await fetch(`/api/${question}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(about), signal });
  const answer = await reply.json();
  if (!reply.ok) throw new Error(answer.error);
  return answer;
}

let running = new AbortController();
let quickBusy = false;
let quickNext = false;
let pause = 0;

function change(part, except = null) {
  facts = { ...facts, ...part };
  showFacts(except);
  toAddress();
  refresh();
}

let wished = 0;

async function wish() {
  // The plan stays; only the question about its leaves is asked again, and only the last answer is shown.
  const mine = ++wished, { signal } = running;
  say("answer-leaf", "computing …");
  try {
    const found = await ask("afford", { ...facts, ...leaf }, signal);
    if (mine === wished && !signal.aborted) showLeaf(found);
  } catch (error) {
    if (error.name !== "AbortError" && mine === wished) complain(error.message);
  }
}

function showWish() {
  $("leaf-rows").value = leaf.leaf_rows;
  $("leaf-error").value = leaf.leaf_error;
  for (const id of ["leaf-rows", "leaf-error"]) $(id).setAttribute("aria-invalid", "false");
}

function refresh() {
  running.abort();
  clearTimeout(pause);
  quickNext = true;
  if (!quickBusy) quickly();
}

async function quickly() {
  // One quick question at a time; while it is under way only the latest position of a slider waits.
  quickBusy = true;
  while (quickNext) {
    quickNext = false;
    running = new AbortController();
    const asked = facts;
    try {
      busy(true);
      const answer = await ask("quick", asked);
      if (quickNext) { await show(answer, false); continue; }
      complain("");
      await show(answer, false);
      if (!quickNext) { const { signal } = running; pause = setTimeout(() => exactly(asked, signal), 80); }
    } catch (error) {
      if (!quickNext) { complain(error.message); busy(false); }
    }
  }
  quickBusy = false;
}

async function exactly(asked, signal) {
  try {
    const answer = await ask("exact", asked, signal);
    if (signal.aborted) return;
    await show(answer, true);
    busy(false);
    const rest = await ask("rest", asked, signal);
    if (signal.aborted) return;
    showRest(rest);
    const afforded = await ask("afford", { ...asked, ...leaf }, signal);
    if (!signal.aborted) showLeaf(afforded);
  } catch (error) {
    if (error.name !== "AbortError" && !signal.aborted) { complain(error.message); busy(false); }
  }
}

// ---- showing

function busy(on) {
  document.body.classList.toggle("busy", on);
  $("computing").hidden = !on;
  $("state").textContent = on ? "By Rényi accounting; the tightest accountant is at work …" : "By the tightest certified accountant.";
  for (const id of ["copy-statement", "copy-python", "copy-command", "download", "pin"]) $(id).disabled = on;
  $("results").setAttribute("aria-busy", String(on));
}

function complain(message) {
  $("problem").textContent = message;
  $("problem").hidden = !message;
}

function table(id, columns, rows, best = () => false) {
  const element = $(id);
  const head = document.createElement("thead"), body = document.createElement("tbody");
  const line = (cells, tag) => {
    const row = document.createElement("tr");
    cells.forEach((text, i) => {
      const cell = document.createElement(tag === "td" && i === 0 ? "th" : tag);
      cell.scope = tag === "th" ? "col" : "row";
      if (tag === "td" && i > 0) cell.removeAttribute("scope");
      if (i > 0 && columns[i][1]) cell.className = "number";
      cell.textContent = text;
      row.append(cell);
    });
    return row;
  };
  head.append(line(columns.map((c) => c[0]), "th"));
  rows.forEach((cells, i) => { const row = line(cells, "td"); if (best(i)) row.className = "best"; body.append(row); });
  element.replaceChildren(head, body);
}

function card(title, value, note) {
  const box = document.createElement("div");
  box.className = "card";
  const dt = Object.assign(document.createElement("dt"), { textContent: title });
  const dd = Object.assign(document.createElement("dd"), { textContent: value });
  if (note) dd.append(Object.assign(document.createElement("small"), { textContent: note }));
  box.append(dt, dd);
  return box;
}

const errorAt = (answer, rows) => {
  const points = answer.leaf;
  const i = points.findIndex((p) => p.rows >= rows);
  if (i <= 0) return points.at(i === 0 ? 0 : -1)?.error;
  const a = points[i - 1], b = points[i], t = Math.log(rows / a.rows) / Math.log(b.rows / a.rows);
  return Math.exp((1 - t) * Math.log(a.error) + t * Math.log(b.error));
};
const noiseOf = (r) => `${r.noise === "sigma" ? "σ" : r.noise === "epsilon" ? "ε" : r.noise} = ${short(r.scale)}`;

function showCards(answer, final) {
  const cards = answer.releases.map((r) => card(`Noise of each ${r.label}`, noiseOf(r), `${r.times === 1 ? "once" : `${short(r.times)} times`}, ${r.cost}`));
  const some = Math.max(20, Math.min(500, Math.round(answer.facts.rows / 100)));
  if (answer.leaf.length) cards.push(card(`A leaf of ${short(some)} rows is off by`, short(errorAt(answer, some), 2), `typically; ${answer.unit}`));
  cards.push(card("Guarantee", `ε = ${answer.words.epsilon}`, `δ = ${answer.words.delta}`));
  if (final) cards.push(card("The tightest accountant saves", percent(answer.saved), "of the noise Rényi accounting asks for"));
  $("cards").replaceChildren(...cards);
}

// ---- questions: text, with the numbers in it set strong

function say(id, ...parts) {
  $(id).replaceChildren(...parts.map((part) => (typeof part === "string" ? part : Object.assign(document.createElement("strong"), { textContent: part[0] }))));
}

function sayNoise(answer) {
  const listed = answer.releases.flatMap((r, i) => [i ? ", " : "", [noiseOf(r)], r.times === 1 ? ` for the ${r.label}` : ` for each of ${short(r.times)} ${r.label} releases`]);
  say("answer-noise", ...listed, ".");
  if (busyNow()) for (const id of ["answer-epsilon", "answer-leaf", "answer-method"]) say(id, "computing …");
}

function showLeaf(found) {
  if (found.error === null) { say("answer-leaf", "A linear model has no leaves."); return; }
  const most = found.trees === 0 ? "not even one tree" : found.trees >= 2000 ? "2,000 trees or more" : `${short(found.trees)} ${found.trees === 1 ? "tree" : "trees"}`;
  say("answer-leaf", "With this plan it is off by about ", [short(found.error, 3)], ` (${found.unit}). You can afford `, [most], ".");
}

const busyNow = () => document.body.classList.contains("busy");

function showChoice(answer) {
  say("what", "This plan trains ", [answer.what], ".");
  $("why").hidden = answer.why.length === 0;
  table("why-table", [["Setting"], ["Value"], ["Why"]], answer.why.map((r) => [r.name, r.value, r.why]));
}

async function show(answer, final) {
  shown = { answer, final };
  if (answer.facts.recipe === facts.recipe && facts.trees === null) showFacts(document.activeElement); // the rule has chosen
  showChoice(answer);
  showCards(answer, final);
  sayNoise(answer);
  const a = kept?.answer;
  const methods = methodsIn(answer.curves);
  const lines = methods.flatMap((m) => answer.curves[m].map((p) => ({ ...p, method: m, name: methodName(m) })));
  const best = methods[0];
  const pinnedLine = a ? methodsIn(a.curves).slice(0, 1).flatMap((m) => a.curves[m].map((p) => ({ ...p, method: m }))) : [];
  const counts = answer.curves[best].map((p) => p.trees);
  const own = answer.facts.trees ?? counts.at(-2); // the last point lies beyond the plan
  const target = [{ epsilon: answer.facts.epsilon, trees: own, label: `the target, ${short(answer.facts.epsilon)}` }];
  const theme = document.documentElement.dataset.theme;
  const known = [...new Set([...methods, "optimal", "rdp"])].filter((m) => m in answer.curves || (!final && m === "optimal" && !answer.curves.gdp));
  const guess = (rows) => rows.map((p) => ({ ...p, guess: 1 - p.alarm }));
  const floor = (rows) => rows.filter((p) => p.delta > 1e-14);
  $("attack").textContent = answer.words.attack;
  $("cautions").textContent = answer.cautions.join(" ");
  $("cautions").hidden = !answer.cautions.length;
  $("computing").hidden = final;

  const steps = answer.steps;
  $("price-title").textContent = `What more ${steps} cost`;
  $("leaf-panel").hidden = answer.leaf.length === 0; // a linear model has no leaves
  $("budget-panel").classList.toggle("wide", answer.leaf.length === 0);
  $("leaf-lead").textContent = `The typical error that noise puts on a leaf weight (${answer.unit}), by the rows in the leaf.`;
  table("price-table", [[steps[0].toUpperCase() + steps.slice(1), 1], ...methods.map((m) => [methodName(m), 1])], counts.map((t, i) => [short(t), ...methods.map((m) => short(answer.curves[m][i]?.epsilon))]));
  table("leaf-table", [["Rows in the leaf", 1], [`Error (${answer.unit})`, 1], ...(a ? [["Plan A", 1]] : [])], answer.leaf.map((p) => [short(p.rows), short(p.error, 3), ...(a ? [short(errorAt(a, p.rows), 3)] : [])]));
  table("budget-table", [["Release"], ["Times", 1], ["Noise"], ["Budget", 1]], answer.releases.map((r) => [r.label, short(r.times), noiseOf(r), percent(r.spend)]));
  table("profile-table", [["Epsilon", 1], ["Delta", 1]], answer.profile.map((p) => [short(p.epsilon), short(p.delta, 3)]));
  table("tradeoff-table", [["Wrongly accused", 1], ["Not recognised, at least", 1], ["Recognised, at most", 1]], answer.tradeoff.map((p) => [percent(p.alarm), percent(p.missed), percent(1 - p.missed)]));
  if (final) {
    $("statement").textContent = answer.statement;
    $("command").textContent = answer.command;
  }
  showComparison();

  const bars = answer.releases.map((r, place) => ({ label: r.label, spend: r.spend, plan: "this plan", place }));
  if (a) bars.push(...a.releases.map((r, place) => ({ label: r.label, spend: r.spend, plan: "plan A", place })));
  const end = lines.filter((p) => p.method === best).at(-1);
  await Promise.all([
    draw("price", { lines, pinned: pinnedLine, target }, { key: theme + known + steps, argument: { methods: known, steps }, label: `Line chart: epsilon by number of ${steps}. By ${methodName(best)}, ${short(own)} ${steps} cost ${short(answer.facts.epsilon)} and ${end.trees} ${steps} ${short(end.epsilon)}.` }),
    answer.leaf.length && draw("leaf", { lines: answer.leaf, pinned: a?.leaf ?? [] }, { key: theme + answer.unit, argument: answer.unit, label: `Line chart: a leaf of 50 rows is off by ${short(errorAt(answer, 50), 2)}, one of 5000 rows by ${short(errorAt(answer, 5000), 2)}.` }),
    draw("budget", { bars }, { key: theme + bars.length, label: `Bar chart: ${bars.map((b) => `${b.label} ${percent(b.spend)}${b.plan === "plan A" ? " in plan A" : ""}`).join(", ")}.` }),
    draw("profile", { lines: floor(answer.profile), pinned: a ? floor(a.profile) : [], target: [{ epsilon: answer.facts.epsilon, delta: answer.facts.delta }] }, { key: theme, label: `Line chart: delta falls from ${short(answer.profile[0].delta, 2)} at epsilon 0 to ${short(answer.facts.delta, 2)} at epsilon ${short(answer.facts.epsilon)}.` }),
    draw("tradeoff", { lines: guess(answer.tradeoff), pinned: a?.tradeoff ?? [] }, { key: theme, label: answer.words.attack }),
  ]);
  performance.mark(final ? "exact" : "quick"); // for benchmarks/planner.py
}

function showRest(rest) {
  const best = rest.methods.find((m) => m.method === rest.tightest);
  const others = rest.methods.filter((m) => m.epsilon !== null && m.epsilon > best.epsilon * 1.0005);
  say("answer-method", [best.name], ...(others.length ? [": for the same noise it states ", ...others.flatMap((m, i) => [i ? ", " : "", [percent(1 - best.epsilon / m.epsilon)], ` less ε than ${m.name}`])] : [": the others that can price this plan agree with it"]), ".");
  const known = rest.noise.flatMap((n, i) => [i ? ", " : "", `${short(n.factor)} × this noise: `, [`ε ≤ ${short(n.epsilon, 3)}`]]);
  say("answer-epsilon", "This noise: ", [`ε = ${short(best.epsilon)}`], ...(known.length ? ["; ", ...known, " (by Rényi accounting)"] : []), ".");
  table("methods-table", [["Method"], ["Epsilon", 1], ["Remark"]], rest.methods.map((m) => [m.name, short(m.epsilon, 5), m.note]), (i) => rest.methods[i].method === rest.tightest);
  const parts = Object.fromEntries(rest.parts.map((p) => [p.part, p]));
  const { answer } = shown;
  table("budget-table", [["Release"], ["Times", 1], ["Noise"], ["Budget", 1], ["Epsilon alone", 1], ["Without it", 1]], answer.releases.map((r) => [r.label, short(r.times), noiseOf(r), percent(r.spend), short(parts[r.label]?.alone), short(parts[r.label]?.rest)]));
}

function showComparison() {
  $("compare").hidden = kept === null;
  if (!kept?.answer || !shown) return;
  const a = kept.answer, b = shown.answer;
  const relation = (text) => $("neighbours").querySelector(`option[value="${text}"]`)?.textContent ?? text;
  const known = { neighbours: ["Neighbours", relation], classes: ["Predicts", classesText] };
  const rows = [["Trains", a.what, b.what]];
  for (const name of Object.keys(NOTHING)) {
    const [label, text] = known[name] ?? [[...SLIDERS, ...MORE].find((s) => s.name === name)?.label ?? name[0].toUpperCase() + name.slice(1), short];
    rows.push([label, text(a.facts[name]), text(b.facts[name])]);
  }
  const labels = [...new Set([...a.releases, ...b.releases].map((r) => r.label))];
  const noise = (from, label) => { const r = from.releases.find((x) => x.label === label); return r ? `${short(r.times)} × ${noiseOf(r)}` : ""; };
  for (const label of labels) rows.push([`Releases: ${label}`, noise(a, label), noise(b, label)]);
  if (a.leaf.length && b.leaf.length) for (const size of [50, 500, 5000]) rows.push([`Error of a leaf of ${short(size)} rows`, short(errorAt(a, size), 3), short(errorAt(b, size), 3)]);
  table("compare-table", [["Fact"], ["Plan A"], ["This plan"]], rows.map((r) => r.map(String)));
  [...$("compare-table").tBodies[0].rows].forEach((row, i) => { if (rows[i][1] !== rows[i][2]) row.className = "best"; });
}

// ---- buttons

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    $("copied").textContent = `${what} copied.`;
  } catch {
    $("copied").textContent = "The browser refused to copy; select the text instead.";
  }
}

function setTheme(choice) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = choice === "system" ? (dark ? "dark" : "light") : choice;
  document.documentElement.dataset.choice = choice;
  $("theme").textContent = `Theme: ${choice}`;
  try { localStorage.setItem("theme", choice); } catch { /* private windows */ }
  if (shown) show(shown.answer, shown.final);
}

function wire() {
  $("facts").addEventListener("submit", (event) => event.preventDefault());
  $("recipe").addEventListener("change", () => {
    const { name, trees, depth } = recipes.find((r) => r.name === $("recipe").value);
    change({ recipe: name, trees, depth, share: null });
  });
  $("choose").addEventListener("click", () => { change({ trees: null, depth: null }); $("trees").focus(); });
  $("classes").addEventListener("change", () => change({ classes: Number($("classes").value) }));
  $("neighbours").addEventListener("change", () => change({ neighbours: $("neighbours").value }));
  $("delta").addEventListener("input", () => {
    const text = $("delta").value;
    const value = text.trim() === "" ? null : readDelta(text);
    const bad = value !== null && Number.isNaN(value);
    $("delta").setAttribute("aria-invalid", String(bad));
    if (bad) complain("Delta must be a number between 0 and 0.5, such as 1e-6 or 1/32561.");
    else change({ delta: value }, $("delta"));
  });
  for (const [id, name] of [["leaf-rows", "leaf_rows"], ["leaf-error", "leaf_error"]]) {
    $(id).addEventListener("input", () => {
      const good = $(id).value !== "" && $(id).checkValidity();
      $(id).setAttribute("aria-invalid", String(!good));
      if (!good) { complain(`${$(id).getAttribute("aria-label")}: a ${name === "leaf_rows" ? "whole" : "positive"} number, please.`); return; }
      complain("");
      leaf = { ...leaf, [name]: Number($(id).value) };
      toAddress();
      wish();
    });
  }
  $("pin").addEventListener("click", () => { kept = { facts: { ...facts }, answer: shown.answer }; showFacts(); toAddress(); show(shown.answer, shown.final); });
  $("unpin").addEventListener("click", () => { kept = null; showFacts(); toAddress(); show(shown.answer, shown.final); $("pin").focus(); });
  $("reset").addEventListener("click", () => { kept = null; leaf = { ...LEAF }; showWish(); change({ ...NOTHING }); });
  $("copy-statement").addEventListener("click", () => copy(shown.answer.statement, "The sentence"));
  $("copy-python").addEventListener("click", () => copy(shown.answer.python, "Python"));
  $("copy-command").addEventListener("click", () => copy(shown.answer.command, "The command"));
  $("download").addEventListener("click", () => {
    const file = new Blob([`${JSON.stringify(shown.answer.plan, null, 2)}\n`], { type: "application/json" });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: "plan.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  $("theme").addEventListener("click", () => {
    const order = ["system", "light", "dark"];
    setTheme(order[(order.indexOf(document.documentElement.dataset.choice) + 1) % 3]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (document.documentElement.dataset.choice === "system") setTheme("system"); });
}

async function begin() {
  let choice = "system";
  try { choice = localStorage.getItem("theme") ?? "system"; } catch { /* private windows */ }
  setTheme(["system", "light", "dark"].includes(choice) ? choice : "system");
  buildSliders();
  buildMore();
  wire();
  recipes = (await (await fetch("/api/recipes")).json()).recipes;
  $("recipe").replaceChildren(...recipes.map((r) => Object.assign(document.createElement("option"), { value: r.name, textContent: r.name })));
  const pinnedFacts = fromAddress();
  showFacts();
  showWish();
  refresh();
  if (pinnedFacts) {
    try {
      kept = { facts: pinnedFacts, answer: await ask("exact", pinnedFacts) };
      showFacts();
      toAddress();
      if (shown) show(shown.answer, shown.final);
    } catch (error) { complain(`Plan A: ${error.message}`); }
  }
}

begin();
