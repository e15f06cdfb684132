#ifndef COMM_TCP_HELLO_H
#define COMM_TCP_HELLO_H
/* The first messages of a connection, by which its two ends prove to each other that they know the secret of
 * the job, without sending it:
 *
 *     acceptor    Challenge   a random number
 *     connector   Hello       who it is, a random number of its own, and HMAC(key, Challenge + Hello)
 *     acceptor    Welcome     a verdict, and HMAC(key, Hello + Welcome)
 *
 * Each proof covers both random numbers, so none can be used a second time. All messages have a fixed size
 * and may come from anybody on the network: reading one never blocks and takes no more bytes than that, and
 * nothing is believed before its proof. Whoever has not proved a hello learns the version and that it was
 * refused, and gets no proof, against which it could try guesses of the secret. What follows a Welcome is
 * neither encrypted nor signed. */
#include <stdbool.h>
#include <stddef.h>
#include "base/hmac.h"
#include "comm/socket.h"

/* TCP_VERSION changes with the bytes that ranks send each other. */
enum { TCP_VERSION = 2, NONCE_BYTES = 16, HOST_BYTES = 64 };
/* HELLO_START: to rank 0, for the table of addresses; HELLO_LINK: a rank sends its messages to another;
 * HELLO_WATCHDOG: a rank's watchdog to that of rank 0. */
typedef enum { HELLO_START = 1, HELLO_LINK, HELLO_WATCHDOG } HelloPurpose;
/* All but WELCOME refuse. OTHER_VERSION and NOT_PROVED come without a proof. NOT_PROVED: the keys differ, so
 * the secrets or the jobs do. */
typedef enum {
    WELCOME = 1, OTHER_VERSION, NOT_PROVED, OTHER_SIZE, NO_SUCH_RANK, RANK_TWICE, TOO_LATE
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
/* size, host: of the acceptor; zero, as the proof is, where the hello was not proved. */
typedef struct { uint32_t verdict; int32_t size; char host[HOST_BYTES]; uint8_t proof[HMAC_BYTES]; } Welcome;

/* The key of the start; `job` is a text that only the ranks of one job share, or "". The key of a job's
 * connections: without the job's random number, those of another job with the same secret would pass. */
TcpKey tcp_key_start(const void *secret, size_t bytes, const char *job);
TcpKey tcp_key_job  (const TcpKey *start, const uint8_t job[NONCE_BYTES]);
void   tcp_random   (void *out, size_t bytes);
void   tcp_host_name(char out[HOST_BYTES]);           /* of this host */

/* ---- the end that accepts: comm/tcp/guest.h has many of them ---- */
typedef struct { int fd; int64_t since; Challenge challenge; Hello hello; size_t count; } Guest;
typedef enum { HELLO_PART, HELLO_WHOLE, HELLO_CLOSED } HelloState;
/* Sends the challenge. False: the connection is of no use. */
bool       guest_open  (Guest *guest, int fd);
/* Reads what has come. HELLO_WHOLE: the hello, not yet believed. */
HelloState guest_read  (Guest *guest);
/* Of a whole hello: OTHER_VERSION, NOT_PROVED, or WELCOME where it is proved by the key. */
Verdict    guest_proved(const Guest *guest, const TcpKey *key);
/* Answers. size: of the job. After WELCOME the connection is in use; otherwise its owner closes it. */
void       guest_answer(Guest *guest, const TcpKey *key, Verdict verdict, int size);

/* ---- the end that connects ---- */
typedef struct {
    int       fd;
    bool      hello_sent;
    Challenge challenge;
    Hello     hello;
    Welcome   welcome;
    size_t    count;                                  /* bytes received of the challenge or the welcome */
} Greeting;
typedef enum { GREETING_PART, GREETING_DONE, GREETING_CLOSED, GREETING_REFUSED } GreetingState;
/* hello: who we are; nonce and proof are filled in. fd: of socket_connect. */
void          greeting_open   (Greeting *greeting, int fd, Hello hello);
/* Called when the descriptor is readable or writable. GREETING_DONE: the other end has proved that it knows
 * the key. GREETING_REFUSED: welcome.verdict says why; the other end has proved itself unless the verdict is
 * OTHER_VERSION or NOT_PROVED. */
GreetingState greeting_advance(Greeting *greeting, const TcpKey *key);
/* One attempt to connect and greet, which waits for an answer: 5 s for the challenge, 60 s for the welcome.
 * GREETING_DONE: greeting->fd is the caller's. GREETING_CLOSED, with the system's reason in errno: a later
 * attempt may succeed. */
GreetingState greeting_try    (Greeting *greeting, const SocketAddress *to, Hello hello, const TcpKey *key);
#endif
