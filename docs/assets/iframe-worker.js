// Search for pages that are opened from disk: a browser starts no worker there, so the worker's script runs in a
// hidden frame of the page. On a server the browser's own workers are used.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => Promise.all(urls.map((each) => load(inside, each)));
      this.send = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      load(inside, url).then(() => {
        this.waiting.splice(0).forEach(this.send);
        this.waiting = null;
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.send(data);
    }

    terminate() {}
  };

  function load(inside, url) {
    return new Promise((loaded, failed) => {
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = loaded;
      script.onerror = failed;
      inside.document.body.append(script);
    });
  }
}
