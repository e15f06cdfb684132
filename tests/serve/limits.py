"""Limits of the HTTP server: bodies, tokens, queue, time, slow, silent and broken clients, turns, and how it ends."""
import json
import os
import signal
import socket
import subprocess
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


def slow_clients():
    """Each has a moment to send its request and to take an answer; others are not held up."""
    with Server(client=1, seconds=3, connections=12) as server:
        silent, dripping = [server.connect() for _ in range(4)], server.connect()
        begun = time.time()
        threading.Thread(target=drip, args=(dripping,), daemon=True).start()
        assert server.complete("a")[0] == 200 and time.time() - begun < 0.9, "others are answered meanwhile"
        assert all(closed(s) for s in silent + [dripping]), "they are ended"
        assert time.time() - begun < 8, time.time() - begun
        for s in silent + [dripping]:
            s.close()
        with server.connect() as sock:                   # asks for much and reads none of it
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client = Client(sock, "POST", "/v1/completions", {"prompt": "a", "max_tokens": 1500, "stream": True, "logprobs": 20})
            wait_for(lambda: server.metric("texts_running") == 0)
            wait_for(lambda: server.metric("connections") == 1)
            client.close()
        wait_for(lambda: server.complete("a")[0] == 200)


def drip(sock):
    try:
        for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1000:
            sock.sendall(bytes([byte]))
            time.sleep(0.1)
    except OSError:
        pass


def time_limit():
    with Server(seconds=3, rows=1, step_us=20000) as server:
        body = {"prompt": "a", "max_tokens": 2000}
        with server.send("POST", "/v1/completions", {**body, "stream": True}) as running:
            wait_for(lambda: server.metric("texts_running") == 1)           # of two requests at once either may be first
            with server.send("POST", "/v1/completions", body) as waiting:
                running.head()
                events = list(running.events())
                assert len(events) > 5 and events[-1]["error"]["code"] == "timeout", events[-1]
                assert code_of(waiting.answer()) == (504, "timeout")
        wait_for(lambda: server.metric("texts_running") == 0)
        assert server.complete("a", 3)[0] == 200


def cancellation():
    """A client that leaves takes its texts with it, whether they run or wait, as a stream or not."""
    with Server(rows=2, step_us=20000) as server:
        for stream in True, False:
            clients = [server.send("POST", "/v1/completions", {"prompt": "a", "max_tokens": 2000, "n": 2, "stream": stream}) for _ in range(3)]
            wait_for(lambda: (server.metric("texts_running"), server.metric("texts_waiting")) == (2, 4))
            clients.pop().close()
            wait_for(lambda: server.metric("texts_waiting") == 2)
            clients.pop(0).close()
            wait_for(lambda: (server.metric("texts_running"), server.metric("texts_waiting")) == (2, 0))
            clients.pop().close()
            wait_for(lambda: server.metric("texts_running") == 0)
        assert server.metric("texts_cancelled_total") >= 6
        assert server.complete("a", 3)[0] == 200


def flooded(server, body, headers):
    """Requests, the first of which runs for two seconds and the others wait, so that the queue is full"""
    flood = [server.send("POST", "/v1/completions", {**body, "max_tokens": 250}, headers[0])]
    wait_for(lambda: server.metric("texts_running", headers[0]) == 1)
    for i, header in enumerate(headers):                 # one after the other, since threads of the server may change their order
        flood.append(server.send("POST", "/v1/completions", body, header))
        wait_for(lambda: server.metric("texts_waiting", headers[0]) == i + 1)
    return flood


def turns():
    """One client that floods the server with requests does not keep out another one, whose request waits for one text at most."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "tokens")
        open(file, "w").write("flooding-client\n\nanother-client\r\n")
        with Server(rows=1, step_us=8000, waiting=10, token_file=file) as server:
            one, other = bearer("flooding-client"), bearer("another-client")
            body = {"prompt": "a", "max_tokens": 20}
            flood = flooded(server, body, [one] * 10)
            assert code_of(server.ask("POST", "/v1/completions", body, one)) == (429, "queue_full")
            begun = time.time()
            assert server.complete("b", 20, other, seed=1)[1]["choices"][0]["text"] == shown(expected("b", 20))
            took = time.time() - begun
            answers = [client.answer() for client in flood]
            assert took < time.time() - begun - 5 * 20 * 0.008, (took, time.time() - begun)
            assert [a[0] for a in answers].count(429) == 1 and answers[-1][0] == 429, "the newest of the flood gives way"
            assert answers[-1][1]["retry-after"] == "1"
            for client in flood:
                client.close()


def forwarded():
    """Behind a proxy, which sets X-Forwarded-For"""
    with Server(rows=1, step_us=8000, waiting=10, forwarded=1) as server:
        body = {"prompt": "a", "max_tokens": 20}
        flood = flooded(server, body, [{"X-Forwarded-For": f"forged-{i}, 192.0.2.1"} for i in range(10)])
        assert server.ask("POST", "/v1/completions", body, {"X-Forwarded-For": "192.0.2.1, 192.0.2.2"})[0] == 200
        answers = [client.answer()[0] for client in flood]
        assert answers.count(429) == 1, answers


def ends():
    """SIGTERM: what is asked for is answered, nothing else is taken."""
    server = Server(rows=1, step_us=5000)
    texts = [server.send("POST", "/v1/completions", {"prompt": "a", "max_tokens": 60, "temperature": 0}) for _ in range(3)]
    idle = server.connect()
    wait_for(lambda: server.metric("texts_waiting") == 2)
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


for test in sizes, slow_clients, time_limit, cancellation, turns, forwarded, ends, starts:
    begun = time.time()
    test()
    print(f"{test.__name__}: {time.time() - begun:.1f} s", flush=True)
