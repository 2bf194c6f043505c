// The charts: Vega-Lite specifications with named data, drawn once and then only given new numbers.

const NAMES = {
  optimal: "Optimal adaptive composition",
  gdp: "Gaussian DP, exact",
  rdp: "Rényi DP (Theorem 1)",
  zcdp: "Concentrated DP (zCDP)",
  pld: "Privacy-loss distributions",
  kov: "Optimal composition of pure DP",
  advanced: "Advanced composition",
  pure: "Pure DP: a plain sum",
};
const ORDER = Object.keys(NAMES);
const DASHES = { optimal: [1, 0], gdp: [1, 0], rdp: [7, 3], zcdp: [2, 3], pld: [8, 3, 2, 3], kov: [10, 4], advanced: [4, 4], pure: [1, 3] };

export const methodName = (method) => NAMES[method] ?? method;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function config() {
  const ink = colour("ink"), soft = colour("soft"), grid = colour("grid");
  return {
    aria: false,
    background: "transparent",
    font: "Inter, 'Segoe UI', system-ui, -apple-system, Arial, sans-serif",
    view: { stroke: null },
    axis: {
      gridColor: grid, domainColor: colour("line"), tickColor: colour("line"), labelColor: soft, titleColor: soft,
      titleFontWeight: 500, labelFontSize: 11.5, titleFontSize: 12, titlePadding: 8, labelPadding: 5, tickSize: 4,
    },
    legend: { labelColor: ink, labelFontSize: 12, symbolType: "stroke", symbolStrokeWidth: 2.5, symbolSize: 500, labelLimit: 260, orient: "bottom", title: null, columnPadding: 18 },
    line: { strokeWidth: 2.25, strokeCap: "round" },
    text: { color: soft, fontSize: 11.5 },
  };
}

const TENS = Array.from({ length: 25 }, (_, i) => Number(`1e${i - 12}`));

const pinned = (x, y, extra = {}) => ({
  data: { name: "pinned" },
  mark: { type: "line", stroke: colour("pinned"), strokeDash: [3, 3], strokeWidth: 1.75 },
  encoding: { x, y, detail: { field: "method", type: "nominal" }, ...extra },
});

function series(methods) {
  const colours = { optimal: "optimal", gdp: "gdp", rdp: "rdp", zcdp: "zcdp", pld: "pld", pure: "pure", kov: "pld", advanced: "other" };
  return {
    color: {
      field: "method", type: "nominal", sort: ORDER,
      scale: { domain: methods, range: methods.map((m) => colour(colours[m])) },
      legend: { labelExpr: labels(methods), columns: { expr: "width > 520 ? 3 : 1" } },
    },
    strokeDash: { field: "method", type: "nominal", sort: ORDER, scale: { domain: methods, range: methods.map((m) => DASHES[m]) }, legend: { labelExpr: labels(methods), columns: { expr: "width > 520 ? 3 : 1" } } },
  };
}

const labels = (methods) => methods.reduceRight((rest, m) => `datum.label == '${m}' ? '${NAMES[m]}' : ${rest}`, "datum.label");

function priceSpec({ methods, steps }) {
  const x = { field: "trees", type: "quantitative", title: steps, scale: { nice: false }, axis: { grid: false, tickMinStep: 1 } };
  const y = { field: "epsilon", type: "quantitative", title: "epsilon", scale: { zero: true } };
  return {
    height: 290,
    layer: [
      { data: { name: "target" }, mark: { type: "rule", stroke: colour("soft"), strokeDash: [1, 3] }, encoding: { y: { field: "epsilon", type: "quantitative" } } },
      { data: { name: "target" }, mark: { type: "rule", stroke: colour("soft"), strokeDash: [1, 3] }, encoding: { x: { field: "trees", type: "quantitative" } } },
      { data: { name: "target" }, mark: { type: "text", align: "left", dx: 4, dy: -7, baseline: "bottom", x: 0 }, encoding: { y: { field: "epsilon", type: "quantitative" }, text: { field: "label" } } },
      pinned(x, y),
      { data: { name: "lines" }, mark: { type: "line", point: { filled: true, size: 28 } }, encoding: { x, y, ...series(methods), tooltip: [{ field: "name", title: "by" }, { field: "trees", title: steps }, { field: "epsilon", format: ".4~f" }] } },
    ],
  };
}

function leafSpec(unit) {
  const x = { field: "rows", type: "quantitative", title: "rows in the leaf", scale: { type: "log", nice: false }, axis: { grid: false, format: "~s", values: TENS } };
  const y = { field: "error", type: "quantitative", title: `error of the weight (${unit})`, scale: { type: "log" }, axis: { format: "~g", values: TENS } };
  return {
    height: 250,
    layer: [
      pinned(x, y),
      { data: { name: "lines" }, mark: { type: "line", stroke: colour("optimal") }, encoding: { x, y } },
      { data: { name: "lines" }, mark: { type: "point", filled: true, size: 24, color: colour("optimal") }, encoding: { x, y, tooltip: [{ field: "rows", format: "," }, { field: "error", format: ".3~g" }] } },
    ],
  };
}

