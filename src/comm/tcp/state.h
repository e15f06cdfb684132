#ifndef COMM_TCP_STATE_H
#define COMM_TCP_STATE_H
/* What the files of comm/tcp/ share. No other file includes it. */
#include <sys/uio.h>
#include "comm/tcp/guest.h"
#include "comm/tcp/tcp.h"

typedef struct Tcp  Tcp;
typedef struct Peer Peer;

/* What precedes the bytes of each message. TCP_GOODBYE and TCP_ABORT have none, and also go from the end
 * that accepted a connection to the one that opened it. code: of TCP_ABORT, with which the job ends. */
typedef enum { TCP_DATA = 1, TCP_GOODBYE, TCP_ABORT } FrameKind;
typedef struct { uint64_t group, bytes; uint32_t tag; uint16_t kind, code; } Frame;

/* A message that is sent or received, in up to two parts of memory. Those of a collective have tags above
 * TRANSPORT_TAGS. next: in the list of its link, or of unused ones. */
typedef struct Message {
    struct Message *next;
    Frame        frame;
    struct iovec part[2];
    size_t       moved;                               /* bytes: of a send with its frame */
    bool         done;
    Peer        *peer;
} Message;
typedef struct { Message *first, *last; } MessageList;
enum { MESSAGES_MORE = 256 };
typedef struct MessageBlock { struct MessageBlock *next; Message message[MESSAGES_MORE]; } MessageBlock;

/* A message that came before its receive was posted; the memory is of a size 2^class and used again. */
typedef struct Kept {
    struct Kept *next;
    Frame        frame;
    size_t       count;                               /* bytes that have come */
    int          class;
    char         data[];
} Kept;

/* What epoll returns. WAITING: a rank that has come to rank 0 and waits for the others. GUESTS: the
 * listener and the connections that have proved nothing yet. */
typedef enum { END_GUESTS, END_WAITING, END_OUT, END_IN } EndKind;
typedef struct { EndKind kind; int fd; uint32_t events; void *owner; } End;       /* fd -1: closed */

/* Messages to a rank. */
typedef enum { OUT_CLOSED, OUT_GREETING, OUT_OPEN } OutState;
typedef struct {
    End         end;
    OutState    state;
    int64_t     since;                                /* seam.clock of the first attempt to connect */
    int64_t     again;                                /* seam.clock of the next attempt; 0: none is due */
    Greeting    greeting;
    MessageList queue;
    Frame       closing;                              /* goodbye or abort from the other end, */
    size_t      closing_count;                        /* and how many bytes of it have come */
} OutLink;

/* Messages from a rank. `count` bytes of `buffer` from `begin` on have come and are not used yet. The
 * message that arrives goes `into` a posted receive or is `kept`; paused: it has neither, and its bytes stay
 * in the system's buffers. */
enum { LINK_BUFFER = 8192 };
typedef struct {
    End         end;
    bool        has_frame, paused;
    Frame       frame;
    Message    *into;
    Kept       *kept;
    size_t      begin, count;
    char        buffer[LINK_BUFFER];
    MessageList posted;
    Kept       *first_kept, *last_kept;               /* whole ones, and the one that arrives */
} InLink;

/* Another rank, from the first message to or from it on. left: it said goodbye. broken: a connection to or
 * from it ended without one, and no other is made. */
struct Peer {
    Peer   *next;                                     /* list of all */
    Tcp    *tcp;
    int     rank;
    bool    left, broken;
    char    host[HOST_BYTES];
    OutLink out;
    InLink  in;
};

struct Group {
    uint64_t key;                                     /* only its members have this one */
    int      count, me;
    int     *rank;                                    /* [count] in the world */
    uint32_t collectives;                             /* begun */
};

/* A collective is a series of steps, each of which sends and receives at most one message; `window` of them
 * are under way at the same time. */
