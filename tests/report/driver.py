"""The driver of the browser finds what pages must not have: console errors, outside requests, sideways scrolling, small text."""
import os
import sys
import tempfile
import browser

GOOD = "<!DOCTYPE html><meta name=viewport content='width=device-width'><title>good</title><p>a text</p><a href='https://example.org/'>a link is no request</a>"
FAULTS = {
    "an outside picture": ("<img src='http://127.0.0.1:9/a.png'>", "requests http://127.0.0.1:9/a.png"),
    "another file": ("<script src='other.js'></script>", "other.js"),
    "an error of a script": ("<script>missing()</script>", "console: ReferenceError"),
    "a line of the console": ("<script>console.error('said', 3)</script>", "console: said 3"),
    "a wide element": ("<div style='width:3000px'>wide</div>", "3008 pixels of a window of 400"),
    "small text": ("<p style='font-size:7px'>tiny</p>", "7.0 pixels: tiny"),
    "small text of a picture": ("<svg viewBox='0 0 800 10' width=200><text y=9 font-size=12>tiny</text></svg>", "3.0 pixels: tiny"),
}

if browser.absent():
    print("skipped:", browser.absent())
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder, browser.Browser() as tab:
    page = os.path.join(folder, "page.html")
    for name, (fault, wanted) in {"nothing": ("", None), **FAULTS}.items():
        with open(page, "w") as out:
            out.write(GOOD + fault)
        tab.open(page, width=400)
        found = tab.faults() + tab.unfit()
        if wanted is None and found or wanted and not any(wanted in text for text in found):
            sys.exit(f"{name}: {found}")
    for dark in False, True:
        tab.open(page, dark=dark)
        if tab.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") != dark or tab.evaluate("innerWidth") != 1400:
            sys.exit(f"dark {dark} is not what the page sees")
    tab.screenshot(os.path.join(folder, "page.png"))
    if open(os.path.join(folder, "page.png"), "rb").read(4) != b"\x89PNG":
        sys.exit("the picture is no PNG")
print(f"{len(FAULTS)} faults are found, and none in a page without")