function budgetSpec() {
  return {
    height: { step: 30 },
    data: { name: "bars" },
    encoding: {
      y: { field: "label", type: "nominal", title: null, sort: { field: "place", op: "min" }, axis: { domain: false, ticks: false, labelFontSize: 13, labelColor: colour("ink") } },
      yOffset: { field: "plan", type: "nominal" },
      x: { field: "spend", type: "quantitative", title: "part of the budget", axis: { format: "%", tickCount: 5 }, scale: { domain: [0, 1] } },
    },
    layer: [
      { mark: { type: "bar", cornerRadiusEnd: 4 }, encoding: { color: { field: "plan", type: "nominal", scale: { domain: ["this plan", "plan A"], range: [colour("optimal"), colour("pinned")] }, legend: null }, tooltip: [{ field: "plan" }, { field: "label", title: "release" }, { field: "spend", format: ".1%" }] } },
      { mark: { type: "text", align: "left", dx: 5, fontSize: 12 }, encoding: { text: { field: "spend", format: ".0%" } } },
    ],
  };
}

function profileSpec() {
  const x = { field: "epsilon", type: "quantitative", title: "epsilon", scale: { nice: false, zero: true }, axis: { grid: false, tickCount: 5 } };
  const y = { field: "delta", type: "quantitative", title: "delta", scale: { type: "log", clamp: true }, axis: { format: "~e", tickCount: 6 } };
  return {
    height: 250,
    layer: [
      pinned(x, y),
      { data: { name: "lines" }, mark: { type: "line", stroke: colour("optimal") }, encoding: { x, y } },
      { data: { name: "lines" }, mark: { type: "point", filled: true, size: 24, color: colour("optimal") }, encoding: { x, y, tooltip: [{ field: "epsilon", format: ".3~f" }, { field: "delta", format: ".2~e" }] } },
      { data: { name: "target" }, mark: { type: "point", shape: "diamond", size: 150, strokeWidth: 2.5, color: colour("rdp") }, encoding: { x, y } },
    ],
  };
}

function tradeoffSpec() {
  const axis = { format: ".0%", tickCount: 5 };
  const x = { field: "alarm", type: "quantitative", title: "wrongly accused (type I error)", scale: { domain: [0, 1] }, axis: { ...axis, grid: false } };
  const y = { field: "missed", type: "quantitative", title: "not recognised (type II error)", scale: { domain: [0, 1] }, axis };
  return {
    height: 250,
    layer: [
      { data: { values: [{ alarm: 0, missed: 1 }, { alarm: 1, missed: 0 }] }, mark: { type: "line", stroke: colour("soft"), strokeDash: [1, 3], strokeWidth: 1.5 }, encoding: { x, y } },
      { data: { name: "lines" }, mark: { type: "area", color: colour("rdp"), opacity: 0.14 }, encoding: { x, y, y2: { field: "guess" } } },
      pinned(x, y),
      { data: { name: "lines" }, mark: { type: "line", stroke: colour("optimal") }, encoding: { x, y } },
      { data: { name: "lines" }, mark: { type: "point", opacity: 0, size: 140 }, encoding: { x, y, tooltip: [{ field: "alarm", format: ".0%", title: "wrongly accused" }, { field: "missed", format: ".1%", title: "not recognised, at least" }] } },
      { data: { values: [{ alarm: 0.97, missed: 0.97, text: "dotted: blind guessing, nothing is revealed" }] }, mark: { type: "text", align: "right", baseline: "top" }, encoding: { x, y, text: { field: "text" } } },
    ],
  };
}

const SPECS = { price: priceSpec, leaf: leafSpec, budget: budgetSpec, profile: profileSpec, tradeoff: tradeoffSpec };
const views = new Map();

export async function draw(name, datasets, { key = "", argument, label } = {}) {
  const element = document.getElementById(name);
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", label);
  const known = views.get(name);
  if (known?.key === key) {
    const { view } = await known.ready;
    for (const [set, rows] of Object.entries(datasets)) view.data(set, rows);
    await view.runAsync();
    return;
  }
  const spec = {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json", width: "container", config: config(),
    autosize: { type: "fit-x", contains: "padding" }, datasets, ...SPECS[name](argument),
  };
  const options = { ast: true, actions: false, defaultStyle: false, renderer: "svg", logLevel: 1, tooltip: { disableDefaultStyle: true, theme: "custom" } };
  const inner = element.firstElementChild ?? element.appendChild(document.createElement("div"));
  const ready = window.vegaEmbed(inner, spec, options);
  views.set(name, { key, ready });
  await ready;
  inner.setAttribute("aria-hidden", "true"); // the label says it in words, the table below in numbers
  if (known) (await known.ready).finalize();
}

export const methodsIn = (curves) => ORDER.filter((m) => curves[m]);
