/* The communicators of a rank: the axes of the mesh, and the groups that share parameters. All ranks open
 * them in the same order. */
#include <stdlib.h>
#include <string.h>
#include "train/trainer.h"
#include "train/trainer_comms.h"
#include "train/trainer_fp8.h"

/* Adds it to the list of those that trainer_comms_close closes. */
static Comm *listed(Trainer *t, Comm *comm)
{
    CHECK(t->comms.count < TRAINER_COMMS, "a rank has more than %d communicators", TRAINER_COMMS);
    return t->comms.all[t->comms.count++] = comm;
}

static Comm *open_axes(Trainer *t, int axes)
{
    return listed(t, comm_open_axes(t->comms.world, &t->mesh, axes));
}

static Comm *open_ranks(Trainer *t, const char *name, const int *ranks, int count)
{
    return listed(t, comm_open(t->comms.world, name, ranks, count));
}

/* A shard group of the group of `axes`, or a replica group. */
typedef int Members(const Mesh *mesh, int axes, int shard, int *ranks);

static Comm *open_part(Trainer *t, const char *name, int axes, int shard, Members *members)
{
    int *ranks = malloc((size_t)mesh_group(&t->mesh, axes, NULL) * sizeof *ranks);
    CHECK(ranks, "no memory for the ranks of %s", name);
    Comm *comm = open_ranks(t, name, ranks, members(&t->mesh, axes, shard, ranks));
    free(ranks);
    return comm;
}

/* Ranks of a shard group of experts: those of the dense shard group's tp x shard ranks that hold the same
 * experts, so that both kinds of shards lie on the same ranks. */
static Status expert_shard(int *shard, const Trainer *t)
{
    const MeshSize *n = &t->mesh.size;
    int together = t->config->hybrid_shard * n->tp, split = n->etp * n->ep;
    *shard = together / split;
    if (together % split == 0 && n->edp % *shard == 0) return OK;
    return fail(BAD_OPTION, "--hybrid-shard-size %d with tp %d is %d ranks, not a multiple of the %d that "
                "hold all experts of a layer; give a size whose product with tp is one",
                t->config->hybrid_shard, n->tp, together, split);
}

/* The communicators over which a family of parameters is sharded and replicated; `axes`: its data ranks */
static Status open_data_comms(Trainer *t, DataComms *data, Comm *all, int axes, int shard)
{
    bool experts = axes & AXIS_EXPERTS;
    bool replicated = t->config->zero == 0;
    *data = replicated ? (DataComms){ .shard = t->comms.alone, .replica = all }
                       : (DataComms){ .shard = all, .replica = t->comms.alone };
    if (replicated || t->config->hybrid_shard == 0 || shard == comm_size(all)) return OK;
    if (comm_size(all) % shard != 0)
        return fail(BAD_OPTION, "--hybrid-shard-size %d does not divide the %d ranks of %s; give a size that "
                    "divides them", shard, comm_size(all), comm_name(all));
    data->shard   = open_part(t, experts ? "expert-shard"   : "shard",   axes, shard, mesh_shard_group);
    data->replica = open_part(t, experts ? "expert-replica" : "replica", axes, shard, mesh_replica_group);
    return OK;
}

static Status open_experts(Trainer *t)
{
    int shard = 1;
    t->comms.etp = open_axes(t, AXIS_ETP);
    t->comms.ep = open_axes(t, AXIS_EP);
    t->comms.edp = open_axes(t, AXIS_EDP);
    t->comms.dispatch = open_axes(t, AXIS_ETP | AXIS_EP);
    t->comms.sequence = open_axes(t, t->config->sequence_parallel ? AXIS_TP | AXIS_CP : AXIS_CP);
    if (t->config->hybrid_shard > 0) TRY(expert_shard(&shard, t));
    return open_data_comms(t, &t->comms.data[PARAMS_EXPERTS], t->comms.edp, AXIS_EDP, shard);
}

/* The tied communicator joins the stages with embedding and head, which both hold the token embedding;
 * v-shaped they are one stage. */
