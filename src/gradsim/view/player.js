"use strict";
// Plays the motion of surfaces in WebGL 2. The data of a player are in its element: base64 of zlib of a header (length
// in four bytes, then JSON) and arrays. A player makes no request and keeps no global names.
(() => {
const VERTEX = `#version 300 es
layout(location = 0) in vec3 position;
layout(location = 1) in vec3 normal;
layout(location = 2) in vec3 color;
layout(location = 3) in vec2 uv;
uniform mat4 view;
uniform mat4 model;
out vec3 world; out vec3 turned; out vec3 tint; out vec2 coordinates;
void main() {
  vec4 place = model * vec4(position, 1.0);
  world = place.xyz; turned = mat3(model) * normal; tint = color; coordinates = uv;
  gl_Position = view * place;
}`;
const FRAGMENT = `#version 300 es
precision highp float;
in vec3 world; in vec3 turned; in vec3 tint; in vec2 coordinates;
uniform vec3 eye;
uniform bool lit; uniform bool textured;
uniform sampler2D image;
out vec4 pixel;
void main() {
  vec3 base = textured ? tint * texture(image, coordinates).rgb : tint;
  if (lit) {
    vec3 toward = normalize(eye - world), n = normalize(turned);
    if (dot(n, toward) < 0.0) n = -n;
    float sky = 0.5 + 0.5 * n.y;
    float key = max(dot(n, normalize(vec3(0.55, 0.75, 0.35))), 0.0);  // fixed, so that faces differ from each other
    float fill = max(dot(n, toward), 0.0);
    base *= 0.34 + 0.12 * sky + 0.42 * key + 0.2 * fill;
  }
  pixel = vec4(base, 1.0);
}`;
const KINDS = {f: Float32Array, H: Uint16Array, I: Uint32Array, B: Uint8Array};

const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const minus = (a, b) => a.map((x, k) => x - b[k]);
const unit = a => { const n = Math.sqrt(dot(a, a)) || 1; return a.map(x => x / n); };

async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  const arrays = header.arrays.map(([kind, offset, count]) => new KINDS[kind](bytes, header.start + offset, count));
  return {...header, arrays};
}

// Positions of a deforming surface: 16-bit steps of its bounding box, as differences from the frame before.
function restore(data, surface, frames) {
  const codes = data.arrays[surface.codes], size = codes.length / frames;
  for (let k = size; k < codes.length; k++) codes[k] += codes[k - size];
  return codes;
}

function normals(positions, faces, into) {
  into.fill(0);
  for (let f = 0; f < faces.length; f += 3) {
    const [a, b, c] = [3 * faces[f], 3 * faces[f + 1], 3 * faces[f + 2]];
    const ux = positions[b] - positions[a], uy = positions[b + 1] - positions[a + 1], uz = positions[b + 2] - positions[a + 2];
    const vx = positions[c] - positions[a], vy = positions[c + 1] - positions[a + 1], vz = positions[c + 2] - positions[a + 2];
    const x = uy * vz - uz * vy, y = uz * vx - ux * vz, z = ux * vy - uy * vx;
    for (const corner of [a, b, c]) { into[corner] += x; into[corner + 1] += y; into[corner + 2] += z; }
  }
}

function program(gl) {
  const made = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source); gl.compileShader(shader); gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made));
  return made;
}

function attribute(gl, place, width, values, usage, kind = gl.FLOAT, scaled = false) {
  const buffer = gl.createBuffer();
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.bufferData(gl.ARRAY_BUFFER, values, usage);
  gl.enableVertexAttribArray(place);
  gl.vertexAttribPointer(place, width, kind, scaled, 0, 0);
  return buffer;
}

function texture(gl, data, surface) {
  const made = gl.createTexture(), [height, width] = surface.texture.size;
  gl.bindTexture(gl.TEXTURE_2D, made);
  gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB, width, height, 0, gl.RGB, gl.UNSIGNED_BYTE, data.arrays[surface.texture.pixels]);
  gl.generateMipmap(gl.TEXTURE_2D);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR_MIPMAP_LINEAR);
  const finer = gl.getExtension("EXT_texture_filter_anisotropic");
  if (finer) gl.texParameterf(gl.TEXTURE_2D, finer.TEXTURE_MAX_ANISOTROPY_EXT, 8);
  return made;
}

function surfaceBuffers(gl, data, surface) {
  const faces = data.arrays[surface.faces], vertices = data.arrays[surface.vertices], count = vertices.length;
  const made = {surface, faces, vertices, array: gl.createVertexArray(), place: new Float32Array(3 * count),
                normal: new Float32Array(3 * count)};
  gl.bindVertexArray(made.array);
  if (surface.codes !== undefined) made.codes = restore(data, surface, surface.frames);
  else {
    const points = data.arrays[surface.points];
    vertices.forEach((v, row) => made.place.set(points.subarray(3 * v, 3 * v + 3), 3 * row));
    normals(made.place, faces, made.normal);
  }
  const usage = made.codes ? gl.DYNAMIC_DRAW : gl.STATIC_DRAW;
  made.places = attribute(gl, 0, 3, made.place, usage);
  made.normals = attribute(gl, 1, 3, made.normal, usage);
  attribute(gl, 2, 3, data.arrays[surface.colors], gl.STATIC_DRAW, gl.UNSIGNED_BYTE, true);
  if (surface.texture) {
    attribute(gl, 3, 2, data.arrays[surface.texture.uv], gl.STATIC_DRAW);
    made.image = texture(gl, data, surface);
  }
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, faces, gl.STATIC_DRAW);
  return made;
}

