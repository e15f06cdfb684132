#include "comm/tcp/guest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "base/random.h"
#include "base/seam.h"

/* SOURCES: classes of addresses, by a hash that nobody outside can predict; two that share a class count as
 * one. REFUSALS_SAID: somebody who tries again and again must not fill the log. */
enum { GUESTS = 1024, SOURCES = 4096, GUEST_SECONDS = 10, REFUSALS_SAID = 8, EVENTS = 64 };
static const int64_t SECOND = 1000000000;

typedef struct { Guest guest; uint32_t source; } Place;           /* guest.fd -1: free */
struct Guests {
    GuestHost host;
    int       listener, poller;                       /* poller: epoll */
    int       used, refusals;                         /* places in use; refusals so far */
    int64_t   looked;                                 /* seam.clock when old guests were last looked for */
    uint64_t  seed;                                   /* of the hash of addresses */
    uint16_t  from[SOURCES];                          /* guests of each class */
    Place     place[GUESTS];
};

void tcp_say(const char *format, ...)
{
    char    line[512] = "jotun: ";
    size_t  at = strlen(line), room = sizeof line - at - 1;
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line + at, room, format, arguments);
    va_end(arguments);
    at += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
    line[at++] = '\n';
    log_write(line, at);
}

/* ---- places ---- */
/* An IPv4 address, or the network of an IPv6 address: one host may have any address of its /64. */
static uint32_t source_of(const Guests *g, int fd)
{
    SocketAddress other = { .port = 0 };
    uint64_t half[2] = { 0 };
    if (socket_other(&other, fd)) memcpy(half, other.ip, sizeof half);
    return (uint32_t)(random_mix(g->seed, half[0] ? half[0] : half[1]) % SOURCES);
}

static void place_free(Guests *g, Place *p)
{
    g->from[p->source]--;
    g->used--;
    p->guest.fd = -1;
}

static void guest_close(Guests *g, Place *p)
{
    close(p->guest.fd);
    place_free(g, p);
}

/* Closes the oldest guest of the address that has the most. */
static Place *place_clear(Guests *g)
{
    Place *worst = NULL;
    for (Place *p = g->place; p < g->place + GUESTS; p++) {
        if (p->guest.fd < 0) continue;
        int more = worst ? g->from[p->source] - g->from[worst->source] : 1;
        if (more > 0 || (more == 0 && p->guest.since < worst->guest.since)) worst = p;
    }
    guest_close(g, worst);
    return worst;
}

static Place *place_get(Guests *g)
{
    for (Place *p = g->place; p < g->place + GUESTS && g->used < GUESTS; p++)
        if (p->guest.fd < 0) return p;
    return place_clear(g);
}

/* ---- accepting ---- */
static void watch(Guests *g, int fd, Place *p)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
    CHECK(epoll_ctl(g->poller, EPOLL_CTL_ADD, fd, &event) == 0, "epoll: %s", strerror(errno));
}

static void accept_all(Guests *g)
{
    for (int i = 0; i < GUESTS; i++) {                /* the others are served before more are accepted */
        int fd = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && errno != EMFILE && errno != ENFILE) return;
        if (fd < 0 && g->used > 0) {                  /* a descriptor for the one that waits */
            place_clear(g);
            continue;
        }
        if (fd < 0) {
            usleep(10000);                            /* it stays readable: the caller must not spin */
            return;
        }
        Place *p = place_get(g);
        uint32_t source = source_of(g, fd);
        if (!guest_open(&p->guest, fd)) {
            close(fd);
            p->guest.fd = -1;
            continue;
        }
        p->source = source;
        g->from[source]++;
        g->used++;
        watch(g, fd, p);
    }
}

/* ---- hellos ---- */
/* What the host says of a proved hello, once it is of another rank of its job. */
static Verdict admit(const GuestHost *host, const Hello *hello)
{
    if (hello->size != host->size) return OTHER_SIZE;
    if (hello->rank < 0 || hello->rank >= host->size || hello->rank == host->rank || hello->to != host->rank)
        return NO_SUCH_RANK;
    return host->admit(host->self, hello);
}

/* For the person who looks at this rank. */
static void log_refusal(Guests *g, const Guest *guest, Verdict verdict)
{
    static const char *const why[] = {
        [OTHER_VERSION] = "it is of another version of jotun",
        [NOT_PROVED]    = "it has another secret or is of another job",
        [OTHER_SIZE]    = "it has another number of ranks", [NO_SUCH_RANK] = "there is no such rank",
        [RANK_TWICE]    = "that rank is here already",      [TOO_LATE]     = "the job has begun" };
    SocketAddress other;
    char text[SOCKET_TEXT] = "?";
    if (++g->refusals > REFUSALS_SAID) return;
    if (socket_other(&other, guest->fd)) socket_ip(text, &other);
    tcp_say("a connection from %s as rank %d of %d is refused: %s%s", text, (int)guest->hello.rank,
            (int)guest->hello.size, why[verdict],
            g->refusals == REFUSALS_SAID ? "; further ones are not reported" : "");
}

static void guest_ready(Guests *g, Place *p)
{
    Guest     *guest = &p->guest;
    HelloState state = guest_read(guest);
    if (state == HELLO_CLOSED) guest_close(g, p);
    if (state != HELLO_WHOLE) return;
    const Hello   hello   = guest->hello;
    const TcpKey *key     = g->host.key(g->host.self, hello.purpose);
    Verdict       verdict = key ? guest_proved(guest, key) : NOT_PROVED;
    if (verdict == WELCOME) verdict = admit(&g->host, &hello);
    guest_answer(guest, key, verdict, g->host.size);
    if (verdict != WELCOME) {
        log_refusal(g, guest, verdict);
        guest_close(g, p);
        return;
    }
    int fd = guest->fd;
    CHECK(epoll_ctl(g->poller, EPOLL_CTL_DEL, fd, NULL) == 0, "epoll: %s", strerror(errno));
    place_free(g, p);
    g->host.take(g->host.self, &hello, fd);
}

/* ---- all of them ---- */
Guests *guests_open(const GuestHost *host, int listener)
{
    Guests *g = calloc(1, sizeof *g);
    CHECK(g, "no memory for unknown connections");
    g->host     = *host;
    g->listener = listener;
    g->poller   = epoll_create1(EPOLL_CLOEXEC);
    CHECK(g->poller >= 0, "epoll: %s", strerror(errno));
    for (int i = 0; i < GUESTS; i++) g->place[i].guest.fd = -1;
    tcp_random(&g->seed, sizeof g->seed);
    watch(g, listener, NULL);
    return g;
}

int guests_poller(const Guests *g) { return g->poller; }

/* A place may have a new guest by the time its event is handled; that one is read and has sent nothing. */
void guests_progress(Guests *g)
{
    struct epoll_event event[EVENTS];
    int count = epoll_wait(g->poller, event, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        Place *p = event[i].data.ptr;
        if (!p) accept_all(g);
        else if (p->guest.fd >= 0) guest_ready(g, p);
    }
}

void guests_expire(Guests *g)
{
    int64_t now = g && g->used > 0 ? seam.clock() : 0;
    if (now == 0 || now < g->looked + SECOND) return;
    g->looked = now;
    for (Place *p = g->place; p < g->place + GUESTS; p++)
        if (p->guest.fd >= 0 && now - p->guest.since > GUEST_SECONDS * SECOND) guest_close(g, p);
}

void guests_close(Guests *g)
{
    if (!g) return;
    for (Place *p = g->place; p < g->place + GUESTS; p++)
        if (p->guest.fd >= 0) guest_close(g, p);
    close(g->poller);
    free(g);
}
