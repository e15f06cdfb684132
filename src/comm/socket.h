#ifndef COMM_SOCKET_H
#define COMM_SOCKET_H
/* TCP sockets of IPv4 and IPv6 and their addresses, for the transport over TCP and the watchdog. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/status.h"

/* An IPv4 address is ::ffff:a.b.c.d. port: in the host's order. Sent between processes as bytes. */
typedef struct { uint8_t ip[16]; uint16_t port; } SocketAddress;
enum { SOCKET_TEXT = 64 };

const char *socket_text  (char out[SOCKET_TEXT], const SocketAddress *address);       /* "[::1]:29501" */
const char *socket_ip    (char out[SOCKET_TEXT], const SocketAddress *address);       /* "::1" */
bool socket_is_loopback  (const SocketAddress *address);
/* The addresses of a host's name or number, at most `room`; returns how many, 0: none, with the resolver's
 * reason in *why. May wait for a name server. */
int  socket_resolve      (SocketAddress *address, int room, const char *host, int port, const char **why);
/* The addresses of this host's interfaces that are up, at most `room`, without loopback ones and those of
 * IPv6 that mean another host on each link; port 0. Returns how many. */
int  socket_interfaces   (SocketAddress *address, int room);
/* This host's address on the route to another, without a packet: port 0. False: there is no route. */
bool socket_route        (SocketAddress *own, const SocketAddress *to);
bool socket_own          (SocketAddress *own, int fd);                /* this end of a connection */
bool socket_other        (SocketAddress *other, int fd);              /* the other end */

/* Descriptors, or -1 with errno set. `at` NULL: all addresses of the host, of IPv4 and where there is one of
 * IPv6. *port is the wanted port, 0: any, and
 * becomes the one in use. Non-blocking. */
int  socket_listen       (const SocketAddress *at, uint16_t *port);
/* The same without listening: the port is ours, and a program of this host may still listen there. */
int  socket_reserve      (const SocketAddress *at, uint16_t *port);
/* Begins a connection: non-blocking, and connected or refused when it becomes writable. */
int  socket_connect      (const SocketAddress *to);
/* Allows this process as many descriptors as the system does: the usual limit is 1,024. BAD_OPTION, with the
 * value for `ulimit -n`, where that is too few for `connections` more and some others; format: what they are
 * for. */
Status socket_raise_limit(int connections, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of a connection: small messages leave at once, and the end of a host that vanishes is seen by keepalive
 * after two minutes. */
void socket_options      (int fd);
int  socket_error        (int fd);                                    /* takes the pending error; 0: none */
#endif
