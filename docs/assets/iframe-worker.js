// A page that was opened from disk may not start a Worker, and the search runs in one. There, and only there, the
// worker's script is run in a hidden frame instead, which passes messages in the same way.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = this.onerror = this.onmessageerror = null
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.document.open()
      inside.document.write("<!doctype html><body></body>")
      inside.document.close()
      inside.postMessage = (data) => setTimeout(() => this.receive(structuredClone(data)))
      inside.importScripts = (...scripts) =>
        scripts.reduce((before, script) => before.then(() => this.load(script)), Promise.resolve())
      this.ready = this.load(new URL(url, location.href))
    }
    receive(data) {
      const message = new MessageEvent("message", { data })
      this.dispatchEvent(message)
      this.onmessage?.(message)
    }
    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script")
        script.src = url
        script.onload = resolve
        script.onerror = reject
        this.frame.contentDocument.body.append(script)
      })
    }
    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(
        () => inside.dispatchEvent(new inside.MessageEvent("message", { data: structuredClone(data) })),
        () => this.onerror?.(new ErrorEvent("error")),
      )
    }
    terminate() {
      this.frame.remove()
    }
  }
}
