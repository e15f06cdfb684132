/* Connections of which nothing is known yet: a rank of this job, or anybody. Each has some time to say a
 * whole hello and to prove it; meanwhile it costs a descriptor and keeps nobody from coming. Where all places
 * are taken the oldest one goes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "comm/tcp/state.h"

enum { GUESTS = 1024, GUEST_SECONDS = 10, REFUSALS_SAID = 8 };
typedef struct GuestEnd { End end; Guest guest; } GuestEnd;

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

static void guest_close(Tcp *tcp, GuestEnd *g)
{
    end_close(tcp, &g->end);
    tcp->guests--;
}

static GuestEnd *guest_oldest(Tcp *tcp)
{
    GuestEnd *oldest = NULL;
    for (int i = 0; i < GUESTS; i++) {
        GuestEnd *g = &tcp->guest[i];
        if (g->end.fd >= 0 && (!oldest || g->guest.since < oldest->guest.since)) oldest = g;
    }
    return oldest;
}

/* A free place, or the one of the oldest guest. */
static GuestEnd *guest_place(Tcp *tcp)
{
    for (int i = 0; i < GUESTS; i++)
        if (tcp->guest[i].end.fd < 0) return &tcp->guest[i];
    GuestEnd *oldest = guest_oldest(tcp);
    guest_close(tcp, oldest);
    return oldest;
}

void guests_accept(Tcp *tcp)
{
    if (!tcp->guest) {
        tcp->guest = calloc(GUESTS, sizeof *tcp->guest);
        CHECK(tcp->guest, "no memory for connections");
        for (int i = 0; i < GUESTS; i++) tcp->guest[i].end.fd = -1;
    }
    for (int i = 0; i < GUESTS; i++) {                /* no more at once: others are served in between */
        int fd = accept4(tcp->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno != EMFILE && errno != ENFILE) return;
            if (tcp->guests > 0) {                    /* the oldest one gives up its descriptor */
                guest_close(tcp, guest_oldest(tcp));
                continue;
            }
            usleep(10000);                            /* they wait, and this thread must not spin on them */
            return;
        }
        GuestEnd *g = guest_place(tcp);
        if (!guest_open(&g->guest, fd)) {
            close(fd);
            continue;
        }
        end_open(tcp, &g->end, END_GUEST, fd, EPOLLIN, g);
        tcp->guests++;
    }
}

/* Whether a rank that has proved itself may be what it says. */
static Verdict admit(Tcp *tcp, const Hello *hello)
{
    if (hello->size != tcp->size) return OTHER_SIZE;
    if (hello->rank < 0 || hello->rank >= tcp->size || hello->rank == tcp->rank || hello->to != tcp->rank)
        return NO_SUCH_RANK;
    if (hello->purpose == HELLO_START) return rendezvous_admit(tcp, hello);
    const Peer *p = tcp->peer[hello->rank];
    return p && (p->in.end.fd >= 0 || p->left || p->broken) ? RANK_TWICE : WELCOME;
}

/* For the person at rank 0. Who fails for another reason than a mistake could fill the log. */
static void log_refusal(Tcp *tcp, const GuestEnd *g, Verdict verdict)
{
    static const char *const why[] = {
        [OTHER_VERSION] = "it is of another version of jotun", [OTHER_SECRET] = "it has another secret",
        [OTHER_SIZE] = "it has another number of ranks", [NO_SUCH_RANK] = "there is no such rank",
        [RANK_TWICE] = "that rank is here already", [TOO_LATE] = "the job has begun" };
    SocketAddress from;
    char text[SOCKET_TEXT] = "?";
    if (++tcp->refusals > REFUSALS_SAID) return;
    if (socket_other(&from, g->end.fd)) socket_ip(text, &from);
    tcp_say("a connection from %s as rank %d of %d is refused: %s%s", text, (int)g->guest.hello.rank,
            (int)g->guest.hello.size, why[verdict],
            tcp->refusals == REFUSALS_SAID ? "; further ones are not reported" : "");
}

void guest_ready(Tcp *tcp, End *end)
{
    GuestEnd  *g     = end->owner;
    HelloState state = guest_read(&g->guest);
    if (state == HELLO_PART) return;
    if (state == HELLO_CLOSED) {
        guest_close(tcp, g);
        return;
    }
    const Hello  *hello   = &g->guest.hello;
    const TcpKey *key     = hello->purpose == HELLO_START ? &tcp->start_key : &tcp->key;
    Verdict       verdict = guest_proved(&g->guest, key);
    if (hello->purpose == HELLO_LINK && tcp->start) verdict = OTHER_SECRET;     /* there is no key yet */
    if (verdict == WELCOME) verdict = admit(tcp, hello);
    guest_answer(&g->guest, key, verdict, tcp->size);
    if (verdict != WELCOME) {
        log_refusal(tcp, g, verdict);
        guest_close(tcp, g);
        return;
    }
    int fd = end_release(tcp, &g->end);               /* watched for another purpose from here on */
    tcp->guests--;
    if (hello->purpose == HELLO_START) rendezvous_accept(tcp, hello, fd);
    else                               link_accepted(tcp, hello->rank, fd, hello->host);
}

void guests_expire(Tcp *tcp)
{
    int64_t now = seam.clock(), second = 1000000000;
    if (now < tcp->guests_looked + second) return;    /* they are many, and calls are more */
    tcp->guests_looked = now;
    for (int i = 0; i < GUESTS && tcp->guests > 0; i++) {
        GuestEnd *g = &tcp->guest[i];
        if (g->end.fd >= 0 && now - g->guest.since > GUEST_SECONDS * second) guest_close(tcp, g);
    }
}

void guests_close(Tcp *tcp)
{
    for (int i = 0; i < GUESTS && tcp->guest; i++)
        if (tcp->guest[i].end.fd >= 0) guest_close(tcp, &tcp->guest[i]);
    free(tcp->guest);
    tcp->guest = NULL;
}