enum { STEPS_AT_ONCE = 8 };
typedef enum { GATHER_TREE, GATHER_RING, ALL_TO_ALL } Algorithm;
typedef struct {
    Algorithm      algorithm;
    Group         *group;
    uint32_t       tag;
    char          *out;
    const char    *in;
    const int64_t *out_at, *in_at;
    size_t         width;
    int            steps, begun, done, window;
    Message       *pending[STEPS_AT_ONCE][2];         /* of step s at s % STEPS_AT_ONCE: sent, received */
} Collective;

typedef enum { REQUEST_FREE, REQUEST_MESSAGE, REQUEST_COLLECTIVE } RequestKind;
typedef struct { RequestKind kind; int next; Message *message; Collective collective; } TcpRequest;

enum { KEPT_CLASSES = 49 };                           /* 2^0 .. 2^48 bytes */
struct Tcp {
    Transport      face;
    int            rank, size;
    SocketAddress *address;                           /* [size]: where each rank listens */
    Peer         **peer;                              /* [size]; NULL: no message to or from it yet */
    Peer          *peers;                             /* list */
    TcpKey         start_key, key;                    /* of the start; of this job's connections */
    int            poller;                            /* epoll */
    int            listener;
    Guests        *guests;                            /* of the listener; NULL: nobody is accepted yet */
    End            guests_end;
    struct Start  *start;                             /* rank 0: the ranks that have come; NULL afterwards */
    bool           moved;                             /* something has changed since the last idle */
    int            paused;                            /* links from others that are paused */
    int            again;                             /* links to others that connect again */
    Peer          *lost;                              /* the first one whose connection broke */
    const char    *lost_why;
    int64_t        lost_at;
    /* Used again, so that a step allocates nothing once it has run. */
    MessageBlock  *blocks;                            /* list of the memory of all messages */
    Message       *unused;
    Kept          *unused_kept[KEPT_CLASSES];
    size_t         kept_bytes;
    TcpRequest    *request;                           /* [TRANSPORT_REQUESTS] */
    int            free_request;                      /* list by `next`; -1: none */
    int            collectives;                       /* list of those under way; -1: none */
    struct { uint64_t key; uint32_t times; } *opened; /* how often groups of the same ranks were opened */
    int            opened_count, opened_room;
};

/* ---- link.c ---- */
/* Never block. The bytes stay where they are until `done`; message_free then gives the message back. `more`
 * is a second part behind the first, or none (NULL). */
Message *tcp_send(Tcp *tcp, int to,   uint64_t group, uint32_t tag, struct iovec part, struct iovec more);
Message *tcp_recv(Tcp *tcp, int from, uint64_t group, uint32_t tag, struct iovec part, struct iovec more);
void     message_free(Tcp *tcp, Message *message);
/* Handles what has come on all connections; waits up to `ms` milliseconds for the first of it. */
void     tcp_progress(Tcp *tcp, int ms);
/* Before a wait: takes messages that are in front of those whose receives are posted. True: it took one. */
bool     tcp_unblock (Tcp *tcp);
/* Reports a rank whose connection broke, once the watchdog has had its time to say more. */
void     tcp_check_lost(Tcp *tcp);
void     tcp_wait(Tcp *tcp, Message *message);        /* until it is done, and gives it back */
/* Ends all connections: says goodbye, or that the job is aborted. */
void     tcp_links_close(Tcp *tcp, FrameKind last, int exit_code);
/* Watches a descriptor. */
void     end_open (Tcp *tcp, End *end, EndKind kind, int fd, uint32_t events, void *owner);
void     end_watch(Tcp *tcp, End *end, uint32_t events);
void     end_close(Tcp *tcp, End *end);
/* A rank that has proved itself opens its connection to this one. */
void     link_accepted(Tcp *tcp, int rank, int fd, const char *host);

/* ---- rendezvous.c ---- */
/* Fills tcp->address, key, listener and guests. */
Status   rendezvous(Tcp *tcp, const TcpStart *start, double seconds);
/* On rank 0, of a rank that has come: its connection has ended. */
void     rendezvous_ready(Tcp *tcp, End *end);

/* ---- collective.c ---- */
void collective_begin  (Tcp *tcp, Collective *collective);
/* True: complete. */
bool collective_advance(Tcp *tcp, Collective *collective);
#endif
