// The page: shows a frame with the marks, and connects mouse, keys and form with the choices.

const images = new Map();  // frames that were requested, by position on the slider
let shown = 0;  // position on the slider
let cursor = null;  // point under the mouse, or moved by the keys
let drag = null;

const HINTS = {
  object: () => "Click the object, in a frame in which it is clear to see.",
  ruler: () => ["Click one end of a known length in the plane of the motion.", "Click its other end.",
    `${byId("length").value ? "" : "Enter its length. "}Click or drag to correct an end.`][chosen.ruler.length],
  floor: () => ["Click a point on the line where the object lands.", "Click a second point on that line.",
    "Click or drag to correct a point."][chosen.floor.length],
  ignore: () => corner ? "Click the opposite corner." : "Drag a rectangle over whatever else moves.",
};

const tool = () => document.querySelector("[name=tool]:checked").value;
const selectTool = name => { document.querySelector(`[name=tool][value=${name}]`).checked = true; };

// ---------------------------------------------------------------------------------------------------------- drawing

function loadFrame(index) {
  if (images.has(index)) return images.get(index);
  const image = new Image();
  image.onload = update;
  image.onerror = async () => {
    images.delete(index);
    const { error } = await fetch(`frame/${index}`).then(reply => reply.json()).catch(() => ({ error: "gradsim no longer listens" }));
    byId("loading").textContent = `Frame ${data.frames[index].number}: ${error}`;
  };
  image.src = `frame/${index}`;
  images.set(index, image);
  return image;
}

function drawMarks(project) {
  const { object, ruler, floor, ignore } = chosen;
  for (const [a, b] of ignore) drawBox(COLORS.ignore, project(a), project(b));
  if (corner && cursor) drawBox(COLORS.ignore, project(corner), project(cursor));
  for (const [name, ends] of [["ruler", ruler], ["floor", floor]]) {
    const line = ends.length === 1 && tool() === name && cursor ? [ends[0], cursor] : ends;
    if (line.length === 2) drawLine(COLORS[name], 2, project(line[0]), project(line[1]));
    for (const end of ends) drawPoint(COLORS[name], project(end));
  }
  if (object) {
    pen.globalAlpha = object.frame === null || object.frame === data.frames[shown].number ? 1 : 0.45;
    drawPoint(COLORS.object, project(object));
    pen.globalAlpha = 1;
  }
}

function drawLabels() {
  const { object, ruler, floor } = chosen;
  const middle = ([a, b]) => onCanvas({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });
  if (object) {
    const at = onCanvas(object), here = object.frame === null || object.frame === data.frames[shown].number;
    drawLabel(COLORS.object, here ? "object" : `object in frame ${object.frame}`, at.x + 14, at.y - 10);
  }
  if (ruler.length === 2) {
    const at = middle(ruler), length = byId("length").value;
    drawLabel(COLORS.ruler, length ? `${length} ${byId("length-unit").value}` : "length?", at.x + 12, at.y - 10);
  }
  if (floor.length === 2) {
    const at = middle(floor);
    drawLabel(COLORS.floor, "floor", at.x - 20, at.y + 10);
  }
}

function draw() {
  const image = loadFrame(shown), ready = image.complete && image.naturalWidth > 0;
  const { x, y } = onCanvas({ x: 0, y: 0 });
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  pen.imageSmoothingEnabled = view.scale * devicePixelRatio < 3;
  pen.imageSmoothingQuality = "high";
  if (ready) pen.drawImage(image, x, y, view.scale * data.width, view.scale * data.height);
  drawMarks(onCanvas);
  drawLabels();
  if (ready && cursor && (!drag || drag.kind !== "pan")) drawMagnifier(image, cursor, COLORS[tool()], drawMarks);
  if (ready) byId("loading").textContent = "";
  else if (!byId("loading").textContent) byId("loading").textContent = "Reading the frame …";
}

/** Shows the state everywhere; calls within one frame of the screen are joined. */
function update() {
  if (update.waiting) return;
  update.waiting = true;
  requestAnimationFrame(() => { update.waiting = false; draw(); showState(); });
}

function setText(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;  // so that a screen reader speaks only of changes
}

