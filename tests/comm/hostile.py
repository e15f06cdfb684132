"""hostile.py PROGRAM: 64 connections and more of strangers and of mistaken ranks to rank 0, before, while and after its ranks come: garbage,
half a hello and silence, wrong secrets, versions, sizes and ranks, a hello that was heard on the wire, and more silent ones from one address
than there are places, as far as the limit of descriptors lets it have them. None is let in, none keeps a rank from coming or learns more than
the version, and the job has the threads' bits. The hello is written here a second time, from comm/tcp/hello.h alone."""
import hmac, random, resource, socket, struct, subprocess, sys, tempfile, time

import ranks

PROGRAM, SIZE, SECRET = sys.argv[1], 5, "not to be guessed by anybody"
CHALLENGE, HELLO = 0x6a6f74756e206331, 0x6a6f74756e206832
WELCOME, OTHER_VERSION, NOT_PROVED, OTHER_SIZE, NO_SUCH_RANK, RANK_TWICE, TOO_LATE = range(1, 8)
START, LINK, WATCHDOG = 1, 2, 3
VERSION = 2
drawn = random.Random(7)
descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
silent = 1100 if descriptors == resource.RLIM_INFINITY else min(1100, descriptors - 100)        # rank 0 has 1,024 places


def connect(port, source="127.0.0.1"):
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=100, source_address=(source, 0))
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


def key_of(secret):
    return hmac.digest(secret.encode(), b"jotun start", "sha256")


def hello(challenge, secret=SECRET, version=VERSION, purpose=START, rank=1, to=0, size=SIZE, listens=4000, magic=HELLO, proof=None):
    body = struct.pack("=QIIiiiI16s64s", magic, version, purpose, rank, to, size, listens, drawn.randbytes(16), b"stranger")
    return body + (proof or hmac.digest(key_of(secret), challenge + body, "sha256"))


def read_verdict(s, said):
    """What rank 0 answers to this hello: a verdict, or None where it closes the connection. Without a proof it says nothing else."""
    answer = exactly(s, 104)
    if len(answer) != 104:
        return None
    verdict, size, host, proof = struct.unpack("=Ii64s32s", answer)
    if verdict in (OTHER_VERSION, NOT_PROVED):
        assert answer[4:] == bytes(100), answer
    else:
        assert size > 0 and host[0] and proof == hmac.digest(key_of(SECRET), said + answer[:72], "sha256"), answer
    return verdict


hostile = 0


def verdict_of(port, **what):
    global hostile
    hostile += 1
    with connect(port) as s:
        challenge = exactly(s, 32)
        magic, version = struct.unpack("=QI", challenge[:12])
        assert magic == CHALLENGE and version == VERSION, challenge
        said = hello(challenge, **what)
        s.sendall(said)
        return read_verdict(s, said)


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
            said = hello(old)
            s.sendall(said)
            assert read_verdict(s, said) == NOT_PROVED


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
        expect(NOT_PROVED, port, secret="another secret of such a length", rank=rank)
        expect(NOT_PROVED, port, secret="", rank=rank)
        expect(OTHER_VERSION, port, version=VERSION - 1, rank=rank)
        expect(OTHER_SIZE, port, size=SIZE + rank, rank=rank)
    for rank in -1, 0, SIZE, SIZE + 1, 2**31 - 1, -2**31:
        expect(NO_SUCH_RANK, port, rank=rank)
    for more in dict(listens=0), dict(listens=65536), dict(listens=2**32 - 1), dict(to=1):
        expect(NO_SUCH_RANK, port, **more)
    for purpose in LINK, WATCHDOG, 0, 77, 2**32 - 1:
        expect(NOT_PROVED, port, purpose=purpose)
    expect(None, port, magic=HELLO + 1)
    expect(NOT_PROVED, port, proof=bytes(32))
    replayed(port)
    return kept


def twice(port):
    """A rank that is there is not replaced; one that has gone may come again."""
    with connect(port) as first:
        said = hello(exactly(first, 32), rank=2)
        first.sendall(said)
        assert read_verdict(first, said) == WELCOME
        expect(RANK_TWICE, port, rank=2)


def crowded(port):
    """One address that has more connections than there are places loses its own, and not an older one of another address."""
    with connect(port, "127.0.0.3") as slow:
        said = hello(exactly(slow, 32), size=SIZE + 1)
        kept = [connect(port) for _ in range(silent)]
        exactly(kept[-1], 32)                                # all are accepted
        slow.sendall(said)
        assert read_verdict(slow, said) == OTHER_SIZE
    return kept


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
            expect(NOT_PROVED, port, rank=rank, size=3, purpose=LINK)
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
    kept += crowded(port)
    children.update(begin(port, [2, 3, 4]))
    ends(children, wanted)
    for s in kept:
        s.close()


main()
