#ifndef COMM_TCP_GUEST_H
#define COMM_TCP_GUEST_H
/* The connections to a listener that have proved nothing yet: of ranks of the job, or of anybody on the
 * network. Each has 10 seconds to prove a hello (comm/tcp/hello.h), costs a descriptor meanwhile, and keeps
 * nobody from coming: where all places or descriptors are in use, the address that has the most of them
 * loses its oldest one. A rank whose connection is closed for that connects again. */
#include "comm/tcp/hello.h"

typedef struct Guests Guests;
/* Who listens: the transport of a rank, or the watchdog of rank 0. */
typedef struct {
    void *self;
    int   rank, size;                                 /* its own rank, and how many there are */
    /* The key by which a hello of this purpose is proved; NULL: none is expected, now or ever. */
    const TcpKey *(*key)  (void *self, uint32_t purpose);
    /* Of a proved hello from another rank of a job of this size: WELCOME, or why not. */
    Verdict       (*admit)(void *self, const Hello *hello);
    /* After WELCOME. The descriptor is non-blocking, and `self` owns it. */
    void          (*take) (void *self, const Hello *hello, int fd);
} GuestHost;

/* listener: of socket_listen, which stays the caller's. Never fails: without memory the process ends. */
Guests *guests_open    (const GuestHost *host, int listener);
/* A descriptor that is readable while guests_progress has something to do. */
int     guests_poller  (const Guests *guests);
/* Accepts connections and handles what has come on them, without waiting; calls host.take. */
void    guests_progress(Guests *guests);
/* Closes connections whose 10 seconds are over; looks for them once a second. NULL is allowed. */
void    guests_expire  (Guests *guests);
void    guests_close   (Guests *guests);              /* and their connections; NULL is allowed */

/* A line on standard error, also while ranks start, when log_line is muted. */
void    tcp_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