function showState() {
  const { object, ruler, floor, ignore } = chosen, frame = data.frames[shown];
  const inFrame = object && object.frame !== null ? ` in frame ${object.frame}` : "";
  setText("object-text", object ? `At ${pointText(object)}${inFrame}` : "Automatic: whatever moves most clearly");
  setText("ruler-text", ruler.length === 2 ? `Ruler of ${distance(...ruler).toFixed(1)} px` : ruler.length ? "Ruler with one end" : "No ruler");
  setText("floor-text", floor.length === 2 ? `From ${pointText(floor[0])} to ${pointText(floor[1])}` : floor.length ? "One point" : "Automatic: from the motion");
  setText("ignore-text", ignore.length ? `${ignore.length} rectangle${ignore.length > 1 ? "s" : ""}` : "Nothing");
  setText("hint", HINTS[tool()]());
  setText("zoom", `${Math.round(100 * view.scale)} %`);
  setText("frame-text", `${frame.number}, at ${frame.time.toFixed(2)} s`);
  setText("command", commandText());
  showMissing();
  for (const actions of document.querySelectorAll(".actions")) {
    const name = actions.dataset.tool, [undoButton, clearButton] = actions.children;
    undoButton.disabled = !undoStack.some(change => change.tool === name) && !(name === "ignore" && corner);
    clearButton.disabled = !chosen[name] || chosen[name].length === 0;
  }
}

function showMissing() {
  const open = problems();
  if (!open.length) byId("missing").classList.remove("urgent");
  byId("missing").classList.toggle("open", open.length > 0);
  const ready = byId("error").textContent ? "" : "Ready.";
  setText("missing", open.length ? `Still missing: ${open.map(problem => problem.text).join("; ")}.` : ready);
  setText("automatic", automatic().join(" "));
}

/** Stops waiting for a frame: a browser has few connections to one server, and the answer needs one. */
function dropPending(index) {
  const image = images.get(index);
  if (!image || image.complete) return;
  image.onload = image.onerror = null;
  image.src = "";
  images.delete(index);
}

function showFrame(index) {
  dropPending(shown);
  shown = clamp(index, 0, data.frames.length - 1);
  byId("frame").value = shown;
  byId("frame").setAttribute("aria-valuetext", `frame ${data.frames[shown].number}`);
  byId("loading").textContent = "";
  update();
}

// ------------------------------------------------------------------------------------------------------------ mouse

canvas.addEventListener("pointerdown", event => {
  event.preventDefault();
  canvas.focus({ preventScroll: true });
  canvas.setPointerCapture(event.pointerId);
  const start = inside(fromClient(event.clientX, event.clientY)), name = tool();
  const handle = handles(name).find(([point]) => distance(onCanvas(point), onCanvas(start)) <= HANDLE + 2);
  const from = { start, name, x: event.clientX, y: event.clientY, moved: false };
  if (event.button !== 0) drag = { ...from, kind: "pan", view: { ...view }, places: false };
  else if (handle) drag = { ...from, kind: "handle", handle };
  else if (name === "ignore" && !corner) { corner = start; drag = { ...from, kind: "box" }; }
  else drag = { ...from, kind: "press", view: { ...view } };
  update();
});

canvas.addEventListener("pointermove", event => {
  cursor = inside(fromClient(event.clientX, event.clientY));
  if (drag) {
    if (!drag.moved && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 3) {
      drag.moved = true;
      if (drag.kind === "press") drag.kind = "pan";
      if (drag.kind === "handle") { record(drag.name); drag.before = { ...drag.handle[0] }; }
    }
    if (drag.kind === "pan") {
      view.x = drag.view.x - (event.clientX - drag.x) / view.scale;
      view.y = drag.view.y - (event.clientY - drag.y) / view.scale;
      limitView();
    }
    if (drag.kind === "handle" && drag.moved)
      drag.handle[1](inside({ x: drag.before.x + cursor.x - drag.start.x, y: drag.before.y + cursor.y - drag.start.y }), data.frames[shown].number);
  }
  update();
});

canvas.addEventListener("pointerup", event => {
  if (!drag) return;
  const end = inside(fromClient(event.clientX, event.clientY));
  const clicked = drag.kind === "press" || (drag.kind === "handle" && !drag.moved && chosen[drag.name].length !== 1);
  if (clicked) place(drag.name, drag.start, data.frames[shown].number);
  if (drag.kind === "box" && drag.moved) addBox(drag.start, end);
  drag = null;
  update();
});

canvas.addEventListener("pointercancel", () => { drag = null; corner = null; update(); });
canvas.addEventListener("pointerleave", () => { if (!drag) cursor = null; update(); });
canvas.addEventListener("contextmenu", event => event.preventDefault());
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  zoomAt(Math.exp(-clamp(event.deltaY, -200, 200) * 0.002), fromClient(event.clientX, event.clientY));
  cursor = inside(fromClient(event.clientX, event.clientY));
  update();
}, { passive: false });

