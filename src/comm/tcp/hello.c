#include "comm/tcp/hello.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/seam.h"

/* How long greeting_try waits. Once the hello is sent the other end may take it as soon as it has time, and a
 * second one would be refused as that of a rank which is there already. */
enum { CHALLENGE_MS = 5000, WELCOME_MS = 60000 };
/* In the byte order of the machine: a machine of the other order is refused. */
static const uint64_t CHALLENGE_MAGIC = 0x6a6f74756e206331, HELLO_MAGIC = 0x6a6f74756e206832;

TcpKey tcp_key_start(const void *secret, size_t bytes, const char *job)
{
    TcpKey key;
    hmac_sha256(key.bytes, secret, bytes, "jotun start", 11, job, strlen(job));
    return key;
}

TcpKey tcp_key_job(const TcpKey *start, const uint8_t job[NONCE_BYTES])
{
    TcpKey key;
    hmac_sha256(key.bytes, start->bytes, sizeof start->bytes, "jotun job", 9, job, NONCE_BYTES);
    return key;
}

void tcp_random(void *out, size_t bytes)
{
    CHECK(getrandom(out, bytes, 0) == (ssize_t)bytes, "the system has no random bytes");
}

void tcp_host_name(char out[HOST_BYTES])
{
    memset(out, 0, HOST_BYTES);
    if (gethostname(out, HOST_BYTES - 1) != 0 || !*out) memcpy(out, "?", 2);
}

/* Reads the rest of `bytes`, of which *count have come. HELLO_CLOSED: errno says why. */
static HelloState read_rest(int fd, void *to, size_t bytes, size_t *count)
{
    while (*count < bytes) {
        ssize_t n = recv(fd, (char *)to + *count, bytes - *count, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return HELLO_PART;
        if (n == 0) errno = ECONNRESET;
        if (n <= 0) return HELLO_CLOSED;
        *count += (size_t)n;
    }
    return HELLO_WHOLE;
}

/* A new connection has room for these messages, so one that does not take them is broken. */
static bool send_whole(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

/* ---- proofs ---- */
static void hello_proof(uint8_t out[HMAC_BYTES], const TcpKey *key, const Challenge *challenge,
                        const Hello *hello)
{
    hmac_sha256(out, key->bytes, sizeof key->bytes, challenge, sizeof *challenge, hello,
                offsetof(Hello, proof));
}

static void welcome_proof(uint8_t out[HMAC_BYTES], const TcpKey *key, const Hello *hello,
                          const Welcome *welcome)
{
    hmac_sha256(out, key->bytes, sizeof key->bytes, hello, sizeof *hello, welcome, offsetof(Welcome, proof));
}

static bool is_proved(uint32_t verdict)
{
    return verdict != OTHER_VERSION && verdict != NOT_PROVED;
}

/* ---- accepting ---- */
bool guest_open(Guest *guest, int fd)
{
    *guest = (Guest){ .fd = fd, .since = seam.clock(),
                      .challenge = { .magic = CHALLENGE_MAGIC, .version = TCP_VERSION } };
    socket_options(fd);
    tcp_random(guest->challenge.nonce, NONCE_BYTES);
    return send_whole(fd, &guest->challenge, sizeof guest->challenge);
}

HelloState guest_read(Guest *guest)
{
    /* The first bytes show what is no hello, and the rest of it is not waited for. */
    if (guest->count < sizeof guest->hello.magic) {
        HelloState state = read_rest(guest->fd, &guest->hello, sizeof guest->hello.magic, &guest->count);
        if (state != HELLO_WHOLE) return state;
    }
    if (guest->hello.magic != HELLO_MAGIC) return HELLO_CLOSED;
    HelloState state = read_rest(guest->fd, &guest->hello, sizeof guest->hello, &guest->count);
    guest->hello.host[HOST_BYTES - 1] = '\0';
    return state;
}

Verdict guest_proved(const Guest *guest, const TcpKey *key)
{
    uint8_t proof[HMAC_BYTES];
    hello_proof(proof, key, &guest->challenge, &guest->hello);
    if (guest->hello.version != TCP_VERSION) return OTHER_VERSION;
    return hmac_equal(proof, guest->hello.proof) ? WELCOME : NOT_PROVED;
}

void guest_answer(Guest *guest, const TcpKey *key, Verdict verdict, int size)
{
    Welcome welcome = { .verdict = verdict };
    if (is_proved(verdict)) {
        welcome.size = size;
        tcp_host_name(welcome.host);
        welcome_proof(welcome.proof, key, &guest->hello, &welcome);
    }
    send_whole(guest->fd, &welcome, sizeof welcome);
}

/* ---- connecting ---- */
void greeting_open(Greeting *greeting, int fd, Hello hello)
{
    *greeting = (Greeting){ .fd = fd, .hello = hello };
    greeting->hello.magic   = HELLO_MAGIC;
    greeting->hello.version = TCP_VERSION;
    tcp_host_name(greeting->hello.host);
    tcp_random(greeting->hello.nonce, NONCE_BYTES);
}

GreetingState greeting_advance(Greeting *g, const TcpKey *key)
{
    if (!g->hello_sent) {
        HelloState state = read_rest(g->fd, &g->challenge, sizeof g->challenge, &g->count);
        if (state != HELLO_WHOLE) return state == HELLO_PART ? GREETING_PART : GREETING_CLOSED;
        errno = EPROTO;
        if (g->challenge.magic != CHALLENGE_MAGIC) return GREETING_CLOSED;
        g->welcome.verdict = OTHER_VERSION;
        if (g->challenge.version != TCP_VERSION) return GREETING_REFUSED;
        hello_proof(g->hello.proof, key, &g->challenge, &g->hello);
        if (!send_whole(g->fd, &g->hello, sizeof g->hello)) return GREETING_CLOSED;
        g->hello_sent = true;
        g->count      = 0;
    }
    HelloState state = read_rest(g->fd, &g->welcome, sizeof g->welcome, &g->count);
    if (state != HELLO_WHOLE) return state == HELLO_PART ? GREETING_PART : GREETING_CLOSED;
    g->welcome.host[HOST_BYTES - 1] = '\0';
    uint8_t proof[HMAC_BYTES];
    welcome_proof(proof, key, &g->hello, &g->welcome);
    if (is_proved(g->welcome.verdict) && !hmac_equal(proof, g->welcome.proof))
        g->welcome.verdict = NOT_PROVED;
    return g->welcome.verdict == WELCOME ? GREETING_DONE : GREETING_REFUSED;
}

GreetingState greeting_try(Greeting *g, const SocketAddress *to, Hello hello, const TcpKey *key)
{
    int fd = socket_connect(to), ready = 1;
    if (fd < 0) return GREETING_CLOSED;
    GreetingState state = GREETING_PART;
    greeting_open(g, fd, hello);
    while (state == GREETING_PART && ready != 0) {
        struct pollfd wanted = { .fd = fd, .events = POLLIN };
        ready = poll(&wanted, 1, g->hello_sent ? WELCOME_MS : CHALLENGE_MS);
        errno = ready > 0 ? socket_error(fd) : ready == 0 ? ETIMEDOUT : errno;
        if (ready > 0) state = errno ? GREETING_CLOSED : greeting_advance(g, key);
    }
    if (state == GREETING_DONE) return state;
    int error = errno;
    close(fd);
    errno = error;
    return state == GREETING_REFUSED ? state : GREETING_CLOSED;
}
