"""A page of a report in a browser without a window: what it plays, asks for and complains of."""

import json
import re
import shutil
import subprocess

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "no chromium: apt-get install -y chromium enables this test"

# Put into a copy of the page: plays the video, and leaves in the title what became of it.
WATCH = """<script>
const told = {errors: [], requests: []};
addEventListener("error", event => told.errors.push(String(event.message || event.target.tagName)), true);
addEventListener("securitypolicyviolation", event => told.errors.push("blocked " + event.blockedURI));
addEventListener("load", async () => {
  const video = document.querySelector("video");
  try { await video.play() } catch (error) { told.errors.push(String(error)) }
  const start = video.currentTime, begin = performance.now();
  while (performance.now() - begin < 5000 && video.currentTime <= start + 0.1)
    await new Promise(done => setTimeout(done, 20));
  told.played = video.currentTime - start;
  told.ready = video.readyState;
  told.size = [video.videoHeight, video.videoWidth];
  told.requests = performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
  document.documentElement.style.width = "WIDTHpx";  // a headless window is at least 500 pixels wide
  const flowing = [...document.querySelectorAll("main *")].filter(part => !part.closest(".wide, pre, svg"));
  told.who = flowing.filter(p => p.getBoundingClientRect().right > WIDTH).map(p => p.outerHTML.slice(0, 80));
  told.right = Math.max(...flowing.map(part => part.getBoundingClientRect().right));
  document.title = "told " + JSON.stringify(told) + " told";
});
</script>"""


def watched(page, folder, width):
    """Open a page, play its first video, and see to it that all is well; what there was to see."""
    text = page.read_text()
    text = text.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'", 1)
    copy = folder / "copy.html"
    copy.write_text(text.replace("<head>", "<head>" + WATCH.replace("WIDTH", str(width)), 1))
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"),
            *(f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900", "--hide-scrollbars"),
            *("--virtual-time-budget=10000", copy.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = re.search(r"told (\{.*?\}) told", done.stdout)
    assert found, done.stderr[-2000:]
    told = json.loads(found[1])
    assert told["errors"] == []
    assert told["requests"] == []
    assert "CONSOLE" not in done.stderr
    assert told["ready"] >= 2
    assert told["played"] >= 0.1
    assert told["who"] == []
    assert width - 200 < told["right"]
    return told