// ------------------------------------------------------------------------------------------------------------- keys

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

canvas.addEventListener("keydown", event => {
  if (ARROWS[event.key]) {
    const step = event.shiftKey ? 10 : event.altKey ? 0.1 : 1, [dx, dy] = ARROWS[event.key];
    const from = cursor || viewCenter();
    cursor = inside({ x: from.x + step * dx, y: from.y + step * dy });
    reveal(cursor);
  } else if ((event.key === "Enter" || event.key === " ") && cursor) place(tool(), cursor, data.frames[shown].number);
  else return;
  event.preventDefault();
  update();
});

const KEYS = {
  1: () => selectTool("object"), 2: () => selectTool("ruler"), 3: () => selectTool("floor"), 4: () => selectTool("ignore"),
  "+": () => zoomAt(1.5, cursor || viewCenter()), "-": () => zoomAt(1 / 1.5, cursor || viewCenter()), 0: zoomToFit,
  ",": () => showFrame(shown - 1), ".": () => showFrame(shown + 1), Escape: () => { corner = null; },
};

document.addEventListener("keydown", event => {
  if (event.target.matches("input[type=number], select, pre")) return;
  const undoes = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z";
  if (undoes) undo();
  else if (KEYS[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) KEYS[event.key]();
  else return;
  event.preventDefault();
  update();
});

// ------------------------------------------------------------------------------------------------------------- form

/** Adds options to a list: pairs of value and text. */
const addOptions = (id, pairs) => byId(id).append(...pairs.map(([value, text]) => new Option(text, value)));

function addActions(actions) {
  const name = actions.dataset.tool;
  for (const [text, action] of [["Undo", undo], ["Clear", clear]]) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
    button.setAttribute("aria-label", `${text} ${name}`);
    button.addEventListener("click", () => { action(name); update(); });
    actions.append(button);
  }
}

/** Shows what is wrong, and leads to the field or the tool that it concerns. */
function showError(text, place) {
  setText("error", text);
  for (const input of document.querySelectorAll("input[type=number]"))
    input.setAttribute("aria-invalid", input.id === place);
  if (chosen[place] !== undefined) selectTool(place);
  if (place) (byId(place) || canvas).focus();
  update();
}

async function send(event) {
  event.preventDefault();
  const [problem] = problems();
  if (problem) {
    byId("missing").classList.add("urgent");
    return showError("", problem.place);
  }
  showError("");
  byId("done").disabled = true;
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(answer()) };
  const reply = await fetch("choices", options).catch(() => null);
  byId("done").disabled = false;
  if (!reply) return showError("gradsim no longer listens: start it again with --pick.");
  if (reply.ok) byId("finished").hidden = false;
  else showError((await reply.json()).error);
}

byId("form").addEventListener("submit", send);
byId("form").addEventListener("input", () => showError(""));
byId("form").addEventListener("keydown", event => {
  if (event.key === "Enter" && event.target.matches("input")) event.preventDefault();  // only the button is Done
});
byId("frame").addEventListener("input", event => showFrame(event.target.valueAsNumber));
byId("zoom-in").addEventListener("click", () => { zoomAt(1.5, viewCenter()); update(); });
byId("zoom-out").addEventListener("click", () => { zoomAt(1 / 1.5, viewCenter()); update(); });
byId("zoom-fit").addEventListener("click", () => { zoomToFit(); update(); });
for (const input of document.querySelectorAll("[name=tool]")) input.addEventListener("change", () => { corner = null; update(); });
document.querySelectorAll(".actions").forEach(addActions);
for (const id of ["length-unit", "diameter-unit"]) addOptions(id, Object.keys(LENGTHS).map(unit => [unit, unit]));
addOptions("mass-unit", Object.keys(MASSES).map(unit => [unit, unit]));
addOptions("motion", data.motions.map(([name, text]) => [name, text ? `${name}: ${text}` : name]));
byId("frame").max = data.frames.length - 1;
const last = data.frames.at(-1);
byId("facts").textContent = `${data.width} × ${data.height} px, ${last.time.toFixed(2)} s`;
restore(data.choices);
new ResizeObserver(() => { resizeCanvas(); update(); }).observe(canvas);
showFrame(data.frames.findLastIndex(frame => frame.number <= data.choices.object_frame));
