// Draws the timeline of one run, and lets keys, buttons, wheel and pointer move and zoom it.
// Everything that is shown is set as text or as a number, never as markup.
(function () {
  "use strict";
  const picture = JSON.parse(document.getElementById("picture-data").textContent);
  const byId = (id) => document.getElementById(id);
  const view = byId("view");
  const svg = view.querySelector("svg");
  const select = byId("run");
  const range = byId("range");
  const detail = byId("detail");

  const HINT = "Point at a mark, or press arrow down here, to read what it is.";
  const LANE = 46;
  const TOP = 26;
  const LEFT = 104;
  // The shortest span that is shown, in microseconds.
  const LEAST = 200;

  let run = null;
  let from = 0;
  let to = 1;
  let chosen = -1;

  const pad = (number) => String(number).padStart(2, "0");

  function span(us) {
    if (us === 0) return "0";
    if (us < 1000) return Math.round(us) + " µs";
    if (us < 1e6) return (us / 1000).toFixed(us < 1e4 ? 1 : 0) + " ms";
    if (us < 6e7) return (us / 1e6).toFixed(us < 1e7 ? 2 : 1) + " s";
    const seconds = Math.round(us / 1e6);
    return Math.floor(seconds / 60) + " min " + pad(seconds % 60) + " s";
  }

  function add(name, attributes, text) {
    const element = document.createElementNS(svg.namespaceURI, name);
    for (const key of Object.keys(attributes)) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    svg.appendChild(element);
    return element;
  }

  // 10 µs is a low mark, 1 s a high one.
  function height(us) {
    const share = (Math.log10(Math.max(us, 10)) - 1) / 5;
    return 5 + Math.min(1, share) * (LANE - 14);
  }

  function words(mark) {
    const [at, took, source, key, kind, frame] = mark;
    const where = frame > 0 ? "frame " + frame.toLocaleString("en") + ", " : "";
    return where + "after " + span(at) + ": " + picture.sources[source] + ", " + span(took) + ", pipeline " + key +
      ", " + picture.kinds[kind];
  }

  function lanes() {
    const used = new Set();
    run.marks.forEach((mark) => used.add(mark[2]));
    run.bins.forEach((bin) => used.add(bin[2]));
    const order = [...used].sort((one, other) => one - other);
    return new Map(order.map((source, place) => [source, place + (run.frames.length > 0 ? 1 : 0)]));
  }

  function axis(scale, width, bottom) {
    const most = Math.max(2, Math.floor((width - LEFT) / 90));
    let step = Math.pow(10, Math.floor(Math.log10((to - from) / most)));
    while ((to - from) / step > most) step *= step.toString().startsWith("2") ? 2.5 : 2;
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = LEFT + (at - from) * scale;
      add("line", { class: "grid", x1: x, x2: x, y1: TOP - 6, y2: bottom });
      // A label at the right end does not leave the picture.
      const anchor = x > width - 30 ? "end" : "middle";
      add("text", { class: "tick", x: Math.min(x, width - 2), y: 14, "text-anchor": anchor }, span(at));
    }
  }

  function bar(class_name, at, took, base, tall, scale, width, least) {
    const x = Math.max(LEFT, LEFT + (at - from) * scale);
    const end = Math.min(width, LEFT + (at + took - from) * scale);
    const wide = Math.max(least, end - x);
    return add("rect", { class: class_name, x: x, y: base - tall, width: wide, height: tall });
  }

  function draw() {
    const width = Math.max(260, view.clientWidth);
    const rows = lanes();
    const count = rows.size + (run.frames.length > 0 ? 1 : 0);
    const bottom = TOP + Math.max(1, count) * LANE;
    const scale = (width - LEFT - 6) / (to - from);
    const base = (row) => TOP + (row + 1) * LANE - 6;
    const visible = (at, took) => at + took >= from && at <= to;
    svg.replaceChildren();
    svg.setAttribute("viewBox", "0 0 " + width + " " + (bottom + 4));
    svg.setAttribute("width", width);
    svg.setAttribute("height", bottom + 4);
    axis(scale, width, bottom);
    let drawn = 0;
    if (run.frames.length > 0) add("text", { class: "lane", x: 4, y: base(0) - 8 }, "slow frames");
    run.frames.forEach(([at, length, number]) => {
      if (!visible(at, length)) return;
      const rect = bar("frame", at, length, base(0), LANE - 16, scale, width, 2);
      rect.dataset.frame = "frame " + number.toLocaleString("en") + ": " + span(length);
      drawn += 1;
    });
    rows.forEach((row, source) => {
      add("text", { class: "lane", x: 4, y: base(row) - 8 }, picture.sources[source]);
      add("line", { class: "grid", x1: LEFT, x2: width, y1: base(row) + 0.5, y2: base(row) + 0.5 });
    });
    run.bins.forEach(([at, wide, source, number, total, longest]) => {
      if (!visible(at, wide)) return;
      const rect = bar("bin s" + source, at, wide, base(rows.get(source)), height(longest), scale, width, 1);
      rect.dataset.frame = number.toLocaleString("en") + " calls, " + picture.sources[source] + ": " + span(total) +
        " together, the longest " + span(longest);
      drawn += 1;
    });
    run.marks.forEach((mark, place) => {
      if (!visible(mark[0], mark[1])) return;
      const tall = height(mark[1]);
      const class_name = "mark s" + mark[2] + (place === chosen ? " chosen" : "");
      const rect = bar(class_name, mark[0], mark[1], base(rows.get(mark[2])), tall, scale, width, 2);
      rect.dataset.place = place;
      drawn += 1;
    });
    view.dataset.marks = drawn;
    range.textContent = "Shown: " + span(from) + " to " + span(to) + " after the first creation; " +
      drawn.toLocaleString("en") + " marks.";
  }

  function show(begin, end) {
    const most = Math.max(LEAST, run.span_us * 1.02);
    const wide = Math.min(most, Math.max(LEAST, end - begin));
    from = Math.min(Math.max(0, begin), most - wide);
    to = from + wide;
    draw();
  }

  const whole = () => show(0, run.span_us * 1.02);
  const move = (share) => show(from + (to - from) * share, to + (to - from) * share);

  function zoom(factor, around) {
    const at = around === undefined ? (from + to) / 2 : around;
    show(at - (at - from) * factor, at + (to - at) * factor);
  }

  function choose(place) {
    if (run.marks.length === 0) return;
    chosen = Math.min(Math.max(0, place), run.marks.length - 1);
    const mark = run.marks[chosen];
    detail.textContent = words(mark);
    if (mark[0] < from || mark[0] > to) show(mark[0] - (to - from) / 2, mark[0] + (to - from) / 2);
    else draw();
  }

  function change() {
    run = picture.runs[Number(select.value)];
    chosen = -1;
    detail.textContent = HINT;
    whole();
  }

  const KEYS = {
    ArrowLeft: () => move(-0.2),
    ArrowRight: () => move(0.2),
    ArrowUp: () => choose(chosen - 1),
    ArrowDown: () => choose(chosen + 1),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    0: whole,
    Home: whole,
  };

  const time = (event) => {
    const box = svg.getBoundingClientRect();
    return from + Math.max(0, event.clientX - box.left - LEFT) * (to - from) / Math.max(1, box.width - LEFT);
  };

  function point(event) {
    const { place, frame } = event.target.dataset || {};
    if (place !== undefined) detail.textContent = words(run.marks[Number(place)]);
    else if (frame !== undefined) detail.textContent = frame;
  }

  function listen() {
    view.addEventListener("keydown", (event) => {
      const act = KEYS[event.key];
      if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      act();
    });
    view.addEventListener("wheel", (event) => {
      // The wheel alone scrolls the page.
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, time(event));
    }, { passive: false });
    let last = null;
    view.addEventListener("pointerdown", (event) => { last = event.clientX; point(event); });
    view.addEventListener("pointermove", (event) => {
      if (last === null || event.buttons === 0) { last = null; point(event); return; }
      const moved = (last - event.clientX) * (to - from) / Math.max(1, view.clientWidth - LEFT);
      last = event.clientX;
      show(from + moved, to + moved);
    });
    byId("closer").addEventListener("click", () => zoom(0.5));
    byId("farther").addEventListener("click", () => zoom(2));
    byId("earlier").addEventListener("click", () => move(-0.2));
    byId("later").addEventListener("click", () => move(0.2));
    byId("whole").addEventListener("click", whole);
    select.addEventListener("change", change);
    window.addEventListener("resize", draw);
  }

  // A link to a pipeline opens its description, which is in the next row.
  function open() {
    const row = location.hash.length > 1 ? byId(location.hash.slice(1)) : null;
    const details = row && row.nextElementSibling ? row.nextElementSibling.querySelector("details") : null;
    if (details) details.open = true;
  }

  window.addEventListener("hashchange", open);
  open();
  byId("picture").hidden = false;
  listen();
  change();
})();
