"""ranks.py -n N COMMAND...: N processes of COMMAND that are ranks over TCP, by the variables that torchrun sets; ends with the code of the
first that fails, and leaves the others alone. Another module imports start(), and says more variables for each."""
import atexit, os, socket, subprocess, sys

ports, started = [], []


def free_port():
    """Kept until this process ends by a socket that does not listen: the system gives the port to no other program, and jotun may listen there."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    ports.append(s)
    return s.getsockname()[1] - 1                            # jotun listens on the next one


def end():
    """However a test ends, no rank is left."""
    for child in started:
        if child.poll() is None:
            child.kill()


def variables(rank, size, port, address="127.0.0.1"):
    return dict(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size), MASTER_ADDR=address, MASTER_PORT=str(port))


def start(size, command, port=None, environment=None, only=None, **more):
    port = port or free_port()
    children = {}
    for rank in range(size) if only is None else only:
        children[rank] = subprocess.Popen(command, env={**os.environ, **variables(rank, size, port), **(environment or {})}, **more)
        started.append(children[rank])
    return children


if __name__ != "__main__":
    atexit.register(end)
else:
    children, code = start(int(sys.argv[2]), sys.argv[3:]).values(), 0
    while children:                                          # the end of any of them
        pid, state = os.wait()
        ended = os.waitstatus_to_exitcode(state)
        code = code or (ended if ended >= 0 else 128 - ended)
        children = [child for child in children if child.pid != pid]
    sys.exit(code)
