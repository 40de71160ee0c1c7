// Search in pages that are opened from files, where browsers refuse web workers: the script of the worker runs in a
// hidden frame instead. Pages from a server use real workers.
(() => {
  if (location.protocol !== "file:") return;
  let count = 0;
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      const number = ++count, script = new URL(url, document.baseURI).href;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = `<body><script>
        self.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {
          const part = document.createElement("script");
          part.src = url; part.onload = done; part.onerror = failed;
          document.body.append(part);
        })), Promise.resolve());
        self.postMessage = data => parent.postMessage({worker: ${number}, data}, "*");
      <\/script><script src="${script}"><\/script></body>`;
      this.loaded = new Promise(done => this.frame.addEventListener("load", done));
      addEventListener("message", event => {
        if (event.source !== this.frame.contentWindow || event.data.worker !== number) return;
        const answer = new MessageEvent("message", {data: event.data.data});
        this.dispatchEvent(answer);
        if (this.onmessage) this.onmessage(answer);
      });
      document.body.append(this.frame);
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }
    terminate() { this.frame.remove(); }
  }
  window.IFrameWorker = window.Worker = FrameWorker;  // the theme's search looks for the first name
})();
