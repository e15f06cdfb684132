"""64 clients of the HTTP server at once, honest, slow, silent, leaving and broken ones: no wrong text, no stall, no growing memory, no leak.

    clients.py              before the fake engine, whose texts are known
    clients.py engine       before jotun serve with two steps of a small run, whose texts are those that each request gets alone

10 seconds, with JOTUN_FULL 600; SECONDS=N says otherwise. Under sanitizers the server is their build."""
import json
import os
import random
import sys
import tempfile
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from served import WAIT, EngineServer, Server, expected, shown  # noqa: E402

ENGINE = sys.argv[1:] == ["engine"]
SECONDS = float(os.environ.get("SECONDS", 600 if os.environ.get("JOTUN_FULL") else 10))
KINDS = ["whole"] * 14 + ["stream"] * 14 + ["scored"] * 4 + ["choices"] * 8 + ["stopped"] * 8 + ["leaving"] * 6 + ["slow"] * 4 + ["silent"] * 2 + ["broken"] * 4
LONGEST = 45                                            # seconds that an honest client may wait for an answer
failures, done, waited = [], {}, {}


def any_prompt(rng):
    return "".join(rng.choices("abcdef\u00e4\u96e8 <>&", k=rng.randint(1, 300)))


class Known:
    """Of the fake engine: any request, since its texts are known"""
    def draw(self, rng, prompts=1, most=120):
        return {"model": None, "max_tokens": rng.randint(1, most), "seed": rng.getrandbits(31), "prompt": [any_prompt(rng) + "!" * (rng.random() < 0.1) for _ in range(prompts)]}

    def text(self, r, prompt=0, choice=0):
        return shown(self.whole(r, prompt, choice))

    def before(self, r, stop):
        return shown(self.whole(r).split(stop.encode())[0])

    def stop(self, rng, r):
        return rng.choice([" sees", "\u96e8 and", "goes.\nthe", "\u00e5"])

    def whole(self, r, prompt=0, choice=0):
        return expected(r["prompt"][prompt], r["max_tokens"], r["seed"], choice)

    def scores(self, r):
        return [None, *(-(i % 8) / 8 for i in range(1, len(r["prompt"][0].encode())))]


class Alone:
    """Of the true engine: requests that were asked for one at a time, before the others came"""
    def __init__(self, server):
        self.pool, self.of = [], {}
        rng, names = random.Random(5), [m["id"] for m in json.loads(server.ask("GET", "/v1/models")[2])["data"]]
        assert len(names) == 2, names
        for i in range(12):
            each = {"model": names[i % 2], "max_tokens": rng.randint(1, 40), "seed": rng.getrandbits(31)}
            prompts = [any_prompt(rng) for _ in range(3)]
            self.pool.append((each, prompts))
            for p in prompts:
                status, data = server.complete(p, temperature=1, n=2, tokens=each["max_tokens"], model=each["model"], seed=each["seed"])
                assert status == 200, data
                _, scored = server.complete(p, 0, echo=True, logprobs=2, model=each["model"])
                self.of[self.key(each, p)] = [c["text"] for c in data["choices"]], scored["choices"][0]["logprobs"]["token_logprobs"]

    def key(self, r, prompt):
        return r["model"], r["max_tokens"], r["seed"], prompt

    def draw(self, rng, prompts=1, most=None):
        each, known = rng.choice(self.pool)
        return {**each, "prompt": rng.sample(known, prompts)}

    def text(self, r, prompt=0, choice=0):
        return self.of[self.key(r, r["prompt"][prompt])][0][choice]

    def before(self, r, stop):
        return self.text(r).split(stop)[0]

    def stop(self, rng, r):
        at = rng.randrange(len(self.text(r)) or 1)
        return self.text(r)[at:at + 2].replace("\ufffd", "") or "nowhere"

    def scores(self, r):
        return self.of[self.key(r, r["prompt"][0])][1]


def ask_whole(server, rng):
    r = known.draw(rng)
    status, data = server.complete(r["prompt"][0], r["max_tokens"], seed=r["seed"], temperature=1, model=r["model"])
    assert status == 200, data
    assert data["choices"][0]["text"] == known.text(r), (r, data)


def ask_stream(server, rng, stops=False):
    r = known.draw(rng, most=200)
    stop = known.stop(rng, r) if stops else None
    body = {**r, "prompt": r["prompt"][0], "stream": True, "logprobs": rng.choice([None, 3]), "stop": stop}
    with server.send("POST", "/v1/completions", body) as client:
        assert client.head() == 200, client.status
        *events, end = client.events()
    text = "".join(e["choices"][0]["text"] for e in events)
    assert end is None and text == (known.before(r, stop) if stop else known.text(r)), (r, stop, text)


def ask_scored(server, rng):
    r = known.draw(rng)
    status, data = server.complete(r["prompt"][0], 0, echo=True, logprobs=2, model=r["model"])
    assert status == 200 and data["choices"][0]["text"] == r["prompt"][0], data
    assert data["choices"][0]["logprobs"]["token_logprobs"] == known.scores(r), (r, data)


