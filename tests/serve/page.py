"""The page in headless Chromium: texts and settings, streams, probabilities by mouse and by keys, two models, hostile prompts shown as text,
no console error, no outside request, at 400 and 1400 pixels, light and dark. Screenshots stay in build/.../screenshots."""
import json
import os
import sys
import browser
from served import FAKE, Server, expected, shown

HOSTILE = "<img src=x onerror=document.title='broken'><script>document.title='broken'</script>\u001b[31m\u0000\u202e\"'`${7*7}</textarea></div>"
PICTURES = os.path.join(os.path.dirname(os.path.abspath(FAKE)), "..", "screenshots")

if browser.absent():
    print("skipped:", browser.absent())
    sys.exit(77)


def text_of(tab, i=0):
    return tab.evaluate(f"document.querySelectorAll('.text')[{i}].textContent")


def run(tab, prompt, **settings):
    tab.evaluate(f"document.getElementById('prompt').value = {json.dumps(prompt)}")
    for name, value in settings.items():
        tab.evaluate(f"document.getElementById({json.dumps(name)}).value = {json.dumps(str(value))}")
    tab.click("#go")


def done(tab, how="done"):
    tab.wait("!['running', 'ready'].includes(document.getElementById('state').textContent)")
    state = tab.evaluate("document.getElementById('state').textContent")
    assert state == how, f"{state}, not {how}"


def picture(tab, name):
    tab.screenshot(os.path.join(PICTURES, f"serve-{name}.png"))


with Server(models=2, step_us=2000, body=20_000_000, client=30) as server, browser.Browser() as tab:
    for width in 1400, 400:
        for dark in False, True:
            tab.open(server.address, width=width, dark=dark)
            tab.wait("document.getElementById('state').textContent === 'ready'")
            run(tab, "abc", temperature=0, max_tokens=120)
            done(tab)
            for i in 0, 1:
                assert text_of(tab, i) == "abc" + shown(expected("abc", 120)), text_of(tab, i)
            assert tab.evaluate("document.querySelectorAll('section').length") == 2 and "120 tokens" in tab.evaluate("document.querySelector('.quiet').textContent")
            picture(tab, f"{width}{'-dark' if dark else ''}")
            tab.check()
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.dark(False)
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != background, "light and dark differ"

    # Probabilities, by mouse and by keys
    tab.open(server.address)
    tab.wait("document.getElementById('state').textContent === 'ready'")
    run(tab, "abc", temperature=0, max_tokens=40)
    done(tab)
    x, y = tab.evaluate("(r => [r.x + 2, r.y + r.height / 2])(document.querySelectorAll('.token')[4].getBoundingClientRect())")
    tab.move(x, y)
    tab.wait("!!document.querySelector('.chances table')")
    rows = tab.evaluate("[...document.querySelectorAll('.chances table')].map(t => [...t.querySelectorAll('td')].map(d => d.textContent))")[0]
    token = chr(expected("abc", 5)[4])
    assert token.strip() in rows[0] and "(taken)" in rows[0] and rows[1] == "78 %" and rows[3] == "29 %" and len(rows) == 16, rows
    tab.evaluate("document.querySelector('.text').focus()")
    for _ in range(3):
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
        tab.call("Input.dispatchKeyEvent", type="keyUp", key="ArrowRight", code="ArrowRight")
    assert tab.evaluate("document.querySelector('caption').textContent").startswith("Token 8 of 40"), tab.evaluate("document.querySelector('caption').textContent")
    assert tab.evaluate("document.querySelector('.chances').getAttribute('aria-live')") == "polite"
    picture(tab, "probabilities")
    tab.check()

    # Stop button; a stop text; seeds; an error is shown
    tab.evaluate("document.getElementById('max_tokens').value = 1500, document.getElementById('go').click()")
    tab.evaluate("new Promise(done => { const look = () => document.querySelectorAll('.token').length > 20 ? done() : setTimeout(look, 5); look() })")
    tab.click("#halt")
    done(tab, "stopped")
    notes = tab.evaluate("[...document.querySelectorAll('section > p')].map(p => p.textContent)")
    assert notes == ["stopped"] * 2, notes
    run(tab, "abc", temperature=0, max_tokens=60, stop=" sees")
    done(tab)
    want = expected("abc", 60)
    assert text_of(tab) == "abc" + shown(want.split(b" sees")[0]), text_of(tab)
    run(tab, "abc", temperature=1, max_tokens=30, stop="", seed=7)
    done(tab)
    assert text_of(tab) == "abc" + shown(expected("abc", 30, 7)), text_of(tab)
    assert not tab.faults(), tab.faults()
    run(tab, "abc", max_tokens=2047)
    done(tab, "refused")
    assert "positions" in tab.evaluate("document.querySelector('.wrong').textContent")
    tab.forget()                                        # the browser counts a refusal as an error of the console

    # An empty field is left out, so that the server's default holds: 16 tokens, drawn as with temperature 1
    fields = dict.fromkeys(("max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty"), "")
    run(tab, "abc", seed=7, **fields)
    done(tab)
    assert text_of(tab) == "abc" + shown(expected("abc", 16, 7)), text_of(tab)
    run(tab, "abc", temperature=0, max_tokens=1)
    done(tab)
    assert tab.evaluate("document.querySelector('.quiet').textContent").startswith("1 token in"), "1 tokens"

    # A text of blanks stays in its box
    tab.open(server.address, width=400)
    tab.wait("document.getElementById('state').textContent === 'ready'")
    run(tab, " " * 500, temperature=0, max_tokens=1)
    done(tab)
    assert tab.evaluate("(t => t.querySelector('.prompt').getBoundingClientRect().right <= t.getBoundingClientRect().right + 1)(document.querySelector('.text'))")
    tab.check()

    # Hostile prompts are text
    run(tab, HOSTILE, temperature=0, max_tokens=80, seed="")
    done(tab)
    assert text_of(tab) == tab.evaluate("document.getElementById('prompt').value") + shown(expected(HOSTILE, 80)) and tab.evaluate("document.title") == "jotun: try a model", text_of(tab)
    assert not tab.evaluate("document.querySelectorAll('img, section script, .text b').length")
    assert not tab.faults(), tab.faults()
    tab.evaluate("document.getElementById('prompt').value = '<b>x'.repeat(2500000)")       # 10 MB
    tab.click("#go")
    done(tab, "refused")
    assert tab.evaluate("document.querySelectorAll('.wrong').length") == 2 and tab.evaluate("document.title") == "jotun: try a model"
print("the page shows texts, probabilities and refusals as text, at both widths")
