"""64 clients of the HTTP server at once, honest, slow, silent, leaving and broken ones: no wrong text, no stall, no growing memory, no leak.
10 seconds, with JOTUN_FULL 600; SECONDS=N says otherwise. Under sanitizers the server is their build."""
import json
import os
import random
import sys
import threading
import time
from served import WAIT, Server, expected, shown

SECONDS = float(os.environ.get("SECONDS", 600 if os.environ.get("JOTUN_FULL") else 10))
KINDS = ["whole"] * 16 + ["stream"] * 16 + ["choices"] * 8 + ["stopped"] * 8 + ["leaving"] * 6 + ["slow"] * 4 + ["silent"] * 2 + ["broken"] * 4
LONGEST = 45                                            # seconds that an honest client may wait for an answer
failures, done, waited = [], {}, {}


def ask_whole(server, rng):
    prompt, tokens, seed = "".join(rng.choices("abcdef\u00e4\u96e8 <>&", k=rng.randint(1, 300))), rng.randint(1, 120), rng.getrandbits(31)
    status, data = server.complete(prompt, tokens, seed=seed, temperature=1)
    assert status == 200, data
    assert data["choices"][0]["text"] == shown(expected(prompt, tokens, seed)), (prompt, tokens, seed, data)


def ask_stream(server, rng, stop=None):
    prompt, tokens, seed = str(rng.random()) + "!" * rng.randint(0, 1), rng.randint(1, 200), rng.getrandbits(31)
    want = expected(prompt, tokens, seed)
    if stop and stop.encode() in want:
        want = want[:want.find(stop.encode())]
    body = {"prompt": prompt, "max_tokens": tokens, "seed": seed, "stream": True, "logprobs": rng.choice([None, 3]), "stop": stop}
    with server.send("POST", "/v1/completions", body) as client:
        assert client.head() == 200, client.status
        *events, end = client.events()
    assert end is None and "".join(e["choices"][0]["text"] for e in events) == shown(want), (prompt, tokens, seed, events[-2:])


def ask_choices(server, rng):
    prompts, n, tokens, seed = [str(rng.random()) for _ in range(rng.randint(1, 3))], rng.randint(1, 2), rng.randint(1, 60), rng.getrandbits(31)
    status, data = server.complete(prompts, tokens, seed=seed, temperature=1, n=n)
    assert status == 200 and len(data["choices"]) == len(prompts) * n, data
    for i, choice in enumerate(data["choices"]):
        assert choice["text"] == shown(expected(prompts[i // n], tokens, seed, i % n)), (prompts, i, seed, choice)


def ask_stopped(server, rng):
    ask_stream(server, rng, rng.choice([" sees", "\u96e8 and", "goes.\nthe", "\u00e5"]))


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


with Server(rows=64, step_us=1000, client=3, seconds=60, connections=256, waiting=512) as server:
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
    while (left := [server.metric(m) for m in ("texts_running", "texts_waiting")]) != [0, 0] or server.metric("connections") > 1:
        assert time.time() < end, f"texts are left: {left}"
        time.sleep(0.1)
    assert all(done.get(kind) for kind in set(KINDS)), done
    assert max(waited.values()) < LONGEST, waited
    sanitized = os.environ.get("SANITIZE", "")
    assert most < (1 << 30 if sanitized else 200 << 20), f"{most >> 20} MiB"
    assert SECONDS < 60 or most < early * 1.25 + (16 << 20), f"memory grew from {early >> 20} to {most >> 20} MiB"
    print(", ".join(f"{kind}: {done[kind]}" for kind in sorted(done)), f"; longest wait {max(waited.values()):.1f} s, {most >> 20} MiB")