function pathBuffer(gl, data, path) {
  const places = data.arrays[path.places], array = gl.createVertexArray();
  gl.bindVertexArray(array);
  attribute(gl, 0, 3, places, gl.STATIC_DRAW);
  return {array, count: places.length / 3, color: path.color};
}

// Writes the positions of a deforming surface at a frame, and its normals.
function deform(gl, made, frame) {
  const {codes, vertices, place, surface} = made, {low, step} = surface, size = codes.length / surface.frames;
  const first = Math.min(frame, surface.frames - 1) * size;
  for (let row = 0; row < vertices.length; row++) {
    const from = first + 3 * vertices[row];
    for (let axis = 0; axis < 3; axis++) place[3 * row + axis] = low[axis] + step[axis] * codes[from + axis];
  }
  normals(place, made.faces, made.normal);
  for (const [buffer, values] of [[made.places, place], [made.normals, made.normal]]) {
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, values);
  }
}

const IDENTITY = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);

function modelMatrix(data, surface, frame) {
  if (surface.poses === undefined) return IDENTITY;
  const poses = data.arrays[surface.poses], from = 12 * Math.min(frame, poses.length / 12 - 1);
  const p = poses.subarray(from, from + 12);  // axes as rows, then the origin: columns of the matrix
  return new Float32Array([p[0], p[1], p[2], 0, p[3], p[4], p[5], 0, p[6], p[7], p[8], 0, p[9], p[10], p[11], 1]);
}

class Orbit {
  constructor(camera) {
    this.home = camera;
    this.reset();
  }
  reset() {
    const back = minus(this.home.eye, this.home.target);
    this.target = [...this.home.target];
    this.distance = Math.sqrt(dot(back, back));
    this.yaw = Math.atan2(back[0], back[2]);
    this.pitch = Math.asin(back[1] / this.distance);
  }
  get eye() {
    const flat = Math.cos(this.pitch) * this.distance;
    return [this.target[0] + Math.sin(this.yaw) * flat, this.target[1] + Math.sin(this.pitch) * this.distance,
            this.target[2] + Math.cos(this.yaw) * flat];
  }
  turn(dx, dy) {
    this.yaw -= dx * 0.008;
    this.pitch = Math.max(-1.54, Math.min(1.54, this.pitch + dy * 0.008));
  }
  pan(dx, dy, height) {
    const scale = 2 * this.distance * Math.tan(this.home.fov * Math.PI / 360) / height;
    const {right, up} = this.axes();
    this.target = this.target.map((x, k) => x - scale * (dx * right[k] - dy * up[k]));
  }
  zoom(factor) { this.distance *= factor; }
  axes() {
    const back = unit(minus(this.eye, this.target)), right = unit(cross([0, 1, 0], back));
    return {right, up: cross(back, right), back};
  }
  matrix(aspect) {
    const {right, up, back} = this.axes(), eye = this.eye;
    const f = 1 / Math.tan(this.home.fov * Math.PI / 360), near = 0.01 * this.distance, far = 100 * this.distance;
    const a = (far + near) / (near - far), b = 2 * far * near / (near - far);
    const rows = [right.map(x => x * f / aspect), up.map(x => x * f), back.map(x => x * a)];
    const shift = [-dot(rows[0], eye), -dot(rows[1], eye), b - dot(rows[2], eye)];
    const columns = [0, 1, 2].map(k => [rows[0][k], rows[1][k], rows[2][k], -back[k]]);
    return new Float32Array([...columns.flat(), ...shift, dot(back, eye)]);
  }
}

