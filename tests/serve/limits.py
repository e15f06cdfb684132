"""Limits of the HTTP server: bodies, tokens, queue, time, slow, silent and broken clients, turns, and how it ends."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from served import FAKE, WAIT, Client, Server, bearer, expected, shown


def code_of(answer):
    return answer[0], json.loads(answer[2])["error"]["code"]


def wait_for(what, seconds=WAIT):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "it did not come to pass"
        time.sleep(0.02)


def closed(sock):
    """Whether the server has closed this connection, which answers nothing any more"""
    try:
        return sock.recv(65536) == b""
    except (ConnectionResetError, BrokenPipeError):
        return True
    except socket.timeout:
        return False


def sizes():
    with Server(body=20000, prompt=100, new=50, step_us=0) as server:
        assert server.complete("a" * 100)[0] == 200
        assert code_of(server.ask("POST", "/v1/completions", {"prompt": "a" * 101})) == (400, "context_length_exceeded")
        assert code_of(server.ask("POST", "/v1/completions", {"prompt": [1] * 101})) == (400, "context_length_exceeded")
        assert code_of(server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 51})) == (400, "invalid_value")
        for size, want in (19980, 400), (20001, 413), (10_000_000, 413):
            assert server.ask("POST", "/v1/completions", {"prompt": "a" * (size - 14)})[0] == want, size
        chunks = b"".join(b"1000\r\n" + b"a" * 4096 + b"\r\n" for _ in range(100)) + b"0\r\n\r\n"
        with server.connect() as sock:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
            assert b" 413 " in sock.recv(4096)
        with server.connect() as sock:
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100000 + b"\r\n\r\n")
            assert b" 431 " in sock.recv(4096)
        for lines, want in [(b"a: b\r\n" * 5000, b" 431 "), (b"Cookie: " + b"a;" * 20000 + b"\r\n", b" 431 ")]:
            assert want in raw(server, GET[:-2] + lines + b"\r\n")[0], lines[:10]
        for path, want in [("/" + "a" * 100000, b" 414 "), ("/health?" + "a=b&" * 20, b" 200 ")]:
            assert want in raw(server, post("Connection: close", method="GET", path=path))[0], path[:10]
        chunked = post("Transfer-Encoding: chunked")
        for size in b"1;" + b"e" * 100000 + b"\r\n", b"0" * 100000 + b"1\r\n", b"-1\r\n", b"f" * 17 + b"\r\n", b"2\r\n{}xx", b"0\r\n" + b"a: b\r\n" * 10000 + b"\r\n":
            said, ended = raw(server, chunked + size)
            assert ended and b" 200 " not in said, (size[:10], said)
        for junk in b"\0" * 1000, b"\r\n" * 1000, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500), b"GET / HTTP/9.9\r\n\r\n", \
                b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n":
            with server.connect(1) as sock:
                try:
                    sock.sendall(junk)
                    sock.recv(4096)
                except OSError:
                    pass
        before = server.memory()
        for _ in range(40):
            assert server.ask("POST", "/v1/completions", b"[" + b"[]," * 6000 + b"[]]")[0] == 400
        assert server.memory() < before + (64 << 20), "memory of refused bodies"
        assert server.complete("a")[0] == 200


def raw(server, data, seconds=5):
    """All that the server says to these bytes until it closes the connection, and whether it has closed it"""
    said = b""
    with server.connect(seconds) as sock:
        try:
            sock.sendall(data)
            while (part := sock.recv(65536)):
                said += part
        except socket.timeout:
            return said, False
        except OSError:
            pass
        return said, True


def post(*headers, body=b"", path="/v1/completions", method="POST", version="HTTP/1.1"):
    lines = [f"{method} {path} {version}", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNCLEAR = [                                             # heads that two programs may read in two ways
    ["Content-Length: 2", f"Content-Length: {2 + len(GET)}"], ["Content-Length: 2", "Content-Length: 2"], ["Content-Length: 2", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding: chunked", "Content-Length: 2"], ["Transfer-Encoding: identity"], ["Transfer-Encoding: gzip, chunked"], ["Transfer-Encoding: chunked, identity"],
    ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], ["Transfer-Encoding: xchunked"], ["Transfer-Encoding:"], ["Transfer-Encoding: chunked", "Transfer-Encoding: x"],
    ["Content-Length : 2"], ["Content-Length\t: 2"], ["Content-Length:", " 2"], ["Transfer-Encoding:", "\tchunked"], ["Transfer-Encoding : chunked"], ["X: a", " Content-Length: 2"],
    ["Content-Length: +2"], ["Content-Length: 2, 2"], ["Content-Length: 0x2"], ["Content-Length:"], ["Content-Length: -1"], ["Content-Length: 2 2"], ["X: a\rContent-Length: 2"],
    ["Host: localhost"], ["Host: evil.example"], ["X[: a"], ["X\x7f: a"], ["no colon"],
]


def framing():
    """No second request is found in what a first one has behind its head: each is refused, and its connection closed."""
    with Server() as server:
        for headers in UNCLEAR:
            said, ended = raw(server, post(*headers, body=b"{}" + GET))
            assert ended and said.startswith(b"HTTP/1.1 400 ") and b" 200 " not in said and b"Connection: close" in said, (headers, said, ended)
        for junk in b"GET /health HTTP/1.1\r\n\r\n" + GET, b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n" + GET, post("Transfer-Encoding: chunked", version="HTTP/1.0", body=b"0\r\n\r\n" + GET):
            said, ended = raw(server, junk)
            assert ended and b" 200 " not in said, (junk, said)
        for junk, want in (GET.replace(b"1.1", b"9.9"), 505), (GET.replace(b"Host", b"X"), 400), (GET.replace(b"health", b"a" * 100000), 414), \
                (GET.replace(b"localhost", b"localhost\r\nX: " + b"a" * 100000), 431):         # the library's own pages
            assert raw(server, junk)[0].startswith(b"HTTP/1.1 %d " % want), want
        body = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
        for good in post(f"Content-Length: {len(body)}", body=body), post("transfer-encoding: Chunked", body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)), GET:
            said, ended = raw(server, good + GET + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert ended and said.count(b"HTTP/1.1 200 ") == 3, said


def refused_heads():
    """Whoever may not ask is answered by the head of the request, and nothing of the body is kept."""
    with Server(token="token-of-a-test", body=2 << 20) as server:
        for headers, line, want in [([], "POST /v1/completions", 401), (["Authorization: Bearer x"], "POST /v1/completions", 401), (["Authorization: Bearer token-of-a-test"], "POST /nothing", 404),
                                    (["Authorization: Bearer token-of-a-test"], "POST /health", 405), (["Authorization: Bearer token-of-a-test"], "PUT /v1/completions", 405),
                                    (["Authorization: Bearer token-of-a-test", "Content-Length: 3000000", "Expect: 100-continue"], "POST /v1/completions", 413)]:
            method, path = line.split()
            length = [] if any("Length" in h for h in headers) else ["Content-Length: 1000000"]
            said, ended = raw(server, post(*headers, *length, method=method, path=path))
            assert ended and said.startswith(b"HTTP/1.1 %d " % want) and b"Connection: close" in said, (line, said, ended)
        assert raw(server, post("Content-Length: 2", "Authorization: Bearer token-of-a-test", body=b"{}").replace(b"application/json", b"text/plain"))[0].startswith(b"HTTP/1.1 415 ")
        server.ask("GET", "/health", headers=bearer("token-of-a-test"))
        before, held = server.memory(), []
        for _ in range(200):                             # of which none sends the end of its body
            held.append(server.connect())
            try:
                held[-1].sendall(post("Content-Length: 1500000", body=b"x" * 1000000))
            except OSError:
                pass
        assert server.memory() < before + (16 << 20), f"{(server.memory() - before) >> 20} MiB for bodies of clients without a token"
        for sock in held:
            sock.close()
        assert server.complete("a", headers=bearer("token-of-a-test"))[0] == 200
    with Server(body=1000) as server:                    # no body is kept where none belongs, or where it is said to be too large
        before = server.memory()
        socks = [server.connect() for _ in range(60)]
        for i, sock in enumerate(socks):
            sock.sendall(post("Content-Length: 1500000", body=b"x" * 1400000, **({"method": "GET", "path": "/health"} if i % 2 else {})))
        assert server.memory() < before + (16 << 20), f"{(server.memory() - before) >> 20} MiB"
        for sock in socks:
            sock.sendall(b"x" * 100000)
            assert sock.recv(12) in (b"HTTP/1.1 413", b"HTTP/1.1 200")
            sock.close()


def late_bodies():
    """A client that sends its whole body before it reads an answer that was there earlier reads it all the same."""
    with Server(token="token-of-a-test") as server:
        for headers in ["Content-Length: 1200000"], ["Transfer-Encoding: chunked"]:
            with server.connect() as sock:
                sock.sendall(post(*headers))
                for _ in range(12):
                    time.sleep(0.05)
                    sock.sendall(b"x" * 100000)
                assert Client.read(sock)[0] == 401, headers
        with server.connect(20) as sock:                 # for some seconds, and not for ever
            sock.sendall(post("Content-Length: 1000000000"))
            begun = time.time()
            try:
                while time.time() < begun + 20:
                    sock.sendall(b"x" * 1000)
                    time.sleep(0.01)
            except OSError:
                pass
            assert 1 < time.time() - begun < 10, time.time() - begun


def slowness(server, headers=None):
    """Seconds that this machine, if it is busy, may add to a bound: those of 20 of the plainest requests, which take 0.1 s on an idle one"""
    begun = time.time()
    for _ in range(20):
        assert server.ask("GET", "/health", headers=headers)[0] == 200
    return time.time() - begun


def crowds():
    """Silent connections give way to requests, and connections of those who may not ask do; those of whoever may ask stay."""
    token = bearer("token-of-a-test")
    with Server(token="token-of-a-test", connections=32, client=WAIT, step_us=20000) as server:
        kept = server.send("GET", "/health", headers=token)
        assert kept.answer()[0] == 200
        slower = slowness(server, token)
        stream = server.send("POST", "/v1/completions", {"prompt": "a", "max_tokens": 200, "stream": True}, token)
        slow = server.connect()                          # its body comes late
        body = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
        slow.sendall(post("Authorization: Bearer token-of-a-test", f"Content-Length: {len(body)}"))
        crowd = [server.connect() for _ in range(100)]   # more than the backlog of those that are accepted
        for i, sock in enumerate(crowd):
            sock.sendall([b"", b"GET", b"GET /health HTTP/1.1\r\nHost: localhost\r\n", post("Content-Length: 1000")][i % 4])
        begun = time.time()
        assert server.ask("GET", "/health", headers=token)[0] == 200
        assert time.time() - begun < 8 + slower, f"{time.time() - begun:.1f} s behind silent connections"
        wait_for(lambda: sum(map(closed_now, crowd)) > 70)
        begun = time.time()
        assert server.ask("GET", "/health", headers=token)[0] == 200 and time.time() - begun < 2 + slower, "there is room for the next one"
        slow.sendall(body)
        assert Client.read(slow)[0] == 200
        assert stream.head() == 200 and sum(1 for _ in stream.events()) > 100
        with Client(kept.sock, "GET", "/health", headers=token) as again:
            assert again.answer()[0] == 200, "a connection between two requests was ended while there were silent ones"
        for sock in crowd + [slow, stream]:
            sock.close()
    with Server(connections=8, client=WAIT) as server:   # all are idle between two requests
        slower = slowness(server)
        idle = [server.send("GET", "/health") for _ in range(8)]
        assert all(client.answer()[0] == 200 for client in idle)
        begun = time.time()
        assert server.ask("GET", "/health")[0] == 200 and time.time() - begun < 8 + slower
        assert sum(closed_now(client.sock) for client in idle) < 4
        for client in idle:
            client.close()


def closed_now(sock):
    sock.setblocking(False)
    try:
        return sock.recv(65536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def pipelined():
    """Several requests at once are answered in order; a refusal ends the connection only where what follows is not certain."""
    with Server() as server:
        complete = lambda **members: post(f"Content-Length: {len(body := json.dumps({'prompt': 'a', 'max_tokens': 2, **members}).encode())}", body=body)
        said, ended = raw(server, complete() + complete(no=1) + GET.replace(b"health", b"nothing") + complete(stream=True) + GET.replace(b"GET", b"DELETE") + GET * 100 + complete(max_tokens=-1) + GET.replace(b"GET", b"HEAD") +
                          post("Content-Length: 5", body=b"x" * 5, path="/nothing") + GET)
        assert ended and re.findall(rb"HTTP/1.1 (\d+)", said) == [b"200", b"400", b"404", b"200", b"405"] + [b"200"] * 100 + [b"400", b"200", b"404"], re.findall(rb"HTTP/1.1 (\d+)", said)


def slow_clients():
    """Each has a moment to send its request and to take an answer; others are not held up."""
    with Server(client=3, seconds=3, connections=12) as server:
        silent, dripping = [server.connect() for _ in range(4)], [server.connect() for _ in range(3)]
        begun = time.time()
        dripping[1].sendall(post("Content-Length: 1000"))
        dripping[2].sendall(post("Transfer-Encoding: chunked", body=b"1000\r\n"))
        for sock, more in zip(dripping, [[], [b" " * 1000], [b" " * 1000]]):
            threading.Thread(target=drip, args=(sock, *more), daemon=True).start()
        assert server.complete("a")[0] == 200 and time.time() - begun < 2.9, "others are answered meanwhile"
        assert all(closed(s) for s in silent + dripping), "they are ended"
        assert time.time() - begun < 10, f"{time.time() - begun:.1f} s, of 100 that they would take"
        for s in silent + dripping:
            s.close()
        with server.connect() as sock:                   # asks for much and reads none of it
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client = Client(sock, "POST", "/v1/completions", {"prompt": "a", "max_tokens": 1500, "stream": True, "logprobs": 20})
            wait_for(lambda: server.metric("sequences_running") == 0)
            wait_for(lambda: server.metric("connections") == 1)
            client.close()
        wait_for(lambda: server.complete("a")[0] == 200)


def drip(sock, data=b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1000):
    try:
        for byte in data:
            sock.sendall(bytes([byte]))
            time.sleep(0.1)
    except OSError:
        pass


def time_limit():
    with Server(seconds=3, rows=1, step_us=20000) as server:
        body = {"prompt": "a", "max_tokens": 2000}
        with server.send("POST", "/v1/completions", {**body, "stream": True}) as running:
            wait_for(lambda: server.metric("sequences_running") == 1)           # of two requests at once either may be first
            with server.send("POST", "/v1/completions", body) as waiting:
                running.head()
                events = list(running.events())
                assert len(events) > 5 and events[-1]["error"]["code"] == "timeout", events[-1]
                assert code_of(waiting.answer()) == (504, "timeout")
        wait_for(lambda: server.metric("sequences_running") == 0)
        assert server.complete("a", 3)[0] == 200


def cancellation():
    """A client that leaves takes its texts with it, whether they run or wait, as a stream or not."""
    with Server(rows=2, step_us=20000) as server:
        for stream in True, False:
            clients = []
            for _ in range(3):                               # the first runs; of two requests at once either may be first
                clients.append(server.send("POST", "/v1/completions", {"prompt": "a", "max_tokens": 2000, "n": 2, "stream": stream}))
                wait_for(lambda: server.metric("sequences_running") + server.metric("sequences_waiting") == 2 * len(clients))
            wait_for(lambda: (server.metric("sequences_running"), server.metric("sequences_waiting")) == (2, 4))
            clients.pop().close()
            wait_for(lambda: server.metric("sequences_waiting") == 2)
            clients.pop(0).close()
            wait_for(lambda: (server.metric("sequences_running"), server.metric("sequences_waiting")) == (2, 0))
            clients.pop().close()
            wait_for(lambda: server.metric("sequences_running") == 0)
        wait_for(lambda: server.metric("sequences_cancelled_total") == 8)           # those that ran: of the first and the last client, twice
        assert server.complete("a", 3)[0] == 200


def flooded(server, body, headers):
    """Requests, the first of which runs for 500 steps and the others wait, so that the queue is full"""
    flood = [server.send("POST", "/v1/completions", {**body, "max_tokens": 500}, headers[0])]
    wait_for(lambda: server.metric("sequences_running", headers[0]) == 1)
    for i, header in enumerate(headers):                 # one after the other, since threads of the server may change their order
        flood.append(server.send("POST", "/v1/completions", body, header))
        wait_for(lambda: server.metric("sequences_waiting", headers[0]) == i + 1)
    return flood


def turns():
    """One client that floods the server with requests does not keep out another one, whose first text waits for one of the flood at most."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "tokens")
        open(file, "w").write("flooding-client\n\nanother-client\r\n")
        for texts in 1, 3:                               # of the other client's request, for which as many requests of the flood have to leave
            with Server(rows=1, step_us=8000, waiting=10, token_file=file) as server:
                one, other = bearer("flooding-client"), bearer("another-client")
                body = {"prompt": "a", "max_tokens": 20}
                flood = flooded(server, body, [one] * 10)
                assert code_of(server.ask("POST", "/v1/completions", body, one)) == (429, "queue_full")
                begun = time.time()
                assert [c["text"] for c in server.complete("b", 20, other, seed=1, n=texts)[1]["choices"]] == texts * [shown(expected("b", 20))]
                took = time.time() - begun
                answers = [client.answer() for client in flood]
                if texts == 1:
                    assert took < time.time() - begun - 5 * 20 * 0.008, (took, time.time() - begun)
                assert [a[0] for a in answers] == (len(flood) - texts) * [200] + texts * [429], "the newest of the flood give way"
                assert answers[-1][1]["retry-after"] == "1" and server.metric("queue_refusals_total", one) == 1 + texts
                for client in flood:
                    client.close()


