"""hostile.py PROGRAM: 64 connections and more of strangers and of mistaken ranks to rank 0, before, while and after its ranks come: garbage,
half a hello and silence, wrong secrets, versions, sizes and ranks, a hello that was heard on the wire, and more silent ones than there are
places, as far as the limit of descriptors lets it have them. None is let in, none keeps a rank from coming, and the job has the threads' bits. The hello is written here a second time, from
comm/tcp/hello.h alone."""
import hmac, random, resource, socket, struct, subprocess, sys, tempfile, time

import ranks

PROGRAM, SIZE, SECRET = sys.argv[1], 4, "not to be guessed by anybody"
CHALLENGE, HELLO = 0x6a6f74756e206331, 0x6a6f74756e206832
WELCOME, OTHER_VERSION, OTHER_SECRET, OTHER_SIZE, NO_SUCH_RANK, RANK_TWICE, TOO_LATE = range(1, 8)
START, LINK = 1, 2
drawn = random.Random(7)
descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
silent = 1100 if descriptors == resource.RLIM_INFINITY else min(1100, descriptors - 100)        # rank 0 has 1,024 places


def connect(port):
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=100)
        except ConnectionRefusedError:                       # rank 0 starts
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def exactly(s, count):
    data = b""
    while len(data) < count:
        try:
            more = s.recv(count - len(data))
        except ConnectionResetError:
            more = b""
        if not more:
            return data
        data += more
    return data


def hello(challenge, secret=SECRET, version=1, purpose=START, rank=1, to=0, size=SIZE, listens=4000, magic=HELLO, proof=None):
    body = struct.pack("=QIIiiiI16s64s", magic, version, purpose, rank, to, size, listens, drawn.randbytes(16), b"stranger")
    key = hmac.digest(secret.encode(), b"jotun start", "sha256")
    return body + (proof or hmac.digest(key, challenge + body, "sha256"))


hostile = 0


def verdict_of(port, **what):
    """What rank 0 answers: a verdict, or None where it closes the connection."""
    global hostile
    hostile += 1
    with connect(port) as s:
        challenge = exactly(s, 32)
        magic, version = struct.unpack("=QI", challenge[:12])
        assert magic == CHALLENGE and version == 1, challenge
        s.sendall(hello(challenge, **what))
        answer = exactly(s, 104)
        return struct.unpack("=I", answer[:4])[0] if len(answer) == 104 else None


def expect(wanted, port, **what):
    found = verdict_of(port, **what)
    assert found == wanted, (wanted, found, what)


def garbage(port, bytes_sent):
    """Closed without an answer, or kept and silent."""
    s = connect(port)
    try:
        s.sendall(bytes_sent)
    except OSError:
        pass
    return s


def replayed(port):
    """A proof that was right once, for another challenge."""
    with connect(port) as heard:
        old = exactly(heard, 32)
        with connect(port) as s:
            exactly(s, 32)
            s.sendall(hello(old))
            answer = exactly(s, 104)
            assert struct.unpack("=I", answer[:4])[0] == OTHER_SECRET, answer


def before(port):
    """While rank 0 waits. Returns those that stay open."""
    kept = []
    for size in range(1, 22):
        kept.append(garbage(port, drawn.randbytes(size * size * 40)))
    for half in range(6):                                    # silent in the middle
        s = connect(port)
        s.sendall(hello(exactly(s, 32))[:20 + 20 * half])
        kept.append(s)
    for _ in range(4):                                       # silent from the beginning
        kept.append(connect(port))
    for rank in 1, 2, 3:
        expect(OTHER_SECRET, port, secret="another secret of such a length", rank=rank)
        expect(OTHER_SECRET, port, secret="", rank=rank)
        expect(OTHER_VERSION, port, version=2, rank=rank)
        expect(OTHER_SIZE, port, size=SIZE + rank, rank=rank)
    for rank in -1, 0, SIZE, SIZE + 1, 2**31 - 1, -2**31:
        expect(NO_SUCH_RANK, port, rank=rank)
    for more in dict(listens=0), dict(listens=65536), dict(listens=2**32 - 1), dict(to=1):
        expect(NO_SUCH_RANK, port, **more)
    for purpose in LINK, 0, 77, 2**32 - 1:
        expect(OTHER_SECRET, port, purpose=purpose)
    expect(None, port, magic=HELLO + 1)
    expect(OTHER_SECRET, port, proof=bytes(32))
    replayed(port)
    return kept


def twice(port):
    """A rank that is there is not replaced; one that has gone may come again."""
    with connect(port) as first:
        first.sendall(hello(exactly(first, 32), rank=2))
        assert struct.unpack("=I", exactly(first, 104)[:4])[0] == WELCOME
        expect(RANK_TWICE, port, rank=2)


def begin(port, only, limit=None):
    """limit: of descriptors."""
    lower = limit and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
    return ranks.start(SIZE, [PROGRAM, "hash"], port - 1, dict(JOTUN_SECRET=SECRET), only, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lower)


def ends(children, wanted):
    for rank, child in children.items():
        out, err = child.communicate(timeout=300)
        assert child.returncode == 0, (rank, child.returncode, err)
        assert rank != 0 or out.strip() == wanted, (out, wanted)
        if rank == 0:
            said = [line for line in err.splitlines() if "is refused" in line]
            assert 0 < len(said) <= 8, err


def while_it_runs():
    """A job that has begun takes nobody in, and goes on."""
    port = ranks.free_port() + 1
    with tempfile.NamedTemporaryFile("r") as errors:
        command = [PROGRAM, "loop", "30", errors.name]
        children = ranks.start(3, command, port - 1, dict(JOTUN_SECRET=SECRET), stdout=subprocess.PIPE, text=True)
        for child in children.values():
            line = child.stdout.readline()
            assert line.startswith("rank "), (line, child.poll(), errors.read())
        kept = [garbage(port, drawn.randbytes(500)) for _ in range(5)]
        for rank in 1, 2:
            expect(TOO_LATE, port, rank=rank, size=3)
            expect(OTHER_SECRET, port, rank=rank, size=3, purpose=LINK)
            expect(OTHER_SIZE, port, rank=rank)
        time.sleep(1)
        ended = {rank: child.poll() for rank, child in children.items()}
        for child in children.values():
            child.kill()
            child.communicate()
        for s in kept:
            s.close()
        assert set(ended.values()) == {None}, (ended, errors.read())


def main():
    wanted = subprocess.run([PROGRAM, "hash", "threads", str(SIZE)], capture_output=True, text=True, check=True).stdout.strip()
    for limit in None, 200:                                  # places for unknown connections run out, and descriptors
        beset(wanted, limit)
    while_it_runs()
    assert hostile >= 64, hostile
    print(f"{hostile} hostile hellos, and connections without one: refused, and {SIZE} ranks have the threads' bits")


def beset(wanted, limit):
    """A start among strangers."""
    global hostile
    port = ranks.free_port() + 1
    children = begin(port, [0], limit)
    kept = before(port)
    hostile += len(kept)
    children.update(begin(port, [1]))
    twice(port)
    kept += [connect(port) for _ in range(silent)]
    children.update(begin(port, [2, 3]))
    ends(children, wanted)
    for s in kept:
        s.close()


main()
