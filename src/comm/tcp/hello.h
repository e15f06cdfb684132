#ifndef COMM_TCP_HELLO_H
#define COMM_TCP_HELLO_H
/* The first messages of a connection, by which its two ends prove to each other that they know the secret of
 * the job, without sending it:
 *
 *     acceptor    Challenge   a random number
 *     connector   Hello       who it is, a random number of its own, and HMAC(key, Challenge + Hello)
 *     acceptor    Welcome     a verdict, and HMAC(key, Hello + Welcome)
 *
 * The proofs are of both random numbers, so that none can be used again. All have a fixed size, and their
 * reader waits for no more bytes than that, which come from anybody on the network: it never blocks, and
 * nothing is believed before its proof. What follows is neither encrypted nor signed. */
#include <stdbool.h>
#include <stddef.h>
#include "base/hmac.h"
#include "comm/socket.h"

/* TCP_VERSION changes with the bytes that ranks send each other. */
enum { TCP_VERSION = 1, NONCE_BYTES = 16, HOST_BYTES = 64 };
/* HELLO_START: to rank 0, for the table of addresses; HELLO_LINK: a rank sends its messages to another. */
typedef enum { HELLO_START = 1, HELLO_LINK } HelloPurpose;
typedef enum {
    WELCOME = 1, OTHER_VERSION, OTHER_SECRET, OTHER_SIZE, NO_SUCH_RANK, RANK_TWICE, TOO_LATE
} Verdict;

typedef struct { uint8_t bytes[HMAC_BYTES]; } TcpKey;
typedef struct { uint64_t magic; uint32_t version, unused; uint8_t nonce[NONCE_BYTES]; } Challenge;
/* rank, size: of the connector; to: the rank that it wants; port: where it listens. */
typedef struct {
    uint64_t magic;
    uint32_t version, purpose;
    int32_t  rank, to, size;
    uint32_t port;
    uint8_t  nonce[NONCE_BYTES];
    char     host[HOST_BYTES];                        /* its name, for messages */
    uint8_t  proof[HMAC_BYTES];
} Hello;
typedef struct { uint32_t verdict; int32_t size; char host[HOST_BYTES]; uint8_t proof[HMAC_BYTES]; } Welcome;

/* The keys of the start, and of a job's connections: without the random number of the job those of another
 * with the same secret could be taken for its own. */
TcpKey tcp_key_start(const void *secret, size_t bytes);
TcpKey tcp_key_job  (const TcpKey *start, const uint8_t job[NONCE_BYTES]);
void   tcp_random   (void *out, size_t bytes);
void   tcp_host_name(char out[HOST_BYTES]);           /* of this host */

/* ---- the end that accepts ---- */
typedef struct { int fd; int64_t since; Challenge challenge; Hello hello; size_t count; } Guest;
typedef enum { HELLO_PART, HELLO_WHOLE, HELLO_CLOSED } HelloState;
/* Sends the challenge. False: the connection is of no use. */
bool       guest_open  (Guest *guest, int fd);
/* Reads what has come. HELLO_WHOLE: the hello, not yet believed. */
HelloState guest_read  (Guest *guest);
/* Of a whole hello: OTHER_VERSION and OTHER_SECRET, or WELCOME where it is proved by the key. */
Verdict    guest_proved(const Guest *guest, const TcpKey *key);
/* Answers. size: of the job. After WELCOME the connection is in use; otherwise its owner closes it. */
void       guest_answer(Guest *guest, const TcpKey *key, Verdict verdict, int size);

/* ---- the end that connects ---- */
typedef struct {
    int       fd;
    bool      said;                                   /* the hello is sent */
    Challenge challenge;
    Hello     hello;
    Welcome   welcome;
    size_t    count;                                  /* bytes that have come of the present message */
} Greeting;
typedef enum { GREETING_PART, GREETING_DONE, GREETING_CLOSED, GREETING_REFUSED } GreetingState;
/* hello: who we are; nonce and proof are filled in. fd: of socket_connect. */
void          greeting_open   (Greeting *greeting, int fd, Hello hello);
/* Called when the descriptor is readable or writable. GREETING_DONE: the other end has proved that it knows
 * the key; GREETING_REFUSED: welcome.verdict says why, by the word of an end that has not. */
GreetingState greeting_advance(Greeting *greeting, const TcpKey *key);
#endif
