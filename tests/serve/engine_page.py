"""The page in headless Chromium before jotun serve itself: a trained model's text as it streams, the same as the API's, with the log-probabilities
that the API gives, and two steps of a run beside each other, at 400 and 1400 pixels; no console error, no outside request. Screenshots stay in build/.../screenshots."""
import json
import math
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import browser                                          # noqa: E402
from run import JOTUN, SKIP, work_folder                # noqa: E402
from serving import Served, trained                     # noqa: E402

PROMPT = "the ra <b>"
PICTURES = os.path.join(os.path.dirname(os.path.abspath(JOTUN)), "..", "screenshots")

if browser.absent():
    print("skipped:", browser.absent())
    sys.exit(SKIP)


def run(tab, **settings):
    for name, value in {"prompt": PROMPT, **settings}.items():
        tab.evaluate(f"document.getElementById({json.dumps(name)}).value = {json.dumps(str(value))}")
    tab.click("#go")
    tab.wait("document.getElementById('state').textContent === 'done'")
    return tab.evaluate("document.querySelector('.text').textContent")


def percent(shown):
    return float(shown.replace("%", ""))


with work_folder() as folder, Served("--load", trained(folder, "<i>run&", "--save-interval", 60), "--threads", 1, "--max-model-len", 128) as server, browser.Browser() as tab:
    for width in 1400, 400:
        for temperature in 0, 1:
            want = server.text(PROMPT, max_tokens=40, temperature=temperature, top_p=0.95, seed=3, logprobs=8)
            tab.open(server.address, width=width)
            tab.wait("document.getElementById('state').textContent === 'ready'")
            assert run(tab, max_tokens=40, temperature=temperature, seed=3) == PROMPT + want["text"], want
            assert tab.evaluate("document.querySelector('h2').textContent") == "<i>run&" and not tab.evaluate("document.querySelectorAll('.text b, h2 i').length")
            assert tab.evaluate("document.querySelectorAll('.token').length") == len(want["logprobs"]["tokens"])
            shades = tab.evaluate("[...document.querySelectorAll('.token')].map(t => t.style.backgroundColor)")
            shade = [float(s.rstrip(")").split(",")[-1]) for s in shades]
            assert all(abs(s - 0.5 * (1 - math.exp(p))) < 0.001 for s, p in zip(shade, want["logprobs"]["token_logprobs"], strict=True)), (shades, want)
            tab.evaluate("document.querySelector('.text').focus()")
            rows = tab.evaluate("[...document.querySelectorAll('.chances tr')].slice(1).map(r => r.lastChild.textContent)")
            top = sorted((math.exp(p) for p in want["logprobs"]["top_logprobs"][0].values()), reverse=True)
            assert len(rows) >= 8 and all(abs(percent(r) / 100 - p) < 0.006 for r, p in zip(rows, top)), (rows, top)
            tab.screenshot(os.path.join(PICTURES, f"serve-engine-{width}.png"))
            tab.check()
    # Two steps of a run beside each other: the same prompt and settings, each text its model's
    early, late = sorted(os.path.join(folder, "<i>run&", name) for name in os.listdir(os.path.join(folder, "<i>run&")) if name.startswith("step_"))[:2]
    with Served("--load", early, "--compare", late, "--threads", 1, "--max-model-len", 128) as both:
        for width in 1400, 400:
            tab.open(both.address, width=width)
            tab.wait("document.getElementById('state').textContent === 'ready'")
            run(tab, max_tokens=40, temperature=1, seed=3)
            shown = tab.evaluate("[...document.querySelectorAll('section')].map(s => [s.querySelector('h2').textContent, s.querySelector('.text').textContent])")
            want = [[os.path.basename(m), PROMPT + both.text(PROMPT, model=os.path.basename(m), max_tokens=40, temperature=1, top_p=0.95, seed=3)["text"]] for m in (early, late)]
            assert shown == want and want[0][1] != want[1][1], (shown, want)
            beside = tab.evaluate("(s => s[0].getBoundingClientRect().top === s[1].getBoundingClientRect().top)(document.querySelectorAll('section'))")
            assert beside == (width == 1400), "texts are beside each other where there is room"
            tab.screenshot(os.path.join(PICTURES, f"serve-side-by-side-{width}.png"))
            tab.check()
print("the page shows the texts and probabilities of jotun serve")
