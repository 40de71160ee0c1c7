// What is chosen: marks on the picture, numbers in the form, what is missing, and the answer that is sent.

const chosen = { object: null, ruler: [], floor: [], ignore: [] };  // ignore has [corner, opposite corner]
let corner = null;  // first corner of a rectangle whose second is not yet set
const undoStack = [];  // {tool, before}

const LENGTHS = { m: 1, cm: 0.01, mm: 0.001, in: 0.0254 };  // [m]
const MASSES = { kg: 1, g: 0.001 };  // [kg]

// ------------------------------------------------------------------------------------------------------------ marks

/** Keeps the state of a tool before it changes; an error shown for that state is outdated. */
function record(tool) {
  undoStack.push({ tool, before: structuredClone(chosen[tool]) });
  byId("error").textContent = "";
}

/** Takes back the last change of a tool, or of any tool. */
function undo(tool) {
  if (corner && (!tool || tool === "ignore")) { corner = null; return; }
  const last = undoStack.findLastIndex(change => !tool || change.tool === tool);
  if (last < 0) return;
  const [change] = undoStack.splice(last, 1);
  byId("error").textContent = "";
  chosen[change.tool] = change.before;
}

function clear(tool) {
  record(tool);
  chosen[tool] = tool === "object" ? null : [];
  if (tool === "ignore") corner = null;
}

/** Sets a point with a tool. A third point of a line moves the nearer end. */
function place(tool, point, frame) {
  if (tool === "ignore") {
    corner ? addBox(corner, point) : corner = point;
    return;
  }
  record(tool);
  if (tool === "object") chosen.object = { ...point, frame };
  else if (chosen[tool].length < 2) chosen[tool].push(point);
  else chosen[tool][nearest(chosen[tool], point)] = point;
}

const nearest = (ends, p) => distance(ends[0], p) <= distance(ends[1], p) ? 0 : 1;

function addBox(a, b) {
  corner = null;
  record("ignore");
  const low = { x: Math.min(a.x, b.x), y: Math.min(a.y, b.y) }, high = { x: Math.max(a.x, b.x), y: Math.max(a.y, b.y) };
  chosen.ignore.push([low, high]);
}

/** Movable points of a tool, each with a function that moves it. */
function handles(tool) {
  if (tool === "object") return chosen.object ? [[chosen.object, (p, frame) => { chosen.object = { ...p, frame }; }]] : [];
  if (tool === "ignore") return [];
  return chosen[tool].map((point, index) => [point, p => { chosen[tool][index] = p; }]);
}

// ------------------------------------------------------------------------------------------------------------- form

/** The value of a field in SI units, or null if it is empty. */
function quantity(id, units) {
  const value = byId(id).valueAsNumber;
  if (Number.isNaN(value)) return null;
  return Number((value * (units ? units[byId(id + "-unit").value] : 1)).toPrecision(12));
}

/** What keeps the choices from being complete: texts, each with the field or the tool that it concerns. */
function problems() {
  const found = [];
  const missing = (text, place) => found.push({ text, place });
  for (const [id, label] of [["length", "length"], ["diameter", "diameter"], ["gravity", "gravity"], ["mass", "mass"]])
    if (byId(id).validity.badInput) missing(`a number for the ${label}`, id);
  if (chosen.ruler.length === 1) missing("the other end of the ruler", "ruler");
  else if (chosen.ruler.length === 2 && quantity("length", LENGTHS) === null) missing("the length of the ruler", "length");
  else if (!chosen.ruler.length && quantity("length", LENGTHS) !== null) missing("the two ends of the ruler", "ruler");
  if (chosen.floor.length === 1) missing("a second point of the floor", "floor");
  if (corner) missing("the opposite corner of the rectangle to ignore", "ignore");
  return found;
}

/** What is chosen automatically, because the user did not choose it. */
function automatic() {
  const texts = [];
  if (!chosen.object) texts.push("The object is found by its motion.");
  if (!chosen.ruler.length && quantity("diameter", LENGTHS) === null)
    texts.push("No length is known: gravity of 9.81 m/s² sets the scale.");
  return texts;
}

const rounded = value => Number(value.toFixed(2));
const numbers = points => points.flatMap(p => [rounded(p.x), rounded(p.y)]);

/** The choices in the form that the server expects. */
function answer() {
  const { object, ruler, floor, ignore } = chosen;
  return {
    object: object && numbers([object]),
    object_frame: object && object.frame,
    scale: ruler.length ? [...numbers(ruler), quantity("length", LENGTHS)] : null,
    diameter: quantity("diameter", LENGTHS),
    floor: floor.length ? numbers(floor) : null,
    ignore: ignore.map(numbers),
    motion: byId("motion").value || null,
    gravity: quantity("gravity"),
    mass: quantity("mass", MASSES),
  };
}

/** The command line with the same choices. */
function commandText() {
  const { object, object_frame, scale, diameter, floor, ignore, motion, gravity, mass } = answer();
  const place = object && [...object, object_frame ?? []].flat();
  const options = [["--object", place], ["--scale", scale], ["--diameter", diameter], ["--floor", floor],
    ...ignore.map(box => ["--ignore", box]), ["--as", motion], ["--gravity", gravity], ["--mass", mass]];
  const file = /^[\w./][\w./-]*$/.test(data.file) ? data.file : `'${data.file.replaceAll("'", "'\\''")}'`;
  const given = options.filter(([, value]) => value !== null && ![value].flat().includes(null));
  return [`gradsim prepare ${file} -o prepared/`, ...given.map(([name, value]) => `${name} ${value}`)].join(" \\\n  ");
}

/** Fills marks and form with the choices that were there before. */
function restore(choices) {
  const pairs = list => list.reduce((points, x, k) => k % 2 ? points : [...points, { x, y: list[k + 1] }], []);
  if (choices.object) chosen.object = { ...pairs(choices.object)[0], frame: choices.object_frame };
  if (choices.scale) chosen.ruler = pairs(choices.scale.slice(0, 4));
  if (choices.floor) chosen.floor = pairs(choices.floor);
  chosen.ignore = choices.ignore.map(pairs);
  byId("length").value = choices.scale ? choices.scale[4] : "";
  for (const id of ["diameter", "gravity", "mass"]) byId(id).value = choices[id] ?? "";
  byId("motion").value = choices.motion ?? "";
}