static void open_tied(Trainer *t, const ScheduleShape *shape)
{
    const Mesh *mesh = &t->mesh;
    int last = schedule_place(shape, shape->stages * shape->chunks - 1).stage, pair[2];
    if (!model_embedding_copied(&t->config->model) || last == 0) return;
    if (mesh->at.pp != 0 && mesh->at.pp != last) return;
    MeshSize at = mesh->at;
    for (int i = 0; i < 2; i++) { at.pp = i * last; pair[i] = mesh_rank(mesh, at); }
    t->comms.tied = open_ranks(t, "tied", pair, 2);
}

/* Context parallelism: cp rank k is number k mod u of a group of u Ulysses ranks and k / u of a ring:
 * neighbours, which Megatron-LM's order of ranks puts on one host, exchange heads, and the ring goes between
 * them. */
static Status open_context(Trainer *t)
{
    int u = t->config->ulysses, cp = t->mesh.size.cp;
    if (u > 0 && cp % u != 0)
        return fail(BAD_OPTION, "%d ranks of Ulysses do not divide %d context-parallel ranks", u, cp);
    if (u <= 1 || u == cp) return OK;
    t->comms.ulysses = open_part(t, "ulysses", AXIS_CP, u, mesh_shard_group);
    t->comms.ring    = open_part(t, "ring",    AXIS_CP, u, mesh_replica_group);
    return OK;
}

Status trainer_comms_open(Trainer *t)
{
    ScheduleShape shape = train_config_schedule(t->config, 1);
    int copies = t->mesh.size.tp / (int)t->config->model.groups;   /* of a key-value head, 0: less than one */
    t->comms.tp = open_axes(t, AXIS_TP);
    t->comms.cp = open_axes(t, AXIS_CP);
    t->comms.dp_cp = open_axes(t, AXIS_DP | AXIS_CP);
    t->comms.pp = open_axes(t, AXIS_PP);
    channels_open(&t->comms.channels, t->comms.world, &t->mesh, &shape);
    for (int i = 0; i < t->comms.channels.count; i++) listed(t, t->comms.channels.channel[i].comm);
    t->comms.alone = open_ranks(t, "alone", &t->mesh.rank, 1);
    if (copies > 1) t->comms.kv = open_part(t, "kv", AXIS_TP, copies, mesh_shard_group);
    TRY(open_data_comms(t, &t->comms.data[PARAMS_DENSE], t->comms.dp_cp, AXIS_DP | AXIS_CP,
                        t->config->hybrid_shard));
    if (t->config->training && optimizer_compresses(t->config->optimizer)) {
        t->comms.data[PARAMS_DENSE].worker = t->comms.cp;
        t->comms.dp = open_axes(t, AXIS_DP);
    }
    t->comms.data[PARAMS_EXPERTS] = t->comms.data[PARAMS_DENSE];
    if (t->config->model.experts > 0) TRY(open_experts(t));
    TRY(open_context(t));
    bool sums = t->config->training && optimizer_phases(t->config->optimizer) > 0;
    if (sums || (t->config->training && t->config->model.experts > 0))
        t->comms.stage = open_axes(t, AXIS_TP | AXIS_CP | AXIS_DP);
    t->comms.fp8 = trainer_fp8_comm(t);
    if (t->comms.fp8) listed(t, t->comms.fp8);
    open_tied(t, &shape);
    return OK;
}

ContextComms trainer_context(const Trainer *t)
{
    int u = t->config->ulysses > 0 ? t->config->ulysses : 1, cp = t->mesh.size.cp;
    Comm *others = u == 1 ? t->comms.cp : t->comms.ring, *ulysses = u == 1 ? NULL : u == cp ? t->comms.cp
        : t->comms.ulysses;
    if (cp == 1) return (ContextComms){ .ring = NULL };
    return (ContextComms){ .ulysses = ulysses, .overlap = !t->config->no_overlap,
        .ring = t->config->gather ? NULL : others, .gather = t->config->gather ? others : NULL };
}