def places():
    """Of a client with long texts in all places one is preempted for another client's, and each text continues where it was."""
    with Server(rows=4, step_us=10000) as server:
        members = {"max_tokens": 600, "temperature": 1, "seed": 5, "n": 2, "stop": ["never"]}
        long = [server.send("POST", "/v1/completions", {**members, "prompt": p, "stream": p == "b", **({"echo": True, "logprobs": 2} if p != "b" else {})}) for p in "abc"]
        wait_for(lambda: (server.metric("sequences_running"), server.metric("sequences_waiting")) == (4, 2))
        for i in range(3):                               # 600 steps take 6 seconds at least, and there are two rounds of them
            with server.send("POST", "/v1/completions", {"prompt": "other", "max_tokens": 1, "seed": 1}, own=f"127.0.0.{2 + i}") as other:
                assert json.loads(other.answer()[2])["choices"][0]["text"] == shown(expected("other", 1, 1))
            wait_for(lambda: (server.metric("sequences_running"), server.metric("sequences_waiting")) == (4, 2))      # no long text has ended
        texts = []
        for client in long:
            if client is long[1]:
                client.head()
                said = [e["choices"][0] for e in client.events() if e]
                texts.append(["".join(c["text"] for c in said if c["index"] == i) for i in range(2)])
            else:
                choices = json.loads(client.answer()[2])["choices"]
                assert all(len(c["logprobs"]["tokens"]) == 601 for c in choices)
                texts.append([c["text"][1:] for c in choices])
            client.close()
        for prompt, of in zip("abc", texts, strict=True):
            assert of == [shown(expected(prompt, 600, 5, i)) for i in range(2)], (prompt, of)
        assert server.metric("sequences_cancelled_total") == 0 and 3 <= server.metric("preemptions_total") <= 6 and server.metric("generated_tokens_total") == 6 * 600 + 3
        assert server.metric("sequences_waiting") == server.metric("sequences_running") == 0


