/* Connections between ranks and the messages on them.
 *
 * A message is a frame and its bytes. One whose receive is posted goes straight into the receiver's memory.
 * One that comes before its receive waits: a small one in memory of the transport, a large one in the
 * system's buffers, so that its sender waits too, and no rank needs more memory than its own buffers. Only
 * where this rank is about to wait for something behind it on the same connection it is taken as well
 * (tcp_unblock). */
#include "comm/tcp/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/seam.h"

/* KEPT_SMALL: bytes of a message that is kept before its receive is posted, as long as all such messages
 * have less than KEPT_ALL. LOST_MS: what the watchdog, which knows more, has to end this process. RETRY_MS:
 * between two attempts to connect. UNREACHABLE_MS: how long a host may be unreachable. */
enum { KEPT_SMALL = 64 << 10, KEPT_ALL = 64 << 20, LOST_MS = 3000, RETRY_MS = 100, UNREACHABLE_MS = 30000,
       EVENTS = 64 };
enum { PARTS_AT_ONCE = 24 };
static const int64_t MS = 1000000;
static const uint64_t BYTES_MAX = (uint64_t)1 << 48;

/* ---- descriptors ---- */
void end_open(Tcp *tcp, End *end, EndKind kind, int fd, uint32_t events, void *owner)
{
    *end = (End){ .kind = kind, .fd = fd, .events = events, .owner = owner };
    struct epoll_event event = { .events = events, .data.ptr = end };
    CHECK(epoll_ctl(tcp->poller, EPOLL_CTL_ADD, fd, &event) == 0, "epoll: %s", strerror(errno));
}

void end_watch(Tcp *tcp, End *end, uint32_t events)
{
    if (end->events == events) return;
    struct epoll_event event = { .events = end->events = events, .data.ptr = end };
    CHECK(epoll_ctl(tcp->poller, EPOLL_CTL_MOD, end->fd, &event) == 0, "epoll: %s", strerror(errno));
}

void end_close(Tcp *tcp, End *end)
{
    (void)tcp;                                        /* close() takes it from epoll's set */
    if (end->fd >= 0) close(end->fd);
    end->fd = -1;
}

/* ---- peers ---- */
static Peer *peer_of(Tcp *tcp, int rank)
{
    if (tcp->peer[rank]) return tcp->peer[rank];
    Peer *p = calloc(1, sizeof *p);
    CHECK(p, "no memory for a connection to rank %d", rank);
    *p = (Peer){ .next = tcp->peers, .tcp = tcp, .rank = rank };
    p->out.end.fd = p->in.end.fd = -1;
    socket_ip(p->host, &tcp->address[rank]);
    return tcp->peers = tcp->peer[rank] = p;
}

static void peer_lost(Tcp *tcp, Peer *p, const char *why)
{
    if (tcp->lost) return;
    tcp->lost     = p;
    tcp->lost_why = why;
    tcp->lost_at  = seam.clock();
}

/* A connection has ended. After a goodbye that is in order, unless messages still wait to be sent there.
 * Without one, the end may be in the middle of a message, whose rest a second connection could not continue:
 * there is none. */
static void out_ended(Tcp *tcp, Peer *p, int error)
{
    end_close(tcp, &p->out.end);
    p->out.state = OUT_CLOSED;
    p->broken |= !p->left;
    if (!p->left) peer_lost(tcp, p, error ? strerror(error) : "the connection was closed");
    else if (p->out.queue.first) peer_lost(tcp, p, "it has ended while this rank sends to it");
}

static void in_ended(Tcp *tcp, Peer *p, int error)
{
    if (p->in.paused) tcp->paused--;
    p->in.paused = false;
    end_close(tcp, &p->in.end);
    p->broken |= !p->left;
    if (!p->left) peer_lost(tcp, p, error ? strerror(error) : "the connection was closed");
    else if (p->in.has_frame) peer_lost(tcp, p, "it has ended within a message");
}

/* A goodbye or an abort. The rank where an abort began has printed the reason; it is passed on, since not
 * every rank is connected to that one. False: it is neither. */
