#ifndef COMM_TCP_TCP_H
#define COMM_TCP_TCP_H
/* The transport over TCP, for hosts without MPI. A rank connects to another when it first sends to it, and
 * that connection carries the messages of this direction alone; so two ranks need no rule about who connects,
 * and a job of many ranks has only the connections that its groups use. Messages go from the caller's buffer
 * to the receiver's, where its receive has been posted (comm/tcp/link.c); collectives are made of messages
 * (comm/tcp/collective.c). How ranks find each other is in comm/tcp/rendezvous.c, and what they prove to each
 * other in comm/tcp/hello.h. */
#include "comm/transport.h"

/* host, port: where rank 0 listens and the others connect. launcher: for messages. secret: "": none, which is
 * allowed only on loopback addresses. job: what the launcher gives to all ranks of this job and to no others,
 * such as "SLURM_JOB_ID=7 SLURM_STEP_ID=0"; "": nothing. The texts outlive the call. */
typedef struct {
    int         rank, size;
    const char *host;
    int         port;
    const char *launcher;
    const char *secret;
    const char *job;
} TcpStart;

/* Collective over the job. seconds: how long the ranks wait for each other, raised to at least 30; 0: for
 * ever. A rank that rank 0 has accepted waits for it as long again and 10 s, so that the message is rank 0's
 * own unless that is stopped. BAD_OPTION: what a person can mend, as a rank that is refused, a port that is
 * in use, or a limit of descriptors that is too small; IO_FAILED: a rank did not come, or rank 0 is
 * silent. */
Status transport_tcp_open(Transport **transport, const TcpStart *start, double seconds);

/* The secret of JOTUN_SECRET or of the file that JOTUN_SECRET_FILE names, into `secret`, which ends with NUL;
 * "" where neither is set. BAD_OPTION, BAD_FILE: it is too short, or others can read the file. */
enum { SECRET_BYTES = 1024, SECRET_LEAST = 16 };
Status tcp_secret(char secret[SECRET_BYTES]);
#endif