class Player {
  constructor(root, data) {
    this.root = root; this.data = data; this.frame = 0; this.drawn = -1; this.playing = false;
    this.canvas = root.querySelector("canvas");
    this.slider = root.querySelector("input[type=range]");
    this.button = root.querySelector("button.play");
    this.readout = root.querySelector("output");
    this.paths = root.querySelector("input[type=checkbox]");
    const gl = this.canvas.getContext("webgl2", {alpha: true, antialias: true, preserveDrawingBuffer: true});
    if (!gl) throw new Error("This browser has no WebGL 2, which the 3D view needs.");
    this.gl = gl; this.program = program(gl); this.orbit = new Orbit(data.camera);
    this.place = name => gl.getUniformLocation(this.program, name);
    this.surfaces = data.surfaces.map(surface => surfaceBuffers(gl, data, surface));
    this.lines = data.paths.map(path => pathBuffer(gl, data, path));
    this.slider.max = data.times.length - 1;
    this.listen();
    this.show(0);
    if (root.dataset.autoplay && !matchMedia("(prefers-reduced-motion: reduce)").matches) this.toggle();
  }
  listen() {
    const canvas = this.canvas;
    this.slider.addEventListener("input", () => { this.stop(); this.show(Number(this.slider.value)); });
    this.button.addEventListener("click", () => this.toggle());
    this.paths.addEventListener("change", () => this.request());
    canvas.addEventListener("pointerdown", event => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", event => {
      if (!event.buttons) return;
      if (event.buttons & 2 || event.shiftKey) this.orbit.pan(event.movementX, event.movementY, canvas.clientHeight);
      else this.orbit.turn(event.movementX, event.movementY);
      this.request();
    });
    canvas.addEventListener("contextmenu", event => event.preventDefault());
    canvas.addEventListener("dblclick", () => { this.orbit.reset(); this.request(); });
    canvas.addEventListener("wheel", event => {  // scrolls the page until the view has been clicked
      if (document.activeElement !== canvas && !event.ctrlKey) return;
      event.preventDefault();
      this.orbit.zoom(Math.exp(Math.sign(event.deltaY) * 0.1)); this.request();
    }, {passive: false});
    canvas.addEventListener("keydown", event => {
      const turns = {ArrowLeft: [-20, 0], ArrowRight: [20, 0], ArrowUp: [0, -20], ArrowDown: [0, 20]};
      if (event.key === " ") this.toggle();
      else if (turns[event.key]) this.orbit.turn(...turns[event.key]);
      else if (event.key === "+" || event.key === "-") this.orbit.zoom(event.key === "+" ? 0.9 : 1.1);
      else return;
      event.preventDefault(); this.request();
    });
    new ResizeObserver(() => this.request()).observe(canvas);
  }
  toggle() {
    if (this.playing) return this.stop();
    const times = this.data.times;
    if (times.length < 2) return;
    const last = times.length - 1, begin = performance.now() - 1000 * (times[this.frame % last] - times[0]);
    this.playing = true; this.button.textContent = "Pause";
    const step = now => {
      if (!this.playing || !this.root.isConnected) return;
      const span = times[last] - times[0] + 0.4, time = times[0] + ((now - begin) / 1000) % span;
      let frame = 0;
      while (frame < last && times[frame + 1] <= time) frame++;
      if (frame !== this.frame) this.show(frame);
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }
  stop() { this.playing = false; this.button.textContent = "Play"; }
  show(frame) {
    this.frame = frame; this.slider.value = frame;
    this.readout.textContent = `${this.data.times[frame].toFixed(3)} s, frame ${frame} of ${this.data.times.length - 1}`;
    this.request();
  }
  request() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }
  draw() {
    const {gl, canvas} = this, scale = Math.min(devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(canvas.clientWidth * scale)), height = Math.max(1, Math.round(canvas.clientHeight * scale));
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST);
    gl.useProgram(this.program);
    gl.uniformMatrix4fv(this.place("view"), false, this.orbit.matrix(width / height));
    gl.uniform3fv(this.place("eye"), this.orbit.eye);
    for (const made of this.surfaces) {
      const {surface} = made;
      if (made.codes && (surface.frames > 1 || this.drawn < 0) && this.drawn !== this.frame) deform(gl, made, this.frame);
      gl.uniformMatrix4fv(this.place("model"), false, modelMatrix(this.data, surface, this.frame));
      gl.uniform1i(this.place("lit"), surface.lit ? 1 : 0);
      gl.uniform1i(this.place("textured"), made.image ? 1 : 0);
      if (made.image) gl.bindTexture(gl.TEXTURE_2D, made.image);
      gl.bindVertexArray(made.array);
      gl.drawElements(gl.TRIANGLES, made.faces.length, gl.UNSIGNED_INT, 0);
    }
    if (this.paths.checked) this.drawPaths();
    this.drawn = this.frame;
    this.root.dataset.drawn = this.frame;
  }
  drawPaths() {
    const {gl} = this;
    gl.uniformMatrix4fv(this.place("model"), false, IDENTITY);
    gl.uniform1i(this.place("lit"), 0); gl.uniform1i(this.place("textured"), 0);
    gl.disable(gl.DEPTH_TEST);
    for (const line of this.lines) {
      gl.bindVertexArray(line.array);
      gl.vertexAttrib3fv(2, line.color);
      gl.drawArrays(gl.LINE_STRIP, 0, line.count);
    }
  }
}

for (const root of document.querySelectorAll(".player:not([data-ready])")) {
  root.dataset.ready = "1";
  unpack(root.querySelector("script.data").textContent)
    .then(data => { root.player = new Player(root, data); })
    .catch(error => { root.querySelector(".message").textContent = error.message; });
}
})();
