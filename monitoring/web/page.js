// Draws what the server tells. Whatever comes from users becomes text, never markup.
"use strict";

const WINDOW = 60; // s
const WIDTH = 1200, LANE = 16, LOAD = 40; // of a drawing, of one unit, of the curve below
// Okabe and Ito's colours, which most colour-blind people tell apart
const COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#0072b2", "#d55e00", "#999999"];
const colours = new Map();
const $ = (id) => document.getElementById(id);

function html(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function svg(tag, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function colour(task) {
  if (!colours.has(task)) colours.set(task, COLOURS[colours.size % COLOURS.length]);
  return colours.get(task);
}

// Gives every grant lanes of its own while it lasts, lowest first, so that pieces fill the pool without overlap.
function withLanes(bars, capacity) {
  const until = new Array(capacity).fill(0);
  return bars.slice().sort((a, b) => a.start - b.start).map((bar) => {
    const lanes = [];
    for (let lane = 0; lane < capacity && lanes.length < Math.max(1, bar.units); lane++) {
      if (until[lane] <= bar.start + 0.02) lanes.push(lane);
    }
    for (const lane of lanes) until[lane] = bar.end ?? Infinity;
    return { ...bar, lanes };
  });
}

function runs(lanes) {
  const found = [];
  for (const lane of lanes) {
    const last = found[found.length - 1];
    if (last && last[0] + last[1] === lane) last[1]++; else found.push([lane, 1]);
  }
  return found;
}

function load(bars, now, capacity, top) {
  const points = [];
  for (let step = 0; step <= 240; step++) {
    const at = now - WINDOW + step * WINDOW / 240;
    const held = bars.reduce((sum, bar) => sum + (bar.start <= at && (bar.end ?? Infinity) > at ? bar.units : 0), 0);
    points.push(`${step * WIDTH / 240},${top + LOAD - 2 - Math.min(1, held / capacity) * (LOAD - 6)}`);
  }
  return svg("polyline", { points: points.join(" ") });
}

function drawing(place, scene) {
  const bars = scene.bars.filter((bar) => bar.place === place.name);
  const shown = Math.min(place.capacity, 64), height = shown * LANE;
  const label = `${place.name}: ${place.granted} of ${place.capacity} ${place.key} granted, ${place.waiting} waiting`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height + LOAD}`, role: "img", "aria-label": label });
  const x = (at) => Math.max(0, (at - scene.now + WINDOW) / WINDOW * WIDTH);
  for (const bar of withLanes(bars, shown)) {
    const left = x(bar.start), right = Math.max(left + 1.5, x(bar.end ?? scene.now));
    for (const [lane, count] of runs(bar.lanes)) {
      const piece = svg("rect", {
        x: left, width: right - left, y: height - (lane + count) * LANE, height: count * LANE - 1,
        fill: colour(bar.task), class: bar.end === null ? "now" : "over",
      });
      piece.append(svg("title", {}, `${bar.task} ${bar.id}: ${bar.units} ${place.key}`));
      picture.append(piece);
      if (right - left > 70) picture.append(svg("text", { x: left + 4, y: height - lane * LANE - 5 }, `${bar.task} ${bar.units}`.slice(0, Math.floor((right - left) / 7))));
    }
  }
  picture.append(svg("line", { x1: 0, x2: WIDTH, y1: height, y2: height }), load(bars, scene.now, place.capacity, height));
  const title = html("h3", `${place.name} `);
  title.append(html("small", `${place.all}; ${place.waiting} waiting`));
  const block = html("div");
  block.append(title, picture);
  return block;
}

function draw(scene) {
  const paused = scene.paused ? " Admission is paused." : "";
  $("state").textContent = `${scene.running} running, ${scene.waiting} waiting, ${scene.trajectories} trajectories.${paused}`;
  $("state").className = scene.paused ? "bad" : "";
  $("places").replaceChildren(...scene.places.map((place) => drawing(place, scene)));
  $("legend").replaceChildren(...[...colours].slice(0, 24).map(([task, fill]) => {
    const item = html("li");
    const box = html("i");
    box.style.background = fill;
    item.append(box, task);
    return item;
  }));
  $("queue").replaceChildren(...scene.queue.map((row) => {
    const line = html("tr");
    const cells = [row.position ?? "", row.task, row.demand, `${row.waited.toFixed(1)} s`, row.reason, row.id];
    line.append(...cells.map((cell) => html("td", cell)));
    return line;
  }));
}

const source = new EventSource("events");
source.addEventListener("scene", (event) => draw(JSON.parse(event.data)));
source.addEventListener("trouble", (event) => {
  $("state").textContent = JSON.parse(event.data);
  $("state").className = "bad";
});
source.onerror = () => {
  $("state").textContent = "`tangram web` does not answer; trying again";
  $("state").className = "bad";
};