def forwarded():
    """Behind a proxy, which sets X-Forwarded-For"""
    for one, other in [("192.0.2.1", "192.0.2.2"), ("192.0.2.1:{}", "192.0.2.2:1"), ("2001:db8::{}", "2001:db8:0:1::1"), ("[2001:db8::{}]:{}", "[2001:db8:0:1::1]")]:
        forwarded_from(one, other)


def forwarded_from(one, other):
    with Server(rows=1, step_us=4000, waiting=10, forwarded=1) as server:
        body = {"prompt": "a", "max_tokens": 20}
        forged = [{"X-Forwarded-For": f"forged, forged-{i}", "x-forwarded-for": f"forged-{i}, {one.format(i + 1, i + 1)} "} for i in range(10)]
        flood = flooded(server, body, forged)
        assert server.ask("POST", "/v1/completions", body, {"X-Forwarded-For": f"{one}, {other}"})[0] == 200
        answers = [client.answer()[0] for client in flood]
        assert answers.count(429) == 1, answers


def ends():
    """SIGTERM: what is asked for is answered, nothing else is taken."""
    server = Server(rows=1, step_us=20000)
    texts = [server.send("POST", "/v1/completions", {"prompt": "a", "max_tokens": 60, "temperature": 0}) for _ in range(3)]
    idle = server.connect()
    wait_for(lambda: server.metric("sequences_waiting") == 2)
    server.process.send_signal(signal.SIGTERM)
    health = Client(idle, "GET", "/health")
    wait_for(lambda: refused(server))
    assert health.head() in (200, 503)
    for client in texts:
        status, _, data = client.answer()
        assert status == 200 and json.loads(data)["choices"][0]["text"] == shown(expected("a", 60)), data
    assert server.process.wait(WAIT) == 0
    server.process.stdout.close()


def refused(server):
    try:
        server.connect(1).close()
    except ConnectionRefusedError:
        return True
    return False


def starts():
    with Server() as server:
        again = subprocess.run([FAKE, f"port={server.port}"], capture_output=True, text=True)
        assert again.returncode == 1 and "in use" in again.stderr and "another --port" in again.stderr, again
    for settings, words in (["host=no.such.host.invalid"], "no address of this machine"), (["token=short"], "8 to 512"), (["token=with a blank"], "no blanks"):
        again = subprocess.run([FAKE] + settings, capture_output=True, text=True)
        assert again.returncode == 1 and words in again.stderr and "with a blank" not in again.stderr, again


ALL = [sizes, framing, refused_heads, late_bodies, pipelined, crowds, slow_clients, time_limit, cancellation, turns, places, forwarded, ends, starts]
for test in [test for test in ALL if test.__name__ in sys.argv[1:] or not sys.argv[1:]]:
    begun = time.time()
    test()
    print(f"{test.__name__}: {time.time() - begun:.1f} s", flush=True)
