// The picture: zoom, marks and magnifier. Points are in pixels of the full picture: x right, y down, and the first pixel
// covers 0..1. Lengths on the canvas are in CSS pixels.

const byId = id => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const canvas = byId("picture");
const pen = canvas.getContext("2d");
const view = { scale: 1, x: 0, y: 0 };  // canvas = scale * (point - (x, y))
const MAX_SCALE = 40, MAGNIFIER = 140, HANDLE = 9;
const COLORS = { object: "#ff8a1f", ruler: "#36b3ff", floor: "#2fd67f", ignore: "#ff5c93" };

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const inside = p => ({ x: clamp(p.x, 0, data.width), y: clamp(p.y, 0, data.height) });
const onCanvas = p => ({ x: view.scale * (p.x - view.x), y: view.scale * (p.y - view.y) });
const distance = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);

/** The place of a point in the window, and back. */
function toClient(p) {
  const box = canvas.getBoundingClientRect(), at = onCanvas(p);
  return { x: box.left + at.x, y: box.top + at.y };
}
function fromClient(x, y) {
  const box = canvas.getBoundingClientRect();
  return { x: view.x + (x - box.left) / view.scale, y: view.y + (y - box.top) / view.scale };
}

// ------------------------------------------------------------------------------------------------------------- zoom

const fitScale = () => Math.min(canvas.clientWidth / data.width, canvas.clientHeight / data.height);

function limitView() {
  const limit = (start, visible, length) => visible >= length ? (length - visible) / 2 : clamp(start, 0, length - visible);
  view.x = limit(view.x, canvas.clientWidth / view.scale, data.width);
  view.y = limit(view.y, canvas.clientHeight / view.scale, data.height);
}

/** Zooms so that a point stays where it is. */
function zoomAt(factor, p) {
  const scale = clamp(view.scale * factor, fitScale(), Math.max(MAX_SCALE, fitScale()));
  view.x = p.x - (p.x - view.x) * view.scale / scale;
  view.y = p.y - (p.y - view.y) * view.scale / scale;
  view.scale = scale;
  limitView();
}

const viewCenter = () => ({ x: view.x + canvas.clientWidth / view.scale / 2, y: view.y + canvas.clientHeight / view.scale / 2 });

function zoomToFit() {
  view.scale = fitScale();
  limitView();
}

/** Moves the view so that a point is visible. */
function reveal(p) {
  const width = canvas.clientWidth / view.scale, height = canvas.clientHeight / view.scale;
  view.x = clamp(view.x, p.x - 0.95 * width, p.x - 0.05 * width);
  view.y = clamp(view.y, p.y - 0.95 * height, p.y - 0.05 * height);
  limitView();
}

/** Adapts the canvas to its size on the screen; a picture that was shown whole remains so. */
function resizeCanvas() {
  const whole = view.scale <= 1.001 * (resizeCanvas.fit || view.scale);
  canvas.width = Math.round(canvas.clientWidth * devicePixelRatio);
  canvas.height = Math.round(canvas.clientHeight * devicePixelRatio);
  resizeCanvas.fit = fitScale();
  whole || view.scale < fitScale() ? zoomToFit() : limitView();
}

// ------------------------------------------------------------------------------------------------------------ marks

/** Strokes a path twice, so that it shows on bright and on dark pictures. */
function stroke(color, width, path) {
  pen.beginPath();
  path();
  pen.lineCap = pen.lineJoin = "round";
  pen.strokeStyle = "#000b";
  pen.lineWidth = 2.2 * width;
  pen.stroke();
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.stroke();
}

function drawLine(color, width, a, b) {
  stroke(color, width, () => { pen.moveTo(a.x, a.y); pen.lineTo(b.x, b.y); });
}

/** A ring with a cross: what lies under its middle remains visible. */
function drawPoint(color, at) {
  stroke(color, 2, () => {
    pen.arc(at.x, at.y, HANDLE, 0, 7);
    for (const [x, y] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      pen.moveTo(at.x + 4 * x, at.y + 4 * y);
      pen.lineTo(at.x + HANDLE * x, at.y + HANDLE * y);
    }
  });
}

function drawBox(color, a, b) {
  pen.fillStyle = color + "40";
  pen.fillRect(a.x, a.y, b.x - a.x, b.y - a.y);
  stroke(color, 2, () => pen.rect(a.x, a.y, b.x - a.x, b.y - a.y));
}

/** Writes a text where it is visible, unless its place is not. */
function drawLabel(color, text, x, y) {
  if (x < -40 || y < -40 || x > canvas.clientWidth + 40 || y > canvas.clientHeight + 40) return;
  pen.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
  const width = pen.measureText(text).width + 12;
  const left = clamp(x, 2, canvas.clientWidth - width - 2), top = clamp(y, 2, canvas.clientHeight - 22);
  pen.fillStyle = "#000c";
  pen.beginPath();
  pen.roundRect(left, top, width, 20, 5);
  pen.fill();
  pen.fillStyle = color;
  pen.textBaseline = "middle";
  pen.fillText(text, left + 6, top + 10.5);
}

// -------------------------------------------------------------------------------------------------------- magnifier

/** Shows the pixels round the cursor in a circle beside it, with the marks. */
function drawMagnifier(image, cursor, color, drawMarks) {
  const zoom = clamp(6 * view.scale, 2, 10), at = onCanvas(cursor), radius = MAGNIFIER / 2, gap = 26;
  if (view.scale >= 6) return;
  const x = at.x + gap + MAGNIFIER < canvas.clientWidth ? at.x + gap + radius : at.x - gap - radius;
  const y = at.y > gap + MAGNIFIER ? at.y - gap - radius : at.y + gap + radius;
  const seen = MAGNIFIER / zoom;
  pen.save();
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.fillStyle = "#2a2f36";
  pen.fill();
  pen.clip();
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, cursor.x - seen / 2, cursor.y - seen / 2, seen, seen, x - radius, y - radius, MAGNIFIER, MAGNIFIER);
  drawMarks(p => ({ x: x + zoom * (p.x - cursor.x), y: y + zoom * (p.y - cursor.y) }));
  stroke(color, 1, () => {
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      pen.moveTo(x + 3 * dx, y + 3 * dy);
      pen.lineTo(x + radius * dx, y + radius * dy);
    }
  });
  pen.restore();
  stroke("#fff", 1.5, () => pen.arc(x, y, radius, 0, 7));
  drawLabel("#fff", pointText(cursor), x - 42, y + radius + 4);
}

const pointText = p => `${p.x.toFixed(1)}, ${p.y.toFixed(1)}`;
