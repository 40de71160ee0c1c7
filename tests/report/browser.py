"""Opens a report in a headless browser, and checks its video, requests, errors and layout."""

import json
import re
import shutil
import subprocess

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SOFTWARE_GL = "GL Driver Message"  # software rendering notes that it reads pixels back
NO_CHROMIUM = "no chromium: apt-get install -y chromium enables this test"

# Injected into a copy of the page: plays the video and writes the observations into the title.
PROBE = """<script>
const observed = {errors: [], requests: []};
addEventListener("error", event => observed.errors.push(String(event.message || event.target.tagName)), true);
addEventListener("securitypolicyviolation", event => observed.errors.push("blocked " + event.blockedURI));
addEventListener("load", async () => {
  const video = document.querySelector("video");
  try { await video.play() } catch (error) { observed.errors.push(String(error)) }
  const start = video.currentTime, begin = performance.now();
  while (performance.now() - begin < 5000 && video.currentTime <= start + 0.1) {
    for (let k = 0; k < 1e7; k++) observed.work = k;  // the clock of the page is virtual, the decoder needs real time
    await new Promise(done => setTimeout(done, 20));
  }
  observed.played = video.currentTime - start;
  observed.ready = video.readyState;
  observed.size = [video.videoHeight, video.videoWidth];
  observed.requests = performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
  document.documentElement.style.width = "WIDTHpx";  // a headless window is at least 500 pixels wide
  const flowing = [...document.querySelectorAll("main *")].filter(part => !part.closest(".wide, pre, svg"));
  observed.overflowing = flowing.filter(p => p.getBoundingClientRect().right > WIDTH).map(p => p.outerHTML);
  observed.right = Math.max(...flowing.map(part => part.getBoundingClientRect().right));
  document.title = "observed " + JSON.stringify(observed) + " observed";
});
</script>"""


def open_page(page, folder, width):
    """Opens a page, plays its first video, and asserts that nothing fails. Returns what the probe observed."""
    text = re.sub(r"script-src [^;]*;", "", page.read_text(), count=1)  # it allows the player alone, not the probe
    text = text.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'", 1)
    copy = folder / "copy.html"
    copy.write_text(text.replace("<head>", "<head>" + PROBE.replace("WIDTH", str(width)), 1))
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"),
            "--enable-unsafe-swiftshader",  # WebGL in software
            *(f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900", "--hide-scrollbars"),
            *("--virtual-time-budget=10000", copy.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    match = re.search(r"observed (\{.*?\}) observed", done.stdout)
    assert match, done.stderr[-2000:]
    observed = json.loads(match[1])
    assert observed["errors"] == []
    assert observed["requests"] == []
    messages = [line for line in done.stderr.splitlines() if "CONSOLE" in line and SOFTWARE_GL not in line]
    assert messages == []
    assert observed["ready"] >= 2
    assert observed["played"] >= 0.1
    assert observed["overflowing"] == []
    assert width - 200 < observed["right"]
    return observed
