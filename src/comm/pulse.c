#include "comm/pulse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/seam.h"

Status pulse_open(Pulse **pulse)
{
    *pulse = calloc(1, sizeof **pulse);
    if (!*pulse) return fail(NO_MEMORY, "no memory for the pulse of a rank");
    pthread_mutex_init(&(*pulse)->lock, NULL);
    (*pulse)->beat.waited = -1;
    return OK;
}

void pulse_close(Pulse *pulse)
{
    pthread_mutex_destroy(&pulse->lock);
    free(pulse);
}

void pulse_enter(Pulse *pulse, const char *comm, const char *verb, int64_t number, const int *members,
                 int count)
{
    pthread_mutex_lock(&pulse->lock);
    snprintf(pulse->beat.comm, sizeof pulse->beat.comm, "%s", comm);
    snprintf(pulse->beat.verb, sizeof pulse->beat.verb, "%s", verb);
    pulse->beat.number = number;
    pulse->beat.step   = place()->step;
    pulse->beat.waited = 0;
    pulse->since       = seam.clock();
    pulse->members     = members;
    pulse->count       = count;
    pthread_mutex_unlock(&pulse->lock);
}

void pulse_leave(Pulse *pulse)
{
    pthread_mutex_lock(&pulse->lock);
    pulse->beat.waited = -1;
    pulse->members     = NULL;
    pthread_mutex_unlock(&pulse->lock);
}

Beat pulse_look(Pulse *pulse, int64_t awake, int64_t slow, int **members, int *count)
{
    *members = NULL;
    *count   = 0;
    pthread_mutex_lock(&pulse->lock);
    Beat beat = pulse->beat;
    if (beat.waited >= 0) {
        int64_t since = pulse->since > awake ? pulse->since : awake;
        int64_t now   = seam.clock();
        beat.waited = now > since ? now - since : 0;
    }
    if (beat.waited >= slow && (*members = malloc((size_t)pulse->count * sizeof **members))) {
        memcpy(*members, pulse->members, (size_t)pulse->count * sizeof **members);
        *count = pulse->count;
    }
    pthread_mutex_unlock(&pulse->lock);
    return beat;
}