static bool closing_received(Tcp *tcp, Peer *p, const Frame *closing)
{
    if (closing->kind == TCP_GOODBYE) return p->left = true;
    if (closing->kind != TCP_ABORT) return false;
    tcp_links_close(tcp, TCP_ABORT, closing->code);
    _exit(closing->code);
}

/* ---- messages ---- */
static Message *message_new(Tcp *tcp)
{
    if (!tcp->unused) {
        MessageBlock *more = calloc(1, sizeof *more);
        CHECK(more, "no memory for %d messages", MESSAGES_MORE);
        more->next  = tcp->blocks;
        tcp->blocks = more;
        for (int i = 0; i < MESSAGES_MORE; i++) message_free(tcp, &more->message[i]);
    }
    Message *m = tcp->unused;
    tcp->unused = m->next;
    return m;
}

void message_free(Tcp *tcp, Message *m)
{
    m->next = tcp->unused;
    tcp->unused = m;
}

static void list_add(MessageList *list, Message *m)
{
    m->next = NULL;
    if (list->first) list->last->next = m;
    else             list->first = m;
    list->last = m;
}

static Message *list_take_first(MessageList *list)
{
    Message *m = list->first;
    list->first = m->next;
    return m;
}

/* The oldest posted receive of the group and tag, which is taken out; NULL: none. */
static Message *posted_take(MessageList *list, const Frame *frame)
{
    Message *before = NULL, *m = list->first;
    for (; m && (m->frame.group != frame->group || m->frame.tag != frame->tag); m = m->next) before = m;
    if (!m) return NULL;
    if (before) before->next = m->next;
    else        list->first  = m->next;
    if (list->last == m) list->last = before;
    return m;
}

/* The rest of a message's parts behind `skip` bytes; returns how many parts have some. */
static int parts_after(struct iovec out[2], const struct iovec part[2], size_t skip)
{
    int count = 0;
    for (int i = 0; i < 2; i++) {
        size_t gone = skip < part[i].iov_len ? skip : part[i].iov_len;
        skip -= gone;
        if (part[i].iov_len > gone)
            out[count++] = (struct iovec){ (char *)part[i].iov_base + gone, part[i].iov_len - gone };
    }
    return count;
}

static void message_fill(Message *m, const char *data, size_t bytes)
{
    struct iovec rest[2];
    int parts = parts_after(rest, m->part, m->moved);
    m->moved += bytes;
    for (int i = 0; i < parts && bytes > 0; i++) {
        size_t n = bytes < rest[i].iov_len ? bytes : rest[i].iov_len;
        memcpy(rest[i].iov_base, data, n);
        data += n, bytes -= n;
    }
}

static void message_done(Tcp *tcp, Message *m)
{
    m->done = tcp->moved = true;
}

/* ---- sending ---- */
/* What is unsent of the first messages of the queue, and their frames. */
static int queue_parts(const OutLink *out, struct iovec part[PARTS_AT_ONCE])
{
    int parts = 0;
    for (Message *m = out->queue.first; m && parts + 3 <= PARTS_AT_ONCE; m = m->next) {
        size_t head = m->moved < sizeof m->frame ? sizeof m->frame - m->moved : 0;
        if (head) part[parts++] = (struct iovec){ (char *)&m->frame + m->moved, head };
        parts += parts_after(part + parts, m->part, head ? 0 : m->moved - sizeof m->frame);
    }
    return parts;
}

static void queue_moved(Tcp *tcp, OutLink *out, size_t bytes)
{
    while (out->queue.first) {
        Message *m = out->queue.first;
        size_t left = sizeof m->frame + m->frame.bytes - m->moved, n = bytes < left ? bytes : left;
        m->moved += n;
        bytes    -= n;
        if (n < left) return;
        message_done(tcp, list_take_first(&out->queue));
    }
}

