"""What the scripts of this folder share: a server before the fake engine, its text, and clients made of sockets."""
import base64
import json
import os
import re
import signal
import socket
import subprocess
import threading

FAKE = os.environ.get("SERVE_FAKE", "build/release/bin/serve_fake")
TEXT = "the r\u00e4ksm\u00f6rg\u00e5s sees \u96e8 and \U0001f327 <b>&amp;</b> \"so\" it goes.\n".encode()     # that of fake_engine.c
WAIT = 60                                                # seconds that any answer may take under a sanitizer


def fnv(values):
    h = 2166136261
    for v in values:
        h = ((h ^ (v & 0xffffffff)) * 16777619) & 0xffffffff
    return h


def expected(prompt, tokens, seed=None, choice=0):
    """The bytes that the fake engine makes; prompt: text or ids; seed None: temperature 0"""
    ids = list(prompt.encode()) if isinstance(prompt, str) else list(prompt)
    at = fnv(ids + ([] if seed is None else [seed, choice])) % len(TEXT)
    if ids[-1] == ord("!"):
        tokens = min(tokens, 10)
    return bytes(TEXT[(at + i) % len(TEXT)] for i in range(tokens))


def shown(data):
    """Bytes as the server shows them: each that is not UTF-8 as U+FFFD"""
    out = ""
    while data:
        try:
            return out + data.decode()
        except UnicodeDecodeError as e:
            out += data[:e.start].decode() + "\ufffd"
            data = data[e.start + 1:]
    return out


class Server:
    def __init__(self, **settings):
        self.process = subprocess.Popen([FAKE] + [f"{k}={v}" for k, v in settings.items()], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        assert self.address, "the server did not start"
        self.port = int(re.search(r":(\d+)/$", self.address)[1])

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            self.process.kill()
        else:
            code = self.stop()
            assert code == 0, f"the server ended with {code}"
        self.process.stdout.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT)

    def memory(self):
        """Bytes of resident memory"""
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{self.process.pid}/status").read())[1]) * 1024

    def connect(self, timeout=WAIT, own="127.0.0.1"):
        """own: the address of this end"""
        sock = socket.socket()
        sock.settimeout(timeout)
        # The port is chosen when it connects: then one whose connection has just ended is taken again, of which a fast machine has more than ports.
        sock.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
        try:
            sock.bind((own, 0))
            sock.connect(("127.0.0.1", self.port))
        except OSError:
            sock.close()
            raise
        return sock

    def send(self, method, path, body=None, headers=None, own="127.0.0.1", **more):
        """A client that has sent a request, and reads the answer"""
        return Client(self.connect(own=own), method, path, body, headers, **more)

    def ask(self, method, path, body=None, headers=None, **more):
        with self.send(method, path, body, headers, **more) as client:
            return client.answer()

    def complete(self, prompt, tokens=16, headers=None, **members):
        """Status and parsed answer of a completion"""
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, **members}
        status, _, data = self.ask("POST", "/v1/completions", {k: v for k, v in body.items() if v is not ...}, headers)
        return status, json.loads(data)

    def metric(self, name, headers=None):
        """Of all models together"""
        page = self.ask("GET", "/metrics", headers=headers)[2].decode()
        return sum(map(float, re.findall(rf"^jotun_{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", page, re.M)))


class EngineServer(Server):
    """jotun serve itself; words: its options"""
    def __init__(self, *words):
        command = [os.environ.get("JOTUN", "build/release/bin/jotun"), "serve", "--port", "0", *map(str, words)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in self.process.stderr:
            said += line
            if (found := re.search(r"serves .* at (http://\S+:(\d+)/)", line)):
                self.address, self.port = found[1], int(found[2])
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise AssertionError(f"the server did not start: {said}")


class Client:
    def __init__(self, sock, method, path, body=None, headers=None, host="127.0.0.1", json_type="application/json"):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"] + [f"{k}: {v}" for k, v in (headers or {}).items()]
        if body is not None:
            lines += [f"Content-Length: {len(body)}"] + ([f"Content-Type: {json_type}"] if json_type else [])
        self.sock = sock
        self.file = sock.makefile("rb")
        try:
            sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b""))
        except (BrokenPipeError, ConnectionResetError):
            pass                                         # the answer may be there all the same

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.sock.close()

    @classmethod
    def read(cls, sock):
        """The answer to what was sent already"""
        client = cls.__new__(cls)
        client.sock, client.file = sock, sock.makefile("rb")
        return client.answer()

    def head(self):
        line = self.file.readline().decode()
        assert line.startswith("HTTP/1.1 "), f"no answer, but {line!r}"
        self.status, self.headers = int(line.split()[1]), {}
        while (line := self.file.readline().decode().strip()):
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        return self.status

    def chunks(self):
        while (size := int(self.file.readline(), 16)):
            yield self.file.read(size)
            self.file.readline()
        self.file.readline()

    def answer(self):
        self.head()
        if self.headers.get("transfer-encoding") == "chunked":
            return self.status, self.headers, b"".join(self.chunks())
        return self.status, self.headers, self.file.read(int(self.headers.get("content-length", 0)))

    def events(self):
        """Parsed server-sent events, None for [DONE]"""
        held = b""
        for chunk in self.chunks():
            held += chunk
            while b"\n\n" in held:
                event, _, held = held.partition(b"\n\n")
                assert event.startswith(b"data: "), event
                yield None if event == b"data: [DONE]" else json.loads(event[6:])
        assert not held, held


def basic(token):
    return {"Authorization": "Basic " + base64.b64encode(f"anyone:{token}".encode()).decode()}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}
