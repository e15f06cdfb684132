"""A page in headless Chromium, driven by the DevTools protocol over a pipe: what it requests, its console, its size, its pictures.

    with browser.Browser() as tab:
        tab.open("file:///tmp/page.html", width=400, dark=True)
        tab.evaluate("document.title")
        tab.screenshot("page.png")
        tab.check()                                 # no console error, no request but of the page's own origin

browser.absent() is the reason why there is no browser here, or None."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAMS = "chromium", "chromium-browser", "google-chrome", "headless_shell"
PATIENCE = 60.0                                     # seconds for a reply or a page, under sanitizers and beside other tests


def program():
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


def absent():
    return None if program() else f"none of {', '.join(PROGRAMS)} is installed (apt-get install chromium)"


class Failure(Exception):
    pass


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="jotun-browser-")
        read, write = os.pipe()                     # what the browser reads
        back, answer = os.pipe()                    # what it writes
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (read, answer)]
        os.close(read)
        os.close(answer)
        words = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                 "--no-default-browser-check", "--disable-extensions", f"--user-data-dir={self.folder}", "about:blank"]
        # The protocol wants the numbers 3 and 4.
        begin = f"import os, sys; os.dup2({ends[0]}, 3); os.dup2({ends[1]}, 4); os.execv(sys.argv[1], sys.argv[1:])"
        self.process = subprocess.Popen([sys.executable, "-c", begin, program(), *words], pass_fds=ends, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        for fd in ends:
            os.close(fd)
        self.write, self.back, self.waiting, self.number = write, back, b"", 0
        self.session = None
        self.forget()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Network", "Log":
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            self.call("Browser.close", outside=True)
            self.process.wait(10)
        except (Failure, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.write)
        os.close(self.back)
        shutil.rmtree(self.folder, ignore_errors=True)

    def forget(self):
        """What was seen before does not count any more, what has come since the last answer among it."""
        while self.receive(0) is not None:
            pass
        self.errors, self.requests, self.loads = [], [], 0

    # ---- messages ----

    def receive(self, until):
        """The next message, or None at that time."""
        while b"\0" not in self.waiting:
            ready, _, _ = select.select([self.back], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            data = os.read(self.back, 1 << 20)
            if not data:
                raise Failure("the browser has ended")
            self.waiting += data
        line, _, self.waiting = self.waiting.partition(b"\0")
        message = json.loads(line)
        self.note(message.get("method"), message.get("params"))
        return message

    def note(self, event, what):
        if event == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and what["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(word.get("value", word.get("description"))) for word in what["args"]))
        elif event == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.errors.append(f"{what['entry']['text']} {what['entry'].get('url', '')}")
        elif event == "Page.loadEventFired":
            self.loads += 1

    def call(self, method, outside=False, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session and not outside:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write, data):]
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.receive(until)
            if answer is None:
                raise Failure(f"{method}: no answer within {PATIENCE:.0f} seconds")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error'].get('message')}")
                return answer["result"]

    def quiet(self, seconds=0.2, most=2):
        """Takes what the page says until it has been silent for so long, or for `most` seconds: a stream is never silent."""
        end = time.monotonic() + most
        while time.monotonic() < end and self.receive(time.monotonic() + seconds):
            pass

    # ---- the page ----

    def size(self, width, height=900):
        self.width = width
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def open(self, address, width=1400, dark=False):
        """Loads an address or a file's path and waits until it is there. What was seen before is forgotten."""
        self.forget()
        self.address = address if "://" in address else "file://" + os.path.abspath(address)
        self.size(width)
        self.dark(dark)
        failed = self.call("Page.navigate", url=self.address).get("errorText")
        if failed:
            raise Failure(f"{self.address}: {failed}")
        until = time.monotonic() + PATIENCE
        while not self.loads:
            if self.receive(until) is None:
                raise Failure(f"{self.address} is not loaded within {PATIENCE:.0f} seconds")
        self.quiet()

    def evaluate(self, script):
        """The value of an expression in the page, a promise's too."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise Failure(f"{script}: {details.get('exception', {}).get('description') or details['text']}")
        return done["result"].get("value")

    def wait(self, script, seconds=PATIENCE):
        """Until the expression is true."""
        until = time.monotonic() + seconds
        while not self.evaluate(script):
            if time.monotonic() > until:
                raise Failure(f"not within {seconds:.0f} seconds: {script}")
            self.quiet(0.05)

    def move(self, x, y):
        """The mouse to a place of the window, in pixels."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector):
        """The middle of the first element that a CSS selector finds, which is scrolled into view."""
        at = self.evaluate(f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
                           f" return [r.x + r.width / 2, r.y + r.height / 2] }})(document.querySelector({json.dumps(selector)}))")
        for kind in "mousePressed", "mouseReleased":
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)
        self.quiet(0.05)

    def screenshot(self, path, whole=True):
        """A PNG file of the whole page, at most 16,000 pixels of it, or of the window."""
        clip = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1},
                    "captureBeyondViewport": True}
        picture = base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"])
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "wb") as out:
            out.write(picture)

    # ---- what every page has to be ----

    def faults(self):
        """Console errors, and requests to anything but the page's own file or origin."""
        at = self.address.split("/", 3)
        own = self.address.split("#")[0] if at[0] == "file:" else "/".join(at[:3]) + "/"
        outside = [url for url in self.requests if not url.startswith(("data:", "blob:")) and
                   not (url.split("#")[0] == own if at[0] == "file:" else (url + "/").startswith(own))]
        return [f"console: {text}" for text in self.errors] + [f"requests {url[:200]}" for url in outside]

    def unfit(self, least=11):
        """What makes it hard to read at this width: it scrolls sideways, or has visible text of fewer pixels."""
        return self.evaluate("""((least, width) => {
            const found = [], wide = document.documentElement.scrollWidth;
            if (wide > width) {
                const widest = [...document.body.querySelectorAll('*')].find(e => e.getBoundingClientRect().right > width + 1);
                found.push(`${wide} pixels of a window of ${width}: ` + (widest ? widest.outerHTML.slice(0, 200) : ''));
            }
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            for (let text; (text = texts.nextNode()) && found.length < 5;) {
                const e = text.parentElement, box = e.getBoundingClientRect();
                if (!text.data.trim() || !box.width || !box.height || e.closest('script, style')) continue;
                const matrix = e.getScreenCTM ? e.getScreenCTM() : null;
                const size = parseFloat(getComputedStyle(e).fontSize) * (matrix ? Math.hypot(matrix.b, matrix.d) : 1);
                if (size < least - 0.01) found.push(`${size.toFixed(1)} pixels: ${text.data.slice(0, 80)}`);
            }
            return found })(%d, %d)""" % (least, self.width))

    def check(self):
        wrong = self.faults() + self.unfit()
        if wrong:
            sys.exit(f"{self.address}:\n  " + "\n  ".join(wrong))


def main():
    """browser.py PAGE [FOLDER]: looks at a page at both widths, light and dark, with pictures in FOLDER."""
    if absent():
        sys.exit(absent())
    with Browser() as tab:
        for width, dark in (1400, False), (1400, True), (400, False), (400, True):
            tab.open(sys.argv[1], width=width, dark=dark)
            tab.check()
            if len(sys.argv) > 2:
                tab.screenshot(os.path.join(sys.argv[2], f"{width}{'-dark' if dark else ''}.png"))
    print("no console error, no outside request, no sideways scrolling")


if __name__ == "__main__":
    main()