static void out_read(Tcp *tcp, Peer *p);
static void out_write(Tcp *tcp, Peer *p)
{
    OutLink *out = &p->out;
    while (out->queue.first && out->state == OUT_OPEN) {
        struct iovec  part[PARTS_AT_ONCE];
        struct msghdr message = { .msg_iov = part, .msg_iovlen = (size_t)queue_parts(out, part) };
        ssize_t n = sendmsg(out->end.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) {                                  /* a goodbye or abort may have come before */
            int error = errno;
            out_read(tcp, p);
            if (out->state == OUT_OPEN) out_ended(tcp, p, error);
            return;
        }
        queue_moved(tcp, out, (size_t)n);
    }
    if (out->state == OUT_OPEN)
        end_watch(tcp, &out->end, out->queue.first ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* No connection was made. No message has been sent, so another attempt costs only time. A rank may close a
 * connection before it knows whose it is, to have its descriptor for another; the system reports that as a
 * reset where it came after our hello. A network may come up later than its hosts. But a host that refuses a
 * connection has lost the rank that listened there. */
static void out_failed(Tcp *tcp, Peer *p, int error)
{
    OutLink *out = &p->out;
    bool closed = error == 0 || error == ECONNRESET || error == EPIPE;
    bool again  = closed || (error != ECONNREFUSED && seam.clock() - out->since < UNREACHABLE_MS * MS);
    out->state = OUT_CLOSED;
    if (again) {
        out->again = seam.clock() + RETRY_MS * MS;
        tcp->again++;
    } else {
        peer_lost(tcp, p, strerror(error));
    }
}

static void out_connect(Tcp *tcp, Peer *p)
{
    OutLink *out = &p->out;
    if (p->broken || out->again != 0) return;         /* tcp_check_lost, or connect_again */
    if (out->since == 0) out->since = seam.clock();
    int fd = socket_connect(&tcp->address[p->rank]);
    if (fd < 0) {
        out_failed(tcp, p, errno);
        return;
    }
    Hello hello = { .purpose = HELLO_LINK, .rank = tcp->rank, .to = p->rank, .size = tcp->size };
    greeting_open(&out->greeting, fd, hello);
    out->state = OUT_GREETING;
    end_open(tcp, &out->end, END_OUT, fd, EPOLLIN, p);
}

static void out_greet(Tcp *tcp, Peer *p)
{
    OutLink *out = &p->out;
    int error = socket_error(out->end.fd);
    GreetingState state = error ? GREETING_CLOSED : greeting_advance(&out->greeting, &tcp->key);
    if (state == GREETING_PART) return;
    if (state == GREETING_DONE) {
        out->state = OUT_OPEN;
        snprintf(p->host, sizeof p->host, "%s", out->greeting.welcome.host);
        out_write(tcp, p);
        return;
    }
    end_close(tcp, &out->end);
    if (state == GREETING_CLOSED) {
        out_failed(tcp, p, error);
        return;
    }
    out->state = OUT_CLOSED;
    peer_lost(tcp, p, "it refuses the connection: it is of another job, or has lost one from this rank");
}

/* The other end sends nothing but a goodbye or abort on this connection. */
static void out_read(Tcp *tcp, Peer *p)
{
    OutLink *out = &p->out;
    for (;;) {
        ssize_t n = recv(out->end.fd, (char *)&out->closing + out->closing_count,
                         sizeof out->closing - out->closing_count, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            out_ended(tcp, p, n < 0 ? errno : 0);
            return;
        }
        out->closing_count += (size_t)n;
        if (out->closing_count < sizeof out->closing) continue;
        out->closing_count = 0;
        if (!closing_received(tcp, p, &out->closing)) {
            out_ended(tcp, p, EPROTO);
            return;
        }
    }
}

/* With its number of bytes. */
static Message *message_make(Tcp *tcp, Peer *p, uint64_t group, uint32_t tag, struct iovec part,
                             struct iovec more)
{
    Message *m = message_new(tcp);
    *m = (Message){ .frame = { .group = group, .tag = tag, .kind = TCP_DATA,
                               .bytes = part.iov_len + more.iov_len },
                    .part = { part, more }, .peer = p };
    return m;
}

Message *tcp_send(Tcp *tcp, int to, uint64_t group, uint32_t tag, struct iovec part, struct iovec more)
{
    Peer    *p = peer_of(tcp, to);
    Message *m = message_make(tcp, p, group, tag, part, more);
    bool first = !p->out.queue.first;
    list_add(&p->out.queue, m);
    if (p->left) peer_lost(tcp, p, "it has ended while this rank sends to it");
    else if (p->out.state == OUT_CLOSED) out_connect(tcp, p);
    else if (p->out.state == OUT_OPEN && first) out_write(tcp, p);
    return m;
}

/* ---- kept messages ---- */
static Kept *kept_new(Tcp *tcp, const Frame *frame)
{
    int class = 0;
    while ((size_t)1 << class < frame->bytes) class++;
    Kept *k = tcp->unused_kept[class];
    if (k) tcp->unused_kept[class] = k->next;
    else   k = malloc(sizeof *k + ((size_t)1 << class));
    CHECK(k, "no memory for a message of %llu bytes that came before its receive",
          (unsigned long long)frame->bytes);
    *k = (Kept){ .frame = *frame, .class = class };
    tcp->kept_bytes += frame->bytes;
    return k;
}

static void kept_free(Tcp *tcp, Kept *k)
{
    tcp->kept_bytes -= k->frame.bytes;
    k->next = tcp->unused_kept[k->class];
    tcp->unused_kept[k->class] = k;
}

/* The oldest of the group and tag, which is taken out; NULL: none. */
static Kept *kept_take(InLink *in, const Frame *frame)
{
    Kept *before = NULL, *k = in->first_kept;
    for (; k && (k->frame.group != frame->group || k->frame.tag != frame->tag); k = k->next) before = k;
    if (!k) return NULL;
    if (before) before->next = k->next;
    else        in->first_kept = k->next;
    if (in->last_kept == k) in->last_kept = before;
    return k;
}

/* ---- receiving ---- */
static void check_bytes(const Tcp *tcp, const Peer *p, const Frame *sent, const Message *m)
{
    CHECK(sent->bytes == m->frame.bytes, "rank %d sends %llu bytes where rank %d expects %llu", p->rank,
          (unsigned long long)sent->bytes, tcp->rank, (unsigned long long)m->frame.bytes);
}

/* Finds where the bytes of the frame go: to a posted receive, or to memory where they wait for it. False:
 * neither, the link must wait. keep: also where the message is large. */
static bool frame_place(Tcp *tcp, Peer *p, bool keep)
{
    InLink *in = &p->in;
    in->into = posted_take(&in->posted, &in->frame);
    if (in->into) {
        check_bytes(tcp, p, &in->frame, in->into);
        return true;
    }
    keep |= in->frame.bytes <= KEPT_SMALL && tcp->kept_bytes < KEPT_ALL;
    if (!keep) return false;
    in->kept = kept_new(tcp, &in->frame);
    if (in->first_kept) in->last_kept->next = in->kept;
    else                in->first_kept = in->kept;
    in->last_kept = in->kept;
    return true;
}

/* Takes the next frame from the buffer; a goodbye and an abort have no bytes. False: it is no frame. */
static bool frame_take(Tcp *tcp, Peer *p)
{
    InLink *in = &p->in;
    memcpy(&in->frame, in->buffer + in->begin, sizeof in->frame);
    in->begin += sizeof in->frame;
    in->count -= sizeof in->frame;
    if (in->frame.kind != TCP_DATA) return closing_received(tcp, p, &in->frame);
    return in->has_frame = in->frame.bytes <= BYTES_MAX;
}

static size_t frame_left(const InLink *in)
{
    return in->frame.bytes - (in->into ? in->into->moved : in->kept->count);
}

static void frame_moved(Tcp *tcp, InLink *in, size_t bytes)
{
    if (in->into) in->into->moved += bytes;
    else          in->kept->count += bytes;
    if (frame_left(in) > 0) return;
    if (in->into) message_done(tcp, in->into);
    in->into = NULL;
    in->kept = NULL;
    in->has_frame = false;
}

/* What the buffer has of the frame's bytes. */
static void frame_copy(Tcp *tcp, InLink *in)
{
    size_t left = frame_left(in), n = in->count < left ? in->count : left;
    const char *data = in->buffer + in->begin;
    if (in->into) {
        message_fill(in->into, data, n);
        in->into->moved -= n;                         /* frame_moved counts them */
    } else {
        memcpy(in->kept->data + in->kept->count, data, n);
    }
    in->begin += n;
    in->count -= n;
    frame_moved(tcp, in, n);
}

/* Reads the rest of the frame's bytes to their place, and what follows them into the buffer, which is empty
 * or has the beginning of a frame. Returns what recvmsg does. */
static ssize_t link_receive(Tcp *tcp, InLink *in)
{
    struct iovec part[3];
    int    parts = 0;
    size_t left  = 0;
    if (in->has_frame) {
        left = frame_left(in);
        if (in->into) parts = parts_after(part, in->into->part, in->into->moved);
        else          part[parts++] = (struct iovec){ in->kept->data + in->kept->count, left };
    }
    if (in->begin > 0) memmove(in->buffer, in->buffer + in->begin, in->count);
    in->begin = 0;
    part[parts++] = (struct iovec){ in->buffer + in->count, LINK_BUFFER - in->count };
    struct msghdr message = { .msg_iov = part, .msg_iovlen = (size_t)parts };
    ssize_t n = recvmsg(in->end.fd, &message, MSG_DONTWAIT);
    if (n <= 0) return n;
    size_t placed = (size_t)n < left ? (size_t)n : left;
    in->count += (size_t)n - placed;
    if (in->has_frame) frame_moved(tcp, in, placed);
    return n;
}

static void link_pause(Tcp *tcp, InLink *in, bool pause)
{
    if (in->paused == pause) return;
    in->paused = pause;
    tcp->paused += pause ? 1 : -1;
    end_watch(tcp, &in->end, pause ? 0 : EPOLLIN);
}

/* Reads all that has come, up to a large message whose receive is not posted; keep: one such message is read
 * too. */
static void link_read(Tcp *tcp, Peer *p, bool keep)
{
    InLink *in = &p->in;
    while (in->end.fd >= 0) {
        bool placed = in->into || in->kept;
        if (in->has_frame && !placed && !frame_place(tcp, p, keep)) {
            link_pause(tcp, in, true);
            return;
        }
        if (in->has_frame && !placed) {
            keep = false;
            frame_copy(tcp, in);
            continue;
        }
        if (!in->has_frame && in->count >= sizeof in->frame) {
            if (frame_take(tcp, p)) continue;
            in_ended(tcp, p, EPROTO);
            return;
        }
        ssize_t n = link_receive(tcp, in);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) {
            in_ended(tcp, p, n < 0 ? errno : 0);
            return;
        }
    }
    if (in->end.fd >= 0) link_pause(tcp, in, false);
}

/* The message, or a part of it, has come before its receive. */
static void message_take_kept(Tcp *tcp, InLink *in, Message *m, Kept *k)
{
    message_fill(m, k->data, k->count);
    if (in->kept == k) {
        in->kept = NULL;
        in->into = m;
    } else {
        message_done(tcp, m);
    }
    kept_free(tcp, k);
}

Message *tcp_recv(Tcp *tcp, int from, uint64_t group, uint32_t tag, struct iovec part, struct iovec more)
{
    Peer    *p = peer_of(tcp, from);
    Message *m = message_make(tcp, p, group, tag, part, more);
    Kept    *k = kept_take(&p->in, &m->frame);
    if (k) {
        check_bytes(tcp, p, &k->frame, m);
        message_take_kept(tcp, &p->in, m, k);
        return m;
    }
    list_add(&p->in.posted, m);
    const Frame *first = &p->in.frame;
    if (p->in.paused && first->group == group && first->tag == tag) link_read(tcp, p, false);
    return m;
}

bool tcp_unblock(Tcp *tcp)
{
    bool any = false;
    for (Peer *p = tcp->peers; p && tcp->paused > 0; p = p->next)
        if (p->in.paused && p->in.posted.first) {
            link_read(tcp, p, true);
            any = true;
        }
    return any;
}

void link_accepted(Tcp *tcp, int rank, int fd, const char *host)
{
    Peer *p = peer_of(tcp, rank);
    snprintf(p->host, sizeof p->host, "%s", host);
    end_open(tcp, &p->in.end, END_IN, fd, EPOLLIN, p);
    link_read(tcp, p, false);
}

/* A paused link is not read. Once it is broken it would end every wait at once, so it is closed; what has
 * come on it without being read is from a rank that is lost. */
static void in_ready(Tcp *tcp, Peer *p, uint32_t events)
{
    if (p->in.paused && events & (EPOLLERR | EPOLLHUP)) in_ended(tcp, p, socket_error(p->in.end.fd));
    else link_read(tcp, p, false);
}

/* ---- progress ---- */
static void end_ready(Tcp *tcp, End *end, uint32_t events)
{
    Peer *p = end->owner;
    if (end->fd < 0) return;                          /* closed by an earlier event */
    switch (end->kind) {
    case END_GUESTS:  guests_progress(tcp->guests); break;
    case END_WAITING: rendezvous_ready(tcp, end); break;
    case END_IN:      in_ready(tcp, p, events); break;
    case END_OUT:
        if (p->out.state == OUT_GREETING) out_greet(tcp, p);
        else {
            out_read(tcp, p);
            if (p->out.state == OUT_OPEN) out_write(tcp, p);
        }
    }
}

/* Attempts to connect that are due. They are rare, so all peers are looked at. */
static void connect_again(Tcp *tcp)
{
    int64_t now = seam.clock();
    for (Peer *p = tcp->peers; p; p = p->next) {
        if (p->out.again == 0 || now < p->out.again) continue;
        p->out.again = 0;
        tcp->again--;
        if (p->out.state == OUT_CLOSED && !p->left) out_connect(tcp, p);
    }
}

void tcp_progress(Tcp *tcp, int ms)
{
    struct epoll_event event[EVENTS];
    int count = epoll_wait(tcp->poller, event, EVENTS, tcp->again > 0 && ms > RETRY_MS ? RETRY_MS : ms);
    for (int i = 0; i < count; i++) end_ready(tcp, event[i].data.ptr, event[i].events);
    guests_expire(tcp->guests);
    if (tcp->again > 0) connect_again(tcp);
}

void tcp_check_lost(Tcp *tcp)
{
    const Peer *p = tcp->lost;
    if (!p || seam.clock() - tcp->lost_at < LOST_MS * MS) return;
    char ip[SOCKET_TEXT];
    tcp_say("rank %d on host %s (%s) is lost to rank %d: %s; the job is stopped", p->rank, p->host,
            socket_ip(ip, &tcp->address[p->rank]), tcp->rank, tcp->lost_why);
    tcp_links_close(tcp, TCP_ABORT, 3);
    _exit(3);
}

void tcp_wait(Tcp *tcp, Message *m)
{
    while (!m->done) {
        tcp_progress(tcp, 1000);
        tcp_check_lost(tcp);
    }
    message_free(tcp, m);
}

/* ---- the end ---- */
/* What has come is read first: close() with unread bytes sends RST, and the other end would lose the goodbye
 * or abort. */
static void end_leave(Tcp *tcp, End *end, const Frame *closing)
{
    char rest[4096];
    if (end->fd < 0) return;
    if (closing) send(end->fd, closing, sizeof *closing, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(end->fd, SHUT_WR);
    while (recv(end->fd, rest, sizeof rest, MSG_DONTWAIT) > 0) { }
    end_close(tcp, end);
}

/* Both ends get the goodbye or abort, unless half a message precedes it on the connection. */
static void peer_close(Tcp *tcp, Peer *p, const Frame *closing)
{
    const Message *first = p->out.queue.first;
    bool whole = p->out.state == OUT_OPEN && !(first && first->moved > 0);
    end_leave(tcp, &p->out.end, whole ? closing : NULL);
    end_leave(tcp, &p->in.end, closing);
}

void tcp_links_close(Tcp *tcp, FrameKind last, int exit_code)
{
    Frame closing = { .kind = (uint16_t)last, .code = (uint16_t)exit_code };
    for (Peer *p = tcp->peers; p; p = p->next) peer_close(tcp, p, &closing);
}