/* ---- between devices ---- */

/* Threads have the GPUs of the machine, processes the one of their place on it. */
int trainer_device_number(const Transport *transport)
{
    int place = transport_launcher_place();
    return transport->kind == TRANSPORT_THREADS || place < 0 ? transport->rank : place;
}

static bool between_devices(const TrainConfig *config, const Transport *transport)
{
    return strcmp(config->device, "cuda") == 0 && transport->size > 1 && !transport->data;
}

Status trainer_choose_transport(DeviceTransport *chosen, const TrainConfig *config, Transport *transport)
{
    *chosen = config->device_transport;
    if (!between_devices(config, transport)) return OK;
    return device_transport_choose(chosen, config->device_transport, transport,
                                   trainer_device_number(transport));
}

Status trainer_data_open(Trainer *t, Transport *transport)
{
    DeviceTransport chosen = t->config->device_transport;
    Status status = OK;
    if (!between_devices(t->config, transport)) return OK;
    if (chosen == DEVICE_AUTO) status = trainer_choose_transport(&chosen, t->config, transport);
    if (status == OK)
        status = device_data_open(&t->comms.device, chosen, transport, trainer_device_number(transport),
                                  t->config->threads);
    status = agree_at_start(transport, status);
    if (status == OK) transport->data = t->comms.device;
    return status;
}

/* ---- sums of a few numbers over all ranks ---- */

enum { WORLD_AXES = 3 };
typedef struct { Comm *of[WORLD_AXES]; } WorldAxes;

static WorldAxes world_axes(const Trainer *t) { return (WorldAxes){ { t->comms.tp, t->comms.dp_cp,
                                                                     t->comms.pp } }; }

size_t trainer_world_window(const Trainer *t)
{
    WorldAxes axes = world_axes(t);
    size_t most = 0;
    for (int i = 0; i < WORLD_AXES; i++) {
        int    ranks = comm_size(axes.of[i]);
        size_t bytes = comm_window(axes.of[i], F64, (WORLD_NUMBERS + ranks - 1) / ranks);
        if (bytes > most) most = bytes;
    }
    return (most + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

typedef void AllReduce(Comm *comm, Queue *q, Tensor x, Arena *scratch);

static void over_world(Trainer *t, Tensor x, AllReduce *all_reduce, Queue *queue, Arena *window)
{
    WorldAxes axes = world_axes(t);
    CHECK(tensor_count(x) <= WORLD_NUMBERS, "%lld numbers are reduced over all ranks, of at most %d",
          (long long)tensor_count(x), WORLD_NUMBERS);
    for (int i = 0; i < WORLD_AXES; i++) all_reduce(axes.of[i], queue, x, window);
}

void trainer_world_sum(Trainer *t, Tensor x)
{
    over_world(t, x, comm_all_reduce, &t->queue, &t->comms.window);
}

/* On a device the host has a queue and a window of its own. */
static void numbers_over_world(Trainer *t, double *x, int64_t count, AllReduce *all_reduce)
{
    bool device = t->queue.backend->device;
    over_world(t, tensor_at(x, F64, &count, 1), all_reduce, device ? &t->comms.host_queue : &t->queue,
               device ? &t->comms.host_window : &t->comms.window);
}

void trainer_numbers_sum(Trainer *t, double *x, int64_t n) { numbers_over_world(t, x, n, comm_all_reduce); }
void trainer_numbers_max(Trainer *t, double *x, int64_t n)
{
    numbers_over_world(t, x, n, comm_all_reduce_max);
}

void trainer_comms_close(Trainer *t)
{
    while (t->comms.count > 0) comm_close(t->comms.all[--t->comms.count]);
    watchdog_close(t->watchdog, t->comms.world);              /* last: it watches the waits of closing */
    t->queue.waiting = NULL;
    comm_close(t->comms.world);
    if (!t->comms.device) return;
    t->comms.device->close(t->comms.device);
    t->transport->data = NULL;
}
