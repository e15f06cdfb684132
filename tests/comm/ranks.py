"""ranks.py -n N COMMAND...: N processes of COMMAND that are ranks over TCP, by the variables that torchrun sets; ends with the code of the
first that fails, and leaves the others alone. Another module imports start(), and says more variables for each."""
import os, socket, subprocess, sys


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1] - 1                        # jotun listens on the next one


def variables(rank, size, port, address="127.0.0.1"):
    return dict(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size), MASTER_ADDR=address, MASTER_PORT=str(port))


def start(size, command, port=None, environment=None, only=None, **more):
    port = port or free_port()
    return {rank: subprocess.Popen(command, env={**os.environ, **variables(rank, size, port), **(environment or {})}, **more)
            for rank in (range(size) if only is None else only)}


if __name__ == "__main__":
    children, code = start(int(sys.argv[2]), sys.argv[3:]).values(), 0
    while children:                                          # the end of any of them
        pid, state = os.wait()
        ended = os.waitstatus_to_exitcode(state)
        code = code or (ended if ended >= 0 else 128 - ended)
        children = [child for child in children if child.pid != pid]
    sys.exit(code)