def ask_choices(server, rng):
    r, n = known.draw(rng, prompts=rng.randint(1, 3), most=60), rng.randint(1, 2)
    status, data = server.complete(r["prompt"], r["max_tokens"], seed=r["seed"], temperature=1, n=n, model=r["model"])
    assert status == 200 and len(data["choices"]) == len(r["prompt"]) * n, data
    for i, choice in enumerate(data["choices"]):
        assert choice["text"] == known.text(r, i // n, i % n), (r, i, choice)


def ask_stopped(server, rng):
    ask_stream(server, rng, stops=True)


def ask_leaving(server, rng):
    with server.send("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1500, "n": 2, "stream": rng.random() < 0.5}) as client:
        time.sleep(rng.random())
        if rng.random() < 0.3:
            client.sock.shutdown(1)
            time.sleep(0.2)


def ask_slow(server, rng):
    """Reads a little now and then, until the server has enough of it"""
    with server.send("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1500, "stream": True, "logprobs": 20}) as client:
        try:
            while client.sock.recv(64) and not over():
                time.sleep(0.05)
        except OSError:
            pass


def ask_silent(server, rng):
    with server.connect() as sock:
        try:
            sock.sendall(rng.choice([b"", b"GET", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"]))
            sock.recv(1000)
        except OSError:
            pass


def ask_broken(server, rng):
    body = rng.choice([b"{", rng.randbytes(1000), b'{"prompt": "a", "no": 1}', b'{"prompt": "' + b"a" * 100000 + b'"}', b'{"prompt": [[1, 2], [300]]}'])
    status, _, data = server.ask("POST", "/v1/completions", body)
    assert status in (400, 413) and json.loads(data)["error"]["message"], (status, data)


def over():
    return time.time() > END or failures


def client(number, kind, server):
    rng = random.Random(number)
    while not over():
        begun = time.time()
        try:
            globals()["ask_" + kind](server, rng)
        except Exception as e:
            failures.append(f"client {number}, {kind}: {type(e).__name__}: {str(e)[:500]}")
        done[kind] = done.get(kind, 0) + 1
        if kind not in ("slow", "silent"):
            waited[kind] = max(waited.get(kind, 0), time.time() - begun)
        if kind in ("broken", "whole"):
            time.sleep(0.05)


def started(folder):
    if not ENGINE:
        return Server(rows=64, step_us=1000, client=3, seconds=60, connections=256, waiting=512)
    from serving import trained
    run = trained(folder, "run-1", "--save-interval", 20, steps=40)
    early, late = sorted(os.path.join(run, name) for name in os.listdir(run) if name.startswith("step_"))[:2]
    return EngineServer("--load", early, "--compare", late, "--threads", 1, "--max-model-len", 2048, "--micro-batch-size", 24, "--client-timeout", 3, "--max-request-seconds", 60,
                        "--max-body-bytes", 65536, "--max-request-texts", 8, "--max-request-tokens", 4096, "--max-queue", 512)


def idle(server):
    """Nothing runs or waits, and no text has a page of a cache."""
    names = ["sequences_running", "sequences_waiting", "cache_pages_used"]
    return all(server.metric(name) == 0 for name in names) and server.metric("connections") <= 1


with tempfile.TemporaryDirectory(prefix="jotun-clients-") as folder, started(folder) as server:
    known = Alone(server) if ENGINE else Known()
    ask_whole(server, random.Random(1))
    END = time.time() + SECONDS
    threads = [threading.Thread(target=client, args=(i, kind, server)) for i, kind in enumerate(KINDS)]
    for t in threads:
        t.start()
    early = most = 0
    while not over():
        time.sleep(min(1, SECONDS / 10))
        most = max(most, server.memory())
        if time.time() > END - 0.7 * SECONDS and not early:
            early = most                                # of the first third, when all has run
    for t in threads:
        t.join(WAIT * 2)
        if t.is_alive():
            sys.exit("a client waits for ever")
    if failures:
        print("\n".join(failures[:5]))
        server.process.kill()
        sys.exit(1)
    end = time.time() + WAIT
    while not idle(server):
        assert time.time() < end, "texts, pages or connections are left: " + server.ask("GET", "/metrics")[2].decode()[:2000]
        time.sleep(0.1)
    assert all(done.get(kind) for kind in set(KINDS)), done
    assert max(waited.values()) < LONGEST, waited
    sanitized = os.environ.get("SANITIZE", "")
    assert most < (1 << 30 if sanitized else 200 << 20), f"{most >> 20} MiB"
    assert SECONDS < 60 or most < early * 1.25 + (16 << 20), f"memory grew from {early >> 20} to {most >> 20} MiB"
    print(", ".join(f"{kind}: {done[kind]}" for kind in sorted(done)), f"; longest wait {max(waited.values()):.1f} s, {most >> 20} MiB")
